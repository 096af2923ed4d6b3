"""Rows whose entries are moved by a public centre and shrunk one by one, dense or sparse.

Claim: every entry becomes shrink(x_j − c_j), a function of the entry and of public numbers alone, of size at most the
bound, and in whole steps at most 2^`ENTRY_BITS` of them. Entries that are not finite become 0.
Rows are taken as they were given, not as an ℓ2 clip would scale them.

A sparse row is held as the row of zeros, moved and shrunk, and the differences of its stored entries from that: at most
2^(`ENTRY_BITS` + 1) steps each, so ⟨x, θ⟩ of a whole θ with ‖θ‖₁ ≤ 2^37 and sums with weights of at most 2^16 steps
are exact in float64, in any order of summation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.base import Block, DenseBlock
from discreet.rows import RowSpec

__all__ = ["ENTRY_BITS", "Shrinkage", "ShrunkenRows"]

ENTRY_BITS = 15
_CHUNK = 1 << 16  # entries in a dense chunk


@dataclass(frozen=True, eq=False)
class ShrunkenRows:
    """Some rows: a matrix, and a row that is added to each of its rows (None: nothing)."""

    matrix: Any
    common: NDArray[np.float64] | None = None

    def scores(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """⟨x, θ⟩ of each row."""
        found = np.asarray(self.matrix @ theta)
        return found if self.common is None else found + self.common @ theta

    def weighted_sum(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Σ_i weight_i·x_i."""
        found = np.asarray(self.matrix.T @ weights)
        return found if self.common is None else found + self.common * weights.sum()


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """x_j ↦ min(max(x_j − c_j, −bound), bound).

    Args:
        rows: public facts about the rows; their ℓ2 norm is not used.
        bound: largest size of an entry; inf shrinks nothing.
        centre: c, one entry a column, the constant one left out; None for 0.
        constant: value of the constant column, shrunk to the bound too; 0 for none.
        again: whether rows will be asked for more than once, so that their whole entries are kept.
    """

    rows: RowSpec
    bound: float
    centre: NDArray[np.float64] | None = None
    constant: float = 0.0
    again: bool = False

    @property
    def unit(self) -> float:
        """Value of one whole step."""
        return self.bound / 2.0**ENTRY_BITS

    def chunks(self, block: Block, *, whole: bool) -> Iterator[tuple[slice, ShrunkenRows]]:
        """(rows, their shrunken entries), with ``whole`` in whole steps of `unit`."""
        d, dense = self.rows.n_features + (self.constant > 0), isinstance(block, DenseBlock)
        size = max(1, _CHUNK // max(1, d)) if dense else 1 << 13
        zeros = None if dense or self.centre is None else self._shrunken(-self.centre, whole)
        common = zeros if zeros is None or not self.constant else np.append(zeros, 0.0)
        for low in range(0, len(block.y), size):
            part = slice(low, min(low + size, len(block.y)))
            matrix = self._dense(block, part, whole) if dense else self._sparse(block, part, whole, zeros)
            if self.constant:
                constant = self._shrunken(np.full((part.stop - part.start, 1), self.constant), whole)
                matrix = np.hstack([matrix, constant]) if dense else sp.hstack([matrix, constant], "csr")
            yield part, ShrunkenRows(matrix, common)

    def _dense(self, block: Any, part: slice, whole: bool) -> NDArray[np.float64]:
        if whole and self.again:
            return self._whole(block)[part].astype(np.float64)
        return self._moved(block.X[part], None, whole)

    def _sparse(self, block: Any, part: slice, whole: bool, zeros: NDArray[np.float64] | None) -> sp.csr_array:
        edges = block.indptr[part.start : part.stop + 1]
        within = slice(edges[0], edges[-1])
        columns = block.indices[within]
        values = self._moved(block.values[within], columns, whole)
        if zeros is not None:
            values -= zeros[columns]
        return sp.csr_array((values, columns, edges - edges[0]), (part.stop - part.start, self.rows.n_features))

    def _whole(self, block: DenseBlock) -> NDArray[np.float32]:
        """All entries in whole steps, made once for all steps of a run: at most 2^15, so float32 holds them exactly."""

        def made() -> NDArray[np.float32]:
            whole, size = np.empty(block.X.shape, np.float32), max(1, _CHUNK // max(1, block.X.shape[1]))
            for low in range(0, len(whole), size):
                whole[low : low + size] = self._moved(block.X[low : low + size], None, True)
            return whole

        centre = None if self.centre is None else self.centre.tobytes()
        return block.latest("entries in steps", (self.bound, centre), made)

    def _moved(self, values: NDArray[Any], columns: NDArray[Any] | None, whole: bool = False) -> NDArray[np.float64]:
        """Entries less their centres, shrunk; ``columns`` names each entry's column where rows are not whole."""
        finite = np.isfinite(values)
        moved = np.where(finite, values, 0.0).astype(np.float64)
        if self.centre is not None:
            with np.errstate(over="ignore"):
                moved -= self.centre if columns is None else self.centre[columns]
            moved[~finite] = 0.0
        return self._shrunken(moved, whole)

    def _shrunken(self, entries: NDArray[np.float64], whole: bool) -> NDArray[np.float64]:
        entries = np.clip(entries, -self.bound, self.bound)
        return np.rint(entries / self.unit) if whole else entries
