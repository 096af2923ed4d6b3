"""Several measurements asked at once: charged as one, so that all are answered or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.data.base import Dataset
from discreet.events import Event, compose
from discreet.measurements.base import Measurement
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["Joint"]


@dataclass(frozen=True, eq=False)
class Joint:
    """The answers of all ``measurements``, in order; none depends on another's answer."""

    measurements: Sequence[Measurement]

    def event(self, unit: Unit) -> Event:
        """The composition of the events of all measurements."""
        return compose(one.event(unit) for one in self.measurements)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> list[Any]:
        """One answer of each measurement, in order."""
        return [one.sample(data, unit, bits) for one in self.measurements]

    def blank(self) -> list[Any]:
        """One blank answer of each measurement, in order."""
        return [one.blank() for one in self.measurements]
