"""Scores of finitely many candidate parameters: minus their summed losses.

Claim: each row contributes B/2 − clip(ℓ(⟨x, θ_k⟩, y), 0, B) to the score of candidate k, in integer steps, hence at
most half of B in absolute value for every candidate. The constant B/2 is the same for all candidates, so it changes no
choice; it halves the bound. A row without a target contributes 0. Candidates are rounded to whole steps of 2^−34 of
their length, so ⟨x, θ_k⟩ is exact in any order of summation and a row's contribution depends on nothing but the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.data.steps import chunks
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import whole_parameter
from discreet.rows import RowSpec

__all__ = ["CandidateScores", "OneScore"]

_HALF = 2**20  # steps in B/2: 2^27 rows stay below 2^48


@dataclass(frozen=True, eq=False)
class CandidateScores:
    """−Σ_i clip(ℓ(⟨x_i, θ_k⟩, y_i), 0, ``loss_bound``) for each row θ_k of ``candidates``, up to a common constant."""

    rows: RowSpec
    loss: Loss
    candidates: NDArray[np.float64]
    loss_bound: float

    norm: ClassVar[Norm] = "linf"
    bound: ClassVar[int] = _HALF

    def __post_init__(self) -> None:
        if self.rows.outputs != 1:
            raise InvalidInput("the exponential mechanism over candidates takes models with one score a row.")
        if self.candidates.ndim != 2 or self.candidates.shape[1] != self.rows.dimension or not len(self.candidates):
            raise InvalidInput(
                f"candidates must be a non-empty (number, {self.rows.dimension}) array, got {self.candidates.shape}."
            )
        if not np.isfinite(self.candidates).all():
            raise InvalidInput("candidates must be finite.")
        if not 0 < self.loss_bound < np.inf:
            raise InvalidInput(f"loss_bound must be positive and finite, got {self.loss_bound!r}.")

    @property
    def grid(self) -> float:
        """Value of one step of a score."""
        return self.loss_bound / (2 * self.bound)

    @property
    def shape(self) -> tuple[int, ...]:
        """One score a candidate."""
        return (len(self.candidates),)

    def integers(self, data: Dataset) -> Integers:
        """The exact scores in steps."""

        def block_sum(block: Block) -> Integers:
            total = np.zeros(self.shape, np.int64)
            for losses in self._losses(block, rounded=True):
                steps = np.rint(losses / self.grid)
                total += (self.bound - np.clip(steps, 0, 2 * self.bound)).astype(np.int64).sum(axis=0)
            return total

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """Minus the sums of clipped losses in floating point, without the common constant."""

        def block_sum(block: Block) -> NDArray[np.float64]:
            total = np.zeros(self.shape)
            for losses in self._losses(block, rounded=False):
                total -= losses.sum(axis=0)
            return total

        return np.sum(data.map_blocks(block_sum), axis=0)

    def _losses(self, block: Block, *, rounded: bool) -> Any:
        """Clipped ℓ of each known row under each candidate, a chunk of rows at a time; NaN counts as the bound."""
        candidates, units = self._whole() if rounded else (self.candidates, np.full(self.shape, self.rows.unit))
        for part, rows in chunks(block, rounded=rounded):
            y = block.y[part]
            known = np.isfinite(y)
            scores = np.asarray(rows[known] @ candidates.T) * units
            with np.errstate(over="ignore", invalid="ignore"):  # a target of 1e308 gives inf, which the clip bounds
                losses = np.asarray(self.loss.value(scores, y[known, None]), dtype=np.float64)
            yield np.clip(np.where(np.isnan(losses), self.loss_bound, losses), 0.0, self.loss_bound)

    def _whole(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Candidates in whole steps, and the value of ⟨row, candidate⟩ = 1 for each."""
        steps, units = zip(*(whole_parameter(theta, self.rows.unit) for theta in self.candidates), strict=True)
        return np.array(steps), np.array(units)


@dataclass(frozen=True, eq=False)
class OneScore(CandidateScores):
    """The score of a single parameter, so that its bound is one in ℓ2 as well and Gaussian noise fits it."""

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.candidates) != 1:
            raise InvalidInput(f"one parameter is scored at a time, got {len(self.candidates)}.")
