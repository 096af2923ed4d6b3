"""Gaussian mechanism on integer sums.

Claim: rows contribute integer vectors of ℓ2 norm ≤ C, no two of them further than apart·C from each other, so the sum S
has ℓ2 sensitivity C (add-remove) or apart·C (replace-one); apart is 2 but for queries that know better (`Near`).
S + round(σZ) = round(S + σZ) coordinate by coordinate because S is whole: a post-processing of the continuous Gaussian
mechanism with σ ≥ noise_multiplier·C. Event: ``Gaussian(noise_multiplier, apart)``, in any dimension and under any
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
from discreet.queries.base import Query, apart
from discreet.units import Unit

__all__ = ["Gaussian"]

_MOST_STEPS = 2.0**57
"""Largest noise scale: within the sampler's reach, noise and a sum below 2^61 then stay inside int64."""


@dataclass(frozen=True)
class Gaussian:
    """Adds rounded Gaussian noise of standard deviation ``noise_multiplier`` × the query's bound."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """``Gaussian(noise_multiplier, apart)``; the relation enters when the event is accounted."""
        require_norm(query, "l2")
        return events.Gaussian(self.noise_multiplier, apart(query)) if self.noise_multiplier else events.NonPrivate()

    def perturb(self, integers: NDArray[np.int64], query: Query, bits: Bits) -> NDArray[np.float64]:
        """The sum plus rounded Gaussian noise, as floats."""
        from discreet.noise import rounded_gaussian

        require_norm(query, "l2")
        sigma = scale_in_steps(self.noise_multiplier, query)
        if sigma > _MOST_STEPS:
            raise InvalidInput(f"noise_multiplier {self.noise_multiplier:g} is too large for integer sums.")
        return query.grid * (integers + rounded_gaussian(sigma, integers.shape, bits=bits)).astype(np.float64)

    def noiseless(self, value: NDArray[Any]) -> NDArray[Any]:
        """The sum itself."""
        return value
