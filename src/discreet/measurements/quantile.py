"""A quantile by the exponential mechanism, sampled exactly from its piecewise constant law.

Claim: each score of `Ranks` moves by at most Δ between neighbours, up for some positions and down for others. Drawing
position t with probability ∝ exp(score(t)/b), b = 2Δ/ε, changes log-odds by at most ε: the exponential mechanism, ε-DP
and ε-bounded-range (McSherry–Talwar 2007; Smith 2011 for quantiles; Dong–Durfee–Rogers 2020). Event: ``Selection(ε)``.
The positions are those of a declared grid, so the answer's last bits say nothing that its position does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet import events
from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.noise.bits import Bits
from discreet.queries.histograms.ranks import Ranks
from discreet.units import Unit

__all__ = ["QuantileDraw"]


@dataclass(frozen=True)
class QuantileDraw:
    """A random position near the ``q``-quantile of the targets, ``epsilon``-DP for one row; ∞ gives the best position.

    Example:
        >>> from discreet.queries.histograms.ranks import Grid
        >>> QuantileDraw(Ranks(Grid.between(0, 10, 1), 0.5), 0.5).event(Unit("add-remove"))
        Selection(epsilon=0.5, mechanism='exponential')
    """

    query: Ranks
    epsilon: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InvalidInput(f"epsilon must be positive, got {self.epsilon!r}.")

    def event(self, unit: Unit) -> events.Event:
        """``Selection(epsilon)``, whatever the relation: the scale of the draw follows the relation."""
        return events.Selection(self.epsilon) if math.isfinite(self.epsilon) else events.NonPrivate()

    def scale(self, unit: Unit) -> float:
        """b in rank steps, rounded up."""
        return math.nextafter(2 * self.query.sensitivity(unit.relation) / self.epsilon, math.inf)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> float:
        """The number at the position drawn."""
        from discreet.noise import exponential_position

        scores = self.query.scores(data)
        if math.isfinite(self.epsilon):
            interval, offset = exponential_position(scores.values, scores.lengths, self.scale(unit), bits=bits)
        else:
            best = np.where(scores.lengths > 0, scores.values, np.iinfo(np.int64).min)
            first, last = np.flatnonzero(best == best.max())[[0, -1]]
            interval, offset = int(first), int(scores.lengths[first : last + 1].sum() - 1) // 2
        return self.query.grid.value(scores.start(interval) + offset)

    def blank(self) -> float:
        """The lower end of the grid."""
        return self.query.grid.low
