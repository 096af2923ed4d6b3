"""Private choice of the candidate with the largest score.

Claim: each row contributes to every integer score at most C in absolute value. Between neighbours every score moves by
at most Δ = C (add-remove) or 2C (replace-one), up for some candidates and down for others. Choosing i with probability
∝ exp(score_i / b) then changes log-odds by at most ε = 2Δ/b: the exponential mechanism is ε-bounded-range
(Dong–Durfee–Rogers 2020). Permute-and-flip with the same b is ε-DP and never worse in expectation
(McKenna–Sheldon 2020), but it is not bounded-range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.mechanisms.base import check_multiplier, require_norm, scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Query
from discreet.units import Unit

__all__ = ["Choice"]


@dataclass(frozen=True)
class Choice:
    """The index of a large score; the scale is ``noise_multiplier`` × the query's ℓ∞ bound."""

    noise_multiplier: float
    mechanism: Literal["exponential", "permute-and-flip"] = "exponential"

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """``Selection(2Δ/b)``."""
        require_norm(query, "linf")
        if not self.noise_multiplier:
            return events.NonPrivate()
        return events.Selection(2 * Unit(unit.relation).sensitivity(1.0) / self.noise_multiplier, self.mechanism)

    def perturb(self, integers: NDArray[np.int64], query: Query, bits: Bits) -> int:
        """The chosen index."""
        from discreet.noise import exponential_select, permute_and_flip

        require_norm(query, "linf")
        choose = exponential_select if self.mechanism == "exponential" else permute_and_flip
        return int(choose(integers.ravel(), scale_in_steps(self.noise_multiplier, query), bits=bits))

    def noiseless(self, value: NDArray[Any]) -> int:
        """The index of the largest score."""
        return int(np.argmax(value))
