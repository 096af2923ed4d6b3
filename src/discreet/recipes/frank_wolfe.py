"""Settings of private Frank–Wolfe (`discreet.solvers.frank_wolfe`) from public facts.

The number of steps T balances the two parts of the excess risk (Talwar–Thakurta–Zhang 2015, Theorem 5.5): 2Γ/(T + 2) of
the optimisation, and b·ln m of the choice among m vertices, with b the scale of the selection on the mean gradient. Γ =
β(‖x‖∞·diam₁)² is a worst case over rows and directions, and too many steps only add noise: a share of it is used. The
distance of a vertex from a point well inside the set is about half the diameter (a quarter of Γ), and columns that fill
their bounds evenly have a third of the largest variance, others less: a twelfth of Γ and below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discreet.calibration.guarantee import Guarantee
from discreet.calibration.selections import Kind, rough_selection_multiplier, selection_multiplier
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry.base import Atomic, LinearOracle
from discreet.losses import Domain, Logistic, Squared
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.recipes import shared
from discreet.recipes.shared import slope_at_zero
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe, has_vertices
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "FrankWolfeNumbers", "recipe", "selection_noise"]


@dataclass(frozen=True)
class FrankWolfeNumbers(Tuned):
    """How many steps Frank–Wolfe takes."""

    curvature_share: float = tuned(
        1 / 16, "typical over worst-case curvature Γ, by which the number of steps is chosen", "sweep: curvature"
    )
    most_iterations: int = tuned(
        4096, "most steps: the bound asks for T ∝ (nε)^⅔, but beyond this the risk hardly falls", "sweep: walk"
    )
    entry_clip: float = tuned(
        0.06,
        "clip of least squares with a declared bound on entries, over that bound and the largest target: larger "
        "residuals count as if they were that large, as in Huber's loss",
        "sweep: lasso-clip",
    )
    radius_iterations: int = tuned(
        16,
        "number of steps for which the noise of a choice is stated where it must not depend on T",
        "judgement: it matters for δ = 0 alone, where the noise of T choices grows like T and not like √T",
    )


NUMBERS = FrankWolfeNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    feature_bound: float | None = None,
    target_bound: float | None = None,
    selection: Kind = "exponential",
) -> FrankWolfe:
    """Frank–Wolfe with the least noise that keeps the guarantee, and with a clip and a number of steps by theory.

    Args:
        problem: the problem.
        guarantee: what to keep; ε = ∞ runs without noise, δ = 0 asks for pure DP.
        iterations: T, up to 65 536; None balances the bound, up to 4096.
        clip: ℓ∞ bound on a row's gradient; None takes the largest possible one (logistic: that at θ = 0, half of it;
            least squares with a declared bound on entries: 6 % of that bound), and without privacy none.
        feature_bound: public bound on every |x_j|; None takes the problem's, or else the rows' ℓ2 bound. It is used for
            T and the clip only: the clip itself is enforced on every row.
        target_bound: public bound on |y|, for the same purposes; None takes 1.
        selection: as in `FrankWolfe`.

    Raises:
        InvalidInput: the set has no vertices to choose from (without privacy: no linear minimiser), or bounds were
            given that would have no effect.
        HypothesisViolated: the loss has no finite slope or curvature over the set, so theory chooses nothing.
    """
    domain, d = problem.domain, math.prod(problem.rows.shape)
    if not guarantee.private:
        if not (domain.convex and (isinstance(domain, LinearOracle) or has_vertices(domain))):
            raise InvalidInput(
                f"{type(domain).__name__} is not convex with a linear minimiser, which Frank–Wolfe steps towards; use "
                "a ball, a box or a polytope such as L1Ball."
            )
        steps = current(shared.NUMBERS).exact_iterations if iterations is None else iterations
        return FrankWolfe(0.0, steps, math.inf if clip is None else clip, selection)
    vertices = whole_vertices(domain, d).count
    entries = problem.entry_bound if isinstance(problem.loss, Squared) else math.inf
    if clip is None and math.isfinite(entries):
        clip = current(NUMBERS).entry_clip * entries
    if clip is not None and iterations is not None and (feature_bound, target_bound) != (None, None):
        raise InvalidInput("feature_bound and target_bound choose clip and iterations, which were both given.")
    targets = 1.0 if target_bound is None else target_bound
    if feature_bound is None:
        feature_bound = entries if math.isfinite(entries) else max(problem.rows.norm, problem.rows.intercept)
    if not math.isfinite(feature_bound):
        raise InvalidInput("a private run needs a finite row_norm or feature_bound.")
    scores = Domain(feature_bound * domain.radius_in(d, order=1), -targets, targets)
    if clip is None:
        clip = _slope(problem, scores) * feature_bound
    if iterations is None:
        curvature = _curvature(problem, scores, feature_bound)
        score_bound = domain.max_abs_inner(clip) if isinstance(domain, Atomic) else math.nan
        iterations = _balanced_steps(curvature, score_bound * math.log(vertices) / problem.n, guarantee, selection)
    solver = FrankWolfe(0.0, iterations, clip, selection)
    return replace(solver, noise_multiplier=selection_multiplier(iterations, guarantee, selection))


def selection_noise(vertices: int, n: float, guarantee: Guarantee) -> float:
    """q = ν·ln m/n: the expected error of one choice among m vertices by the mean gradient, over its bound and √T.

    ν√T is the noise multiplier of T choices; with δ = 0, where it grows like T, ν is that of 16 choices.
    """
    steps = current(NUMBERS).radius_iterations
    return rough_selection_multiplier(steps, guarantee) / math.sqrt(steps) * math.log(vertices) / n


def _slope(problem: Problem, scores: Domain) -> float:
    """The slope to clip at: the largest; for the logistic loss that at θ = 0, which halves the noise."""
    if isinstance(problem.loss, Logistic):
        return slope_at_zero(problem, 1.0)
    return _finite("slope", problem.loss.lipschitz(scores))


def _curvature(problem: Problem, scores: Domain, feature_bound: float) -> float:
    """A typical Γ: so much of the worst case β(‖x‖∞·diam₁)²."""
    smoothness = _finite("curvature", problem.loss.smoothness(scores))
    diameter = problem.domain.diameter(math.prod(problem.rows.shape), order=1)
    return smoothness * (current(NUMBERS).curvature_share * (feature_bound * diameter) ** 2)


def _finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise HypothesisViolated(
            f"the loss has no finite {what} over the set, which Frank–Wolfe's theory needs; "
            "smooth the loss, or set clip and iterations."
        )
    return value


def _balanced_steps(curvature: float, gap: float, guarantee: Guarantee, selection: Kind) -> int:
    """The T, on a grid of ratio 5 %, with the least 2Γ/(T + 2) + noise_multiplier(T)·gap."""
    most = current(NUMBERS).most_iterations
    grid = range(math.ceil(math.log(most, 1.05)) + 1)
    candidates = sorted({min(round(1.05**k), most) for k in grid})

    def risk(steps: int) -> float:
        return 2 * curvature / (steps + 2) + gap * rough_selection_multiplier(steps, guarantee, selection)

    return min(candidates, key=risk)
