"""How much two columns tell together beyond what each tells alone, and how much one tells at a finer resolution.

The score of a pair is the ℓ1 norm of the residuals of a public model, summed over rows in each cell of a table of the
two columns, less what rows and columns of the table have in common:

    x_ij = R_ij − p_i·R_·j − q_j·R_i· + p_i·q_j·R_··,      score = m·Σ_ij |x_ij| − floor, or 0 where that is negative,

R_ij the sum of clipped residuals in cell (i, j), p and q public shares of the two columns' cells, and m, floor ≥ 0
public numbers. Without an interaction, and with p and q the columns' distributions, x_ij has mean 0. The score of a
column at a finer resolution is that of differences between neighbouring cells, x_i = s_i1·R_i0 − s_i0·R_i1, s_i0 and
s_i1 public shares of the two cells among the rows in both: what both have in common, the model has seen already.

Claim: residuals are clipped and rounded to at most 2^12 whole steps, and p_i = P_i/256 with whole P_i ≥ 0, Σ P_i = 256
(Q_j alike). A row in cell (k, l) moves 256²·x_ij by r·(256·δ_ik − P_i)·(256·δ_jl − Q_j), |r| ≤ 2^12, hence the ℓ1 norm
by at most 2^12·2(256 − P_k)·2(256 − Q_l). The multiplier m = ⌊2^20/((256 − min P)·(256 − min Q))⌋ brings this to
2^12·4·2^20 at most, the same for every pair, and taking the norm, subtracting the floor and cutting at 0 lengthen no
difference. Of a finer resolution a row in cell (k, 0) moves 256·x_k by r·S_k1, and m = ⌊2^22/max S⌋ brings this to the
same bound. So one row more or less moves every score by at most 2^34 steps, up for some and down for others, and one
row replaced by at most twice that. The score of *none*, the last one, is a public constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.histograms.column_counts import ColumnCells
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["SHARES", "FineTable", "InteractionScores", "PairTable", "whole_shares"]

SHARES = 256
"""The whole shares of a column's cells add up to this."""
_RESIDUAL = 2**12  # steps in the clip
_LIFT = 2**20


def whole_shares(counts: NDArray[np.float64]) -> tuple[int, ...]:
    """Whole numbers near the shares of released counts, none negative, whose sum is 256: by largest remainders.

    Example:
        >>> whole_shares(np.array([2.0, 1.0, 1.0, -0.3]))
        (128, 64, 64, 0)
    """
    positive = np.maximum(np.nan_to_num(counts), 0.0)
    total = positive.sum()
    exact = SHARES * (positive / total if total > 0 else np.full(len(counts), 1 / len(counts)))
    whole = np.floor(exact).astype(np.int64)
    most = np.argsort(-(exact - whole), kind="stable")[: SHARES - int(whole.sum())]
    whole[most] += 1
    return tuple(whole.tolist())


@dataclass(frozen=True)
class PairTable:
    """A pair of columns, and what is public about the table of their cells.

    Args:
        left: position of the one column.
        right: position of the other.
        left_shares: whole shares of its cells, see `whole_shares`.
        right_shares: of the other's.
        floor: subtracted from the score, in units of the clip times a row.
    """

    left: int
    right: int
    left_shares: tuple[int, ...]
    right_shares: tuple[int, ...]
    floor: float

    def __post_init__(self) -> None:
        for shares in (self.left_shares, self.right_shares):
            if min(shares) < 0 or sum(shares) != SHARES:
                raise InvalidInput(f"shares of cells are not negative and add up to {SHARES}, got {shares}.")
        if not 0 <= self.floor < math.inf:
            raise InvalidInput(f"a floor must be finite and not negative, got {self.floor!r}.")

    @property
    def multiplier(self) -> int:
        """m above."""
        most = (SHARES - min(self.left_shares)) * (SHARES - min(self.right_shares))
        return _LIFT // max(1, most)

    @property
    def unit(self) -> float:
        """What a norm of x of one clip is in units of the largest move of one row."""
        return self.multiplier * SHARES**2 / (4 * _LIFT)

    @property
    def size(self) -> int:
        """How many cells the table has."""
        return len(self.left_shares) * len(self.right_shares)

    def cell(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """The cell of each row, from those of its columns (columns × rows)."""
        found: NDArray[np.int32] = codes[self.left] * np.int32(len(self.right_shares)) + codes[self.right]
        return found

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether there is a share of each cell of columns of these sizes."""
        return (len(self.left_shares), len(self.right_shares)) == (sizes[self.left], sizes[self.right])

    def norm(self, sums: Integers) -> int:
        """256²·‖x‖₁ of the sums in all cells."""
        p, q = np.array(self.left_shares), np.array(self.right_shares)
        one, other = (SHARES * np.eye(len(shares), dtype=np.int64) - shares[:, None] for shares in (p, q))
        return int(np.abs(one @ sums.reshape(len(p), len(q)) @ other.T).sum())


@dataclass(frozen=True)
class FineTable:
    """A column in pairs of neighbouring cells, and what is public about them.

    Args:
        column: its position among the columns whose cells are found, where it has these cells.
        shares: for each pair of cells the whole shares of the two, see `whole_shares`.
        floor: subtracted from the score, in units of the clip times a row.
    """

    column: int
    shares: tuple[tuple[int, int], ...]
    floor: float

    def __post_init__(self) -> None:
        if any(min(pair) < 0 or sum(pair) != SHARES for pair in self.shares):
            raise InvalidInput(f"shares of two cells are not negative and add up to {SHARES}, got {self.shares}.")
        if not 0 <= self.floor < math.inf:
            raise InvalidInput(f"a floor must be finite and not negative, got {self.floor!r}.")

    @property
    def multiplier(self) -> int:
        """m above."""
        return 4 * _LIFT // max(max(pair) for pair in self.shares)

    @property
    def unit(self) -> float:
        """What a norm of x of one clip is in units of the largest move of one row."""
        return self.multiplier * SHARES / (4 * _LIFT)

    @property
    def size(self) -> int:
        """How many cells there are."""
        return 2 * len(self.shares)

    def cell(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """The cell of each row, from those of its columns (columns × rows)."""
        return codes[self.column]

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether there is a share of each cell of columns of these sizes."""
        return sizes[self.column] == self.size

    def norm(self, sums: Integers) -> int:
        """256·‖x‖₁ of the sums in all cells."""
        pairs, shares = sums.reshape(-1, 2), np.array(self.shares, dtype=np.int64)
        return int(np.abs(pairs[:, 0] * shares[:, 1] - pairs[:, 1] * shares[:, 0]).sum())


@dataclass(frozen=True, eq=False)
class InteractionScores:
    """The score of each table, and last that of none; in units of the most by which one row moves a score.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss; minus its slope is the residual.
        theta: a public model, one output.
        clip: bound on a residual.
        cells: the cells of each column.
        tables: the pairs, and the columns at a finer resolution.
        none: the score of none of them.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    clip: float
    cells: ColumnCells
    tables: tuple[PairTable | FineTable, ...]
    none: float

    norm: ClassVar[Norm] = "linf"
    bound: ClassVar[int] = 4 * _LIFT * _RESIDUAL
    grid: ClassVar[float] = 1.0 / (4 * _LIFT * _RESIDUAL)

    def __post_init__(self) -> None:
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(f"residuals are of one output: θ has shape {self.theta.shape}.")
        if not 0 < self.clip < math.inf:
            raise InvalidInput(f"the bound on residuals must be positive and finite, got {self.clip!r}.")
        if not all(table.fits(self.cells.sizes) for table in self.tables):
            raise InvalidInput("a table needs a share of each of its cells.")

    @property
    def shape(self) -> tuple[int, ...]:
        """One score a table, and one of none."""
        return (len(self.tables) + 1,)

    def integers(self, data: Dataset) -> Integers:
        """The exact scores in steps."""
        if not self.rows.bounded:
            raise InvalidInput("private scores need rows of bounded length.")
        sums = data.map_sum(lambda block: self._sums(block, rounded=True), (sum(self._sizes),))
        scores = [self._score(table, part) for table, part in zip(self.tables, self._parts(sums), strict=True)]
        none = int(min(max(self.none, 0.0), 2.0**27) * self.bound)
        return np.array([*scores, none], dtype=np.int64)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The scores, by the same rounding of residuals, which costs less than a thousandth of them."""
        sums = np.sum(data.map_blocks(lambda block: self._sums(block, rounded=False)), axis=0)
        scores = [self._score(table, part) for table, part in zip(self.tables, self._parts(sums), strict=True)]
        return np.array([*(score * self.grid for score in scores), self.none])

    @property
    def _sizes(self) -> list[int]:
        return [table.size for table in self.tables]

    def _parts(self, sums: Integers) -> list[Integers]:
        return np.split(sums, np.cumsum(self._sizes)[:-1])

    def _score(self, table: PairTable | FineTable, sums: Integers) -> int:
        """m·‖x‖₁ less the floor, in steps; exact in int64 for up to 2^27 rows."""
        floor = int(min(table.floor * table.unit, 2.0**27) * self.bound)
        return max(0, table.multiplier * table.norm(sums) - floor)

    def _sums(self, block: Block, *, rounded: bool) -> Integers:
        """The residuals, in whole steps, summed in the cells of every table."""
        residuals = np.zeros(len(block.y))
        for part, z in linear_predictors(block, self.theta, rounded=rounded):
            with np.errstate(all="ignore"):
                residuals[part] = -np.asarray(self.loss.slope(z, block.y[part]), dtype=np.float64) / self.clip
        steps = np.rint(np.clip(np.nan_to_num(residuals), -1.0, 1.0) * _RESIDUAL)
        codes, found = self.cells.codes(block), []
        for table, size in zip(self.tables, self._sizes, strict=True):
            found.append(
                np.bincount(table.cell(codes), weights=steps, minlength=size)
            )  # whole numbers below 2^53: exact
        return np.concatenate(found).astype(np.int64)
