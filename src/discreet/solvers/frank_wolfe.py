"""Private Frank–Wolfe: walk towards vertices that are chosen privately (Talwar–Thakurta–Zhang 2015).

Releases: one selection a step among the vertices of the set, by −⟨v, gradient⟩, each row's gradient held to ``clip`` in
every coordinate. The walk θ ← θ + 2/(t + 2)·(v − θ) is post-processing, and its closed form is a weighted mean of the
chosen vertices with weights 1, 2, 3, …, which is how it is kept: in whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from discreet import events
from discreet.calibration.guarantee import Guarantee
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry.base import Atomic
from discreet.losses import Domain, Logistic
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import MOST_STEPS, whole_vertices
from discreet.solvers.base import Problem, Steps
from discreet.units import Unit

__all__ = ["FrankWolfe", "default", "selection_noise"]

_STEPS_WITHOUT_PRIVACY, _SOME_STEPS = 1000, 16
_FEW_STEPS = 16
"""Up to here the accountant needs up to 8 % less noise than zCDP and basic composition, beyond it the same."""
_ENOUGH_STEPS = 4096
"""The bound asks for T ∝ (nε)^⅔ steps, 65 000 and more where noise is next to nothing; but it is a worst case, and from
4096 steps on the walk itself gains at most a thousandth of what there is to learn: on least squares and logistic
problems of independent, correlated, binary and rare columns, in sets that fit and sets that are too large, without
noise and with little. Each step reads all rows, so that more would cost time for nothing; ``bench/defaults.py`` sweeps
it."""
_TYPICAL_CURVATURE = 1 / 16
"""Γ is a worst case over rows and directions, and too many steps only add noise. A vertex and a point well inside the
set are about half the diameter apart (a quarter of Γ), and columns that fill their bounds evenly have a third of the
largest variance, others less: a twelfth of Γ and below, of which ``bench/defaults.py`` finds a sixteenth best."""

_CUT = 0.5
"""Logistic slopes are cut at their size at a score of 0, as in objective perturbation: half the noise, and the sign of
the log-odds is kept. Chosen on synthetic problems; ``bench/defaults.py`` sweeps it."""


@dataclass(frozen=True)
class FrankWolfe:
    """θ ← θ + 2/(t + 2)·(v_t − θ), with v_t a privately chosen vertex.

    Args:
        noise_multiplier: scale of the selection over the most that one row moves a score; 0 takes the best vertex.
        iterations: number of steps.
        clip: ℓ∞ bound on a row's gradient; enforced by shortening the row's slope.
        selection: ``"exponential"`` (bounded range: T choices compose as Gaussians do) or ``"permute-and-flip"``
            (never worse for one choice, but composes like Laplace noise).
    """

    noise_multiplier: float
    iterations: int
    clip: float
    selection: Literal["exponential", "permute-and-flip"] = "exponential"

    def __post_init__(self) -> None:
        if not 1 <= self.iterations <= MOST_STEPS:
            raise InvalidInput(f"iterations must be between 1 and {MOST_STEPS}, got {self.iterations}.")

    def steps(self, problem: Problem) -> Steps:
        """One private choice of a vertex a step."""
        if problem.ridge:
            raise InvalidInput(
                f"Frank–Wolfe regularises by its set and takes no ridge, got ridge={problem.ridge!r}; "
                "choose a smaller set, or a solver by gradient descent."
            )
        atoms = whole_vertices(problem.domain, math.prod(problem.rows.shape))
        walk, mechanism = ChosenVertices(), Choice(self.noise_multiplier, self.selection)
        for _ in range(self.iterations):
            vertex = yield VertexChoice(VertexScores(problem.rows, problem.loss, atoms, walk, self.clip), mechanism)
            walk.append(vertex)
        theta, step = atoms.point(walk.indices)
        return (theta * step).reshape(problem.rows.shape)


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    feature_bound: float | None = None,
    target_bound: float | None = None,
    selection: Literal["exponential", "permute-and-flip"] = "exponential",
) -> FrankWolfe:
    """Frank–Wolfe with everything chosen from public facts, and the least noise that keeps the guarantee.

    The clip is the largest |slope|·‖x‖∞ over the set, so that nothing is ever clipped, but for the logistic loss, whose
    slopes are cut at ½. The number of steps T balances
    the two parts of the excess risk, 2Γ/(T + 2) of the walk and b·ln m of the choice among m vertices, with
    Γ = β(‖x‖∞·diam₁)²/16, a typical share of the worst case, and b the scale of the selection on the mean gradient
    (Talwar–Thakurta–Zhang 2015, Theorem 5.5); it is at most 4096, beyond which the walk gains next to nothing.

    Args:
        problem: the problem.
        guarantee: what to keep; ε = ∞ runs without noise, δ = 0 asks for pure DP.
        iterations: T, up to 65 536; None balances the bound, up to 4096.
        clip: ℓ∞ bound on a row's gradient; None takes the largest possible one (logistic: half of it), and without
            privacy none.
        feature_bound: public bound on every |x_j|; None takes the rows' ℓ2 bound. It steers T and the clip only: the
            clip itself is enforced on every row.
        target_bound: public bound on |y|, for the same purposes; None takes 1.
        selection: as in `FrankWolfe`.

    Raises:
        InvalidInput: the set has no vertices to choose from, or bounds that nothing is left to steer for.
        HypothesisViolated: the loss has no finite slope or curvature over the set, so theory chooses nothing.
    """
    domain, d = problem.domain, math.prod(problem.rows.shape)
    vertices = whole_vertices(domain, d).count
    if not guarantee.private:
        steps = _STEPS_WITHOUT_PRIVACY if iterations is None else iterations
        return FrankWolfe(0.0, steps, math.inf if clip is None else clip, selection)
    if clip is not None and iterations is not None and (feature_bound, target_bound) != (None, None):
        raise InvalidInput("feature_bound and target_bound choose clip and iterations, which were both given.")
    targets = 1.0 if target_bound is None else target_bound
    if feature_bound is None:
        feature_bound = max(problem.rows.norm, problem.rows.intercept)
    if not math.isfinite(feature_bound):
        raise InvalidInput("a private run needs a finite row_norm or feature_bound.")
    reach = Domain(feature_bound * domain.radius_in(d, order=1), -targets, targets)
    if clip is None:
        slope = _CUT if isinstance(problem.loss, Logistic) else _finite("slope", problem.loss.lipschitz(reach))
        clip = slope * feature_bound
    if iterations is None:
        curvature = _finite("curvature", problem.loss.smoothness(reach))
        curvature *= _TYPICAL_CURVATURE * (feature_bound * domain.diameter(d, order=1)) ** 2
        score_bound = domain.max_abs_inner(clip) if isinstance(domain, Atomic) else math.nan
        iterations = _balanced_steps(curvature, score_bound * math.log(vertices) / problem.n, guarantee, selection)
    solver = FrankWolfe(0.0, iterations, clip, selection)
    return replace(solver, noise_multiplier=_least_noise(solver, guarantee))


def _finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise HypothesisViolated(
            f"the loss has no finite {what} over the set, which Frank–Wolfe's theory needs; "
            "smooth the loss, or set clip and iterations."
        )
    return value


def _noise_in_theory(steps: int, guarantee: Guarantee, selection: str) -> float:
    """The noise multiplier of T selections, in closed form: by basic composition or, with δ > 0, by zCDP if less."""
    sensitivity = guarantee.unit.sensitivity(1.0)
    pure = 2 * sensitivity * steps / guarantee.epsilon
    if guarantee.delta == 0:
        return pure
    log = math.log(1 / guarantee.delta)
    root_rho = guarantee.epsilon / (math.sqrt(log + guarantee.epsilon) + math.sqrt(log))
    return min(pure, 2 * sensitivity * math.sqrt(steps / (8 if selection == "exponential" else 2)) / root_rho)


def selection_noise(vertices: int, n: float, guarantee: Guarantee) -> float:
    """q = ν·ln m/n: what choosing among m vertices costs in the mean gradient, over its bound and the root of T.

    ν√T is the noise multiplier of T choices (with δ = 0, where it grows like T, that of sixteen).
    """
    return _noise_in_theory(_SOME_STEPS, guarantee, "exponential") / math.sqrt(_SOME_STEPS) * math.log(vertices) / n


def _balanced_steps(curvature: float, gap: float, guarantee: Guarantee, selection: str) -> int:
    """The T, on a grid of ratio 5 % up to 4096, with the least 2Γ/(T + 2) + noise_multiplier(T)·gap."""
    grid = range(math.ceil(math.log(_ENOUGH_STEPS, 1.05)) + 1)
    candidates = sorted({min(round(1.05**k), _ENOUGH_STEPS) for k in grid})
    return min(candidates, key=lambda T: 2 * curvature / (T + 2) + gap * _noise_in_theory(T, guarantee, selection))


def _least_noise(solver: FrankWolfe, guarantee: Guarantee) -> float:
    """The least noise multiplier with which T selections keep the guarantee, to 7 digits."""
    one_row, epsilon, steps = Unit(guarantee.unit.relation).sensitivity(1.0), guarantee.epsilon, solver.iterations
    pure = math.nextafter(2 * guarantee.unit.sensitivity(1.0) * steps / epsilon, math.inf)
    if guarantee.delta == 0:
        return pure

    def event(noise_multiplier: float) -> events.Event:
        return events.Repeat(events.Selection(2 * one_row / noise_multiplier, solver.selection), steps)

    if solver.selection != "exponential" or steps <= _FEW_STEPS:
        from discreet.accounting import calibrate

        return min(pure, float(calibrate(event, epsilon, guarantee.delta, guarantee.unit)))
    # Many bounded-range selections are accounted by their zCDP, which then has no certified rival for adaptive choices.
    from discreet.accounting.classical import zcdp_epsilon_upper

    enough = _noise_in_theory(steps, guarantee, solver.selection)
    too_little = enough / 4
    while enough > too_little * (1 + 1e-8):
        middle = math.sqrt(enough * too_little)
        if zcdp_epsilon_upper(event(middle), guarantee.delta, guarantee.unit) <= epsilon:
            enough = middle
        else:
            too_little = middle
    return min(enough, pure)
