"""Gaussian mechanism on integer sums.

Claim: rows contribute integer vectors of ℓ2 norm ≤ C, no two of them further than a·C from each other, so the sum S has
ℓ2 sensitivity C (add-remove) or a·C (replace-one). The replace-one factor a is 2, or less for a `BoundedDifference`.
S + round(σZ) = round(S + σZ) coordinate by coordinate because S is whole: a post-processing of the continuous Gaussian
mechanism with σ ≥ noise_multiplier·C. Event: ``Gaussian(noise_multiplier, a)``, in any dimension and under any
subsampling of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.errors import InvalidInput
from discreet.mechanisms.base import check_multiplier, require_norm, scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Query, replace_one_factor
from discreet.units import Unit

__all__ = ["Gaussian"]

_MOST_STEPS = 2.0**57
"""Largest noise scale: within the sampler's limit, noise and a sum below 2^61 then stay inside int64."""


@dataclass(frozen=True)
class Gaussian:
    """Adds rounded Gaussian noise of standard deviation ``noise_multiplier`` × the query's bound."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """``Gaussian(noise_multiplier, replace-one factor)``; the relation enters when the event is accounted."""
        require_norm(query, "l2")
        if not self.noise_multiplier:
            return events.NonPrivate()
        return events.Gaussian(self.noise_multiplier, replace_one_factor(query))

    def perturb(self, integers: NDArray[np.int64], query: Query, bits: Bits) -> NDArray[np.float64]:
        """The sum plus rounded Gaussian noise, as floats."""
        from discreet.noise import rounded_gaussian

        require_norm(query, "l2")
        sigma = scale_in_steps(self.noise_multiplier, query)
        if sigma > _MOST_STEPS:
            raise InvalidInput(f"noise_multiplier {self.noise_multiplier:g} is too large for integer sums.")
        noisy = rounded_gaussian(sigma, integers.shape, bits=bits)
        if integers.dtype == object:  # beyond int64
            return query.grid * (integers + noisy).astype(np.float64)
        noisy += integers
        return query.grid * noisy.astype(np.float64)

    def noiseless(self, value: NDArray[Any]) -> NDArray[Any]:
        """The sum itself."""
        return value
