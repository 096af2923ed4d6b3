"""Checks of what a user declares: kinds of values, and ranges in which no product leaves the range of doubles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.errors import InvalidInput

__all__ = ["EPSILONS", "LENGTHS", "check_kind", "check_lengths", "check_range"]

EPSILONS = (1e-10, 1e4)
"""The least and the largest finite ε."""

LENGTHS = (1e-20, 1e20)
"""The least and the largest norm of rows and bound of targets."""

_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "float": ("a number", (int, float, np.number)),
    "int": ("a whole number", (int, np.integer)),
    "bool": ("True or False", (bool, np.bool_)),
    "str": ("a word", (str,)),
}


def check_kind(name: str, value: Any, declared: str) -> None:
    """Refuse a value of another kind than ``declared``, the parameter's annotation as text."""
    kind, _, optional = declared.partition(" | ")
    if kind not in _KINDS or (optional and value is None):
        return
    words, types = _KINDS[kind]
    if not isinstance(value, types) or (kind != "bool" and isinstance(value, bool)):
        raise InvalidInput(f"{name} must be {words}, got {value!r}.")


def check_range(name: str, value: Any, low: float, high: float, remedy: str) -> None:
    """Refuse a public number with which planning would leave the range of doubles."""
    if not low <= value <= high:
        raise InvalidInput(
            f"{name} must be between {low:g} and {high:g}, got {value:g}: {remedy}. Nothing was released."
        )


def check_lengths(row_norm: Any, target_bounds: Any = None) -> None:
    """Refuse declared bounds of rows and targets whose squares leave the range of doubles.

    Other checks refuse what is no number or not positive.
    """
    rescale = "declare rows and targets in other units"
    if isinstance(row_norm, int | float | np.number) and 0 < row_norm < math.inf:
        check_range("row_norm", row_norm, *LENGTHS, rescale)
    bounds = target_bounds if isinstance(target_bounds, tuple | list) else ()
    if len(bounds) == 2 and all(isinstance(b, int | float | np.number) and math.isfinite(b) for b in bounds):
        check_range("the larger of target_bounds", max(abs(float(b)) for b in bounds), 0.0, LENGTHS[1], rescale)
        if bounds[0] < bounds[1]:
            width = float(bounds[1]) - float(bounds[0])
            check_range("the distance of target_bounds", width, LENGTHS[0], 2 * LENGTHS[1], rescale)
