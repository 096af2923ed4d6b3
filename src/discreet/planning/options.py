"""Options of a named solver: which there are, and whether a value can be one.

The keyword arguments of a recipe are its options, and their annotations say what each may be, so that a mistake is
refused with the same words for every solver, before anything is planned.
"""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import numpy as np

from discreet.errors import InvalidInput, did_you_mean
from discreet.recipes import boosted, recipe

__all__ = ["checked_options", "labelled", "option_types"]

_MAY_BE_ZERO = ("centre_share", "label_share", "recalibration_share", "power", "regularisation", "seed")
_NOT_OFFERED = {
    "shuffle": " Shuffling rows and cutting them into batches of equal size is not offered: what is in the other "
    "batches tells where a row is, no dominating pair is known, and its ε can be larger. Option batches lets every row "
    "draw its batch of each epoch for itself."
}
_A_NUMBER_OR_A_SCHEDULE = 2  # the longest union of types that is not an array's


def labelled(solver: str, scales: str) -> str:
    """A solver with its scale model, as tables show it.

    Example:
        >>> labelled("scaled_descent", "full"), labelled("descent", "")
        ('scaled_descent (full)', 'descent')
    """
    return f"{solver} ({scales})" if scales else solver


def option_types(solver: str) -> dict[str, tuple[Any, ...]]:
    """The options of a solver, each with the types that its value may have.

    Example:
        >>> sorted(option_types("objective_perturbation"))
        ['constraint', 'label_share', 'regularisation', 'slope_bound']
    """
    default = recipe(solver)
    hints = typing.get_type_hints(default)
    names = [p.name for p in inspect.signature(default).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {name: _alternatives(hints[name]) for name in names}


def checked_options(solver: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options that were set: None leaves a choice to theory.

    Raises:
        InvalidInput: an option that the solver does not have, or a value that it cannot take.

    Example:
        >>> checked_options("descent", {"iterations": 50, "clip": None})
        {'iterations': 50}
    """
    if not isinstance(options, Mapping | None):
        raise InvalidInput(f"solver_options must be a dictionary of options, got {options!r}.")
    known = option_types(solver)
    taken: dict[str, Any] = {}
    for name, value in (options or {}).items():
        if name not in known:
            guess = did_you_mean(name, known) + _NOT_OFFERED.get(name, "")
            raise InvalidInput(f"solver {solver!r} has no option {name!r}; it has {', '.join(sorted(known))}.{guess}")
        if value is not None:
            taken[name] = _checked(name, value, known[name])
    if solver == "boosted" and "options" in taken:  # those of the solver that is boosted
        taken["options"] = checked_options(taken.get("solver", boosted.DEFAULT_BASE), taken["options"])
    return taken


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a union, less None."""
    members = get_args(hint) if get_origin(hint) in (typing.Union, UnionType) else (hint,)
    return tuple(member for member in members if member is not type(None))


def _checked(name: str, value: Any, kinds: tuple[Any, ...]) -> Any:
    kind = kinds[0]
    if len(kinds) > _A_NUMBER_OR_A_SCHEDULE:  # an array, which the recipe reads itself
        return value
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InvalidInput(f"option {name} must be {_either(map(repr, get_args(kind)))}, got {value!r}.")
        return value
    if kind is int:
        return _whole(name, value)
    if kind is float:
        return value if len(kinds) > 1 and callable(value) else _positive(name, value)
    if get_origin(kind) is dict:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"option {name} must be a dictionary, got {value!r}.")
        return dict(value)
    if not isinstance(value, tuple(one for one in kinds if isinstance(one, type))):
        words = "True or False" if kind is bool else f"one of discreet's {kind.__name__}s"
        raise InvalidInput(f"option {name} must be {words}, got {value!r}.")
    return value


def _whole(name: str, value: Any) -> int:
    least = 0 if name in _MAY_BE_ZERO else 1
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"option {name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def _positive(name: str, value: Any) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or math.isnan(value) or value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
        what = "a number of at least 0" if name in _MAY_BE_ZERO else "a positive number"
        raise InvalidInput(f"option {name} must be {what}, got {value!r}.")
    return float(value)


def _either(words: Any) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else str(last)
