"""Stochastic descent on an estimator of small bias and bounded second moment, stopped by a privacy filter.

ĝ_t is any estimate of ∇𝓛(θ_t) with ‖E ĝ_t − ∇𝓛(θ_t)‖ ≤ B and E‖ĝ_t‖² ≤ V given the past; for the bias-reduced estimator
`BiasReduced.bias_bound` and `BiasReduced.second_moment_bound` prove both. After Ghazi, Guzmán, Kamath, Kumar and
Manurangsi 2024; proofs in ``docs/maths/theory.md``.
"""

from __future__ import annotations

from discreet.theory.bound import Bound, require, require_count, require_non_negative, require_positive

__all__ = ["biased_descent", "biased_descent_stationarity"]


def biased_descent(
    *,
    distance: float,
    diameter: float,
    second_moment: float,
    bias: float,
    step: float,
    iterations: int,
    least_iterations: int | None = None,
    convex: bool = True,
) -> Bound:
    """The average of θ_0, …, θ_{τ−1}: R²/(2ηT) + ηV/2 + D·B after τ = T steps.

    Where a filter ends the run after at least T₀ and on average at most T steps, by a rule that knows each step's cost
    but not its answer, it is (R²/(2η) + (T + 1)(ηV/2 + D·B))/T₀: the refused step is counted, because
    whether it is refused may depend on its batch.

    Args:
        distance: R, a bound on ‖θ_0 − θ*‖₂.
        diameter: D, of the (convex, bounded) constraint set; the bias is paid at ⟨bias, θ_t − θ*⟩ ≤ B·D.
        second_moment: V.
        bias: B.
        step: η.
        iterations: T.
        least_iterations: T₀; None where the number of steps is fixed.
        convex: whether 𝓛 and the constraint set are convex.

    Raises:
        HypothesisViolated: not convex, an unbounded set, or T₀ above T.

    Example:
        >>> args = dict(distance=1.0, diameter=2.0, second_moment=4.0, bias=0.01, step=0.05, iterations=100)
        >>> round(biased_descent(**args).value, 12)
        0.22
        >>> round(biased_descent(**args, least_iterations=80).value, 4)
        0.2765
    """
    require(convex, "a convex loss and a convex constraint set")
    require_positive(distance=distance, diameter=diameter, second_moment=second_moment, step=step)
    require_non_negative(bias=bias)
    require_count(iterations=iterations)
    least, counted = iterations, iterations
    if least_iterations is not None:
        require_count(least_iterations=least_iterations)
        require(least_iterations <= iterations, f"at least {least_iterations} and at most {iterations} steps")
        least, counted = least_iterations, iterations + 1
    return Bound.of(
        "stochastic descent with bias, average iterate",
        start=distance**2 / (2 * step * least),
        variance=counted / least * step * second_moment / 2,
        bias=counted / least * diameter * bias,
    )


def biased_descent_stationarity(
    *, initial_gap: float, smoothness: float, second_moment: float, bias: float, step: float, iterations: int
) -> Bound:
    """E‖∇𝓛(θ_τ)‖² for a β-smooth loss, convex or not, τ uniform on 0 … T − 1: 2(𝓛(θ_0) − inf 𝓛)/(ηT) + βηV + B².

    Without constraint: E𝓛(θ − ηĝ) ≤ 𝓛(θ) − η⟨∇𝓛, Eĝ⟩ + βη²V/2 and −⟨∇𝓛, Eĝ⟩ ≤ −‖∇𝓛‖²/2 + B²/2.

    Raises:
        HypothesisViolated: a constant that is not positive.

    Example:
        >>> args = dict(initial_gap=1.0, smoothness=1.0, second_moment=4.0, bias=0.1, step=0.05)
        >>> round(biased_descent_stationarity(iterations=400, **args).value, 12)
        0.31
    """
    require_positive(smoothness=smoothness, second_moment=second_moment, step=step)
    require_non_negative(initial_gap=initial_gap, bias=bias)
    require_count(iterations=iterations)
    return Bound.of(
        "squared gradient norm, stochastic descent with bias",
        start=2 * initial_gap / (step * iterations),
        variance=smoothness * step * second_moment,
        bias=bias**2,
    )
