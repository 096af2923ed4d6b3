"""Second moments of the rows and targets in exact integers: XᵀX, Xᵀy, yᵀy, and the least eigenvalue of XᵀX.

Claims, for every row content whatever. A prepared row is brought to a coarser grid, x whole with ‖x‖² ≤ N :=
4^MOMENT_BITS (verified in integers), and a target to a whole t with |t| ≤ 2^MOMENT_BITS. A row whose target is unknown
contributes nothing, to XᵀX neither: least squares would take it for a row with the target 0.

* `SecondMoment`: a row contributes 5x_j² for each j and 7x_jx_k for each j < k, and 25·Σx_j⁴ + 49·Σ_{j<k}x_j²x_k² ≤
  25·‖x‖⁴ because 49 < 2·25: an ℓ2 norm of at most 5N. The weights 5 : 7 ≈ 1 : √2 make the bound the Frobenius norm of
  xxᵀ, which is tight, where an unweighted triangle would pay the same for less accurate off-diagonal entries. With
  p_j = x_jx'_j two rows' contributions have the inner product 25·Σp_j² + 49·Σ_{j<k}p_jp_k = (49(Σp_j)² + Σp_j²)/2 ≥ 0:
  they are at most √2·5N from each other.
* `CrossMoment`: t·x, of ℓ2 norm at most N. `TargetMoment`: t², between 0 and N.
* `LeastEigenvalue`: adding xxᵀ to a symmetric matrix moves every eigenvalue by at most ‖x‖² (Weyl 1912). It is no sum,
  but one row more or less moves it by at most N, one row replaced too; `bound` has room for its certified error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import ACUTE_FACTOR, Integers, Norm
from discreet.queries.sums.certified_eigenvalue import least_eigenvalue, room
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["MOMENT_BITS", "CrossMoment", "LeastEigenvalue", "SecondMoment", "TargetMoment"]

MOMENT_BITS = 15
"""2^27 rows × 5·4^15 stays below 2^60, and 2^16 rows × 4^15 below 2^53: exact in int64, and in float64 by chunks."""

_STEP = 2.0 ** (ROW_BITS - MOMENT_BITS)
_MOST = 4**MOMENT_BITS
_DIAGONAL, _OFF_DIAGONAL = 5, 7
_MOST_COLUMNS = 1 << 13  # half a gigabyte for one matrix of float64


def _chunks(block: Block, *, rounded: bool) -> Iterator[tuple[slice, Any]]:
    """Rows of a block on the coarse grid; without rounding, as they are."""
    from discreet.data.steps import chunks

    for part, rows in chunks(block, rounded=rounded):
        yield part, (_coarse(rows) if rounded else rows)


def _known_chunks(block: Block, *, rounded: bool) -> Iterator[tuple[slice, Any]]:
    """Rows of a block on the coarse grid without those whose target is unknown."""
    known = np.isfinite(block.y)
    for part, rows in _chunks(block, rounded=rounded):
        yield part, (rows if known[part].all() else rows[known[part]])


def _coarse(rows: Any) -> Any:
    """Whole rows in steps of 2^(ROW_BITS − MOMENT_BITS), the nearest where that keeps ‖x‖² ≤ N, else toward zero."""
    near = rows / _STEP
    if isinstance(near, np.ndarray):
        toward_zero = np.trunc(near)
        np.rint(near, out=near)
        long = np.einsum("ij,ij->i", near, near) > _MOST
        near[long] = toward_zero[long]
        return near
    toward_zero = np.trunc(near.data)
    near.data = np.rint(near.data)
    long = np.asarray(near.multiply(near).sum(axis=1)).ravel() > _MOST
    near.data = np.where(np.repeat(long, np.diff(near.indptr)), toward_zero, near.data)
    return near


def _whole_targets(y: NDArray[np.float64], target_bound: float) -> NDArray[np.float64]:
    """Targets clipped to ±target_bound, in whole steps of target_bound/2^MOMENT_BITS; an unknown target is 0."""
    known = np.where(np.isfinite(y), y, 0.0)
    return np.rint(np.clip(known / target_bound, -1.0, 1.0) * 2.0**MOMENT_BITS)


def _clipped_targets(y: NDArray[np.float64], target_bound: float) -> NDArray[np.float64]:
    return np.clip(np.where(np.isfinite(y), y, 0.0), -target_bound, target_bound)


def _check_target_bound(target_bound: float) -> None:
    if not target_bound > 0:
        raise InvalidInput(f"target_bound must be positive, got {target_bound!r}: targets are clipped to ± it.")


def _gram(rows: Any, columns: Any) -> NDArray[np.float64]:
    product = rows.T @ columns
    return np.asarray(product if isinstance(product, np.ndarray) else product.toarray())


def _unit(rows: RowSpec) -> float:
    return rows.unit * _STEP if rows.bounded else rows.unit


def _require_bounded(rows: RowSpec | None, target_bound: float = 1.0) -> None:
    if (rows is not None and not rows.bounded) or not target_bound < np.inf:
        raise InvalidInput("private moments need a finite row_norm and a finite target_bound; nothing was released.")


def _integer_gram(data: Dataset, dimension: int) -> Integers:
    """XᵀX in grid steps, over the rows whose target is known."""

    def block_sum(block: Block) -> Integers:
        total = np.zeros((dimension, dimension), np.int64)
        if isinstance(block, DenseBlock):
            for _, rows in _known_chunks(block, rounded=True):
                total += _gram(rows, rows).astype(np.int64)
        else:
            from discreet.data.entries import chosen_rows, entries
            from discreet.queries.kernels.moments import gram_sparse

            known = chosen_rows(entries(block, rounded=True), np.isfinite(block.y))
            gram_sparse(*known, block.rows.constant, _STEP, _MOST, total)
        return total

    return data.map_sum(block_sum, (dimension, dimension))


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """Σ xxᵀ over rows of known target, packed: d diagonal entries times 5, then those above the diagonal times 7.

    `matrix` unpacks it.
    """

    rows: RowSpec

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = _DIAGONAL * _MOST
    replace_one_factor: ClassVar[float] = ACUTE_FACTOR

    def __post_init__(self) -> None:
        if self.rows.dimension > _MOST_COLUMNS:
            raise InvalidInput(
                f"a second moment of {self.rows.dimension} columns has {self.rows.dimension}² entries; at most "
                f"{_MOST_COLUMNS} columns are taken. Use solver='descent'."
            )

    @property
    def grid(self) -> float:
        """Value of one step."""
        return _unit(self.rows) ** 2

    @property
    def shape(self) -> tuple[int, ...]:
        """d(d + 1)/2 packed entries."""
        d = self.rows.dimension
        return (d * (d + 1) // 2,)

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        _require_bounded(self.rows)
        return self._pack(_integer_gram(data, self.rows.dimension))

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """Σ xxᵀ in floating point, packed."""

        def block_sum(block: Block) -> NDArray[np.float64]:
            d = self.rows.dimension
            return sum((_gram(rows, rows) for _, rows in _known_chunks(block, rounded=False)), np.zeros((d, d)))

        return self.rows.unit**2 * self._pack(np.sum(data.map_blocks(block_sum), axis=0))

    def matrix(self, packed: NDArray[np.float64]) -> NDArray[np.float64]:
        """The symmetric matrix of a released answer."""
        d = self.rows.dimension
        above = np.triu_indices(d, 1)
        matrix = np.diag(packed[:d] / _DIAGONAL)
        matrix[above] = packed[d:] / _OFF_DIAGONAL
        matrix.T[above] = matrix[above]
        return matrix

    def noise_norm(self, noise_multiplier: float) -> float:
        """The approximate spectral norm of the noise in `matrix`: √(2d) × the standard deviation on the diagonal.

        Off the diagonal it is 5/7 of that, so the noise is nearly Gaussian orthogonal, whose largest eigenvalue tends
        to 2√d × the standard deviation off the diagonal (Wigner 1958; Füredi–Komlós 1981).
        """
        return float(np.sqrt(2 * self.rows.dimension)) * noise_multiplier * self.rows.radius**2

    def _pack(self, matrix: NDArray[Any]) -> NDArray[Any]:
        above = matrix[np.triu_indices(len(matrix), 1)]
        return np.concatenate([_DIAGONAL * np.diagonal(matrix), _OFF_DIAGONAL * above])


@dataclass(frozen=True, eq=False)
class CrossMoment:
    """Σ y·x, targets clipped to ±``target_bound``."""

    rows: RowSpec
    target_bound: float

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = _MOST

    def __post_init__(self) -> None:
        _check_target_bound(self.target_bound)

    @property
    def grid(self) -> float:
        """Value of one step."""
        return _unit(self.rows) * self.target_bound / 2.0**MOMENT_BITS

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a column."""
        return (self.rows.dimension,)

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        _require_bounded(self.rows, self.target_bound)

        def block_sum(block: Block) -> Integers:
            targets = _whole_targets(block.y, self.target_bound)
            total = np.zeros(self.shape, np.int64)
            for part, rows in _chunks(block, rounded=True):
                total += np.asarray(rows.T @ targets[part]).astype(np.int64)
            return total

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """Σ y·x in floating point, targets clipped."""

        def block_sum(block: Block) -> NDArray[np.float64]:
            targets = _clipped_targets(block.y, self.target_bound)
            parts = (np.asarray(rows.T @ targets[part]) for part, rows in _chunks(block, rounded=False))
            return sum(parts, np.zeros(self.shape))

        return self.rows.unit * np.sum(data.map_blocks(block_sum), axis=0)


@dataclass(frozen=True, eq=False)
class TargetMoment:
    """Σ y², targets clipped to ±``target_bound``."""

    target_bound: float

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = _MOST
    replace_one_factor: ClassVar[float] = 1.0
    shape: ClassVar[tuple[int, ...]] = (1,)

    def __post_init__(self) -> None:
        _check_target_bound(self.target_bound)

    @property
    def grid(self) -> float:
        """Value of one step."""
        return (self.target_bound / 2.0**MOMENT_BITS) ** 2

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        _require_bounded(None, self.target_bound)

        def block_sum(block: Block) -> Integers:
            targets = _whole_targets(block.y, self.target_bound).astype(np.int64)
            return np.array([targets @ targets])

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """Σ y² in floating point, targets clipped."""
        parts = data.map_blocks(lambda block: _clipped_targets(block.y, self.target_bound))
        return np.array([sum(float(part @ part) for part in parts)])


@dataclass(frozen=True, eq=False)
class LeastEigenvalue:
    """The least eigenvalue of Σ xxᵀ over the rows whose target is known."""

    rows: RowSpec

    norm: ClassVar[Norm] = "l2"
    replace_one_factor: ClassVar[float] = 1.0
    shape: ClassVar[tuple[int, ...]] = (1,)

    @property
    def bound(self) -> int:
        """N, and room for the certified error at a trace of at most 2^27·N = 2^57."""
        return _MOST + room(self.rows.dimension)

    @property
    def grid(self) -> float:
        """Value of one step."""
        return _unit(self.rows) ** 2

    def integers(self, data: Dataset) -> Integers:
        """The eigenvalue in grid steps, to within its certified error."""
        _require_bounded(self.rows)
        return np.array([least_eigenvalue(_integer_gram(data, self.rows.dimension))], np.int64)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The eigenvalue in floating point."""
        moment = SecondMoment(self.rows)
        return np.asarray(np.linalg.eigvalsh(moment.matrix(moment.unrounded(data)))[:1], dtype=np.float64)
