"""Noisy gradient descent: average iterate, last iterate, smooth losses, rank instead of dimension.

Throughout, step t uses g_t = ∇𝓛(θ_t) + ξ_t with independent ξ_t of mean 0 and standard deviation ``noise_std`` in each
coordinate: the noise of the mean gradient, i.e. noise multiplier × clip / n. 𝓛 is convex, ``distance`` bounds
‖θ_0 − θ*‖ (the diameter of the constraint set will do), and every bound is on E[𝓛(output)] − min 𝓛. Proofs are in
``docs/maths/theory.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.geometry import Geometry, WholeSpace
from discreet.theory.bound import (
    Bound,
    gaussian_noise_std,
    require,
    require_count,
    require_non_negative,
    require_positive,
)
from discreet.units import Adjacency

__all__ = [
    "average_iterate",
    "best_step",
    "gradient_descent_rate",
    "last_iterate",
    "last_iterate_decaying",
    "rank_bound",
    "sampled_gradient_bound",
    "smooth_average_iterate",
    "strongly_convex_last_iterate",
    "suffix_average",
]


def average_iterate(
    *, distance: float, lipschitz: float, d: int, noise_std: float, iterations: int, step: float, convex: bool = True
) -> Bound:
    """The average of θ_0, …, θ_{T−1}: R²/(2ηT) + η(G² + dσ²)/2.

    With the step of `best_step` this is R√((G² + dσ²)/T) (Nemirovski–Yudin; Bassily–Smith–Thakurta 2014).

    Args:
        distance: R, a bound on ‖θ_0 − θ*‖₂.
        lipschitz: G, a bound on ‖∇𝓛‖₂ (for sampled gradients use `sampled_gradient_bound`).
        d: the dimension.
        noise_std: σ.
        iterations: T.
        step: η.
        convex: whether 𝓛 and the constraint set are convex.

    Raises:
        HypothesisViolated: not convex, or a constant that is not positive.

    Example:
        >>> step = best_step(distance=1.0, lipschitz=1.0, d=4, noise_std=0.0, iterations=100)
        >>> round(average_iterate(distance=1, lipschitz=1, d=4, noise_std=0, iterations=100, step=step).value, 12)
        0.1
    """
    require(convex, "a convex loss and a convex constraint set")
    require_positive(distance=distance, lipschitz=lipschitz, step=step)
    require_non_negative(noise_std=noise_std)
    require_count(d=d, iterations=iterations)
    return Bound.of(
        "noisy projected subgradient descent, average iterate",
        start=distance**2 / (2 * step * iterations),
        slope=step * lipschitz**2 / 2,
        privacy=step * d * noise_std**2 / 2,
    )


def best_step(*, distance: float, lipschitz: float, d: int, noise_std: float, iterations: int) -> float:
    """R/√(T(G² + dσ²)), the step that minimises `average_iterate`."""
    require_positive(distance=distance, lipschitz=lipschitz)
    require_non_negative(noise_std=noise_std)
    require_count(d=d, iterations=iterations)
    return distance / math.sqrt(iterations * (lipschitz**2 + d * noise_std**2))


def sampled_gradient_bound(lipschitz: float, n: int, rate: float) -> float:
    """The root mean square of a Poisson-sampled gradient Σ_{i ∈ batch} g_i/(rate·n) of rows with ‖g_i‖ ≤ G.

    E‖·‖² = ‖∇𝓛‖² + (1 − q)/(q n²)·Σ‖g_i‖² ≤ G²(1 + (1 − q)/(qn)). Put it in place of G.

    Raises:
        HypothesisViolated: a rate outside (0, 1].

    Example:
        >>> sampled_gradient_bound(2.0, n=100, rate=1.0), round(sampled_gradient_bound(2.0, n=100, rate=0.01), 3)
        (2.0, 2.821)
    """
    require_positive(lipschitz=lipschitz)
    require_count(n=n)
    require(0 < rate <= 1, f"a sampling rate in (0, 1], got {rate}")
    return lipschitz * math.sqrt(1 + (1 - rate) / (rate * n))


def smooth_average_iterate(
    *,
    distance: float,
    smoothness: float,
    d: int,
    noise_std: float,
    iterations: int,
    step: float,
    suffix: int | None = None,
    constrained: bool = True,
    convex: bool = True,
) -> Bound:
    """The mean of the last m of θ_1, …, θ_T for a β-smooth loss and exact gradients: R²/(2ηm) + (T/m)·c·ηdσ²/2.

    For η ≤ 1/β: c = min(2, 1/(1 − ηβ)) in general, and 1 + ηβ where no projection is made. No Lipschitz constant:
    without noise the error falls as 1/T.

    Args:
        distance: R, a bound on ‖θ_0 − θ*‖₂.
        smoothness: β.
        d: the dimension.
        noise_std: σ.
        iterations: T.
        step: η.
        suffix: m; None takes all T points.
        constrained: whether iterates are projected on a set.
        convex: whether 𝓛 and the constraint set are convex.

    Raises:
        HypothesisViolated: the step is above 1/smoothness, the problem is not convex, or the suffix is longer than T.

    Example:
        >>> args = dict(distance=1.0, smoothness=1.0, d=4, noise_std=0.1, iterations=100, step=0.5)
        >>> bounds = [smooth_average_iterate(**args, **more) for more in ({}, {"constrained": False}, {"suffix": 50})]
        >>> [round(bound.value, 12) for bound in bounds]
        [0.03, 0.025, 0.06]
    """
    require(convex, "a convex loss and a convex constraint set")
    require_positive(distance=distance, smoothness=smoothness, step=step)
    require_non_negative(noise_std=noise_std)
    points = iterations if suffix is None else suffix
    require_count(d=d, iterations=iterations, suffix=points)
    require(points <= iterations, f"a suffix of at most the {iterations} points after a step, got {points}")
    # a step of 1/β computed in floating point may be one unit in the last place longer
    share = step * smoothness
    require(share <= 1 + 1e-12, f"a step of at most 1/smoothness = {1 / smoothness:g}, got {step:g}")
    if constrained:
        factor = 2.0 if share > 0.5 else 1 / (1 - share)
    else:
        factor = 1 + share
    return Bound.of(
        "noisy gradient descent on a smooth loss, average of the last iterates",
        start=distance**2 / (2 * step * points),
        privacy=iterations / points * factor * step * d * noise_std**2 / 2,
    )


def rank_bound(
    *,
    distance: float,
    lipschitz: float,
    rank: int,
    noise_std: float,
    iterations: int,
    step: float,
    domain: Geometry | None = None,
) -> Bound:
    """Unconstrained noisy descent on a generalised linear model: the rank of the rows stands in for the dimension.

    R²/(2ηT) + η(G² + rank·σ²)/2, with R = ‖θ_0 − θ*‖_M. Since 𝓛(θ) = 𝓛(Mθ) and gradients lie in the span of the
    rows, Mθ_t follows the same recursion with noise Mξ_t of variance rank·σ² (Jain–Thakurta 2014;
    Song–Thakkar–Thakurta 2021). It describes the risk; the rank depends on the rows and must not be used to set
    the noise of a private fit.

    Raises:
        HypothesisViolated: a constraint set is given that is not the whole space: a projection mixes the noise that
            the rows do not see into the part that they do.

    Example:
        >>> args = dict(distance=1.0, lipschitz=1.0, noise_std=0.1, iterations=100, step=0.1)
        >>> round(rank_bound(rank=5, **args).value, 6), round(average_iterate(d=1000, **args).value, 6)
        (0.1025, 0.6)
    """
    require(domain is None or isinstance(domain, WholeSpace), "an unconstrained problem (the whole space)")
    bound = average_iterate(
        distance=distance, lipschitz=lipschitz, d=rank, noise_std=noise_std, iterations=iterations, step=step
    )
    return Bound(bound.value, bound.parts, "noisy gradient descent on a generalised linear model, rank bound")


def suffix_average(
    *,
    distance: float,
    lipschitz: float,
    d: int,
    noise_std: float,
    iterations: int,
    step: float,
    suffix: int,
    convex: bool = True,
) -> Bound:
    """The mean of the last m of θ_0, …, θ_T, constant step: R²/(2η(T + 1)) + η(G² + dσ²)(1 + H_T − H_{m−1})/2.

    H are harmonic numbers, so half the points cost a factor 1 + ln 2 over the average, whatever T.

    Raises:
        HypothesisViolated: not convex, a constant that is not positive, or a suffix longer than the T + 1 points.

    Example:
        >>> args = dict(distance=1.0, lipschitz=1.0, d=4, noise_std=0.0, iterations=99, step=0.1)
        >>> [round(suffix_average(**args, suffix=m).value, 3) for m in (100, 50, 1)]
        [0.1, 0.135, 0.359]
    """
    require(convex, "a convex loss and a convex constraint set")
    require_positive(distance=distance, lipschitz=lipschitz, step=step)
    require_non_negative(noise_std=noise_std)
    require_count(d=d, iterations=iterations, suffix=suffix)
    require(suffix <= iterations + 1, f"a suffix of at most the {iterations + 1} points visited, got {suffix}")
    factor = 1 + math.fsum(1 / k for k in range(suffix, iterations + 1))
    return Bound.of(
        "noisy projected subgradient descent, suffix average, constant step",
        start=distance**2 / (2 * step * (iterations + 1)),
        slope=step * lipschitz**2 * factor / 2,
        privacy=step * d * noise_std**2 * factor / 2,
    )


def last_iterate(
    *, distance: float, lipschitz: float, d: int, noise_std: float, iterations: int, step: float, convex: bool = True
) -> Bound:
    """θ_T after T steps of constant size: R²/(2η(T + 1)) + η(G² + dσ²)(1 + H_T)/2, H_T the harmonic number.

    The price of the last iterate over the average is the factor 1 + H_T ≈ ln T + 1.58 (after Shamir–Zhang 2013).

    Raises:
        HypothesisViolated: not convex, or a constant that is not positive.

    Example:
        >>> round(last_iterate(distance=1.0, lipschitz=1.0, d=4, noise_std=0.1, iterations=99, step=0.1).value, 3)
        0.371
    """
    bound = suffix_average(
        distance=distance,
        lipschitz=lipschitz,
        d=d,
        noise_std=noise_std,
        iterations=iterations,
        step=step,
        suffix=1,
        convex=convex,
    )
    return Bound(bound.value, bound.parts, "noisy projected subgradient descent, last iterate, constant step")


def last_iterate_decaying(
    *, diameter: float, lipschitz: float, d: int, noise_std: float, steps: Sequence[float], convex: bool = True
) -> Bound:
    """θ_T after T steps of any non-increasing sizes η_1 ≥ … ≥ η_T on a bounded set: the sum behind Shamir–Zhang 2013.

    With N = T + 1 points, η_N = η_T, and Ḡ² = G² + dσ²,

        (D²/η_N + Ḡ²Σ_{t ≤ N} η_t)/(2N) + Σ_{k=1}^{T} [D²(1/η_N − 1/η_{N−k}) + Ḡ²Σ_{t=N−k}^N η_t]/(2k(k + 1)).

    For η_t = c/√t it is below their closed form (D²/c + cḠ²)(2 + ln N)/√N, for constant steps equal to `last_iterate`
    with the diameter in place of the distance.

    Args:
        diameter: D, the diameter of the (bounded, convex) constraint set.
        lipschitz: G.
        d: the dimension.
        noise_std: σ.
        steps: the T step sizes.
        convex: whether 𝓛 and the constraint set are convex.

    Raises:
        HypothesisViolated: not convex, an unbounded set, or step sizes that are not positive or increase somewhere.

    Example:
        >>> steps = [1 / math.sqrt(t) for t in range(1, 100)]
        >>> bound = last_iterate_decaying(diameter=1.0, lipschitz=1.0, d=4, noise_std=0.0, steps=steps)
        >>> round(bound.value, 3), round(2 * (2 + math.log(100)) / 10, 3)  # and the closed form
        (0.51, 1.321)
    """
    require(convex, "a convex loss and a convex constraint set")
    require_positive(diameter=diameter, lipschitz=lipschitz)
    require_non_negative(noise_std=noise_std)
    require_count(d=d)
    sizes = np.asarray([*steps, *steps[-1:]], dtype=np.float64)
    require(len(sizes) > 0 and bool(np.all(sizes > 0)), "at least one step, and all of them positive")
    require(bool(np.all(np.diff(sizes) <= 0)), "step sizes that do not increase")
    count = len(sizes)
    k = np.arange(1, count)
    weights = 1 / (2 * k * (k + 1))
    inverse = 1 / sizes
    suffix_sums = np.cumsum(sizes[::-1])  # suffix_sums[k] = η_{N−k} + … + η_N
    start = inverse[-1] / (2 * count) + float(weights @ (inverse[-1] - inverse[-1 - k]))
    squares = suffix_sums[-1] / (2 * count) + float(weights @ suffix_sums[k])
    return Bound.of(
        "noisy projected subgradient descent, last iterate, decaying steps",
        start=float(start) * diameter**2,
        slope=float(squares) * lipschitz**2,
        privacy=float(squares) * d * noise_std**2,
    )


def strongly_convex_last_iterate(
    *,
    distance: float,
    strong_convexity: float,
    smoothness: float,
    d: int,
    noise_std: float,
    iterations: int,
    step: float,
    lipschitz: float | None = None,
) -> Bound:
    """θ_T for a λ-strongly convex, β-smooth loss and exact gradients, through the squared distance to θ*.

    With c = max(|1 − ηλ|, |1 − ηβ|) < 1, E‖θ_T − θ*‖² ≤ c^{2T}R² + η²dσ²(1 − c^{2T})/(1 − c²). The excess risk
    is at most β/2 times that when θ* is a stationary point (no constraint, or θ* in the interior); under an
    active constraint give ``lipschitz``, and the bound is G times the root.

    Raises:
        HypothesisViolated: the step is not below 2/smoothness, or λ exceeds β.

    Example:
        >>> args = dict(distance=1.0, strong_convexity=1.0, smoothness=1.0, d=4, noise_std=0.1, iterations=20)
        >>> round(strongly_convex_last_iterate(**args, step=1.0).value, 12)  # one step solves it, noise remains
        0.02
    """
    require_positive(distance=distance, strong_convexity=strong_convexity, smoothness=smoothness, step=step)
    require_non_negative(noise_std=noise_std)
    require_count(d=d, iterations=iterations)
    require(strong_convexity <= smoothness, "a strong convexity of at most the smoothness")
    require(step * smoothness < 2, f"a step below 2/smoothness = {2 / smoothness:g}, got {step:g}")
    contraction = max(abs(1 - step * strong_convexity), abs(1 - step * smoothness)) ** 2
    start = contraction**iterations * distance**2
    privacy = step**2 * d * noise_std**2 * (1 - contraction**iterations) / (1 - contraction)
    if lipschitz is None:
        return Bound.of(
            "noisy gradient descent, strongly convex and smooth, last iterate",
            start=smoothness / 2 * start,
            privacy=smoothness / 2 * privacy,
        )
    require_positive(lipschitz=lipschitz)
    return Bound.of(
        "noisy projected gradient descent, strongly convex and smooth, last iterate",
        distance=lipschitz * math.sqrt(start + privacy),
    )


def gradient_descent_rate(
    *, n: int, d: int, distance: float, lipschitz: float, rho: float, adjacency: Adjacency, iterations: int
) -> Bound:
    """`average_iterate` at its best step, when T Gaussian gradients share the budget ρ: R√(G²/T + dΔ²/(2ρn²)).

    As T grows it falls to RΔ√(d/(2ρ))/n, with Δ = 2G or G; for ρ ≈ ε²/(4 ln(1/δ)) that is the rate
    RG√(d ln(1/δ))/(εn) of Bassily–Smith–Thakurta 2014 with an explicit constant.

    Example:
        >>> from discreet.theory import zcdp_budget
        >>> args = dict(n=10_000, d=100, distance=1.0, lipschitz=1.0, adjacency="add-remove", iterations=10**7)
        >>> measured = gradient_descent_rate(rho=zcdp_budget(0.1, 1e-6), **args).value
        >>> printed = math.sqrt(100 * math.log(1e6)) / (0.1 * 10_000)  # RG√(d ln(1/δ))/(εn)
        >>> round(measured / printed, 2)  # √2 for small ε and many steps
        1.42
    """
    noise_std = gaussian_noise_std(lipschitz, n, rho, adjacency, iterations)
    step = best_step(distance=distance, lipschitz=lipschitz, d=d, noise_std=noise_std, iterations=iterations)
    return average_iterate(
        distance=distance, lipschitz=lipschitz, d=d, noise_std=noise_std, iterations=iterations, step=step
    )
