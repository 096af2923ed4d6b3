"""The value of the best of a random number of private runs; the others are not shown.

Claim: K is geometric on 1, 2, …, drawn from protective bits and from nothing else; the runs are independent given the
rows; one value, that of the highest score, is shown, and neither K nor any other score. Event: ``PrivateSelection`` of
one run, scoring included (Liu–Talwar 2019; Papernot–Steinke 2022, theorem 2). What is outside the claim is time: a run
of the whole takes K times as long, and whoever can time it learns about K.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.errors import InvalidInput, PlanViolation
from discreet.events import Event, NonPrivate, PrivateSelection, compose
from discreet.measurements.base import Measurement
from discreet.measurements.program import drive, rehearse
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["BestOf", "Scored"]

Scored: TypeAlias = Callable[[int], Generator[Measurement, Any, tuple[NDArray[np.float64], float]]]
"""Starts run number k: it yields measurements, is sent their answers, and returns (value, noisy score)."""


@dataclass(frozen=True, eq=False)
class BestOf:
    """The value with the highest score among K runs of ``program``, E[K] = ``mean``.

    Every run must ask for the same events, those of run 0 on blank answers.
    """

    program: Scored
    mean: float

    def __post_init__(self) -> None:
        if not 1 <= self.mean < math.inf:
            raise InvalidInput(f"the mean number of runs must be finite and at least 1, got {self.mean!r}.")

    def event(self, unit: Unit) -> Event:
        """The selection's event, from a rehearsal."""
        plan, _ = rehearse(self.program(0), unit)
        if any(isinstance(event, NonPrivate) for event in plan):
            return NonPrivate()
        return PrivateSelection(compose(plan), self.mean, "geometric")

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Toss for K as the runs go on: each is the last with probability 1/mean."""
        from discreet.noise import bernoulli

        plan, _ = rehearse(self.program(0), unit)
        best, highest, run = None, -math.inf, 0
        while True:
            value, score = self._run(run, plan, data, unit, bits)
            if best is None or score > highest:
                best, highest = value, score
            run += 1
            if bool(bernoulli(Fraction(1) / Fraction(self.mean), bits=bits)):
                return best

    def blank(self) -> NDArray[np.float64]:
        """The value of run 0 on blank answers."""
        return np.asarray(drive(self.program(0), lambda measurement: measurement.blank())[0], dtype=np.float64)

    def _run(
        self, run: int, plan: list[Event], data: Dataset, unit: Unit, bits: Bits
    ) -> tuple[NDArray[np.float64], float]:
        due = iter(plan)

        def answer(measurement: Measurement) -> Any:
            asked, planned = measurement.event(unit), next(due, None)
            if asked != planned:
                raise PlanViolation(f"run {run} asked for {asked}, but {planned} was charged; this was not released.")
            return measurement.sample(data, unit, bits)

        value, score = drive(self.program(run), answer)
        return np.asarray(value, dtype=np.float64), float(score)
