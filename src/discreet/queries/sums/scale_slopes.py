"""How the loss of several classes changes as all scores of a public model are multiplied by a number α.

The slope by α of ℓ(α·z, y) = log Σ_k exp(α·z_k) − α·z_y is Σ_k p_k·z_k − z_y, with p the class probabilities of the
scores α·z. It rises with α, and where its mean over rows is 0, α is the inverse temperature of least loss.

Claim: a row contributes its slope at α = ½, 1 and 2, each clipped to ±clip, and clip/2 times 1 − Σ_k p_k² at α = 1,
which is in [0, 1]: whole numbers of at most 2^20, 2^20, 2^20 and 2^19 steps of clip/2^20 in absolute value, of squared
ℓ2 norm at most 3.25·2^40, for every row content whatever. A row whose label is none of the classes contributes nothing.
θ is rounded to whole steps, so ⟨x, θ⟩ is exact in any order of summation and a row's contribution depends on nothing
but the row and θ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["SCALES", "ScaleSlopes"]

SCALES = (0.5, 1.0, 2.0)
"""α at which slopes are taken."""

_STEPS = 2**20  # in a slope as large as the clip

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScaleSlopes:
    """Sums of clipped slopes by α at `SCALES`, and half the clip times Σ_i (1 − Σ_k p_ik²) at α = 1.

    Args:
        rows: public facts about the rows; two outputs or more, and labels 0 … outputs − 1.
        theta: the model, of shape ``rows.shape``.
        clip: bound on a row's slope.
    """

    rows: RowSpec
    theta: Array
    clip: float

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = math.isqrt(13 * 2**38) + 1
    shape: ClassVar[tuple[int, ...]] = (4,)

    def __post_init__(self) -> None:
        if not 0 < self.clip < math.inf:
            raise InvalidInput(f"the bound on slopes must be positive and finite, got {self.clip!r}.")
        if self.rows.outputs < 2 or self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ of shape {self.theta.shape} does not give several scores to rows of the shape "
                               f"{self.rows.shape}.")  # fmt: skip

    @property
    def grid(self) -> float:
        """Value of one step."""
        return self.clip / _STEPS

    def integers(self, data: Dataset) -> Integers:
        """The exact sums in grid steps."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm or a schema.")

        def block_sum(block: Block) -> Integers:
            steps = np.rint(self._shares(block, rounded=True) * _STEPS)
            return np.asarray(steps.astype(np.int64).sum(axis=1))

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> Array:
        """The sums in floating point."""
        sums = data.map_blocks(lambda block: self._shares(block, rounded=False).sum(axis=1))
        return np.asarray(np.sum(sums, axis=0) * self.clip)

    def _shares(self, block: Block, *, rounded: bool) -> Array:
        """What rows contribute in units of the clip: three numbers in [−1, 1] and one in [0, ½]."""
        shares = np.zeros((4, len(block.y)))
        for part, scores in linear_predictors(block, self.theta, rounded=rounded):
            y = block.y[part]
            known = np.isin(y, np.arange(self.rows.outputs))
            shares[:, part] = np.where(known, self._of(scores, np.where(known, y, 0).astype(np.intp)), 0.0)
        return shares

    def _of(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        found = np.zeros((4, len(codes)))
        with np.errstate(all="ignore"):  # θ may be of any size; what is no number counts as 0
            below = scores - scores.max(axis=1, keepdims=True)
            own = np.take_along_axis(below, codes[:, None], axis=1)[:, 0]
            for j, scale in enumerate(SCALES):
                weights = np.exp(scale * below)
                p = weights / weights.sum(axis=1, keepdims=True)
                found[j] = np.clip(((p * below).sum(axis=1) - own) / self.clip, -1.0, 1.0)
                if scale == 1:
                    found[3] = np.clip(1 - (p * p).sum(axis=1), 0.0, 1.0) / 2
        return np.nan_to_num(found)
