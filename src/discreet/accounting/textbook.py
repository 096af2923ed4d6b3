"""Printed noise formulas, each beside the truth. Nothing here protects data.

Lecture notes and papers calibrate noise with closed forms. Some prove less than they claim, some waste most of the
noise. Each function returns a `Textbook`: the noise it asks for, the (ε, δ) it claims, what an exact accountant says,
and how much noise was needed. Noise is stated as a multiplier: per release, over the bound C on one row, for the sum of
rows (a formula for the mean of n rows, multiplied by n/C).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from discreet.accounting.bounds import Bounds
from discreet.accounting.misprints import (
    Misprint,
    check_target,
    misprints,
    rank_factor_misprint,
    sampled_composition_misprint,
)
from discreet.errors import InvalidInput
from discreet.events import ApproxDP, Compose, Event, Gaussian, Laplace, PureDP, Repeat
from discreet.units import Relation

__all__ = [
    "Misprint",
    "Textbook",
    "advanced_composition_misprint",
    "classic_gaussian",
    "frank_wolfe_laplace",
    "l1_recovery_gaussian",
    "misprints",
    "noisy_descent_rank",
    "noisy_descent_stochastic",
    "noisy_descent_union",
    "objective_perturbation_gaussian",
    "output_perturbation_gaussian",
    "output_perturbation_linf_laplace",
    "peeling_heavy_tailed",
    "peeling_laplace",
    "projection_laplace",
    "rank_factor_misprint",
    "sampled_composition_misprint",
    "table",
]


@dataclass(frozen=True)
class Textbook:
    """A printed calibration and the means to check it."""

    name: str
    formula: str
    noise: float
    claimed_epsilon: float
    claimed_delta: float
    adjacency: Relation
    make_event: Callable[[float], Event] = field(repr=False, compare=False)

    @property
    def event(self) -> Event:
        """What is released with the printed noise."""
        return self.make_event(self.noise)

    @cached_property
    def truth(self) -> Bounds:
        """The certified ε at the claimed δ."""
        from discreet import accounting

        return accounting.epsilon(self.event, self.claimed_delta, self.adjacency)

    @cached_property
    def true_delta(self) -> Bounds:
        """The certified δ at the claimed ε."""
        from discreet import accounting

        return accounting.delta(self.event, self.claimed_epsilon, self.adjacency)

    @cached_property
    def needed(self) -> float:
        """The least noise that keeps the claim."""
        from discreet import accounting

        return accounting.calibrate(self.make_event, self.claimed_epsilon, self.claimed_delta, self.adjacency)

    @property
    def ratio(self) -> float:
        """Printed over needed noise: below 1 the claim is false, above 1 noise is wasted."""
        return self.noise / self.needed

    @property
    def holds(self) -> bool:
        """Whether the claim is true, to nine digits."""
        return self.truth.upper <= self.claimed_epsilon * (1 + 1e-9)


def _gaussians(steps: int) -> Callable[[float], Event]:
    return lambda noise: Repeat(Gaussian(noise), steps)


def classic_gaussian(epsilon: float, delta: float, adjacency: Relation = "replace-one") -> Textbook:
    """σ = Δ√(2 ln(1.25/δ))/ε: proved for ε < 1, false for large ε (Dwork–Roth 2014, theorem A.1).

    Example:
        >>> round(classic_gaussian(1.0, 1e-5, "add-remove").noise, 4)
        4.8448
    """
    check_target(epsilon, delta)
    reach = 2.0 if adjacency == "replace-one" else 1.0
    noise = reach * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return Textbook("classic Gaussian", "Δ√(2 ln(1.25/δ))/ε", noise, epsilon, delta, adjacency, _gaussians(1))


def noisy_descent_rank(epsilon: float, delta: float, steps: int) -> Textbook:
    """σ = 2L√(T ln(1/δ))/(nε): no factor 2 under the root, so the claim fails at every ε.

    Example:
        >>> round(noisy_descent_rank(1.0, 1e-5, 100).noise, 3)
        67.861
    """
    check_target(epsilon, delta, steps)
    noise = 2 * math.sqrt(steps * math.log(1 / delta)) / epsilon
    return Textbook(
        "noisy gradient descent, rank bound",
        "2L√(T ln(1/δ))/(nε)",
        noise,
        epsilon,
        delta,
        "replace-one",
        _gaussians(steps),
    )


def noisy_descent_stochastic(epsilon: float, delta: float, steps: int) -> Textbook:
    """σ = 2G√(2T ln(1/δ))/(nε): holds for ε up to about 4, fails from about 8.

    Example:
        >>> round(noisy_descent_stochastic(1.0, 1e-5, 100).noise, 3)
        95.971
    """
    check_target(epsilon, delta, steps)
    noise = 2 * math.sqrt(2 * steps * math.log(1 / delta)) / epsilon
    return Textbook(
        "noisy gradient descent, stochastic",
        "2G√(2T ln(1/δ))/(nε)",
        noise,
        epsilon,
        delta,
        "replace-one",
        _gaussians(steps),
    )


def noisy_descent_union(epsilon: float, delta: float, steps: int) -> Textbook:
    """σ = 8L√T(ln(1.25/δ) + ln(T + 1))/(nε): holds, and wastes a factor of twenty and more.

    Example:
        >>> round(noisy_descent_union(1.0, 1e-5, 1000).noise)
        4717
    """
    check_target(epsilon, delta, steps)
    noise = 8 * math.sqrt(steps) * (math.log(1.25 / delta) + math.log(steps + 1)) / epsilon
    formula = "8L√T(ln(1.25/δ) + ln(T+1))/(nε)"
    return Textbook(
        "noisy gradient descent, union bound", formula, noise, epsilon, delta, "replace-one", _gaussians(steps)
    )


def output_perturbation_gaussian(epsilon: float, delta: float) -> Textbook:
    """σ = (2L/λn)√(2 ln(1.25/δ))/ε on the exact minimiser: the classic Gaussian with C = L/(λn) a row.

    Example:
        >>> round(output_perturbation_gaussian(1.0, 1e-5).noise, 4)
        9.6896
    """
    classic = classic_gaussian(epsilon, delta)
    formula = "(2L/λn)√(2 ln(1.25/δ))/ε"
    return Textbook("output perturbation", formula, classic.noise, epsilon, delta, "replace-one", _gaussians(1))


def objective_perturbation_gaussian(epsilon: float, delta: float, adjacency: Relation = "replace-one") -> Textbook:
    """Var = 10L² ln(1/δ)/ε², to cost ε/2 for the linear term: false under replace-one, true under add-remove.

    The claim recorded is that of the noise term alone, ε/2; the determinant's share comes on top.

    Example:
        >>> objective_perturbation_gaussian(0.9, 1e-5).claimed_epsilon
        0.45
    """
    check_target(epsilon, delta)
    noise = math.sqrt(10 * math.log(1 / delta)) / epsilon
    name = "objective perturbation, noise term"
    return Textbook(name, "L√(10 ln(1/δ))/ε", noise, epsilon / 2, delta, adjacency, _gaussians(1))


def frank_wolfe_laplace(epsilon: float, delta: float, steps: int) -> Textbook:
    """Lap(2‖𝒞‖₁L√(8T ln(1/δ))/(nε)) on each vertex's score: this is Δ/ε₀, where noisy max needs 2Δ/ε₀.

    Scores move by Δ = 2‖𝒞‖₁L/n in either direction, so a step spends 2ε₀.

    Example:
        >>> t = frank_wolfe_laplace(1.0, 1e-5, 10)
        >>> t.event == Repeat(PureDP(4 / t.noise), 10)
        True
    """
    check_target(epsilon, delta, steps)
    noise = 2 * math.sqrt(8 * steps * math.log(1 / delta)) / epsilon
    formula = "Lap(2‖𝒞‖₁L√(8T ln(1/δ))/(nε))"
    return Textbook(
        "Frank–Wolfe by noisy max", formula, noise, epsilon, delta, "replace-one",
        lambda b: Repeat(PureDP(4 / b), steps),
    )  # fmt: skip


def peeling_laplace(epsilon: float, delta: float, sparsity: int) -> Textbook:
    """Lap(2λ√(3s ln(1/δ))/ε) for s noisy maxima and s values: proved for ε ≤ 0.5, δ ≤ 0.011, s ≥ 10 (Cai et al. 2021).

    ``noise`` is over λ, how far any coordinate moves between neighbours: a maximum spends 2λ/b, a value λ/b.

    Example:
        >>> round(peeling_laplace(0.5, 1e-5, 10).noise, 2)
        74.34
    """
    check_target(epsilon, delta, sparsity)
    noise = 2 * math.sqrt(3 * sparsity * math.log(1 / delta)) / epsilon
    return Textbook(
        "peeling", "Lap(2λ√(3s ln(1/δ))/ε)", noise, epsilon, delta, "replace-one",
        lambda b: Compose([Repeat(PureDP(2 / b), sparsity), Repeat(PureDP(1 / b), sparsity)]),
    )  # fmt: skip


def projection_laplace(epsilon: float) -> Textbook:
    """Lap(2L√s/(nε)) on the mean of s-sparse rows of ℓ2 norm L, whose ℓ1 norm is L√s: exactly ε-DP.

    Example:
        >>> projection_laplace(0.5).noise
        4.0
    """
    check_target(epsilon, 0.5)
    return Textbook("projection mechanism", "Lap(2L√s/(nε))", 2 / epsilon, epsilon, 0.0, "replace-one", Laplace)


def peeling_heavy_tailed(epsilon: float, delta: float, sparsity: int, radius: float) -> Textbook:
    """Peeling for shrunken rows with λ = 2K²η₀·C(√s + 1)/m, where (√s·C + 1) is right: too little noise for C < 1.

    Rows have |x_j| ≤ K and |y| ≤ K, and θ has at most s entries and ‖θ‖₂ ≤ C: a coordinate of a row's gradient is at
    most K(K‖θ‖₁ + K) ≤ K²(√s·C + 1). ``noise`` is over the right λ; for C > 1 the printed one wastes noise.

    Raises:
        InvalidInput: a target that is none, or a radius that is not positive and finite.

    Example:
        >>> t = peeling_heavy_tailed(0.5, 1e-5, 16, radius=0.1)
        >>> round(t.noise / peeling_laplace(0.5, 1e-5, 16).noise, 3)  # 0.1·5/(0.1·4 + 1)
        0.357
    """
    if not 0 < radius < math.inf:
        raise InvalidInput(f"the radius of a textbook formula must be positive and finite, got {radius!r}.")
    peeling, root = peeling_laplace(epsilon, delta, sparsity), math.sqrt(sparsity)
    noise = peeling.noise * radius * (root + 1) / (root * radius + 1)
    formula = "Lap(2λ√(3s ln(1/δ))/ε), λ = 2K²η₀·C(√s + 1)/m"
    return Textbook(
        f"peeling of shrunken rows, C = {radius:g}", formula, noise, epsilon, delta, "replace-one", peeling.make_event
    )


def output_perturbation_linf_laplace(epsilon: float) -> Textbook:
    """Lap(2L√(2s)(1 + β/λ)/(λnε)) on the regularised minimiser, then the ℓ∞ projection: ε-DP, with √2 to spare.

    Rows' gradients are s-sparse, L long and β-Lipschitz. One replaced row moves the minimiser by Δ with ‖Δ‖₂ ≤ 2L/(λn).
    The optimality conditions give λΔ = −(mean of gradients at one minimiser − the same at the other) − (the two rows'
    gradients)/n, a mean of sparse vectors: ‖Δ‖₁ ≤ (√s'·β‖Δ‖₂ + √s'·2L/n)/λ = 2L√s'(1 + β/λ)/(λn), s' = 2s where the
    support of a row's gradient may depend on θ. In a generalised linear model it does not, and s' = s. ``noise`` is
    over C = L√s(1 + β/λ)/(λn), the ℓ1 bound on one row there.

    Example:
        >>> t = output_perturbation_linf_laplace(0.5)
        >>> t.holds, round(t.ratio, 3)
        (True, 1.414)
    """
    check_target(epsilon, 0.5)
    formula = "Lap(2L√(2s)(1 + β/λ)/(λnε))"
    noise = 2 * math.sqrt(2) / epsilon
    return Textbook("output perturbation, ℓ∞ projection", formula, noise, epsilon, 0.0, "replace-one", Laplace)


def l1_recovery_gaussian(epsilon: float, delta: float) -> Textbook:
    """σ = (3L/n)√(2 ln(2.5/δ))/ε on m random projections of the mean of sparse rows, found again by ℓ1 minimisation.

    A matrix that lengthens no difference of sparse vectors by more than 3/2 gives the sensitivity 3L/n; it exists but
    for a probability δ/2 over its draw, and the classic Gaussian is used at δ/2. ``noise`` is over C = 3L/2. The
    library cuts each sketched row in whole numbers instead, so that nothing depends on the matrix.

    Example:
        >>> l1_recovery_gaussian(0.5, 1e-5).holds, l1_recovery_gaussian(16.0, 1e-5).holds
        (True, False)
    """
    check_target(epsilon, delta)
    noise = 2 * math.sqrt(2 * math.log(2.5 / delta)) / epsilon
    return Textbook(
        "ℓ1 recovery from a sketch", "(3L/n)√(2 ln(2.5/δ))/ε", noise, epsilon, delta, "replace-one",
        lambda sigma: Compose([Gaussian(sigma), ApproxDP(0.0, delta / 2)]),
    )  # fmt: skip


def advanced_composition_misprint(step_epsilon: float, delta: float, steps: int) -> Textbook:
    """ε = ε₀√(2T ln(1/δ)) + Tε₀(e^{ε₀} − 1)/e^{ε₀+1}: a misprint of the denominator e^{ε₀} + 1.

    The "noise" is 1/ε₀, that of a Laplace mechanism under add-remove.

    Example:
        >>> round(advanced_composition_misprint(0.1, 1e-5, 100).claimed_epsilon, 3)
        5.149
    """
    check_target(step_epsilon, delta, steps)
    width = step_epsilon * math.sqrt(2 * steps * math.log(1 / delta))
    mean = steps * step_epsilon * math.expm1(step_epsilon) / math.exp(step_epsilon + 1)
    return Textbook(
        "advanced composition, misprinted", "ε₀√(2T ln(1/δ)) + Tε₀(e^ε₀ − 1)/e^{ε₀+1}", 1 / step_epsilon,
        width + mean, delta, "add-remove", lambda noise: Repeat(PureDP(1 / noise), steps),
    )  # fmt: skip


def table(epsilon: float, delta: float, steps: int) -> list[Textbook]:
    """Every printed formula for one target, in the order of this module.

    Example:
        >>> [t.name for t in table(1.0, 1e-5, 100)][:2]
        ['classic Gaussian', 'noisy gradient descent, rank bound']
    """
    return [
        classic_gaussian(epsilon, delta),
        noisy_descent_rank(epsilon, delta, steps),
        noisy_descent_stochastic(epsilon, delta, steps),
        noisy_descent_union(epsilon, delta, steps),
        output_perturbation_gaussian(epsilon, delta),
        objective_perturbation_gaussian(epsilon, delta),
        objective_perturbation_gaussian(epsilon, delta, "add-remove"),
        frank_wolfe_laplace(epsilon, delta, steps),
        peeling_laplace(epsilon, delta, steps),
        peeling_heavy_tailed(epsilon, delta, steps, radius=0.5),
        projection_laplace(epsilon),
        output_perturbation_linf_laplace(epsilon),
        l1_recovery_gaussian(epsilon, delta),
        advanced_composition_misprint(epsilon / math.sqrt(8 * steps * math.log(1 / delta)), delta, steps),
    ]
