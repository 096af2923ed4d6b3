"""Private Frank–Wolfe: the optimisation error of T steps plus the expected gap of a noisy choice of vertex."""

from __future__ import annotations

import math
from typing import Literal

from discreet.errors import InvalidInput
from discreet.theory.bound import Bound, require, require_count, require_non_negative, require_positive
from discreet.units import Adjacency, Unit

__all__ = [
    "best_frank_wolfe_iterations",
    "frank_wolfe",
    "frank_wolfe_rate",
    "frank_wolfe_tail",
    "glm_curvature",
    "selection_gap",
]


def selection_gap(*, atoms: int, scale: float, noise: Literal["gumbel", "laplace"] = "gumbel") -> float:
    """How far, in expectation, the score chosen by a noisy minimum lies above the least score.

    Gumbel noise of scale b (the exponential mechanism, P ∝ exp(−score/b)): b·ln m, since that distribution
    minimises E[score] − b·entropy, which is at most the least score at the distribution that sits there. Laplace
    noise of scale b on every score: b·(1 + ln(m/2)). Permute-and-flip is no worse than the exponential mechanism
    (McKenna–Sheldon 2020).

    Raises:
        HypothesisViolated: no atoms, or a negative scale.

    Example:
        >>> round(selection_gap(atoms=100, scale=0.1), 6)
        0.460517
    """
    require_count(atoms=atoms)
    require_non_negative(scale=scale)
    if atoms == 1:
        return 0.0
    if noise == "gumbel":
        return scale * math.log(atoms)
    if noise == "laplace":
        return scale * (1 + math.log(atoms / 2))
    raise InvalidInput(f"noise must be 'gumbel' or 'laplace', got {noise!r}.")


def glm_curvature(smoothness: float, feature_bound: float, l1_diameter: float) -> float:
    """Frank–Wolfe's curvature constant for a generalised linear model: β(‖x‖∞·diam₁(𝒞))².

    Along a segment from θ to a vertex v the score of a row moves by |⟨x, v − θ⟩| ≤ ‖x‖∞·diam₁, and the loss's
    curvature in the score is at most β.

    Raises:
        HypothesisViolated: a constant that is not positive.

    Example:
        >>> glm_curvature(0.25, 1.0, 2.0)  # logistic loss, features in [−1, 1], the unit ℓ1 ball
        1.0
    """
    require_positive(smoothness=smoothness, feature_bound=feature_bound, l1_diameter=l1_diameter)
    return smoothness * (feature_bound * l1_diameter) ** 2


def frank_wolfe(*, curvature: float, iterations: int, gap: float, convex: bool = True) -> Bound:
    """After T ≥ 1 steps of size 2/(t + 2), t = 0, …, T − 1: 2Γ/(T + 2) + gap.

    Γ is the curvature constant (sup of 2(𝓛(y) − 𝓛(θ) − ⟨∇𝓛(θ), y − θ⟩)/γ² over y = θ + γ(v − θ); at most
    β·diam²), ``gap`` bounds the expected excess ⟨v, ∇𝓛⟩ − min of the chosen vertex (`selection_gap`) (Jaggi
    2013; Talwar–Thakurta–Zhang 2015).

    Raises:
        HypothesisViolated: not convex, or a constant that is not positive.

    Example:
        >>> gap = selection_gap(atoms=2000, scale=0.001)
        >>> round(frank_wolfe(curvature=1.0, iterations=98, gap=gap).value, 6)
        0.027601
    """
    require(convex, "a convex loss")
    require_positive(curvature=curvature)
    require_non_negative(gap=gap)
    require_count(iterations=iterations)
    return Bound.of("private Frank–Wolfe", optimisation=2 * curvature / (iterations + 2), privacy=gap)


def frank_wolfe_tail(
    *,
    curvature: float,
    iterations: int,
    atoms: int,
    scale: float,
    failure: float,
    noise: Literal["gumbel", "laplace"] = "gumbel",
) -> Bound:
    """After T steps of size 2/(t + 2), but for a probability p: 2Γ/(T + 2) + b·ln(mT/p), with Laplace noise twice that.

    The excess after T steps is at most 2Γ/(T + 2) plus a weighted mean of the T gaps, hence plus the largest of them.
    A choice with P ∝ exp(−score/b) takes a vertex of gap above b·ln(m/q) with probability at most q: such a vertex has
    at most q/m times the weight of the best one. Of m Laplace variables one exceeds b·ln(m/q) in size with probability
    at most q, and the gap is at most twice the largest. With q = p/T a union bound over the steps does the rest, since
    each choice has this law whatever the earlier ones were (Talwar–Thakurta–Zhang 2015, Theorem 5.5).

    Args:
        curvature: Γ.
        iterations: T.
        atoms: m.
        scale: b, of the noise of a choice, on scores of the mean gradient.
        failure: p.
        noise: of the exponential mechanism or permute-and-flip (``"gumbel"``), or Laplace noise on every score.

    Raises:
        HypothesisViolated: a constant that is not positive, or p outside (0, 1).

    Example:
        >>> args = dict(curvature=1.0, iterations=98, atoms=2000, scale=0.001)
        >>> round(frank_wolfe_tail(**args, failure=0.05).value, 4)
        0.0352
    """
    require_positive(curvature=curvature)
    require_non_negative(scale=scale)
    require_count(iterations=iterations, atoms=atoms)
    require(0 < failure < 1, f"a probability of failure in (0, 1), got {failure}")
    if noise not in ("gumbel", "laplace"):
        raise InvalidInput(f"noise must be 'gumbel' or 'laplace', got {noise!r}.")
    gap = scale * math.log(atoms * iterations / failure) * (2 if noise == "laplace" else 1)
    return Bound.of(
        "private Frank–Wolfe, high probability",
        optimisation=2 * curvature / (iterations + 2),
        privacy=gap if atoms > 1 else 0.0,
    )


def frank_wolfe_rate(
    *,
    n: int,
    atoms: int,
    curvature: float,
    score_bound: float,
    rho: float,
    adjacency: Adjacency,
    iterations: int | None = None,
) -> Bound:
    """`frank_wolfe` when T exponential mechanisms share the budget ρ.

    Each costs ε₀²/8 zCDP, so ε₀ = √(8ρ/T), and its scale is b = 2Δ/ε₀ with Δ the sensitivity of a score of the mean
    gradient. Balancing 2Γ/(T + 2) with 2Δ√(T/8ρ)·ln m gives the rate Γ^{1/3}(Δ ln m/√ρ)^{2/3} ~ (ln m/(nε))^{2/3}
    (Talwar–Thakurta–Zhang 2015, Theorem 5.5).

    Args:
        n: the number of rows.
        atoms: m, the number of vertices.
        curvature: Γ.
        score_bound: the most that one row's gradient scores at any vertex (``max_abs_inner`` of the set).
        rho: the zCDP budget.
        adjacency: the neighbouring relation.
        iterations: T; the best one by default.

    Raises:
        HypothesisViolated: a constant that is not positive.

    Example:
        >>> args = dict(atoms=2000, curvature=1.0, score_bound=1.0, rho=0.01, adjacency="add-remove")
        >>> small, large = (frank_wolfe_rate(n=n, **args).value for n in (10**5, 10**8))
        >>> round(math.log(small / large) / math.log(1000), 2)  # the exponent 2/3
        0.67
    """
    require_positive(rho=rho, curvature=curvature, score_bound=score_bound)
    require_count(n=n, atoms=atoms)
    sensitivity = Unit.of(adjacency).sensitivity(score_bound) / n
    per_root_step = 2 * sensitivity / math.sqrt(8 * rho)
    if iterations is None:
        iterations = best_frank_wolfe_iterations(curvature, selection_gap(atoms=atoms, scale=per_root_step))
    gap = selection_gap(atoms=atoms, scale=per_root_step * math.sqrt(iterations))
    return frank_wolfe(curvature=curvature, iterations=iterations, gap=gap)


def best_frank_wolfe_iterations(curvature: float, gap_at_one: float, largest: int = 10**6) -> int:
    """The T that minimises 2Γ/(T + 2) + gap₁√T, at most ``largest``.

    Example:
        >>> best_frank_wolfe_iterations(1.0, 0.001)
        249
    """
    require_positive(curvature=curvature)
    require_non_negative(gap_at_one=gap_at_one)

    def excess(T: int) -> float:
        return 2 * curvature / (T + 2) + gap_at_one * math.sqrt(T)

    if gap_at_one == 0:
        return largest
    # The continuous minimiser is within 2 of (4Γ/gap₁)^{2/3}, and T = 1 may beat it.
    guess = (4 * curvature / gap_at_one) ** (2 / 3)
    around = range(int(guess) - 3, int(guess) + 3) if guess < largest else [largest]
    return min({1, *(min(max(T, 1), largest) for T in around)}, key=excess)
