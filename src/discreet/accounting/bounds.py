"""A certified interval: the truth lies between ``lower`` and ``upper``."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Bounds"]


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
