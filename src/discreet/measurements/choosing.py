"""A private choice among many vertices."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.data.base import Dataset
from discreet.events import Event
from discreet.measurements.base import Noisy
from discreet.mechanisms.selection import Choice
from discreet.noise.bits import Bits
from discreet.queries.scores import ScoreSum
from discreet.units import Unit

__all__ = ["Chosen"]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The index of a vertex of large score."""

    query: ScoreSum
    mechanism: Choice

    def event(self, unit: Unit) -> Event:
        """The mechanism's event."""
        return self.mechanism.event(self.query, unit)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> int:
        """Score every vertex, then choose."""
        return int(Noisy(self.query, self.mechanism).sample(data, unit, bits))

    def blank(self) -> int:
        """The first vertex, without listing the others."""
        return 0
