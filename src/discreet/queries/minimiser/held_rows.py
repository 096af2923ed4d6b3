"""Prepared rows held for the many passes of an optimiser: gradient, curvature, Hessian and its products.

`HeldRows` has the rows of one block as whole numbers (float32 holds those below 2^24 exactly), one class for dense
rows, one for compressed sparse rows and one for softmax losses. They remember the curvature of their last gradient.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.base import Block, DenseBlock, SparseBlock, TakenBlock
from discreet.data.steps import chunks
from discreet.losses import Loss
from discreet.queries.kernels import minimiser as kernels
from discreet.queries.kernels.slope_caps import slope_caps
from discreet.queries.kernels.weighted_rows import gradient_weighted
from discreet.queries.minimiser.problem import Array
from discreet.queries.whitened import stretches

__all__ = ["CHUNK", "HeldRows", "held_rows", "two_sum"]

CHUNK = 1024
"""Rows to one call of BLAS; rounding errors of a sum over rows grow with this, not with the number of rows."""


class HeldRows(Protocol):
    """Rows of one block. θ, gradients and products have the parameter's shape; all are in units of row steps."""

    n: int
    largest_target: float
    most_entries: int
    theta: Array | None  # where the last gradient was taken

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        """Σ slope·row as an unevaluated sum (high, low)."""

    def hessian(self, kind: Any) -> Array:
        """Σ curvature·row rowᵀ where the last gradient was taken, in working precision ``kind``."""

    def product(self, direction: Array) -> Array:
        """Σ curvature·row rowᵀ, where the last gradient was taken, times a direction."""

    def diagonal(self) -> Array:
        """The diagonal of Σ curvature·row rowᵀ where the last gradient was taken."""


def two_sum(high: Array, low: Array, term: Array) -> None:
    """high + low += term, without error in high (Knuth's exact addition), in place."""
    s = high + term
    t = s - high
    low += (high - (s - t)) + (term - t)
    high[...] = s


def held_rows(block: Block, loss: Loss, slope_bound: float, *, rounded: bool, weighted: bool = False) -> HeldRows:
    """The rows of a block, on the grid if ``rounded``, else as they are; slopes are cut at slope_bound/‖row‖.

    Rows that were shortened count as they are; if ``weighted``, as whole rows of less weight.
    """
    cap = np.full(len(block.y), np.inf)
    if block.rows.bounded:
        slope_caps(block.squared_length, slope_bound / block.rows.unit, cap)
    rows: Any = _dense_rows(block, rounded) if isinstance(block, DenseBlock) else _sparse_rows(block, rounded)
    if block.rows.outputs > 1:
        return _Softmax(rows, block.y, block.rows.unit, block.rows.outputs)
    if weighted:
        return _Weighted(rows, block.y, cap, block.rows.unit, loss, stretches(block))
    return (_Dense if isinstance(block, DenseBlock) else _Sparse)(rows, block.y, cap, block.rows.unit, loss)


def _dense_rows(block: DenseBlock, rounded: bool) -> NDArray[Any]:
    from discreet.data.entries import whole_rows

    if rounded:
        return whole_rows(block)
    rows = np.empty((len(block.y), block.rows.dimension))
    for part, piece in chunks(block, rounded=False):
        rows[part] = piece
    return rows


def _sparse_rows(block: SparseBlock | TakenBlock, rounded: bool) -> sp.csr_array:
    from discreet.data.entries import entries, with_constant

    stored, facts = entries(block, rounded=rounded), block.rows
    if facts.dimension > facts.n_features:
        stored = with_constant(stored, facts.n_features, facts.constant)
    if facts.outputs > 1:  # for products with matrices, which scipy takes in one precision
        stored = stored._replace(values=stored.values.astype(np.float64))
    columns = stored.indices.view(np.int32) if facts.dimension < 2**31 else stored.indices.astype(np.int64)
    return sp.csr_array((stored.values, columns, stored.indptr), shape=(len(block.y), facts.dimension))


class _Scalar:
    """Fields of dense and of sparse rows with one score each."""

    def __init__(self, rows: Any, y: Array, cap: Array, unit: float, loss: Loss) -> None:
        self.rows, self.y, self.cap, self.unit, self.n = rows, y, cap, unit, len(y)
        self.loss = (loss.kind, loss.parameter, loss.smoothing)
        self.theta: Array | None = None
        self.weights = np.zeros(self.n)
        self.largest_target = float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0))
        self.most_entries = rows.shape[1]


class _Dense(_Scalar):
    def gradient(self, theta: Array) -> tuple[Array, Array]:
        self.theta = theta
        high, low = np.zeros(len(theta)), np.zeros(len(theta))
        common = (self.y, self.cap, theta, self.loss, self.unit)
        kernels.gradient_dense(self.rows, *common, self.weights, high, low)
        return high, low

    def hessian(self, kind: Any) -> Array:
        total = np.zeros((self.rows.shape[1],) * 2)
        for start in range(0, self.n, CHUNK):
            part = slice(start, start + CHUNK)
            scaled = self.rows[part].astype(kind, copy=False) * np.sqrt(self.weights[part]).astype(kind)[:, None]
            total += scaled.T @ scaled
        return total

    def product(self, direction: Array) -> Array:
        short = direction.astype(self.rows.dtype)
        scaled = (self.weights * (self.rows @ short)).astype(self.rows.dtype)
        return np.asarray(self.rows.T @ scaled, dtype=np.float64)

    def diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij,i->j", self.rows, self.rows, self.weights.astype(self.rows.dtype)), float)


class _Weighted(_Dense):
    """Dense rows, each of which stands for a row ``stretch`` times as long with weight 1/stretch²."""

    def __init__(self, rows: Any, y: Array, cap: Array, unit: float, loss: Loss, stretch: Array) -> None:
        super().__init__(rows, y, cap, unit, loss)
        self.stretch = stretch

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        self.theta = theta
        high, low = np.zeros(len(theta)), np.zeros(len(theta))
        common = (self.y, self.cap, self.stretch, theta, self.loss, self.unit)
        gradient_weighted(self.rows, *common, self.weights, high, low)
        return high, low


class _Sparse(_Scalar):
    def __init__(self, rows: Any, y: Array, cap: Array, unit: float, loss: Loss) -> None:
        super().__init__(rows, y, cap, unit, loss)
        unsigned = np.uint32 if rows.indices.dtype == np.int32 else np.uint64  # which compiled code indexes by faster
        self.stored = (rows.data, rows.indices.view(unsigned), rows.indptr)
        self.most_entries = int(np.max(np.diff(rows.indptr), initial=1))

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        self.theta = theta
        high, low = np.zeros(len(theta)), np.zeros(len(theta))
        common = (*self.stored, self.y, self.cap, theta, self.loss, self.unit, self.weights, high, low)
        # sums over a chunk of rows are moved in one go where that touches fewer places than the rows themselves do
        if len(self.stored[0]) * CHUNK >= len(theta) * self.n:
            kernels.gradient_sparse(*common, CHUNK)
        else:
            kernels.gradient_very_sparse(*common)
        return high, low

    def hessian(self, kind: Any) -> Array:
        total = np.zeros((self.rows.shape[1],) * 2)
        kernels.hessian_sparse(*self.stored, self.weights, total)
        return total

    def product(self, direction: Array) -> Array:
        out = np.zeros(len(direction))
        kernels.product_sparse(*self.stored, self.weights, direction, out)
        return out

    def diagonal(self) -> Array:
        out = np.zeros(self.rows.shape[1])
        kernels.diagonal_sparse(*self.stored, self.weights, out)
        return out


class _Softmax:
    """K scores a row: slopes p − e_y, of length at most √2 and never cut; curvature diag(p) − ppᵀ."""

    def __init__(self, rows: Any, y: Array, unit: float, classes: int) -> None:
        self.rows, self.unit, self.n = rows, unit, len(y)
        self.known = np.isin(y, np.arange(classes))
        self.codes = np.where(self.known, y, 0.0).astype(np.intp)
        self.p = np.zeros((self.n, classes))
        self.theta: Array | None = None
        self.largest_target = 0.0
        self.most_entries = rows.shape[1]

    def _pieces(self) -> Any:
        for start in range(0, self.n, CHUNK):
            part = slice(start, min(self.n, start + CHUNK))
            rows = self.rows[part]
            yield part, rows if sp.issparse(rows) else rows.astype(np.float64)

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        self.theta = theta
        high, low = np.zeros_like(theta), np.zeros_like(theta)
        for part, rows in self._pieces():
            z = (rows @ theta.T) * self.unit
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            p[~self.known[part]] = 0.0
            self.p[part] = p
            slopes = p.copy()
            slopes[np.arange(len(p)), self.codes[part]] -= self.known[part]
            two_sum(high, low, np.asarray((rows.T @ slopes).T))
        return high, low

    def product(self, direction: Array) -> Array:
        total = np.zeros_like(direction)
        for part, rows in self._pieces():
            u, p = rows @ direction.T, self.p[part]
            total += np.asarray((rows.T @ (p * (u - (p * u).sum(axis=1, keepdims=True)))).T)
        return total

    def diagonal(self) -> Array:
        total = np.zeros((self.p.shape[1], self.rows.shape[1]))
        for part, rows in self._pieces():
            squares = rows.multiply(rows).tocsr() if sp.issparse(rows) else rows * rows
            p = self.p[part]
            total += np.asarray((squares.T @ (p * (1 - p))).T)
        return total

    def hessian(self, kind: Any) -> Array:
        raise TypeError("softmax Hessians are only ever multiplied by")
