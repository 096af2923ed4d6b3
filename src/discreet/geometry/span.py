"""The span of a public matrix's rows: its projector M, its rank, and the seminorm ‖θ‖_M."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.geometry.base import Array, as_vector, check_dimension

__all__ = ["DataProjector"]


@dataclass(frozen=True, eq=False)
class DataProjector:
    """The orthogonal projector M onto span{x_1, …, x_n}, the rows of ``matrix``.

    The gradient of a generalised linear model lies in this span, and the noise that matters is the noise inside it: its
    excess risk grows with √rank(M) instead of √d (Jain–Thakurta 2014; Song et al. 2021).

    **M, its rank and ‖·‖_M are functions of the rows.** They are not private. Use them for public matrices (a design
    that everybody knows, public features of the same kind) or inside an analysis that reveals nothing; never to set the
    noise or the step of a fit on sensitive rows.

    Args:
        matrix: a public matrix, one row a record.
        tolerance: singular values below this share of the largest count as zero (default: n·d-scaled rounding).

    Raises:
        InvalidInput: the matrix is empty, not two-dimensional or not finite.

    Example:
        >>> M = DataProjector([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0]])
        >>> M.rank, M.project([1.0, 0.0, 5.0]).round(12).tolist()
        (1, [0.5, 0.5, 0.0])
    """

    matrix: ArrayLike = field(repr=False)
    tolerance: float | None = None
    basis: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = np.asarray(self.matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
            raise InvalidInput(f"a data projector needs a non-empty finite matrix, got the shape {rows.shape}.")
        n, d = rows.shape
        # A tall matrix is first reduced to its triangular factor, which has the same row space.
        small = np.linalg.qr(rows, mode="r") if n > d else rows
        _, values, right = np.linalg.svd(small, full_matrices=False)
        share = max(n, d) * np.finfo(np.float64).eps if self.tolerance is None else self.tolerance
        basis = right[values > share * values[0]].T.copy()
        basis.setflags(write=False)
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "matrix", rows)

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return int(self.basis.shape[1])

    @property
    def d(self) -> int:
        """The dimension of the whole space."""
        return int(self.basis.shape[0])

    def project(self, theta: ArrayLike) -> Array:
        """Mθ, the part of θ that the rows can see. O(d·rank)."""
        return self.basis @ self.coordinates(theta)

    def coordinates(self, theta: ArrayLike) -> Array:
        """The coordinates of Mθ in an orthonormal basis of the span."""
        vector = as_vector(theta)
        check_dimension(len(vector), self.d)
        return self.basis.T @ vector

    def seminorm(self, theta: ArrayLike) -> float:
        """‖θ‖_M = √(θᵀMθ) = ‖Mθ‖₂."""
        return float(np.linalg.norm(self.coordinates(theta)))

    def noise_seminorm(self, noise_std: float) -> float:
        """The root mean square of ‖b‖_M for b ~ N(0, noise_std²·I): noise_std·√rank, where ‖b‖₂ has noise_std·√d."""
        return noise_std * math.sqrt(self.rank)
