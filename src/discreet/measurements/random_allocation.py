"""Random allocation: one measurement on each of several batches, every row being in exactly one of them.

Claim (`discreet.events.Allocation`): each row draws its batch for itself, uniformly and independently of everything
else, before the first answer. So one row more or less, or one replaced, leaves the batches of all other rows as they
are. Nobody but this measurement knows who drew what; an answer may depend on all earlier ones. All batches are answered
with the same event, and each at most once.

Shuffling the rows and cutting them into batches of equal size is something else, and costs more: what is in the other
batches tells where a row is. It is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from discreet.data.base import Dataset
from discreet.errors import InvalidInput, PlanViolation
from discreet.events import Allocation, Event, NonPrivate
from discreet.measurements.base import Measurement
from discreet.measurements.program import drive, rehearse
from discreet.measurements.sampling import independent_parts
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["EpochProgram", "RandomAllocation"]

EpochProgram: TypeAlias = Callable[[], Generator[Measurement, Any, Any]]
"""Starts an epoch: a run that yields one measurement a batch, is sent its answer, and returns a value."""


@dataclass(frozen=True, eq=False)
class RandomAllocation:
    """The value that ``program`` returns when its k-th measurement is answered on batch k of ``batches``.

    A program that yields fewer measurements leaves the last batches unanswered, and is charged for all.
    """

    program: EpochProgram
    batches: int

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise InvalidInput(f"rows can be allocated to one batch or more, got {self.batches}.")

    def event(self, unit: Unit) -> Event:
        """``Allocation(batches, inner)`` of the one event that all measurements of a rehearsal have."""
        inner = self._plan(unit)[0]
        return inner if isinstance(inner, NonPrivate) else Allocation(self.batches, inner)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> Any:
        """Let every row draw its batch, then run the program; each measurement must cost what the rehearsal said."""
        plan = self._plan(unit)
        drawn = independent_parts(len(data), self.batches, bits)
        done = 0

        def answer(measurement: Measurement) -> Any:
            nonlocal done
            asked = measurement.event(unit)
            if done >= len(plan) or asked != plan[done]:
                raise PlanViolation(f"asked for {asked} on batch {done}, which was not charged; this was not released.")
            batch, done = data.take(np.flatnonzero(drawn == done)), done + 1
            return measurement.sample(batch, unit, bits)

        return drive(self.program(), answer)

    def blank(self) -> Any:
        """The value that the program returns on blank answers."""
        return drive(self.program(), lambda measurement: measurement.blank())

    def _plan(self, unit: Unit) -> list[Event]:
        plan, _ = rehearse(self.program(), unit)
        if not 1 <= len(plan) <= self.batches:
            raise InvalidInput(f"the program asks for {len(plan)} measurements of {self.batches} batches.")
        if any(event != plan[0] for event in plan):
            raise InvalidInput("random allocation is accounted for batches that are all answered with the same event.")
        return plan
