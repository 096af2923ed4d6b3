"""Numbers that were taken from data without protection, and remember it.

A quantile drawn with a seed, or with ε = ∞, is a fact about the rows. Whoever declares it as a bound makes a fit that
is not private, whatever noise it adds. So such numbers are marked, and `Numeric` and the estimators look for the mark.
It survives arithmetic with numbers and copies; what formats a number, or makes an integer or a plain array of it, loses
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["UnprotectedArray", "UnprotectedFloat", "is_unprotected"]

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_ARITHMETIC = (*_BINARY, *(f"r{name}" for name in _BINARY), "neg", "pos", "abs", "round")


class UnprotectedFloat(float):
    """A float that is not private.

    Example:
        >>> bound = UnprotectedFloat(38.5)
        >>> bound, bound.private, is_unprotected(1.1 * bound)
        (38.5 (not private), False, True)
    """

    private = False

    def __repr__(self) -> str:
        return f"{super().__repr__()} (not private)"

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """numpy's functions of this number and numpy's own numbers: what is a single float again is marked."""
        plain = (float(value) if isinstance(value, UnprotectedFloat) else value for value in inputs)
        found = getattr(ufunc, method)(*plain, **options)
        return UnprotectedFloat(found) if isinstance(found, np.floating) else found


def _marked(name: str) -> Any:
    plain = getattr(float, name)

    def operation(self: UnprotectedFloat, *others: Any) -> Any:
        found = plain(self, *others)
        return UnprotectedFloat(found) if isinstance(found, float) else found

    return operation


for _name in _ARITHMETIC:
    setattr(UnprotectedFloat, f"__{_name}__", _marked(f"__{_name}__"))


class UnprotectedArray(np.ndarray[Any, Any]):
    """An array of floats that are not private, nor are those taken out of it.

    Example:
        >>> low, high = np.array([17.0, 90.0]).view(UnprotectedArray)
        >>> is_unprotected(low)
        True
    """

    private = False

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, np.ndarray) else UnprotectedFloat(found)


def is_unprotected(value: Any) -> bool:
    """Whether a number is marked as taken from data without protection, or any in a list, tuple, mapping or dataclass.

    Example:
        >>> from discreet.geometry import L2Ball
        >>> is_unprotected(L2Ball(1.1 * UnprotectedFloat(38.5)))
        True
    """
    if isinstance(value, UnprotectedFloat | UnprotectedArray):
        return True
    if is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(map(is_unprotected, value))
