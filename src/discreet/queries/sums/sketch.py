"""A public random sketch of sparse rows, and their sum under it.

`GaussianSketch` is a Gaussian matrix, about which there is a theorem. For sizes at which that does not fit into memory
there is `Sketch`, a hashed one, about which there is none: A has ``blocks`` blocks of ``width`` rows; in each block
every column holds one ±1, at a place and with a sign that are hashed from a public seed whenever they are needed, so A
is never stored. In expectation ‖Ax‖² = blocks·‖x‖².

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
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.sparse_sum import check_sparsity, kept_entries
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["Sketch", "SketchedSum"]


@dataclass(frozen=True)
class Sketch:
    """The linear map A/√blocks from ``d`` to blocks × width dimensions, with columns of length 1.

    Each column has ``blocks`` entries: with one, columns that collide would be lost, and time grows with their number.
    """

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
    def column_length(self) -> float:
        """√blocks, which the matrix is divided by."""
        return math.sqrt(self.blocks)

    @property
    def stretch(self) -> float:
        """By two standard deviations of ‖Ax‖², so that few rows are cut."""
        return math.sqrt(1 + 2 * math.sqrt(2 / self.width))

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

    def add_rows(
        self, steps: Any, indices: Any, edges: Any, most_squared: float, rounded: bool, total: NDArray[np.float64]
    ) -> None:
        """Add each row's sketch, cut to a squared length in whole steps, to ``total``."""
        from discreet.queries.kernels.sketch import sketch_rows

        sketch_rows(steps, indices, edges, *self.facts, most_squared, rounded, total)


@dataclass(frozen=True)
class SketchedSum(ExactSum):
    """Σ_i of the rows' sketches, each row trimmed to ``sparsity`` entries and its sketch cut to a public length."""

    rows: RowSpec
    sparsity: int
    sketch: Sketch | GaussianSketch

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        check_sparsity(self.rows, self.sparsity)
        if self.sketch.d != self.rows.n_features:
            raise InvalidInput(f"the sketch is of {self.sketch.d} features, the rows have {self.rows.n_features}.")

    @property
    def bound(self) -> int:
        """The length of a column times 2^ROW_BITS, and as much more as the sketch says, so that few rows are cut."""
        return math.ceil(self.sketch.column_length * self.sketch.stretch * 2**ROW_BITS)

    @property
    def grid(self) -> float:
        """Value of one step, for columns of length 1."""
        return self.rows.unit / self.sketch.column_length

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a row of the sketch."""
        return (self.sketch.rows,)

    def _block(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """The sum of the sketches of a block: 2^27 rows of up to 2^26 steps stay within 2^53."""
        most = float(self.bound) ** 2 if self.rows.bounded else math.inf
        total = np.zeros(self.shape)
        indices, steps, edges = kept_entries(block, self.sparsity, rounded=rounded)
        self.sketch.add_rows(steps, indices, edges, most, rounded, total)
        return slice(None), total
