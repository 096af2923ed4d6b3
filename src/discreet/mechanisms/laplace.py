"""Laplace mechanism on integer sums.

Claim: rows contribute integer vectors of ℓ1 norm ≤ C, no two of them further than a·C from each other in ℓ1, where the
replace-one factor a is 2, or less for a `BoundedDifference`. S + round(b·Laplace) = round(S + b·Laplace) is a
post-processing of the continuous mechanism with b ≥ noise_multiplier·C, which is pure ε-DP with ε = C/b (add-remove) or
aC/b (replace-one). A scalar is accounted with the tight Laplace curve for a = 2, a vector as pure DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.mechanisms.base import check_multiplier, require_norm, scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Query, replace_one_factor
from discreet.units import Unit

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace:
    """Adds rounded Laplace noise of scale ``noise_multiplier`` × the query's ℓ1 bound."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """``Laplace(noise_multiplier)`` for a scalar, ``PureDP`` for a vector."""
        require_norm(query, "l1")
        if not self.noise_multiplier:
            return events.NonPrivate()
        if math.prod(query.shape) == 1:
            return events.Laplace(self.noise_multiplier)
        one_row = Unit(unit.relation).sensitivity(1.0, replace_one_factor(query))
        return events.PureDP(one_row / self.noise_multiplier)

    def perturb(self, integers: NDArray[np.int64], query: Query, bits: Bits) -> NDArray[np.float64]:
        """The sum plus rounded Laplace noise, as floats."""
        from discreet.noise import rounded_laplace

        require_norm(query, "l1")
        scale = scale_in_steps(self.noise_multiplier, query)
        return query.grid * (integers + rounded_laplace(scale, integers.shape, bits=bits)).astype(np.float64)

    def noiseless(self, value: NDArray[Any]) -> NDArray[Any]:
        """The sum itself."""
        return value
