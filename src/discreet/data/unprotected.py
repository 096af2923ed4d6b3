"""Numbers that were taken from data without protection, and remember it.

A quantile drawn with a seed, or with ε = ∞, is a fact about the rows. Whoever declares it as a bound makes a fit that
is not private, whatever noise it adds. So such numbers are marked, and `Numeric` and the estimators look for the mark.
It survives arithmetic and copies; what rounds, formats or rebuilds a number loses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["UnprotectedArray", "UnprotectedFloat", "is_unprotected"]

_ARITHMETIC = ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg", "pos", "abs")


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
    """Whether a number, or any in a list, tuple or mapping, is marked as taken from data without protection."""
    if isinstance(value, UnprotectedFloat | UnprotectedArray):
        return True
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(map(is_unprotected, value))
