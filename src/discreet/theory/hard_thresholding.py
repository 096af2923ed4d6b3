"""Private iterative hard thresholding: distance to a sparse target under restricted strong convexity and smoothness."""

from __future__ import annotations

import math
from typing import TypedDict, Unpack

from discreet.theory.bound import (
    Bound,
    require,
    require_count,
    require_non_negative,
    require_positive,
    top_exponential,
    top_gaussian,
)

__all__ = [
    "Design",
    "contraction_factor",
    "excess_risk",
    "hard_thresholding",
    "hard_thresholding_by_peeling",
    "thresholding_expansion",
]

# |Gumbel| exceeds an exponential by at most this much: P(|G| > t) ≤ (1 + 1/e)·exp(−t).
_GUMBEL_SHIFT = math.log1p(math.exp(-1))


class Design(TypedDict):
    """The facts on which every bound here rests: how sparse θ and its target are, and how the loss curves along them.

    Args:
        s: how many coordinates are kept.
        target_sparsity: s* ≤ s.
        d: the dimension.
        strong_convexity: α, the least eigenvalue of the Hessian's k × k principal submatrices, k = 2s + s*.
        smoothness: β, the largest.
        step: η.
    """

    s: int
    target_sparsity: int
    d: int
    strong_convexity: float
    smoothness: float
    step: float


def thresholding_expansion(s: int, target_sparsity: int, d: int) -> float:
    """√ν: keeping the s largest entries moves a point away from an s*-sparse target by at most this factor.

    ν = 1 + (r + √((4 + r)r))/2 with r = m/(s − s* + m), m = min(s*, d − s) (Shen–Li 2018, Theorem 1, tight); s
    = s* gives the golden ratio's 1.618, s ≫ s* tends to 1.

    Raises:
        HypothesisViolated: the target is denser than s, or s exceeds d.

    Example:
        >>> round(thresholding_expansion(5, 5, 100), 3), round(thresholding_expansion(500, 5, 10_000), 3)
        (1.618, 1.051)
    """
    require_count(s=s, target_sparsity=target_sparsity, d=d)
    require(target_sparsity <= s <= d, f"target sparsity ≤ s ≤ d, got {target_sparsity}, {s}, {d}")
    m = min(target_sparsity, d - s)
    r = m / (s - target_sparsity + m) if m else 0.0
    return math.sqrt(1 + (r + math.sqrt((4 + r) * r)) / 2)


def contraction_factor(**design: Unpack[Design]) -> float:
    """q = √ν·max(|1 − ηα|, |1 − ηβ|): how much one exact step shrinks the distance to the target.

    Args:
        design: see `Design`.

    Raises:
        HypothesisViolated: q is not below 1: the problem is too badly conditioned for this s and step.

    Example:
        >>> args = dict(target_sparsity=5, d=1000, strong_convexity=1.0, smoothness=2.0, step=2 / 3)
        >>> round(contraction_factor(s=5, **args), 3), round(contraction_factor(s=50, **args), 3)
        (0.539, 0.39)
    """
    strong_convexity, smoothness, step = design["strong_convexity"], design["smoothness"], design["step"]
    require_positive(strong_convexity=strong_convexity, smoothness=smoothness, step=step)
    require(strong_convexity <= smoothness, "a restricted strong convexity of at most the restricted smoothness")
    factor = _expansion(design)
    q = factor * max(abs(1 - step * strong_convexity), abs(1 - step * smoothness))
    require(
        q < 1,
        f"a contraction, but thresholding expands by {factor:.3f} and the factor of a step is {q:.3f} ≥ 1: raise s, or "
        f"set the step to 2/(strong convexity + smoothness) = {2 / (strong_convexity + smoothness):g}",
    )
    return q


def hard_thresholding(
    *,
    distance: float,
    iterations: int,
    noise_std: float,
    gradient_at_target: float = 0.0,
    **design: Unpack[Design],
) -> Bound:
    """√E‖θ_T − θ*‖² for θ_{t+1} = top_s(θ_t − η(∇𝓛(θ_t) + ξ_t)) and an s*-sparse θ*.

    q^T·R + √ν·η(‖∇𝓛(θ*)‖_(k) + σ·w_k)/(1 − q), with k = 2s + s*, ‖·‖_(k) the norm of the k largest entries and
    w_k ≈ √(2k ln(d/k)) that of a standard normal vector (`top_gaussian`). 𝓛's Hessian must have all eigenvalues
    of its k × k principal submatrices in [strong_convexity, smoothness]. The risk exceeds 𝓛(θ*) by at most
    `excess_risk` of this.

    Args:
        distance: R = ‖θ_0 − θ*‖₂, θ_0 being s-sparse.
        iterations: T.
        noise_std: σ, of each coordinate of the mean gradient.
        gradient_at_target: ‖∇𝓛(θ*)‖_(k): 0 in a noiseless model, statistical error otherwise.
        design: see `Design`.

    Raises:
        HypothesisViolated: see `contraction_factor`.

    Example:
        >>> args = dict(distance=1.0, s=5, target_sparsity=5, d=1000, strong_convexity=1.0, smoothness=1.0, step=1.0)
        >>> bound = hard_thresholding(**args, iterations=3, noise_std=0.01)  # q = 0: what remains is √ν·σ·w_15
        >>> round(bound.value, 6) == round(0.01 * thresholding_expansion(5, 5, 1000) * top_gaussian(15, 1000), 6)
        True
    """
    require_positive(distance=distance)
    require_non_negative(noise_std=noise_std, gradient_at_target=gradient_at_target)
    require_count(iterations=iterations)
    q, k = contraction_factor(**design), _support(design)
    each = _expansion(design) * design["step"] * (1 - q**iterations) / (1 - q)
    return Bound.of(
        "private iterative hard thresholding, root mean square distance",
        start=q**iterations * distance,
        statistics=each * gradient_at_target,
        privacy=each * noise_std * top_gaussian(k, design["d"]),
    )


def hard_thresholding_by_peeling(
    *,
    distance: float,
    iterations: int,
    selection_scale: float,
    value_noise_std: float,
    gradient_at_target: float = 0.0,
    **design: Unpack[Design],
) -> Bound:
    """√E‖θ_T − θ*‖² when θ_t − η∇𝓛(θ_t) is peeled: a one-shot noisy top s, then noise on the s values kept.

    The s largest of |v_i| + w_i, w of Gumbel or Laplace law and scale b = ``selection_scale``, are the s
    largest entries of a vector within |w_i| of v_i coordinate by coordinate. So one step adds at most
    √ν·‖w‖_(k) + ‖w‖_(s) to the distance, plus √s·τ for values with noise τ = ``value_noise_std``; both scales
    are those of the peeled vector (gradient noise × η). (After Cai–Wang–Zhang 2021, with the one-shot top-s in
    place of s rounds.)

    Args:
        distance: R = ‖θ_0 − θ*‖₂, θ_0 being s-sparse.
        iterations: T.
        selection_scale: b.
        value_noise_std: τ.
        gradient_at_target: as in `hard_thresholding`.
        design: see `Design`.

    Raises:
        HypothesisViolated: see `contraction_factor`.

    Example:
        >>> args = dict(distance=1.0, s=5, target_sparsity=5, d=1000, strong_convexity=1.0, smoothness=1.0, step=1.0)
        >>> bound = hard_thresholding_by_peeling(**args, iterations=3, selection_scale=0.01, value_noise_std=0.02)
        >>> round(bound.parts["values"], 6)  # √s·τ
        0.044721
    """
    require_positive(distance=distance)
    require_non_negative(
        selection_scale=selection_scale, value_noise_std=value_noise_std, gradient_at_target=gradient_at_target
    )
    require_count(iterations=iterations)
    q, expansion, s, d = contraction_factor(**design), _expansion(design), design["s"], design["d"]
    repeated = (1 - q**iterations) / (1 - q)
    chosen = expansion * _top_selection_noise(_support(design), d) + _top_selection_noise(s, d)
    return Bound.of(
        "private iterative hard thresholding by peeling, root mean square distance",
        start=q**iterations * distance,
        statistics=repeated * expansion * design["step"] * gradient_at_target,
        selection=repeated * selection_scale * chosen,
        values=repeated * value_noise_std * math.sqrt(s),
    )


def excess_risk(distance: Bound, *, smoothness: float, gradient_at_target: float = 0.0) -> Bound:
    """E[𝓛(θ_T)] − 𝓛(θ*) ≤ ‖∇𝓛(θ*)‖_(k)·e + βe²/2, with e the root mean square distance.

    Example:
        >>> excess_risk(Bound.of("a root mean square distance", privacy=0.1), smoothness=2.0).value
        0.010000000000000002
    """
    require_positive(smoothness=smoothness)
    require_non_negative(gradient_at_target=gradient_at_target)
    return Bound.of(
        distance.theorem.replace("root mean square distance", "excess risk"),
        statistics=gradient_at_target * distance.value,
        distance=smoothness * distance.value**2 / 2,
    )


def _support(design: Design) -> int:
    """k = 2s + s*, at most d: the most coordinates in which two iterates and the target differ from 0."""
    return min(2 * design["s"] + design["target_sparsity"], design["d"])


def _expansion(design: Design) -> float:
    return thresholding_expansion(design["s"], design["target_sparsity"], design["d"])


def _top_selection_noise(k: int, d: int) -> float:
    """√E‖w‖²_(k) for Gumbel or Laplace noise of scale 1; the Gumbel's shift covers both."""
    return top_exponential(k, d) + _GUMBEL_SHIFT * math.sqrt(k)
