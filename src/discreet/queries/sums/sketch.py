"""A public random sketch of sparse rows, and their sum under it.

The sketch A has ``blocks`` blocks of ``width`` rows; in each block every column holds one ±1, at a place and with a
sign that are hashed from a public seed whenever they are needed, so A is never stored. In expectation
‖Ax‖² = blocks·‖x‖².

Claim: each row's sketch is cut to ℓ2 length ≤ `SketchedSum.bound` in whole steps, checked in whole numbers. The bound
therefore holds for every row and every seed: privacy never depends on the sketch being lucky.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block
from discreet.errors import InvalidInput
from discreet.queries.base import Norm
from discreet.queries.sums.base import ExactSum
from discreet.queries.sums.sparse_sum import check_sparsity, kept_entries
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["Sketch", "SketchedSum"]


@dataclass(frozen=True)
class Sketch:
    """The linear map A/√blocks from ``d`` to blocks × width dimensions, with columns of length 1."""

    d: int
    width: int
    blocks: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if not (1 <= self.width < 2**31 and 1 <= self.blocks <= 64 and self.d >= 1):
            raise InvalidInput(f"a sketch needs 1 ≤ blocks ≤ 64 and 1 ≤ width < 2^31, got {self}.")

    @property
    def rows(self) -> int:
        """The dimension of a row's sketch: blocks × width."""
        return self.blocks * self.width

    @property
    def facts(self) -> tuple[np.uint64, int, int]:
        """(seed, blocks, width), as the compiled loops take them."""
        return np.uint64(self.seed % 2**64), self.blocks, self.width

    def apply(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """A x/√blocks, in O(blocks × non-zeros)."""
        from discreet.queries.kernels.sketch import apply

        out = np.zeros(self.rows)
        apply(x, *self.facts, out)
        return out / math.sqrt(self.blocks)

    def adjoint(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ y/√blocks, in O(blocks × d)."""
        from discreet.queries.kernels.sketch import apply_adjoint

        out = np.empty(self.d)
        apply_adjoint(y / math.sqrt(self.blocks), *self.facts, out)
        return out

    def squared_norm(self) -> float:
        """A bound on ‖A/√blocks‖²: within a block the rows are orthogonal, and as long as their number of columns."""
        from discreet.queries.kernels.sketch import bucket_loads

        loads = np.zeros(self.rows, np.int64)
        bucket_loads(self.d, *self.facts, loads)
        return float(loads.reshape(self.blocks, self.width).max(axis=1).sum()) / self.blocks


@dataclass(frozen=True)
class SketchedSum(ExactSum):
    """Σ_i of the rows' sketches, each row trimmed to ``sparsity`` entries and its sketch cut to a public length."""

    rows: RowSpec
    sparsity: int
    sketch: Sketch

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        check_sparsity(self.rows, self.sparsity)
        if self.sketch.d != self.rows.n_features:
            raise InvalidInput(f"the sketch is of {self.sketch.d} features, the rows have {self.rows.n_features}.")

    @property
    def bound(self) -> int:
        """√blocks·2^ROW_BITS, and two standard deviations of ‖Ax‖² more, so that few rows are cut."""
        slack = 1 + 2 * math.sqrt(2 / self.sketch.width)
        return math.ceil(math.sqrt(self.sketch.blocks * slack) * 2**ROW_BITS)

    @property
    def grid(self) -> float:
        """Value of one step, for columns of length 1."""
        return self.rows.unit / math.sqrt(self.sketch.blocks)

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a row of the sketch."""
        return (self.sketch.rows,)

    def _block(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """The sum of the sketches of a block: 2^27 rows of up to 2^22 steps stay below 2^53."""
        from discreet.queries.kernels.sketch import sketch_rows

        most = float(self.bound) ** 2 if self.rows.bounded else math.inf
        total = np.zeros(self.shape)
        indices, steps, edges = kept_entries(block, self.sparsity, rounded=rounded)
        sketch_rows(steps, indices, edges, *self.sketch.facts, most, rounded, total)
        return slice(None), total
