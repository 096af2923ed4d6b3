"""The least eigenvalue of an integer matrix, with an error bound that is proved and not taken from a library.

Claim: for A = Σ xxᵀ with integer rows and trace T ≤ 2^57, the integer q returned satisfies λ_min(A) − w₁ ≤ q ≤
λ_min(A) + w₂ with w₁ + w₂ ≤ `room` steps. All that is assumed is IEEE double arithmetic.

Let M be A − sI in float64, which errs by at most 3uT in norm (u = 2^−53), and γ = (d + 2)u/(1 − (d + 2)u).

- If Cholesky's method ends on M, its factor satisfies RᵀR = M + Δ with ‖Δ‖ ≤ γT/(1 − γ) (Higham 2002, theorem 10.5):
  λ_min(A) ≥ s − 1.01γT − 3uT.
- If it meets a pivot p ≤ 0 instead, let R be the factor so far, c the new column, m the new diagonal entry. For
  z = (−R⁻¹c, 1) = (−x, 1), zᵀ(M + Δ)z = p with |Δ_ij| ≤ γn_in_j, n_i the length of column i and n² = ‖c‖² + |p| for the
  new one, so zᵀMz ≤ p + 2γ(Σn_i²·‖x‖² + n²), where Σn_i² ≤ 1.01T. Were ‖c‖² ≥ 2m, then p ≤ −0.4‖c‖² and n² ≤
  2.1‖c‖²: p + 2γn² ≤ 0. Otherwise n² ≤ 4.2m. Either way zᵀMz ≤ 9γT·‖z‖²: λ_min(A) ≤ s + 9γT + 3uT.

So every outcome says something true about λ_min, and bisection ends with both within 16(d + 8) steps of each other. A
float64 eigenvalue only says where to look first. As uT ≤ 16, the room is 16(d + 8)·(1 + 1.01 + 9.1) + 96 and one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["least_eigenvalue", "room"]

_NEAR = 16


def room(d: int) -> int:
    """The most by which the errors q − λ_min of two d × d matrices differ."""
    return 12 * _NEAR * (d + 16)


def least_eigenvalue(gram: NDArray[np.int64]) -> int:
    """An integer within `room` of the least eigenvalue of a positive semidefinite integer matrix of trace ≤ 2^57.

    Example:
        >>> least_eigenvalue(np.array([[2**50, 0], [0, 2**40]])) - 2**40 in range(-room(2), room(2))
        True
    """
    from discreet.queries.kernels.cholesky import factors

    d = len(gram)
    near = _NEAR * (d + 8)
    matrix, lower = gram.astype(np.float64), np.zeros((d, d))
    diagonal = matrix.diagonal().copy()
    low, high = 0, int(gram.diagonal().min()) + 1  # A is semidefinite, and no diagonal entry is below λ_min
    hint = _guess(matrix)
    probes = [int(np.clip(hint + off, 0, high)) for off in (-near // 2, near // 2)] if np.isfinite(hint) else []
    while high - low > near:
        s = probes.pop(0) if probes else (low + high) // 2
        if not low < s < high:
            continue
        matrix.flat[:: d + 1] = diagonal - float(s)
        low, high = (s, high) if factors(matrix, lower) else (low, s)
    return low


def _guess(matrix: NDArray[np.float64]) -> float:
    """The eigenvalue in float64; NaN where its iteration does not converge."""
    try:
        return float(np.linalg.eigvalsh(matrix)[0])
    except np.linalg.LinAlgError:
        return np.nan
