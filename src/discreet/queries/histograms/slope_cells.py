"""How many rows have a residual of which size under a public model.

Claim: a row is counted in one cell at most, that of |slope of the loss| at its exact score: its contribution has ℓ2
norm at most 1 and no negative entry, whatever it contains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import ACUTE_FACTOR, Norm
from discreet.queries.histograms.outcomes import Floats, OutcomeCounts, Places

__all__ = ["ResidualCounts", "SlopeCells"]


@dataclass(frozen=True, eq=False)
class SlopeCells:
    """Bin of |slope of the loss|: of |y − prediction| for squared and (with labels 0 and 1) logistic loss.

    Args:
        loss: pointwise loss.
        edges: increasing positive numbers; below the first and from the last on there is a bin too.
    """

    loss: Loss
    edges: Floats

    def __post_init__(self) -> None:
        if not (len(self.edges) and (self.edges > 0).all() and (np.diff(self.edges) > 0).all()):
            raise InvalidInput("edges of residuals must be positive and increasing.")

    @property
    def shape(self) -> tuple[int, ...]:
        """(bins,)."""
        return (len(self.edges) + 1,)

    def places(self, z: Floats, y: Floats) -> Places:
        """The bin of the residual; −1 for a row without a target."""
        size = np.abs(np.asarray(self.loss.slope(z, y), dtype=np.float64))
        return np.where(np.isnan(size), -1, np.searchsorted(self.edges, size, side="right"))


@dataclass(frozen=True, eq=False)
class ResidualCounts(OutcomeCounts):
    """How many rows there are in each cell, where Gaussian noise is added: a count of 1 has ℓ2 norm 1 too."""

    norm: ClassVar[Norm] = "l2"
    replace_one_factor: ClassVar[float] = ACUTE_FACTOR
