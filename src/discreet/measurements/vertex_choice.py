"""A private choice among the vertices of a set, for Frank–Wolfe.

Claim: the event is that of `discreet.mechanisms.selection.Choice` on the scores, and the choice has exactly its law,
also on sparse rows in memory, where it is made without scoring every vertex
(`discreet.queries.frank_wolfe.lazy_selection`). Sparse rows in files or on a cluster are brought to memory for it, if
the memory that was declared has room for them; else all vertices are scored.
"""

from __future__ import annotations

from dataclasses import dataclass

from discreet.data.base import Dataset
from discreet.events import Event
from discreet.losses import Tabulated
from discreet.measurements.base import Noisy, require_rows
from discreet.mechanisms.base import scale_in_steps
from discreet.mechanisms.selection import Choice
from discreet.noise.bits import Bits
from discreet.queries.frank_wolfe.scores import VertexScores
from discreet.queries.frank_wolfe.vertices import CoordinateVertices
from discreet.units import Unit

__all__ = ["VertexChoice"]


@dataclass(frozen=True, eq=False)
class VertexChoice:
    """The index of a vertex of large score."""

    query: VertexScores
    mechanism: Choice

    def event(self, unit: Unit) -> Event:
        """The mechanism's event."""
        return self.mechanism.event(self.query, unit)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> int:
        """Choose; on sparse rows without scoring every vertex, with the same probabilities exactly."""
        from discreet.data.memory import Sparse

        require_rows(self.query, data)
        held = data.held() if self._lazy and data.sparse else None
        if isinstance(held, Sparse):
            from discreet.queries.frank_wolfe.lazy_selection import selection_of

            scale = scale_in_steps(self.mechanism.noise_multiplier, self.query)
            return selection_of(self.query, held).choose(self.query, scale, bits)
        return int(Noisy(self.query, self.mechanism).sample(data, unit, bits))

    @property
    def _lazy(self) -> bool:
        """Whether scores are single gradient entries of a compiled loss, chosen by the exponential mechanism."""
        if isinstance(self.query.loss, Tabulated):
            return False
        exponential = self.mechanism.noise_multiplier > 0 and self.mechanism.mechanism == "exponential"
        return exponential and isinstance(self.query.vertices, CoordinateVertices) and self.query.rows.outputs == 1

    def blank(self) -> int:
        """The first vertex, without listing the others."""
        return 0
