"""A private choice among many vertices."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.data.base import Dataset
from discreet.events import Event
from discreet.measurements.base import Noisy, require_rows
from discreet.mechanisms.base import scale_in_steps
from discreet.mechanisms.selection import Choice
from discreet.noise.bits import Bits
from discreet.queries.atoms import CoordinateAtoms
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
        """Choose; on sparse rows without scoring every vertex, with the same probabilities exactly."""
        from discreet.data.memory import Sparse

        require_rows(self.query, data)
        if self._sparse and isinstance(data, Sparse):
            from discreet.queries.walking import walk_of

            scale = scale_in_steps(self.mechanism.noise_multiplier, self.query)
            return walk_of(self.query, data).choose(self.query, scale, bits)
        return int(Noisy(self.query, self.mechanism).sample(data, unit, bits))

    @property
    def _sparse(self) -> bool:
        """Whether scores are single gradient entries, chosen by the exponential mechanism."""
        exponential = self.mechanism.noise_multiplier > 0 and self.mechanism.mechanism == "exponential"
        return exponential and isinstance(self.query.atoms, CoordinateAtoms) and self.query.rows.outputs == 1

    def blank(self) -> int:
        """The first vertex, without listing the others."""
        return 0
