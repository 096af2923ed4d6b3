"""Noisy gradient descent on losses that are not convex: how nearly stationary its points are."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.theory.bound import Bound, require, require_count, require_non_negative, require_positive

__all__ = ["SQUARED_GRADIENT", "random_iterate_stationarity"]

SQUARED_GRADIENT = "squared gradient"
"""What a bound for losses that are not convex is about: E‖∇𝓛‖²."""


def random_iterate_stationarity(
    *, smoothness: float, initial_gap: float, d: int, noise_std: float, iterations: int, step: float, suffix: int
) -> Bound:
    """E‖∇𝓛(θ_τ)‖² for θ ← θ − η(∇𝓛 + N(0, σ²I)), T steps without constraint, τ uniform among the last m points.

    A β-smooth function has E𝓛(θ⁺) ≤ 𝓛(θ) − η(1 − ηβ/2)‖∇𝓛(θ)‖² + βη²dσ²/2. Summed from the first of the m points to the
    last, and with 𝓛 at the first at most (T − m)βη²dσ²/2 above 𝓛(θ_0),

        E‖∇𝓛(θ_τ)‖² ≤ ((𝓛(θ_0) − inf 𝓛)/(ηm) + T·βηdσ²/(2m)) / (1 − ηβ/2)    (Ghadimi and Lan 2013, for m = T).

    Nothing is said of the excess risk: a stationary point may be a poor one.

    Args:
        smoothness: β of the mean loss, ridge included.
        initial_gap: 𝓛(θ_0) − inf 𝓛.
        d: dimension.
        noise_std: σ, in each coordinate of the mean gradient.
        iterations: T.
        step: η < 2/β.
        suffix: m, of the points θ_{T−m}, …, θ_{T−1} that steps start from.

    Raises:
        HypothesisViolated: a constant outside its range.

    Example:
        >>> args = dict(smoothness=1.0, initial_gap=0.5, d=10, noise_std=0.01, iterations=100, step=1.0)
        >>> round(random_iterate_stationarity(**args, suffix=50).value, 6)
        0.022
    """
    require_positive(smoothness=smoothness, step=step)
    require_non_negative(initial_gap=initial_gap, noise_std=noise_std)
    require_count(d=d, iterations=iterations, suffix=suffix)
    require(suffix <= iterations, f"m ≤ T, got m = {suffix}, T = {iterations}")
    require(step * smoothness < 2, f"a step below 2/smoothness = {2 / smoothness:g}, got {step:g}")
    rest = 1 - step * smoothness / 2
    noise = iterations / suffix * smoothness * step * d * noise_std**2 / 2
    require(math.isfinite(noise), "finite noise")
    bound = Bound.of(
        "stationarity of a random late iterate",
        optimisation=initial_gap / (step * suffix) / rest,
        privacy=noise / rest,
    )
    return replace(bound, quantity=SQUARED_GRADIENT)
