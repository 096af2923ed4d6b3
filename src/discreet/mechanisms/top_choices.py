"""Private choice of several candidates with large scores, in the order drawn.

Claim: each row contributes to every integer score at most C in absolute value, so between neighbours every score moves
by at most Δ = C (add-remove) or 2C (replace-one). The candidates are drawn one after another, each by the exponential
mechanism among those left, with scale b: each draw is 2Δ/b-bounded-range (Dong–Durfee–Rogers 2020), given the draws
before. Event: s × ``Selection(2Δ/b)``, whatever is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.errors import InvalidInput
from discreet.mechanisms.base import check_multiplier, require_norm, scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Query
from discreet.units import Unit

__all__ = ["TopChoices"]


@dataclass(frozen=True)
class TopChoices:
    """The indices of s large scores, all of them where there are fewer.

    Args:
        s: how many.
        noise_multiplier: b over the query's ℓ∞ bound C.

    Example:
        >>> TopChoices(4, 10.0)
        TopChoices(s=4, noise_multiplier=10.0)
    """

    s: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)
        if isinstance(self.s, bool) or not isinstance(self.s, int) or self.s < 1:
            raise InvalidInput(f"a positive whole number of candidates is chosen, got {self.s!r}.")

    def event(self, query: Query, unit: Unit) -> events.Event:
        """s × ``Selection(2Δ/b)``."""
        require_norm(query, "linf")
        if not self.noise_multiplier:
            return events.NonPrivate()
        each = events.Selection(2 * Unit(unit.relation).sensitivity(1.0) / self.noise_multiplier)
        return events.Repeat(each, self._count(query))

    def perturb(self, integers: NDArray[np.int64], query: Query, bits: Bits) -> NDArray[np.int64]:
        """The chosen indices, in the order drawn."""
        from discreet.noise import exponential_top

        require_norm(query, "linf")
        scale = scale_in_steps(self.noise_multiplier, query)
        return exponential_top(integers.ravel(), self._count(query), scale, bits=bits)

    def noiseless(self, value: NDArray[Any]) -> NDArray[np.int64]:
        """The indices of the largest scores, the largest first."""
        return np.argsort(-np.asarray(value, dtype=np.float64).ravel(), kind="stable")[: self.s].astype(np.int64)

    def _count(self, query: Query) -> int:
        return min(self.s, math.prod(query.shape))
