"""Whitened rows, and rows and targets made from them at a parameter: what intervals are computed from.

Claim: each row is made from one given row and public numbers alone, then clipped to its own row norm and rounded to its
own grid, with its squared length verified in whole numbers (`discreet.queries.mapped`). Whatever a query claims for
every row and every target holds for such rows and targets, and so does its event.

A row is a function of one given row *to the last bit*: given rows are whole, the matrix is rounded to whole steps, and
their product is exact in any order; slopes and curvatures come from compiled code that treats each row by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, DenseBlock
from discreet.errors import InvalidInput
from discreet.losses import Logistic, Loss
from discreet.queries.mapped import RowMap, prepared
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["Role", "Whitening", "WorkingRows", "stretches"]

Array = NDArray[np.float64]
Role = Literal["curvature", "score", "start", "residual", "inside", "root", "target", "slope of p", "bend of p"]


@dataclass(frozen=True, eq=False)
class Whitening(RowMap):
    """z = ``matrix``·x, x a given row with its constant column; longer rows are shortened to the norm of ``rows``.

    Args:
        given: public facts about the given rows.
        rows: public facts about the rows made: no constant column, one feature for each row of the matrix.
        matrix: finite, of shape (features made, given dimension).
    """

    given: RowSpec
    rows: RowSpec
    matrix: Array

    def __post_init__(self) -> None:
        if self.matrix.shape != (self.rows.dimension, self.given.dimension) or self.rows.intercept:
            raise InvalidInput(
                f"a matrix of shape {self.matrix.shape} does not make rows of {self.rows.n_features} features from "
                f"rows of {self.given.dimension}."
            )
        if not np.isfinite(self.matrix).all():
            raise InvalidInput("a whitening matrix must be finite.")

    def _made(self, block: Block, rounded: bool) -> Block:
        values = np.empty((len(block.y), self.rows.dimension))
        for part, products in linear_predictors(block, self.matrix, rounded=rounded):
            values[part] = products
        return prepared(self.rows, values, block.y)


def stretches(block: Block) -> Array:
    """By how much each row was shortened to the row norm: 1 or more; 1 for rows without a bound and rows of zeros."""
    if not block.rows.bounded:
        return np.ones(len(block.y))
    shortened = np.asarray(block.scale, dtype=np.float64) * block.rows.grid
    with np.errstate(divide="ignore", over="ignore"):
        found = np.where(shortened > 0, 1.0 / shortened, 1.0)
    return np.where(np.isfinite(found), np.maximum(found, 1.0), 1.0)


@dataclass(frozen=True, eq=False)
class WorkingRows(RowMap):
    """Whitened rows x, targets y, or both, replaced by what they are at θ.

    With t by how much a row was shortened, z = t·⟨x, θ⟩ its score, a and κ slope and curvature of the loss there, and
    ``most`` the number M that a or κ is measured in:

    - ``"curvature"``: rows √(κ/M)·x, so that M·Σxxᵀ is the Hessian of the weighted loss Σℓ(t⟨x, θ⟩, y)/t²;
    - ``"score"``: rows |a|/(tM)·x, so that M²·Σxxᵀ is Σggᵀ over the gradients g of that loss;
    - ``"start"``: targets −a/t, so that Σy·x is minus its gradient;
    - ``"residual"``: targets a. ``"inside"``: targets √(κ/M). ``"root"``: targets √y of counts, 0 for others.
      ``"target"``: targets y;
    - ``"slope of p"``: targets √(p(1 − p)/M), p = 1/(1 + e^−z); ``"bend of p"``: targets p(1 − p)(1 − 2p). Both are
      functions of the score alone, also for rows whose target is unknown.

    Args:
        whitened: the map of the rows.
        loss: pointwise loss.
        theta: in the coordinates of the whitened rows.
        role: what is made.
        most: M.
    """

    whitened: Whitening
    loss: Loss
    theta: Array
    role: Role
    most: float = 1.0

    def __post_init__(self) -> None:
        if self.theta.shape != self.whitened.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, the whitened rows need {self.whitened.rows.shape}.")
        if self.role in ("slope of p", "bend of p") and not isinstance(self.loss, Logistic):
            raise InvalidInput("p is the probability of a class in logistic regression.")
        if not self.most > 0:
            raise InvalidInput(f"slopes and curvatures are measured in positive units, got {self.most!r}.")

    @property
    def rows(self) -> RowSpec:  # type: ignore[override]
        """Public facts about the rows made: those of the whitened rows."""
        return self.whitened.rows

    def block(self, block: Block, *, rounded: bool) -> Block:
        """The rows that it makes. They are asked for once, so blocks remember the whitened rows alone."""
        return self._made(block, rounded)

    def _made(self, block: Block, rounded: bool) -> Block:
        inner = self.whitened.block(block, rounded=rounded)
        assert isinstance(inner, DenseBlock)
        if self.role == "target":
            return inner
        if self.role == "root":
            y = inner.y
            return replace(inner, y=np.sqrt(np.where(np.isfinite(y) & (y > 0), y, 0.0)))
        stretch = stretches(inner)
        if self.role in ("slope of p", "bend of p"):
            inner = replace(inner, y=np.ones(len(inner.y)))  # of this class the slope is p − 1
        slopes, curvatures = self._state(inner, stretch, rounded)
        match self.role:
            case "slope of p":
                return replace(inner, y=np.sqrt(curvatures / self.most))
            case "bend of p":
                return replace(inner, y=-curvatures * (1 + 2 * slopes))
            case "start":
                return replace(inner, y=-slopes / stretch)
            case "residual":
                return replace(inner, y=slopes)
            case "inside":
                return replace(inner, y=np.sqrt(curvatures / self.most))
        factor = np.sqrt(curvatures / self.most) if self.role == "curvature" else np.abs(slopes) / (stretch * self.most)
        return prepared(self.rows, self._shortened(inner) * factor[:, None], inner.y)

    def _state(self, inner: DenseBlock, stretch: Array, rounded: bool) -> tuple[Array, Array]:
        from discreet.queries.kernels.weighted_rows import slopes_and_curvatures

        z, slopes, curvatures = np.empty(len(inner.y)), np.empty(len(inner.y)), np.empty(len(inner.y))
        for part, predictors in linear_predictors(inner, self.theta, rounded=rounded):
            z[part] = predictors * stretch[part]
        loss = (self.loss.kind, self.loss.parameter, self.loss.smoothing)
        slopes_and_curvatures(z, inner.y, loss, slopes, curvatures)
        return slopes, curvatures

    def _shortened(self, inner: DenseBlock) -> Array:
        """The whitened rows, shortened; entries that are not finite count as 0."""
        if not inner.rows.bounded:
            return np.asarray(inner.X, dtype=np.float64)
        return np.asarray(inner.X * (inner.scale * inner.rows.grid)[:, None], dtype=np.float64)
