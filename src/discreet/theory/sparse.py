"""Sparse gradients: upper bounds of the projection mechanism, and lower bounds for any private algorithm.

Rows z_1, …, z_n have at most s non-zero coordinates out of d and ‖z_i‖₂ ≤ L. After Ghazi, Guzmán, Kamath, Kumar and
Manurangsi 2024, with every constant explicit; proofs in ``docs/maths/theory.md``.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.theory.bound import (
    Bound,
    expected_max_abs_normal,
    gaussian_noise_std,
    harmonic,
    require,
    require_count,
    require_non_negative,
    require_positive,
)
from discreet.theory.fingerprinting import fingerprinted, spaced
from discreet.theory.perturbation import best_output_regularisation, output_perturbation_inf
from discreet.units import Adjacency, Unit

__all__ = [
    "laplace_projection_error",
    "log_packing",
    "sparse_descent_gaussian",
    "sparse_descent_pure",
    "sparse_descent_smooth",
    "sparse_descent_strongly_convex",
    "sparse_erm_gaussian",
    "sparse_erm_lower_bound",
    "sparse_mean_gaussian",
    "sparse_mean_laplace",
    "sparse_mean_lower_bound",
    "sparse_stationarity",
]


_FEW_TERMS = 64
"""Terms of a sum up to which they are added one by one."""


def sparse_mean_gaussian(*, d: int, s: int, bound: float, noise_std: float) -> Bound:
    """Root mean square error of (mean + N(0, σ²I)) projected on ‖·‖₁ ≤ L√s: √min(L√s·σ·E max|g_i|, dσ²), at most 2L.

    The projection p of m + ξ satisfies ‖p − m‖² ≤ ⟨ξ, p − m⟩, and the mean of sup ⟨ξ, ·⟩ over the ball is its
    radius times E‖ξ‖∞; nor does it expand, so ‖p − m‖ ≤ ‖ξ‖₂. Projected on ‖·‖₂ ≤ L as well, which brings it
    nearer, no answer is further than 2L from any mean.
    """
    require_count(d=d, s=s)
    require_positive(bound=bound)
    require_non_negative(noise_std=noise_std)
    through_width = bound * math.sqrt(min(s, d)) * noise_std * expected_max_abs_normal(d)
    error = math.sqrt(min(through_width, d * noise_std**2))
    return Bound.of("projection mechanism, Gaussian noise", privacy=error).capped(2 * bound)


def sparse_mean_laplace(*, n: int, d: int, s: int, bound: float, epsilon: float, adjacency: Adjacency) -> Bound:
    """Root mean square error of the projection mechanism with Laplace noise of scale b = Δ₁/ε, which is ε-DP.

    It is at most √min(L√s·b·H_d, 2db²), with Δ₁ = 2L√s/n under replace-one, and at most 2L.

    E‖ξ‖∞ = b·H_d for d Laplace variables. For large n this is L√(2sH_d/(nε)), free of the dimension but for H_d ≈ ln d.
    """
    require_count(n=n, d=d, s=s)
    require_positive(bound=bound, epsilon=epsilon)
    scale = Unit.of(adjacency).sensitivity(bound * math.sqrt(min(s, d))) / (n * epsilon)
    error = laplace_projection_error(d=d, s=s, bound=bound, scale=scale)
    return Bound.of("projection mechanism, Laplace noise", privacy=error).capped(2 * bound)


def laplace_projection_error(*, d: int, s: int, bound: float, scale: float) -> float:
    """√min(L√s·b·H_d, 2db²): root mean square error of a mean under Laplace noise of scale b, projected on its ball."""
    return math.sqrt(min(bound * math.sqrt(min(s, d)) * scale * harmonic(d), 2 * d * scale**2))


def sparse_descent_pure(
    *, n: int, d: int, s: int, bound: float, epsilon: float, adjacency: Adjacency, diameter: float, iterations: int
) -> Bound:
    """Pure ε-DP subgradient descent whose T gradients come from the Laplace projection mechanism with ε/T each.

    E excess of the average iterate ≤ D(L + e)/√T + D·e with e the error of one gradient
    (`sparse_mean_laplace`), for the step D/((L + e)√T): the usual proof, with the bias paid at ⟨bias, θ_t − θ*⟩
    ≤ D·e. On a set of diameter D no excess exceeds LD.
    """
    require_positive(diameter=diameter, epsilon=epsilon)
    require_count(iterations=iterations)
    error = sparse_mean_laplace(n=n, d=d, s=s, bound=bound, epsilon=epsilon / iterations, adjacency=adjacency).value
    return Bound.of(
        "descent with projected Laplace gradients",
        optimisation=diameter * (bound + error) / math.sqrt(iterations),
        bias=diameter * error,
    ).capped(bound * diameter)


def sparse_descent_gaussian(
    *, n: int, d: int, s: int, bound: float, rho: float, adjacency: Adjacency, diameter: float, iterations: int
) -> Bound:
    """ρ-zCDP subgradient descent whose T gradients come from the Gaussian projection mechanism with ρ/T each.

    E excess of the average iterate ≤ D(L + e)/√T + D·e, as in `sparse_descent_pure`, with e from
    `sparse_mean_gaussian`: e² ~ L²√(sT ln d/ρ)/n, so T can grow until the bias D·e takes over, at T ~ n^⅔: the best
    bound falls like n^−⅓. One release of the minimiser does better, like n^−½ (`sparse_erm_gaussian`).
    """
    require_positive(diameter=diameter)
    require_count(iterations=iterations)
    noise_std = gaussian_noise_std(bound, n, rho, adjacency, iterations)
    error = sparse_mean_gaussian(d=d, s=s, bound=bound, noise_std=noise_std).value
    return Bound.of(
        "descent with projected Gaussian gradients",
        optimisation=diameter * (bound + error) / math.sqrt(iterations),
        bias=diameter * error,
    ).capped(bound * diameter)


def sparse_erm_gaussian(
    *, n: int, d: int, s: int, bound: float, rho: float, adjacency: Adjacency, radius: float
) -> Bound:
    """The least proved excess risk on ‖θ‖₂ ≤ R of a ρ-zCDP algorithm for convex losses with s-sparse gradients.

    Output perturbation with the ℓ∞ projection (`output_perturbation_inf`) at the λ that balances its two parts:
    2R√(L√s·A·E max|g_i|), A = Δ/(n√(2ρ)), which is of order RL·(s ln d/ρ)^¼/√n; and at most the trivial LR·2. This is
    what the solver ``output_perturbation`` with ``projection="linf"`` runs.

    Example:
        >>> args = dict(d=10**6, s=50, bound=1.0, rho=0.01, adjacency="replace-one", radius=1.0)
        >>> few, many = (sparse_erm_gaussian(n=n, **args).value for n in (10**6, 10**8))
        >>> round(math.log(many / few) / math.log(100), 6)
        -0.5
    """
    require_positive(radius=radius)
    at_one = gaussian_noise_std(bound, n, rho, adjacency)  # times 1/λ
    cost = 2 * bound * math.sqrt(min(s, d)) * expected_max_abs_normal(d)
    regularisation = best_output_regularisation(target_norm=radius, cost_per_std=cost, std_times_regularisation=at_one)
    found = output_perturbation_inf(
        d=d,
        sparsity=s,
        lipschitz=bound,
        regularisation=regularisation,
        noise_std=at_one / regularisation,
        target_norm=radius,
    )
    return found.capped(2 * bound * radius)


def sparse_descent_smooth(
    *,
    d: int,
    s: int,
    bound: float,
    noise_std: float,
    diameter: float,
    smoothness: float,
    iterations: int,
    laplace: bool = False,
) -> Bound:
    """T projected noisy gradients of a convex β-smooth loss, steps 1/β on a set of diameter D: βD²/(2T) + D·e.

    With g̃ = ∇ + ξ the three points θ, θ⁺ = Π(θ − g̃/β), θ* satisfy ⟨g̃, θ⁺ − θ*⟩ ≤ β(‖θ − θ*‖² − ‖θ⁺ − θ*‖² − ‖θ⁺ −
    θ‖²)/2, and smoothness gives 𝓛(θ⁺) − 𝓛(θ*) ≤ ⟨∇, θ⁺ − θ*⟩ + β‖θ⁺ − θ‖²/2: summed, the squares telescope and ⟨ξ, θ* −
    θ⁺⟩ ≤ D‖ξ‖ remains, with E‖ξ‖ ≤ e of `sparse_mean_gaussian`, or of `laplace_projection_error` for Laplace noise of
    deviation ``noise_std`` (``laplace=True``). The mean of the points stepped to is meant. This is what
    `discreet.solvers.sparse_descent` runs.

    Example:
        >>> args = dict(d=10**6, s=50, bound=1.0, noise_std=1e-5, diameter=2.0, smoothness=0.25, iterations=20)
        >>> round(float(sparse_descent_smooth(**args).value), 3)
        0.045
    """
    require_positive(diameter=diameter, smoothness=smoothness)
    require_count(iterations=iterations)
    if laplace:
        error = laplace_projection_error(d=d, s=s, bound=bound, scale=noise_std / math.sqrt(2))
    else:
        error = float(sparse_mean_gaussian(d=d, s=s, bound=bound, noise_std=noise_std).value)
    return Bound.of(
        f"descent with projected {'Laplace' if laplace else 'Gaussian'} gradients, smooth loss",
        optimisation=smoothness * diameter**2 / (2 * iterations),
        bias=diameter * error,
    ).capped(bound * diameter)


def sparse_descent_strongly_convex(
    *, d: int, s: int, bound: float, noise_std: float, smoothness: float, convexity: float, gap: float, iterations: int
) -> Bound:
    """T projected Gaussian gradients of a λ-strongly convex loss, last iterate: (1 − λ/β)^T·gap + e²/(2λ).

    𝓛(θ⁺) ≤ 𝓛(θ) − ‖∇‖²/(2β) + ‖ξ‖²/(2β) and ‖∇‖² ≥ 2λ(𝓛(θ) − inf 𝓛): a contraction by 1 − λ/β with an error of
    e²/(2β) a step, which adds up to e²/(2λ). The error is squared: where curvature is known, bias costs little.

    Args:
        d: dimension.
        s: entries of a row's gradient.
        bound: L, length of a row's gradient.
        noise_std: noise of the mean gradient a coordinate.
        smoothness: β.
        convexity: λ ≤ β.
        gap: 𝓛(θ_0) − inf 𝓛.
        iterations: T.

    Example:
        >>> args = dict(d=10**6, s=50, bound=1.0, noise_std=1e-5, smoothness=1.0, convexity=0.1, gap=1.0)
        >>> bool(sparse_descent_strongly_convex(**args, iterations=100).value < 0.01)
        True
    """
    require_positive(smoothness=smoothness, convexity=convexity)
    require_non_negative(gap=gap)
    require_count(iterations=iterations)
    require(convexity <= smoothness, f"λ ≤ β, got λ = {convexity}, β = {smoothness}")
    error = sparse_mean_gaussian(d=d, s=s, bound=bound, noise_std=noise_std).value
    return Bound.of(
        "descent with projected Gaussian gradients, strongly convex loss",
        optimisation=(1 - convexity / smoothness) ** iterations * gap,
        bias=error**2 / (2 * convexity),
    )


def sparse_stationarity(
    *,
    n: int,
    d: int,
    s: int,
    bound: float,
    rho: float,
    adjacency: Adjacency,
    smoothness: float,
    initial_gap: float,
    iterations: int,
) -> Bound:
    """E‖∇𝓛(θ_τ)‖² for a non-convex β-smooth loss: T projected Gaussian gradients share ρ, the step is 1/β.

    θ_τ is one of θ_0, …, θ_{T−1}, drawn uniformly.

    2β(𝓛(θ_0) − inf 𝓛)/T + e², since 𝓛(θ − g̃/β) ≤ 𝓛(θ) − ‖∇𝓛(θ)‖²/(2β) + ‖g̃ − ∇𝓛(θ)‖²/(2β).
    """
    require_positive(smoothness=smoothness)
    require_non_negative(initial_gap=initial_gap)
    noise_std = gaussian_noise_std(bound, n, rho, adjacency, iterations)
    error = sparse_mean_gaussian(d=d, s=s, bound=bound, noise_std=noise_std).value
    return Bound.of(
        "squared gradient norm, descent with projected Gaussian gradients",
        optimisation=2 * smoothness * initial_gap / iterations,
        privacy=error**2,
    ).capped(bound**2)


def log_packing(d: int, s: int) -> float:
    """ln M, where at least M subsets of size s of {1, …, d} differ pairwise by at least s elements (Gilbert–Varshamov).

    M = C(d, s)/Σ_{2j < s} C(s, j)·C(d − s, j): a maximal family's balls cover all subsets. The ratio (s − j + 1)(d − s
    − j + 1)/j² of a term to the one before falls with j; where it is r > 1 at the last, the sum is at most the last
    term times r/(r − 1).
    """
    require_count(d=d, s=s)
    require(s <= d, f"s ≤ d, got s = {s}, d = {d}")
    last = (s - 1) // 2
    ratio = (s - last + 1) * (d - s - last + 1) / last**2 if 0 < last <= d - s else 0.0
    if last > _FEW_TERMS and ratio > 2:
        ball = _log_choose(s, last) + _log_choose(d - s, last) - math.log1p(-1 / ratio)
        return max(0.0, _log_choose(d, s) - ball)
    close = [_log_choose(s, j) + _log_choose(d - s, j) for j in range((s + 1) // 2) if j <= d - s]
    return max(0.0, _log_choose(d, s) - float(np.logaddexp.reduce(close)))


def sparse_mean_lower_bound(
    *, n: int, d: int, s: int, bound: float, epsilon: float, adjacency: Adjacency, delta: float = 0.0
) -> Bound:
    """No (ε, δ)-DP mechanism estimates every mean of n such rows with a smaller root mean square error.

    K blocks of coordinates each hold k rows that all equal one of M well separated s-sparse vectors. Group
    privacy lets the mechanism find the right one in a block with probability at most e^{kε}/M + δ(e^{kε} −
    1)/(e^ε − 1) on average, and each miss costs half the separation, kL/(2n). The best K, k and sparsity s' ≤ s
    of a grid are taken. For δ > 0 fingerprinting in blocks is stronger, of order L·s^¼/√(εn)
    (`discreet.theory.fingerprinting`); the larger of both is the bound.

    Example:
        >>> args = dict(n=1000, d=10_000, s=4, bound=1.0, epsilon=1.0, adjacency="replace-one")
        >>> lower, upper = sparse_mean_lower_bound(**args), sparse_mean_laplace(**args)
        >>> bool(0 < lower.value < upper.value)
        True
    """
    packed, _ = _hardest_instance(n, d, s, bound, epsilon, delta, adjacency)
    traced, _ = fingerprinted(n=n, d=d, s=s, bound=bound, epsilon=epsilon, delta=delta, adjacency=adjacency)
    kind = "fingerprinting" if traced > packed else "packing"
    return Bound.of(f"block {kind} lower bound, mean estimation", privacy=math.sqrt(max(packed, traced)))


def sparse_erm_lower_bound(
    *, n: int, d: int, s: int, bound: float, radius: float, epsilon: float, adjacency: Adjacency, delta: float = 0.0
) -> Bound:
    """No (ε, δ)-DP algorithm has a smaller worst-case expected excess risk on the ball ‖θ‖₂ ≤ R.

    The class is that of convex, L-Lipschitz losses with s-sparse gradients.

    For linear losses −⟨z_i, θ⟩ the excess is at least ‖m‖·‖θ − Rm/‖m‖‖²/(2R), and all means of the hard family
    have one public norm ‖m‖ = kL√K/n: a good θ would be a good estimate of the mean. With s = d it bounds dense
    problems. For δ > 0 fingerprinting is stronger, as in `sparse_mean_lower_bound`: of order RL·s^¼/√(εn).
    """
    require_positive(radius=radius)
    _, packed = _hardest_instance(n, d, s, bound, epsilon, delta, adjacency)
    _, traced = fingerprinted(n=n, d=d, s=s, bound=bound, epsilon=epsilon, delta=delta, adjacency=adjacency)
    kind = "fingerprinting" if traced > packed else "packing"
    return Bound.of(f"block {kind} lower bound, empirical risk", privacy=radius * max(packed, traced))


def _hardest_instance(
    n: int, d: int, s: int, bound: float, epsilon: float, delta: float, adjacency: Adjacency
) -> tuple[float, float]:
    """The largest mean squared error, and the largest excess risk at radius 1, that the construction proves."""
    require_count(n=n, d=d, s=s)
    require_positive(bound=bound, epsilon=epsilon)
    require(0 <= delta < 1, f"0 ≤ δ < 1, got {delta}")
    moves = Unit.of(adjacency)
    require(moves.rows_per_unit == 1, "one row a unit")
    per_row = 1 if moves.relation == "replace-one" else 2  # exchanging a row removes one and adds another
    squares = excess = 0.0
    sparsities = {min(2**j, s) for j in range(s.bit_length() + 1)}
    for sparsity in sparsities:
        for blocks in spaced(min(n, d // sparsity)):
            log_m = log_packing(d // blocks, sparsity)
            largest = n // blocks
            rows = [(log_m - math.log(c)) / (epsilon * per_row) for c in (1.5, 2, 4)]
            if delta > 0:
                rows += [math.log1p(math.expm1(epsilon) / (c * delta)) / (epsilon * per_row) for c in (2, 4)]
            for k in {min(largest, int(r)) for r in rows if r >= 1}:
                group = epsilon * per_row * k
                hit = math.exp(min(group - log_m, 0.0))
                if delta > 0:
                    hit += delta * math.expm1(min(group, 700.0)) / math.expm1(epsilon)
                miss = max(0.0, 1 - hit)
                error = blocks * miss * (k * bound / (2 * n)) ** 2
                mean_norm = k * bound * math.sqrt(blocks) / n
                squares, excess = max(squares, error), max(excess, error / (2 * mean_norm))
    return squares, excess


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
