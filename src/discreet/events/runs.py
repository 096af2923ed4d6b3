"""Events of whole optimisation runs that are as private as one Gaussian release.

The theorems that say how private, and the sensitivities, are in `discreet.accounting.reductions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events.base import Event, count, number, positive

__all__ = ["BandedMatrix", "LastIterate", "coefficients_of", "participation_scheme"]

_MOST_STEPS = 10**7
"""Of one banded run: what is computed for it takes some 80 MB."""
_MOST_TERMS = 10**8
"""Bands times participations: what is computed for them takes seconds."""


@dataclass(frozen=True)
class LastIterate(Event):
    """The last of ``steps`` noisy gradient steps, each a contraction; no other iterate, and no average, is shown.

    ``noise_multiplier`` is the noise in the *sum* of clipped gradients over C, as in `Gaussian`. ``diameter`` and
    ``rounding`` are measured in s, the most that one step moves between neighbours *under the relation in which the
    event is accounted* (η·2C/n or η·C/n), so the event is a Gaussian with the same sensitivity and less effective
    noise. Neighbours that are closer, as a batch without a row is to one with it, have their own s, in which the same
    lengths are more (`restated`). The hypotheses (convex, smooth, step ≤ 2/β, data-independent start and n) are the
    maker's to check, as `discreet.measurements.LastIterate` does.

    With ``batches`` > 1 the rows are in that many fixed batches, chosen without looking at them, which are taken in
    turn: one step in so many sees a given row, and s is the most that such a step moves.
    """

    noise_multiplier: float
    steps: int
    contraction: float
    diameter: float | None = None
    rounding: float = 0.0
    batches: int = 1

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")
        count(self, "steps", 1)
        number(self, "contraction", lambda c: 0 <= c <= 1, "in [0, 1]")
        if self.diameter is not None:
            number(self, "diameter", lambda d: 0 <= d < math.inf, "non-negative and finite, or None")
        number(self, "rounding", lambda r: 0 <= r < math.inf, "non-negative and finite")
        count(self, "batches", 1)

    def to_dict(self) -> dict[str, Any]:
        """The event as plain numbers; without ``batches`` where all rows are taken, as it was first stored."""
        tree = super().to_dict()
        if self.batches == 1:
            del tree["batches"]
        return tree

    def restated(self, ratio: float) -> LastIterate:
        """The event with its lengths measured in steps that move ``ratio`` times less."""
        diameter = None if self.diameter is None else self.diameter * ratio
        return replace(self, diameter=diameter, rounding=self.rounding * ratio)


@dataclass(frozen=True)
class BandedMatrix(Event):
    """C·G + noise for all ``steps`` gradient sums at once: Gaussian noise of ``noise_multiplier``·(bound on one row).

    ``coefficients`` is the first column of the Toeplitz strategy C. A row takes part in at most ``participations``
    steps, any two at least ``separation`` apart; the sampler must enforce it. Gradients may depend on earlier answers.
    The sensitivity of the run is `discreet.accounting.reductions.matrix.matrix_sensitivity`.
    """

    noise_multiplier: float
    coefficients: tuple[float, ...]
    steps: int
    participations: int = 1
    separation: int | None = None

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")
        count(self, "steps", 1)
        count(self, "participations", 1)
        if self.separation is not None:
            count(self, "separation", 1)
        listed = hasattr(self.coefficients, "__getitem__") and not isinstance(self.coefficients, str | bytes | Mapping)
        if not listed:
            raise InvalidInput(f"BandedMatrix.coefficients must be a list of numbers, got {self.coefficients!r}.")
        object.__setattr__(self, "coefficients", coefficients_of(self.coefficients))
        times = participation_scheme(len(self.coefficients), self.steps, self.participations, self.separation)[1]
        most = times * sum(abs(c) for c in self.coefficients)  # no sensitivity exceeds it
        if not math.isfinite(most * most):
            raise InvalidInput("BandedMatrix.coefficients are so large that their sensitivity is not finite.")


def coefficients_of(values: Any) -> tuple[float, ...]:
    """The first column of a strategy as plain floats.

    Raises:
        InvalidInput: it is empty, some entry is no finite number, or the first one is not positive.
    """
    try:
        found = tuple(float(value) for value in values if hasattr(value, "__float__"))
        whole = len(found) == len(values)
    except (TypeError, ValueError, OverflowError):
        found, whole = (), False
    if not found or not whole or not all(map(math.isfinite, found)) or not found[0] > 0:
        raise InvalidInput("a strategy's coefficients must be finite numbers, the first one positive.")
    return found


def participation_scheme(bands: int, steps: int, participations: int, separation: int | None) -> tuple[int, int]:
    """The least gap between two steps of one row, and the most steps in which it takes part.

    Raises:
        InvalidInput: numbers that are no counts, or more of them than can be accounted.
        HypothesisViolated: several participations without a least separation.
    """
    if steps < 1 or participations < 1:
        raise InvalidInput(f"steps and participations must be at least 1, got {steps} and {participations}.")
    if steps > _MOST_STEPS:
        raise InvalidInput(f"a banded matrix has at most {_MOST_STEPS} steps, got {steps}.")
    if participations > 1 and (separation is None or separation < 1):
        raise HypothesisViolated("several participations need a least separation of at least 1 step between them.")
    gap = separation or steps
    times, bands = min(participations, -(-steps // gap)), min(bands, steps)
    if times * bands > _MOST_TERMS:
        raise InvalidInput(
            f"{times} participations of {bands} bands are more than {_MOST_TERMS} terms: use fewer bands or steps."
        )
    return gap, times
