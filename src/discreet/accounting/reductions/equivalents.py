"""The simpler event that an event is accounted as."""

from __future__ import annotations

import math

from discreet.accounting.reductions.last_iterate import last_iterate_mu
from discreet.accounting.reductions.matrix import matrix_sensitivity
from discreet.events import BandedMatrix, Event, Gaussian, LastIterate

__all__ = ["equivalent"]


def equivalent(event: Event) -> Event:
    """An event in simpler terms with the same guarantee under every relation; most events are their own.

    The last iterate of noisy gradient descent and a banded matrix mechanism are each one Gaussian release; for the
    latter adaptivity is free (Denisov et al. 2022, theorem 2.1).

    Example:
        >>> round(equivalent(BandedMatrix(6.0, (1.0,), steps=9, participations=9, separation=1)).noise_multiplier, 9)
        2.0
    """
    match event:
        case LastIterate(noise, steps, contraction, diameter, rounding, batches):
            width = math.inf if diameter is None else diameter
            lengths = {"diameter": width, "rounding": rounding}
            growth = last_iterate_mu(steps, 1.0, 1.0, contraction, **lengths, batches=batches)
            return Gaussian(noise / growth)
        case BandedMatrix(noise, coefficients, steps, participations, separation):
            return Gaussian(noise / matrix_sensitivity(coefficients, steps, participations, separation))
        case _:
            return event
