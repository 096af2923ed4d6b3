"""The clipped gradient sum over rows that are centred and scaled column by column, without ever making such a row.

Claim: with public whole weights W_j from 1 to 64 and a public whole centre c at most 2^ROW_BITS steps long, each row x
stands for the whole row m = W∘(x − c), its constant column k for W_d·k, and contributes a ⊗ m with whole slopes a. Its
squared length ‖m‖² is computed exactly, and ‖a‖²·‖m‖² ≤ 4^(ROW_BITS + SLOPE_BITS) holds in whole numbers, for every row
content whatever. One row more or less moves the sum by at most 2^(ROW_BITS + SLOPE_BITS); one replaced by twice that.

Σ a ⊗ W∘(x − c) = W∘(Σ a ⊗ x − (Σ a) ⊗ c): the sums on the right are those of the given rows, so that sparse rows stay
sparse and one pass costs what it costs without weights and centre.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.data.slope_sums import SlopeCaps, SlopeSum
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers
from discreet.queries.parameters import whole_parameter
from discreet.queries.sums.gradient import SLOPE_BITS, ClippedGradient, block_gradient
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["LARGEST_WEIGHT", "ScaledGradientSum", "Scaling"]

LARGEST_WEIGHT = 64
"""‖m‖² ≤ 64²·(2·2^ROW_BITS)² + 64²·4^ROW_BITS < 2^51: exact in float64, in any order."""
_LARGEST_SLOPE = 2.0 ** (SLOPE_BITS + 1)
"""m may be far shorter than x, so slopes have a bound of their own: |a·x| ≤ 2^35, and 2^18 such products are exact."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """Column weights and a centre, on the grid. Equal only to itself, so that blocks remember their rows' lengths.

    Args:
        rows: public facts about the given rows.
        weights: whole numbers from 1 to `LARGEST_WEIGHT`, one a column, the constant one last if there is one.
        centre: whole numbers of row steps, one a feature; all 0 where rows have no constant column.
    """

    rows: RowSpec
    weights: Integers
    centre: Integers

    def __post_init__(self) -> None:
        rows = self.rows
        if self.weights.shape != (rows.dimension,) or self.weights.dtype != np.int64:
            raise InvalidInput(f"weights must be {rows.dimension} whole numbers, one a column.")
        if not ((self.weights >= 1) & (self.weights <= LARGEST_WEIGHT)).all():
            raise InvalidInput(f"weights must lie between 1 and {LARGEST_WEIGHT}.")
        if self.centre.shape != (rows.n_features,) or self.centre.dtype != np.int64:
            raise InvalidInput(f"the centre must be {rows.n_features} whole numbers, one a feature.")
        if sum(int(c) ** 2 for c in self.centre) > 4**ROW_BITS:
            raise InvalidInput("the centre is longer than a row can be.")
        if self.centre.any() and not rows.constant:
            raise InvalidInput("rows without a constant column cannot be centred; fit an intercept.")

    def scores(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """The parameter whose scores on the given rows are those of θ on the rows they stand for."""
        d = self.rows.n_features
        with np.errstate(all="ignore"):  # θ beyond all floats is cut by `whole_parameter`
            given = np.asarray(theta * self.weights)
            if d < self.rows.dimension:
                given[..., d] -= given[..., :d] @ self.centre.astype(np.float64) / self.rows.constant
        return given

    def of_sum(self, total: NDArray[Any]) -> NDArray[Any]:
        """Σ a ⊗ m from Σ a ⊗ x. Whole numbers may wrap around on the way: the result fits."""
        d = self.rows.n_features
        kind = total.dtype
        if d < self.rows.dimension and self.centre.any():
            constant = self.rows.constant
            slopes = total[..., d:] / constant if kind == np.float64 else total[..., d:] // int(constant)
            total = np.concatenate([total[..., :d] - slopes * self.centre.astype(kind), total[..., d:]], axis=-1)
        return np.asarray(total * self.weights.astype(kind))

    def squared_lengths(self, block: Block, *, rounded: bool) -> NDArray[np.float64]:
        """‖m‖² of every row, in steps: exact where rows are whole."""
        return block.per_row((self, rounded), lambda whole: self._lengths(whole, rounded))

    def _lengths(self, block: Block, rounded: bool) -> NDArray[np.float64]:
        from discreet.data.entries import entries, mostly_zero
        from discreet.queries.kernels.scaled_lengths import dense_lengths, sparse_lengths

        facts = self.length_facts()
        out = np.empty(len(block.y))
        if isinstance(block, DenseBlock) and not mostly_zero(block):
            dense_lengths(block.X, block.scale, rounded, *facts, out)
        else:
            sparse_lengths(*entries(block, rounded=rounded), *facts, out)
        return out

    def length_facts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Squared weights of the features, their centre, and what the constant column adds to ‖m‖²."""
        d = self.rows.n_features
        squares = self.weights.astype(np.float64) ** 2
        return squares[:d], self.centre.astype(np.float64), float(squares[d:].sum()) * self.rows.constant**2


@dataclass(frozen=True, eq=False)
class ScaledGradientSum(ClippedGradient):
    """Σ_i clip(slope(⟨m_i, θ⟩, y_i) ⊗ m_i, ``clip``) over the rows m that `Scaling` makes of the given ones.

    Args:
        scaling: weights and centre.
        loss: pointwise loss.
        theta: where the gradient is taken, of shape ``rows.shape``.
        clip: ℓ2 bound on a row's gradient.
    """

    scaling: Scaling
    loss: Loss
    theta: NDArray[np.float64]
    clip: float

    rows: RowSpec = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.scaling.rows)
        super().__post_init__()

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        self._slope_steps()  # refuses what has no bound
        blocks = _ScaledBlocks(self)
        return self.scaling.of_sum(data.map_sum(blocks if self.rows.outputs == 1 else blocks.__call__, self.shape))

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The gradient sum over centred and scaled rows in floating point."""
        unit, theta = self.rows.unit, self.scaling.scores(self.theta)

        def block_sum(block: Block) -> NDArray[np.float64]:
            lengths = np.sqrt(self.scaling.squared_lengths(block, rounded=False))
            cap = self.clip / (unit * np.maximum(lengths, 1e-300))
            return block_gradient(block, self.loss, theta, unit, cap, 1.0, rounded=False)

        return unit * self.scaling.of_sum(np.sum(data.map_blocks(block_sum), axis=0))


@dataclass(frozen=True, eq=False)
class _ScaledBlocks(SlopeSum):
    """The sums of a `ScaledGradientSum`, for backends that compute them in their own way."""

    query: ScaledGradientSum

    @property
    def loss(self) -> Loss:
        """The query's loss."""
        return self.query.loss

    @property
    def steps(self) -> float:
        """A slope of 1 in whole steps."""
        return self.query._slope_steps()

    def parameter(self) -> tuple[NDArray[np.float64], float]:
        """The parameter of the given rows in whole steps, and the unit of scores."""
        return whole_parameter(self.query.scaling.scores(self.query.theta), self.query.rows.unit)

    def caps(self) -> SlopeCaps:
        """Slopes with which the rows that the given ones stand for keep the bound."""
        scaling = self.query.scaling
        return SlopeCaps(scaling, self.query.bound, _LARGEST_SLOPE, *scaling.length_facts())

    def __call__(self, block: Block) -> Integers:
        """The sum of a block."""
        from discreet.queries.kernels.slope_caps import whole_slope_caps

        squared = self.query.scaling.squared_lengths(block, rounded=True).astype(np.int64)
        cap = np.minimum(whole_slope_caps(squared, self.query.bound), _LARGEST_SLOPE)
        return block_gradient(block, self.loss, *self.parameter(), cap, self.steps, rounded=True)
