"""A certified interval: the truth lies between ``lower`` and ``upper``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np

from discreet.errors import DiscreetError, NotCertifiable

__all__ = ["Bounds", "Contradiction", "guarded", "in_range", "meet", "product_up", "quotient_up", "sum_up"]

T = TypeVar("T")


class Bounds(NamedTuple):
    """A proved interval for a privacy parameter. Guarantees are stated with ``upper``.

    ``lower`` bounds the same quantity from below: the parameter of the worst pair of neighbours that the events
    admit. Where a method proves only an upper bound, ``lower`` is 0.

    Example:
        >>> Bounds(0.9, 1.0).width
        0.1
    """

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """How much is left unproved."""
        return 0.0 if self.lower == self.upper else round(self.upper - self.lower, 15)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and not math.isnan(value) and self.lower <= value <= self.upper


class Contradiction(NotCertifiable):
    """Two proofs exclude each other: one of them is false, and neither is used."""


def meet(one: Bounds, two: Bounds, what: str) -> Bounds:
    """The interval that both prove.

    Raises:
        Contradiction: they have no point in common, or one of them is upside down.

    Example:
        >>> meet(Bounds(0.0, 2.0), Bounds(1.0, 3.0), "both")
        Bounds(lower=1.0, upper=2.0)
    """
    found = Bounds(max(one.lower, two.lower), min(one.upper, two.upper))
    if not (one.lower <= one.upper and two.lower <= two.upper and found.lower <= found.upper):
        raise Contradiction(f"{what} disagree: [{one.lower!r}, {one.upper!r}] and [{two.lower!r}, {two.upper!r}].")
    return found


def in_range(bounds: Bounds, top: float) -> Bounds:
    """An interval for a quantity in [0, top], if it is one, within that range.

    Raises:
        Contradiction: it lies beyond the range by more than rounding.

    Example:
        >>> in_range(Bounds(0.5, 2.0), 1.0)
        Bounds(lower=0.5, upper=1.0)
    """
    lower = min(bounds.lower, top) if bounds.lower <= top * (1 + 1e-9) else bounds.lower
    return meet(Bounds(0.0, top), Bounds(lower, bounds.upper), "an accountant's bounds and those known beforehand")


def guarded(question: Callable[[], T]) -> T:
    """An accountant's answer. What overflows, underflows or runs out of memory proves nothing, and says so."""
    try:
        with np.errstate(all="ignore"):
            return question()
    except DiscreetError:
        raise
    except (ArithmeticError, ValueError, IndexError, MemoryError) as failure:
        raise NotCertifiable(
            f"the accountant left the range of its arithmetic ({type(failure).__name__}: {failure})."
        ) from failure


def sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """The least double that is at least Σ count·value, for values of one sign; infinite if one of them is.

    Example:
        >>> sum_up([(0.5, 3), (0.25, 1)]), sum_up([(0.1, 3)]) > 0.3
        (1.75, True)
    """
    known = [(value, count) for value, count in terms if count]
    if not all(math.isfinite(value) for value, _ in known):
        return math.inf
    return _up(sum((Fraction(value) * count for value, count in known), Fraction(0)))


def product_up(one: float, two: float) -> float:
    """The least double that is at least the product of two finite ones."""
    return _up(Fraction(one) * Fraction(two))


def quotient_up(one: float, two: float) -> float:
    """The least double that is at least the quotient of two finite ones, the second positive."""
    return _up(Fraction(one) / Fraction(two))


def _up(exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
