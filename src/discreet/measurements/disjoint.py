"""A run of measurements, each on its own part of the rows: parallel composition.

Claim: every row is in exactly one part, whatever the other rows are. Under replace-one n is public and a uniformly
random equal split of the *places* is drawn, so a replaced row stays in its part. Under add-remove each row draws its
part for itself, so one row more or less changes one part and leaves all other parts as they were; a split by place or
of equal sizes would shift other rows. Given the split, one unit with one row meets one measurement only; the later ones
read its answer and other rows, which is post-processing. So the guarantee is that of the worst part, also when
measurements are chosen adaptively, and averaging over splits keeps it (joint convexity of the hockey-stick
divergence). A unit with several rows may have rows in several parts, and is charged for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.errors import InvalidInput, PlanViolation
from discreet.events import Compose, Event, Parallel
from discreet.measurements.base import Measurement
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["Disjoint", "Program"]

Program: TypeAlias = Callable[[], Generator[Measurement, Any, NDArray[np.float64]]]
"""Starts a run that yields one measurement a part, is sent its answer, and returns a value."""


@dataclass(frozen=True, eq=False)
class Disjoint:
    """The value that ``program`` returns when its k-th measurement is answered on part k of ``parts``."""

    program: Program
    parts: int

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise InvalidInput(f"rows can be split into one part or more, got {self.parts}.")

    def event(self, unit: Unit) -> Event:
        """The events of a rehearsal, in parallel."""
        plan, _ = self._rehearse(unit)
        return Parallel(plan) if unit.rows_per_unit == 1 else Compose(plan)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Split the rows, then run the program; each measurement must cost what the rehearsal said."""
        plan, _ = self._rehearse(unit)
        part_of = _split(len(data), self.parts, unit, bits)
        done = 0

        def answer(measurement: Measurement) -> Any:
            nonlocal done
            asked = measurement.event(unit)
            if done >= len(plan) or asked != plan[done]:
                raise PlanViolation(f"asked for {asked} on part {done}, which was not charged; this was not released.")
            value = measurement.sample(data.take(np.flatnonzero(part_of == done)), unit, bits)
            done += 1
            return value

        return _drive(self.program, answer)

    def blank(self) -> NDArray[np.float64]:
        """What the program returns on blank answers."""
        return _drive(self.program, lambda measurement: measurement.blank())

    def _rehearse(self, unit: Unit) -> tuple[list[Event], NDArray[np.float64]]:
        plan: list[Event] = []

        def answer(measurement: Measurement) -> Any:
            plan.append(measurement.event(unit))
            return measurement.blank()

        value = _drive(self.program, answer)
        if len(plan) > self.parts:
            raise InvalidInput(f"the program asks for {len(plan)} measurements, but there are {self.parts} parts.")
        return plan, value


def _split(n: int, parts: int, unit: Unit, bits: Bits) -> NDArray[np.int64]:
    """The part of each row."""
    from discreet.noise import permutation, uniform_integers

    if unit.relation == "add-remove":
        return uniform_integers(parts, n, bits=bits)
    return np.asarray(permutation(n, bits=bits) % parts)


def _drive(program: Program, answer: Callable[[Measurement], Any]) -> NDArray[np.float64]:
    steps = program()
    try:
        measurement = next(steps)
        while True:
            measurement = steps.send(answer(measurement))
    except StopIteration as stop:
        return np.asarray(stop.value, dtype=np.float64)
