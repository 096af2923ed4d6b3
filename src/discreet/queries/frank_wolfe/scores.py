"""Scores of the vertices of a set, among which private Frank–Wolfe chooses: minus ⟨vertex, gradient of the risk⟩.

Claim: a row's gradient slope·x is held, in integers, to at most `Vertices.row_bound` steps in *every coordinate*, for
every row content whatever. Scores are integer combinations of the summed gradient, so one row more or less moves each
score by at most ``bound`` steps, up for some vertices and down for others; one row replaced moves it by at most twice
that. The iterate θ is a function of the vertices chosen before, which are public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.frank_wolfe.vertices import MOST_STEPS, Vertices
from discreet.queries.sums.gradient import block_gradient
from discreet.rows import RowSpec

__all__ = ["ChosenVertices", "VertexScores"]


class ChosenVertices:
    """Indices of the vertices that Frank–Wolfe has chosen so far, in order. Public, and only ever extended."""

    def __init__(self) -> None:
        self.indices: list[int] = []

    def append(self, vertex: int) -> None:
        """Take one more step, towards this vertex."""
        if len(self.indices) >= MOST_STEPS:
            raise InvalidInput(f"Frank–Wolfe takes at most {MOST_STEPS} steps, so that its weights stay exact.")
        self.indices.append(int(vertex))

    def __len__(self) -> int:
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class VertexScores:
    """−⟨v, Σ_i clip(slope(z_i, y_i)·x_i)⟩ for every vertex v, at the iterate that the chosen vertices lead to.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss.
        vertices: the vertices of the set, in whole numbers.
        chosen: the vertices chosen so far; those appended later do not change this query.
        clip: ℓ∞ bound on a row's gradient, enforced by shortening its slope.
    """

    rows: RowSpec
    loss: Loss
    vertices: Vertices
    chosen: ChosenVertices
    clip: float
    taken: int = field(init=False)

    norm: ClassVar[Norm] = "linf"

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise InvalidInput(f"the gradient clip must be positive, got {self.clip!r}.")
        if self.vertices.d != math.prod(self.rows.shape):
            raise InvalidInput(f"the vertices have {self.vertices.d} coordinates, the parameter {self.rows.shape}.")
        object.__setattr__(self, "taken", len(self.chosen))

    @property
    def bound(self) -> int:
        """The most by which one row moves a score, in steps."""
        return self.vertices.bound

    @property
    def gradient_grid(self) -> float:
        """Value of one gradient step."""
        return self.clip / self.vertices.row_bound

    @property
    def grid(self) -> float:
        """Value of one score step."""
        return self.gradient_grid * self.vertices.score_unit

    @property
    def shape(self) -> tuple[int, ...]:
        """One score a vertex."""
        return (self.vertices.count,)

    @property
    def slope_steps(self) -> float:
        """Slope 1 in integer steps, where slope steps times row steps are gradient steps."""
        return self.rows.unit / self.gradient_grid

    def require_bounds(self) -> None:
        """Refuse rows or gradients without a bound, for which no score has a sensitivity."""
        if not self.rows.bounded or not math.isfinite(self.clip):
            raise InvalidInput("private scores need a finite row_norm and a finite clip.")

    def integers(self, data: Dataset) -> Integers:
        """The exact scores in grid steps."""
        self.require_bounds()
        theta, step = self.vertices.point(self.chosen.indices[: self.taken])
        theta = theta.reshape(self.rows.shape)

        def block_sum(block: Block) -> Integers:
            cap = _caps(block, self.vertices.row_bound, rounded=True)
            return block_gradient(block, self.loss, theta, self.rows.unit * step, cap, self.slope_steps, rounded=True)

        return -self.vertices.scores(data.map_sum(block_sum, self.rows.shape).ravel())

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The scores in floating point, rows and gradients clipped where a bound is given."""
        theta, step = self.vertices.point(self.chosen.indices[: self.taken])
        theta = (theta * step).reshape(self.rows.shape)
        unit = self.rows.unit

        def block_sum(block: Block) -> NDArray[np.float64]:
            cap = np.full(len(block.y), np.inf)
            if self.rows.bounded and math.isfinite(self.clip):
                cap = _caps(block, self.clip / unit, rounded=False)
            return block_gradient(block, self.loss, theta, unit, cap, 1.0, rounded=False)

        gradient = unit * np.sum(data.map_blocks(block_sum), axis=0)
        return -np.asarray(self.vertices.domain.scores(gradient.ravel()))


def _caps(block: Block, bound: float, *, rounded: bool) -> NDArray[np.float64]:
    """For each row the largest slope a with |a·x_j| ≤ bound in every column j, a whole number if ``rounded``."""
    from discreet.queries.kernels import slope_caps

    largest = np.empty(len(block.y))
    constant = block.rows.constant
    if isinstance(block, DenseBlock):
        slope_caps.largest_dense(block.X, block.scale, constant, rounded, largest)
    else:
        slope_caps.largest_sparse(block.values, block.indptr, block.scale, constant, rounded, largest)
    return slope_caps.entry_caps(largest, bound, rounded)
