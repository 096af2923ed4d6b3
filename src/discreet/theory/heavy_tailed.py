"""Heavy-tailed sparse regression: shrinkage, disjoint parts, peeling.

Rows are independent draws with E x_j⁴ ≤ M and E y⁴ ≤ M; nothing else is asked of their tails. The bounds are on the
distance to the minimiser θ* of the *population* risk ½E(⟨x, θ⟩ − y)², which is what fresh rows at each step see. After
Hu, Ni, Xiao and Wang 2022, with every constant explicit; proofs in ``docs/maths/theory.md``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Unpack

from discreet.theory.bound import Bound, require_count, require_positive
from discreet.theory.hard_thresholding import Design, hard_thresholding_by_peeling, thresholding_expansion

__all__ = ["balanced_entry_bound", "heavy_tailed", "shrunken_gradient_error"]


def balanced_entry_bound(moment: float, rows: float, d: int, selection_multiplier: float) -> float:
    """The bound K on entries and targets that balances the bias of shrinkage with the noise, at least M^¼.

    A step errs by c·2M/K² through shrinkage, c = φ√(3s), and, with b the multiplier of the selection, by K²/m times
    (2/3)·c·ℓ through the size of m shrunken gradients and b·((φ√(3s) + √s)·ℓ + √s) through the choice of places and the
    noise of values, ℓ = ln d + 2 covering the largest of d exponentials. A/K² + B·K² is least at K⁴ = A/B, where √s
    cancels:

        K⁴ = 2√3·φ·M·m / ((2/√3)·φ·ℓ + b·((√3·φ + 1)·ℓ + 1)).

    Args:
        moment: M.
        rows: m.
        d: the dimension.
        selection_multiplier: b.

    Example:
        >>> [round(balanced_entry_bound(3.0, rows, 100, 20.0), 1) for rows in (1e4, 1e6)]
        [4.2, 13.3]
    """
    log, width = math.log(d) + 2, math.sqrt(3) * thresholding_expansion(1, 1, 2)  # a target as dense as s: φ
    fourth = 2 * width * moment * rows / (2 / 3 * width * log + selection_multiplier * ((width + 1) * log + 1))
    return float(max(moment, fourth) ** 0.25)


def shrunken_gradient_error(*, d: int, rows: float, moment: float, entry_bound: float, l1_bound: float) -> float:
    """√E‖ĝ − ∇‖²_∞ for the mean ĝ of m rows' gradients, entries and targets shrunk to ±K, at a θ with ‖θ‖₁ + 1 ≤ L.

        2ML/K² + L√(2M(ln 2d + 1)/m) + (2LK²/3m)√((ln 2d + 1)² + 1).

    The bias: |x_jx_k| changes only where an entry exceeds K, and E|x_j|³|x_k| ≤ M. The rest is Bernstein's inequality
    for gradients of second moment at most ML² and size at most K²L, over d coordinates.

    Args:
        d: the dimension.
        rows: m.
        moment: M.
        entry_bound: K.
        l1_bound: L.

    Raises:
        HypothesisViolated: a constant that is not positive.

    Example:
        >>> round(shrunken_gradient_error(d=100, rows=1e5, moment=3.0, entry_bound=8.0, l1_bound=2.0), 4)
        0.2318
    """
    require_count(d=d)
    require_positive(rows=rows, moment=moment, entry_bound=entry_bound, l1_bound=l1_bound)
    log = math.log(2 * d) + 1
    bias = 2 * moment / entry_bound**2
    variance = math.sqrt(2 * moment * log / rows)
    size = 2 * entry_bound**2 / (3 * rows) * math.sqrt(log**2 + 1)
    return l1_bound * (bias + variance + size)


def heavy_tailed(
    *,
    distance: float,
    parts: int,
    rows: float,
    moment: float,
    entry_bound: float,
    radius: float,
    selection_multiplier: float,
    value_multiplier: float,
    **design: Unpack[Design],
) -> Bound:
    """√E‖θ_T − θ*‖² after T parts of m rows: `hard_thresholding_by_peeling` with the error of a shrunken gradient.

    With L = √s·C + 1 and k = 2s + s*, each step errs by √k × `shrunken_gradient_error` and by peeling noise of scale
    (η/m)·K²L × its multipliers. The population risk exceeds its minimum by at most β/2 times the square.

    Args:
        distance: R = ‖θ_0 − θ*‖₂ with θ_0 s-sparse; ‖θ*‖₂ from 0.
        parts: T.
        rows: m = n/T.
        moment: M.
        entry_bound: K.
        radius: C ≥ ‖θ*‖₂.
        selection_multiplier: of `Peeling`.
        value_multiplier: of `Peeling`; its noise has standard deviation √s·multiplier·bound.
        design: see `Design`; its eigenvalues are those of E xxᵀ.

    Raises:
        HypothesisViolated: no contraction (see `contraction_factor`), or a constant that is not positive.

    Example:
        >>> design = dict(s=4, target_sparsity=4, d=100, strong_convexity=1.0, smoothness=1.0, step=1.0)
        >>> tails = dict(moment=3.0, entry_bound=20.0, radius=1.0, selection_multiplier=8.0, value_multiplier=4.0)
        >>> few, many = (heavy_tailed(distance=1.0, parts=2, rows=m, **design, **tails).value for m in (1e6, 1e8))
        >>> round(few, 3), round(many, 3)
        (0.683, 0.266)
    """
    require_count(parts=parts)
    require_positive(radius=radius, rows=rows, entry_bound=entry_bound, step=design["step"])
    s, step = design["s"], design["step"]
    l1_bound = math.sqrt(s) * radius + 1
    error = shrunken_gradient_error(d=design["d"], rows=rows, moment=moment, entry_bound=entry_bound, l1_bound=l1_bound)
    scale = step / rows * entry_bound**2 * l1_bound
    bound = hard_thresholding_by_peeling(
        distance=distance,
        iterations=parts,
        selection_scale=scale * selection_multiplier,
        value_noise_std=scale * value_multiplier * math.sqrt(s),
        gradient_at_target=math.sqrt(min(2 * s + design["target_sparsity"], design["d"])) * error,
        **design,
    )
    return replace(bound, theorem="heavy-tailed sparse regression, root mean square distance")
