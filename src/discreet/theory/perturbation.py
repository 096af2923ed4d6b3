"""Objective and output perturbation, and the exponential mechanism."""

from __future__ import annotations

import math

from discreet.geometry import Geometry
from discreet.theory.bound import (
    Bound,
    expected_max_abs_normal,
    harmonic,
    require,
    require_count,
    require_non_negative,
    require_positive,
)

__all__ = [
    "best_output_regularisation",
    "exponential_mechanism",
    "exponential_mechanism_continuous",
    "exponential_mechanism_tail",
    "objective_perturbation",
    "objective_perturbation_constrained",
    "output_perturbation",
    "output_perturbation_inf",
]


def objective_perturbation_constrained(
    *, n: int, d: int, domain: Geometry, regularisation: float, noise_std: float, target_norm: float
) -> Bound:
    """θ̂ = argmin over 𝒞 of Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩, b ~ N(0, σ²I): E excess ≤ λ‖θ*‖²/(2n) + σ·G_𝒞/n.

    Compare the perturbed objective at θ̂ and θ*: what is left of the noise is ⟨b, θ* − θ̂⟩ ≤ ⟨b, θ*⟩ +
    sup_𝒞⟨−b, θ⟩, whose mean is σ times the Gaussian width (Talwar–Thakurta–Zhang 2014). Neither convexity nor
    Lipschitz constants are needed for this (privacy needs them). A width from Monte Carlo enters with four
    standard errors added.

    Raises:
        HypothesisViolated: the set is unbounded (use `objective_perturbation`).

    Example:
        >>> from discreet.geometry import L1Ball
        >>> args = dict(n=1000, d=10_000, regularisation=1.0, noise_std=10.0, target_norm=1.0)
        >>> bound = objective_perturbation_constrained(domain=L1Ball(1.0), **args)
        >>> round(bound.parts["privacy"], 4)  # σ·E max|g|/n, where the ℓ2 ball would pay σ√d/n = 1
        0.0402
    """
    require_count(n=n, d=d)
    require_non_negative(regularisation=regularisation, noise_std=noise_std, target_norm=target_norm)
    width = domain.gaussian_width(d)
    require(math.isfinite(width.value), "a bounded constraint set, whose Gaussian width is finite")
    return Bound.of(
        "objective perturbation, Gaussian width",
        regularisation=regularisation * target_norm**2 / (2 * n),
        privacy=float(noise_std * (width.value + 4 * width.standard_error) / n),
    )


def objective_perturbation(
    *, n: int, rank: int, regularisation: float, noise_std: float, target_norm: float, gradient_tolerance: float = 0.0
) -> Bound:
    """Objective perturbation without a constraint: E excess ≤ λ‖θ*‖²/(2n) + rank·σ²/(2λn) (+ τ²/(2λn), ‖∇‖ ≤ τ).

    Strong convexity of the perturbed objective pays for ⟨b, θ* − θ̂⟩ − (λ/2)‖θ̂ − θ*‖² ≤ ‖b‖²/(2λ). For a
    generalised linear model only the part of b in the span of the rows matters, so ``rank`` may be that of the
    data; otherwise it is d. Any law of b with E bbᵀ = σ²I will do: for noise of pure ε put in `gamma_noise_std`.

    Raises:
        HypothesisViolated: λ is not positive.

    Example:
        >>> objective_perturbation(n=100, rank=4, regularisation=2.0, noise_std=1.0, target_norm=1.0).value
        0.02
    """
    require_count(n=n, rank=rank)
    require_positive(regularisation=regularisation)
    require_non_negative(noise_std=noise_std, target_norm=target_norm, gradient_tolerance=gradient_tolerance)
    return Bound.of(
        "objective perturbation, strong convexity",
        regularisation=regularisation * target_norm**2 / (2 * n),
        privacy=rank * noise_std**2 / (2 * regularisation * n),
        solver=gradient_tolerance**2 / (2 * regularisation * n),
    )


def output_perturbation(
    *,
    d: int,
    regularisation: float,
    noise_std: float,
    target_norm: float,
    lipschitz: float | None = None,
    smoothness: float | None = None,
    generalised_linear: bool = False,
    projected: bool = False,
    gaussian: bool = True,
) -> Bound:
    """θ̂ + ξ, θ̂ = argmin 𝓛 + (λ/2)‖θ‖², E ξξᵀ = σ²I: E excess ≤ λ‖θ*‖²/2 + the least of the costs of ξ that apply.

    ======================  =====================  ===========================
    what is known           any loss               generalised linear model
    ======================  =====================  ===========================
    G-Lipschitz             Gσ√d                   Gσ√(2/π)
    β-smooth                βdσ²/2                 βσ²/2
    ======================  =====================  ===========================

    A GLM row sees only ⟨x, ξ⟩, a normal of deviation σ‖x‖: dimension does not enter. Smooth losses use E⟨∇𝓛, ξ⟩
    = 0. Here G and β are constants in θ (slope × ‖x‖, curvature × ‖x‖²), and λ is in the units of the *mean*
    loss. When θ̂ minimises over a convex 𝒞 and the result is projected back on it only Gσ√d remains. For other noise of
    that covariance (``gaussian=False``; `gamma_noise_std` for pure ε) the entry Gσ√(2/π) is Gσ.

    Raises:
        HypothesisViolated: neither constant is given; a projection without a Lipschitz constant.

    Example:
        >>> args = dict(d=100, regularisation=0.02, noise_std=0.1, target_norm=1.0, smoothness=1.0)
        >>> round(output_perturbation(**args).value, 12)
        0.51
        >>> round(output_perturbation(**args, generalised_linear=True).value, 12)
        0.015
    """
    require_count(d=d)
    require_positive(regularisation=regularisation)
    require_non_negative(noise_std=noise_std, target_norm=target_norm)
    costs = []
    if lipschitz is not None:
        require_positive(lipschitz=lipschitz)
        costs.append(lipschitz * noise_std * math.sqrt(d))
        if generalised_linear and not projected:
            costs.append(lipschitz * noise_std * (math.sqrt(2 / math.pi) if gaussian else 1.0))
    if smoothness is not None and not projected:
        require_positive(smoothness=smoothness)
        costs.append(smoothness * (1 if generalised_linear else d) * noise_std**2 / 2)
    require(bool(costs), "a Lipschitz constant, or (without projection) a smoothness constant")
    return Bound.of("output perturbation", regularisation=regularisation * target_norm**2 / 2, privacy=min(costs))


def output_perturbation_inf(
    *,
    d: int,
    sparsity: int,
    lipschitz: float,
    regularisation: float,
    noise_std: float,
    target_norm: float,
    laplace: bool = False,
) -> Bound:
    """The noisy regularised minimiser over 𝒞, ℓ∞-projected on 𝒞, for s-sparse gradients: λ‖θ*‖²/2 + 2L√s·σ·E max|g_i|.

    θ̂ lies in 𝒞, so projecting moves θ̂ + ξ by at most ‖ξ‖∞ and ends within 2‖ξ‖∞ of θ̂; an s-sparse gradient
    of ℓ2 norm L has ℓ1 norm at most L√s, and Hölder's inequality does the rest. Dimension enters through √(ln
    d) alone (Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024). For Laplace noise of deviation σ in each coordinate
    (``laplace=True``), of scale σ/√2, E‖ξ‖∞ is H_d·σ/√2.

    Raises:
        HypothesisViolated: a constant that is not positive.

    Example:
        >>> args = dict(sparsity=4, lipschitz=1.0, regularisation=0.02, noise_std=0.01, target_norm=1.0)
        >>> [round(output_perturbation_inf(d=d, **args).parts["privacy"], 3) for d in (100, 10_000)]
        [0.11, 0.161]
    """
    require_count(d=d, sparsity=sparsity)
    require_positive(lipschitz=lipschitz, regularisation=regularisation)
    require_non_negative(noise_std=noise_std, target_norm=target_norm)
    largest = harmonic(d) / math.sqrt(2) if laplace else expected_max_abs_normal(d)
    return Bound.of(
        "output perturbation with ℓ∞ projection, sparse gradients",
        regularisation=regularisation * target_norm**2 / 2,
        privacy=2 * lipschitz * math.sqrt(min(sparsity, d)) * noise_std * largest,
    )


def best_output_regularisation(
    *, target_norm: float, cost_per_std: float, std_times_regularisation: float, power: int = 1
) -> float:
    """The λ that minimises λR²/2 + cost·(A/λ)^power, where the noise is σ = A/λ.

    A is (sensitivity of the sum of gradients)/(n√(2ρ)) for a zCDP budget ρ. ``power`` is 1 for the Lipschitz costs of
    `output_perturbation`, 2 for the smooth ones.

    Raises:
        HypothesisViolated: another power, or a constant that is not positive.

    Example:
        >>> best_output_regularisation(target_norm=1.0, cost_per_std=1.0, std_times_regularisation=0.02)
        0.2
    """
    require_positive(
        target_norm=target_norm, cost_per_std=cost_per_std, std_times_regularisation=std_times_regularisation
    )
    require(power in (1, 2), f"a power of 1 or 2, got {power}")
    slope = power * cost_per_std * std_times_regularisation**power
    return float((2 * slope / target_norm**2) ** (1 / (power + 1)))


def exponential_mechanism(*, candidates: int, inverse_temperature: float, discretisation: float = 0.0) -> Bound:
    """One of m candidates with probability ∝ exp(−a·risk): E excess over the best candidate ≤ ln(m)/a.

    ε-DP for a risk of sensitivity Δ when a = ε/(2Δ) (McSherry–Talwar 2007). ``discretisation`` is the excess of
    the best candidate itself, e.g. Lipschitz constant × covering radius. Permute-and-flip at the same a is never worse
    (McKenna–Sheldon 2020).

    Raises:
        HypothesisViolated: no candidates, or a temperature that is not positive.

    Example:
        >>> round(exponential_mechanism(candidates=100, inverse_temperature=50.0).value, 6)
        0.092103
    """
    require_count(candidates=candidates)
    require_positive(inverse_temperature=inverse_temperature)
    require_non_negative(discretisation=discretisation)
    return Bound.of(
        "exponential mechanism, finite candidates",
        privacy=math.log(candidates) / inverse_temperature,
        discretisation=discretisation,
    )


def exponential_mechanism_tail(*, candidates: int, inverse_temperature: float, failure: float) -> Bound:
    """One of m candidates with probability ∝ exp(−a·risk): excess ≤ ln(m/p)/a but for a probability p.

    With a = ε/(2Δ) and p = e^−t this is 2Δ(ln m + t)/ε (McSherry–Talwar 2007): a candidate of a larger excess has at
    most p/m times the weight of the best one, and there are fewer than m of them. Permute-and-flip is the largest of
    −a·risk plus exponential noise, for which a union bound over the candidates gives p/2.

    Raises:
        HypothesisViolated: no candidates, a temperature that is not positive, or p outside (0, 1).

    Example:
        >>> round(exponential_mechanism_tail(candidates=100, inverse_temperature=50.0, failure=0.01).value, 6)
        0.184207
    """
    require_count(candidates=candidates)
    require_positive(inverse_temperature=inverse_temperature)
    require(0 < failure < 1, f"a probability of failure in (0, 1), got {failure}")
    return Bound.of(
        "exponential mechanism, finite candidates, high probability",
        privacy=math.log(candidates) / inverse_temperature,
        confidence=math.log(1 / failure) / inverse_temperature,
    )


def exponential_mechanism_continuous(*, d: int, inverse_temperature: float, convex: bool = True) -> Bound:
    """Density ∝ exp(−a·risk) on a convex set, convex risk: E excess ≤ d/a (Kalai–Vempala 2006; Bassily et al. 2014).

    a^d·∫exp(−a(f − min f)) does not decrease in a, and minus the logarithmic derivative of the integral is the excess.

    Raises:
        HypothesisViolated: the risk is not convex.

    Example:
        >>> exponential_mechanism_continuous(d=3, inverse_temperature=50.0).value
        0.06
    """
    require(convex, "a convex risk on a convex set")
    require_count(d=d)
    require_positive(inverse_temperature=inverse_temperature)
    return Bound.of("exponential mechanism on a convex set", privacy=d / inverse_temperature)
