"""Sample splitting: measurements in a row, each on its own part of the rows, which compose in parallel.

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
from discreet.measurements.program import drive, rehearse
from discreet.measurements.sampling import equal_parts, independent_parts
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["Program", "SampleSplitting"]

Program: TypeAlias = Callable[[], Generator[Measurement, Any, NDArray[np.float64]]]
"""Starts a run that yields one measurement a part, is sent its answer, and returns a value."""


@dataclass(frozen=True, eq=False)
class SampleSplitting:
    """The value that ``program`` returns when its k-th measurement is answered on part k of ``parts``."""

    program: Program
    parts: int

    def __post_init__(self) -> None:
        if self.parts < 1:
            raise InvalidInput(f"rows can be split into one part or more, got {self.parts}.")

    def event(self, unit: Unit) -> Event:
        """The events of a rehearsal, in parallel."""
        plan = self._plan(unit)
        return Parallel(plan) if unit.rows_per_unit == 1 else Compose(plan)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Split the rows, then run the program; each measurement must cost what the rehearsal said."""
        plan = self._plan(unit)
        part_of = (independent_parts if unit.relation == "add-remove" else equal_parts)(len(data), self.parts, bits)
        done = 0

        def answer(measurement: Measurement) -> Any:
            nonlocal done
            asked = measurement.event(unit)
            if done >= len(plan) or asked != plan[done]:
                raise PlanViolation(f"asked for {asked} on part {done}, which was not charged; this was not released.")
            value = measurement.sample(data.take(np.flatnonzero(part_of == done)), unit, bits)
            done += 1
            return value

        return np.asarray(drive(self.program(), answer), dtype=np.float64)

    def blank(self) -> NDArray[np.float64]:
        """The value that the program returns on blank answers."""
        return np.asarray(drive(self.program(), lambda measurement: measurement.blank()), dtype=np.float64)

    def _plan(self, unit: Unit) -> list[Event]:
        plan, _ = rehearse(self.program(), unit)
        if len(plan) > self.parts:
            raise InvalidInput(f"the program asks for {len(plan)} measurements, but there are {self.parts} parts.")
        return plan
