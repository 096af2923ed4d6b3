"""ℓ1 recovery of a mean of sparse rows from a Gaussian sketch: its error, with every constant.

Proof in ``docs/maths/sparse_means.md``.
"""

from __future__ import annotations

import math

from discreet.rows import ROW_BITS
from discreet.theory.bound import Bound, expected_max_abs_normal, require, require_count, require_positive

__all__ = ["l1_recovery", "recovery_stretch"]

_FAILURE = 0.05
_EVENTS = 4
"""Gordon's inequality, the length of the rows' sketches, that of the columns, and the noise: p/4 each."""
_ENTRY_STEP = 2.0**-11
_GAP = 0.1
"""The gap to which the minimiser is computed, over λR."""


def recovery_stretch(n: int, sketch_rows: int, failure: float = _FAILURE) -> float:
    """1 + √(2 ln(4n/p)/m): but for probability p/4 no sketch of n given rows is longer than this times the row.

    Example:
        >>> round(recovery_stretch(10**5, 1000), 3)
        1.178
    """
    require_count(n=n, sketch_rows=sketch_rows)
    require(0 < failure < 1, f"a probability of failure between 0 and 1, got {failure!r}")
    return 1 + math.sqrt(2 * math.log(_EVENTS * n / failure) / sketch_rows)


def l1_recovery(
    *, n: int, d: int, s: int, bound: float, noise_multiplier: float, sketch_rows: int, failure: float = _FAILURE
) -> Bound:
    """‖ẑ − z̄‖₂ of ℓ1 recovery from m Gaussian measurements, but for probability p over the matrix and the noise.

    With R = L√s, w = E max|g_i| over d normals, τ = √(2 ln(4/p)/m) and Λ the most that a coordinate of Aᵀ(noise) has
    but for probability p/4: at most (√(2.1·RΛ) + 2R·w/√m)/(√(m/(m + 1)) − τ), what rounding adds, and never more than
    2L. The rows must not have been chosen by someone who knew the matrix.

    Args:
        n: rows.
        d: dimension.
        s: entries of a row.
        bound: L, length of a row.
        noise_multiplier: of the Gaussian release, over the bound on a row's sketch.
        sketch_rows: m.
        failure: p.

    Example:
        >>> args = dict(n=10**7, d=10**5, s=5, bound=1.0, noise_multiplier=5.0)
        >>> few, many = (l1_recovery(**args, sketch_rows=m).value for m in (2000, 16_000))
        >>> many < 0.5 * few < 0.5
        True
    """
    require_count(n=n, d=d, s=s, sketch_rows=sketch_rows)
    require_positive(bound=bound, noise_multiplier=noise_multiplier)
    m, share = sketch_rows, failure / _EVENTS
    radius = bound * math.sqrt(min(s, d))
    column = 1 + math.sqrt(2 * math.log(d / share) / m)
    noise_std = noise_multiplier * bound * recovery_stretch(n, m, failure) / n * (1 + 1e-4)
    largest = noise_std * column * math.sqrt(2 * math.log(2 * d / share))
    kept = math.sqrt(m / (m + 1)) - math.sqrt(2 * math.log(1 / share) / m)
    trivial = 2 * bound
    if kept <= 0:
        return Bound.of("ℓ1 recovery from a Gaussian sketch", trivial=trivial)
    grid = bound * 2.0**-ROW_BITS
    parts = {
        "privacy": math.sqrt((2 + _GAP) * radius * largest) / kept,
        "sketch": 2 * radius * (expected_max_abs_normal(d) / math.sqrt(m) + _ENTRY_STEP) / kept,
        "rounding": grid * (1 / kept + math.sqrt(s)),
    }
    return Bound.of("ℓ1 recovery from a Gaussian sketch", **parts).capped(trivial)
