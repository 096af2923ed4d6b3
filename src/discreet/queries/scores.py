"""How much each vertex of a set would lower the risk: the scores among which private Frank–Wolfe chooses.

Claim: a row's gradient slope·x is held, in integers, to at most `Atoms.row_bound` steps in *every coordinate*, for
every row content whatever. Scores are integer combinations of the summed gradient, so one row more or less moves each
score by at most ``bound`` steps, up for some vertices and down for others; one row replaced moves it by at most twice
that. Where θ stands is a function of the vertices chosen before, which are public.
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
from discreet.queries.atoms import MOST_STEPS, Atoms
from discreet.queries.base import Integers, Norm
from discreet.queries.gradient import block_gradient
from discreet.rows import RowSpec

__all__ = ["ScoreSum", "Walk"]


class Walk:
    """The vertices chosen so far, in order. Public, and only ever extended."""

    def __init__(self) -> None:
        self.chosen: list[int] = []

    def go(self, vertex: int) -> None:
        """Take one more step, towards this vertex."""
        if len(self.chosen) >= MOST_STEPS:
            raise InvalidInput(f"a walk has at most {MOST_STEPS} steps, so that its weights stay exact.")
        self.chosen.append(int(vertex))

    def __len__(self) -> int:
        return len(self.chosen)


@dataclass(frozen=True, eq=False)
class ScoreSum:
    """−⟨v, Σ_i clip(slope(z_i, y_i)·x_i)⟩ for every vertex v, at the place that the walk has reached.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss.
        atoms: the vertices.
        walk: the vertices chosen so far.
        clip: ℓ∞ bound on a row's gradient, enforced by shortening its slope.
    """

    rows: RowSpec
    loss: Loss
    atoms: Atoms
    walk: Walk
    clip: float
    taken: int = field(init=False)

    norm: ClassVar[Norm] = "linf"

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise InvalidInput(f"the gradient clip must be positive, got {self.clip!r}.")
        if self.atoms.d != math.prod(self.rows.shape):
            raise InvalidInput(f"the vertices have {self.atoms.d} coordinates, the parameter {self.rows.shape}.")
        object.__setattr__(self, "taken", len(self.walk))

    @property
    def bound(self) -> int:
        """The most by which one row moves a score, in steps."""
        return self.atoms.bound

    @property
    def gradient_grid(self) -> float:
        """Value of one gradient step."""
        return self.clip / self.atoms.row_bound

    @property
    def grid(self) -> float:
        """Value of one score step."""
        return self.gradient_grid * self.atoms.score_unit

    @property
    def shape(self) -> tuple[int, ...]:
        """One score a vertex."""
        return (self.atoms.count,)

    @property
    def slope_steps(self) -> float:
        """Slope 1 in integer steps, where slope steps times row steps are gradient steps."""
        return self.rows.unit / self.gradient_grid

    def require_bounds(self) -> None:
        """Refuse to speak of privacy where rows or gradients are unbounded."""
        if not self.rows.bounded or not math.isfinite(self.clip):
            raise InvalidInput("private scores need a finite row_norm and a finite clip.")

    def integers(self, data: Dataset) -> Integers:
        """The exact scores in grid steps."""
        self.require_bounds()
        theta, step = self.atoms.point(self.walk.chosen[: self.taken])
        theta = theta.reshape(self.rows.shape)

        def block_sum(block: Block) -> Integers:
            cap = _caps(block, self.atoms.row_bound, rounded=True)
            return block_gradient(block, self.loss, theta, self.rows.unit * step, cap, self.slope_steps, rounded=True)

        return -self.atoms.scores(data.map_sum(block_sum, self.rows.shape).ravel())

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The same scores in floating point, rows and gradients clipped where a bound is given."""
        theta, step = self.atoms.point(self.walk.chosen[: self.taken])
        theta = (theta * step).reshape(self.rows.shape)
        unit = self.rows.unit

        def block_sum(block: Block) -> NDArray[np.float64]:
            cap = np.full(len(block.y), np.inf)
            if self.rows.bounded and math.isfinite(self.clip):
                cap = _caps(block, self.clip / unit, rounded=False)
            return block_gradient(block, self.loss, theta, unit, cap, 1.0, rounded=False)

        gradient = unit * np.sum(data.map_blocks(block_sum), axis=0)
        return -np.asarray(self.atoms.domain.scores(gradient.ravel()))


def _caps(block: Block, bound: float, *, rounded: bool) -> NDArray[np.float64]:
    """For each row the largest slope a with |a·x_j| ≤ bound in every column j, a whole number if ``rounded``."""
    from discreet.queries import score_kernels

    largest = np.empty(len(block.y))
    constant = block.rows.constant
    if isinstance(block, DenseBlock):
        score_kernels.largest_dense(block.X, block.scale, constant, rounded, largest)
    else:
        score_kernels.largest_sparse(block.values, block.indptr, block.scale, constant, rounded, largest)
    return score_kernels.caps(largest, bound, rounded)
