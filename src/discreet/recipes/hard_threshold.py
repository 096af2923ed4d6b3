"""Settings of iterative hard thresholding (`discreet.solvers.hard_threshold`) from public facts.

The step is 1/smoothness. Rows that are all one vector of ±entry_bound attain the default smoothness, so from row bounds
alone no much larger step is safe. A declared condition number κ allows one: the least restricted eigenvalue is at most
the least diagonal entry of the Hessian, hence at most a = β·min(r²/d, entry_bound²), and the largest at most κ·a.

Theory asks for at least (smoothness/a)·ln n steps. The coordinates are selected anew at every step, by gradients that
share the budget, so noise hides small coefficients long before it is as long as the model: the number of steps is at
most a sixth of that after which the noise of all steps together, (T/smoothness)·σ√(2s·ln d) for noise σ of a single
release, is as long as a minimiser, target_bound/√a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.by_zcdp import calibrated_by_zcdp
from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.losses.base import Domain
from discreet.recipes import shared
from discreet.recipes.shared import declared_sparsity, slope_at_zero
from discreet.solvers.base import Problem
from discreet.solvers.hard_threshold import HardThreshold, PeeledThreshold
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "HardThresholdNumbers", "converges", "recipe"]


@dataclass(frozen=True)
class HardThresholdNumbers(Tuned):
    """How many steps hard thresholding takes."""

    noise_length_share: float = tuned(
        1 / 6,
        "largest length of the noise of all steps together, over that of a minimiser",
        "judgement: simulated rows of signs, uniform entries and correlated columns (docs/maths/sparse_regression.md)",
    )
    convergence_share: float = tuned(
        0.75,
        "share of (smoothness/least curvature)·ln n steps that noise must allow, or else whole gradients are released",
        "judgement: simulated rows, uniform, signs and correlated columns (bench/results/sparse_regression.md)",
    )


NUMBERS = HardThresholdNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    peel: bool | None = None,
    target_bound: float | None = None,
    entry_bound: float | None = None,
    radius: float | None = None,
    iterations: int | None = None,
    smoothness: float | None = None,
    condition: float | None = None,
    clip: float | None = None,
) -> HardThreshold | PeeledThreshold:
    """Hard thresholding with the least noise that keeps the guarantee.

    Args:
        problem: any smooth loss with one output.
        guarantee: what must be kept.
        sparsity: s; None takes the problem's `SparseSet`.
        peel: release s coordinates a step instead of all; None compares the two noise levels, √(2s)·(largest entry)
            against the length of a row.
        target_bound: public bound on |y|; None takes 1, or clips nothing without privacy.
        entry_bound: public bound on |x_ij|; None takes the problem's, or else the bound on a row's length. The constant
            column of an intercept is an entry too: an estimator's ``feature_bound`` makes it as small as the others.
        radius: ℓ2 bound on θ; None takes the problem's set.
        iterations: None takes (smoothness/a)·ln n, limited by the noise as above; without privacy 2000.
        smoothness: public bound on the mean loss's smoothness along 2s-sparse directions; None takes
            β·min(r², 2s·entry_bound²), which always holds. The step is its inverse.
        condition: public bound on the ratio of the largest to the least eigenvalue along such directions. The error
            bound needs it below φ³ = 4.2 where the target is as dense as s, φ the golden ratio.
        clip: bound on a row's gradient (its ℓ∞ norm if peeled, else ℓ2); None takes slope × entry or row bound, the
            slope being the largest at θ = 0.

    Raises:
        InvalidInput: the loss is not smooth, the rows have no bound, the target_bound is not one, or smoothness and
            condition are both given.
    """
    setting, least, smoothness = _prepared(
        problem, guarantee, sparsity, peel, target_bound, entry_bound, radius, smoothness, condition, clip
    )
    if iterations is None and guarantee.private:
        iterations = _steps(setting, least, smoothness)
    return setting.solver(current(shared.NUMBERS).exact_iterations if iterations is None else iterations)


def converges(problem: Problem, guarantee: Guarantee) -> bool:
    """Whether the noise of hard thresholding at its defaults leaves room for most of the steps that it needs.

    With fewer, entries that matter are left out, and what is missed does not come back.
    """
    nothing = (None,) * 8
    setting, least, smoothness = _prepared(problem, guarantee, *nothing)
    wanted = smoothness / least * math.log(max(problem.n, 2))
    return _affordable(setting, least, smoothness) >= current(NUMBERS).convergence_share * wanted


def _prepared(
    problem: Problem,
    guarantee: Guarantee,
    sparsity: int | None,
    peel: bool | None,
    target_bound: float | None,
    entry_bound: float | None,
    radius: float | None,
    smoothness: float | None,
    condition: float | None,
    clip: float | None,
) -> tuple[_Setting, float, float]:
    """All but the number of steps and the noise, the least curvature and the smoothness."""
    s, radius = declared_sparsity(problem, sparsity, radius)
    length = problem.rows.radius
    declared = problem.entry_bound if entry_bound is None else entry_bound
    entry = max(declared, problem.rows.intercept) if math.isfinite(declared) else length
    least, smoothness = _curvatures(problem, s, entry, smoothness, condition)
    if peel is None:
        peel = entry * math.sqrt(2 * s) < length
    if not peel and clip is not None and target_bound is not None:
        raise InvalidInput("without peeling target_bound only chooses the clip, which was given too: leave one out.")
    targets = target_bound if target_bound is not None else 1.0 if guarantee.private else math.inf
    slope = slope_at_zero(problem, targets) if guarantee.private else math.inf
    setting = _Setting(
        problem, guarantee, peel, s, radius, 1 / (smoothness + problem.ridge), entry, slope, targets, clip
    )
    return setting, least, smoothness


@dataclass(frozen=True)
class _Setting:
    """All but the number of steps and the noise."""

    problem: Problem
    guarantee: Guarantee
    peel: bool
    sparsity: int
    radius: float | None
    step: float
    entry: float
    slope: float
    targets: float
    clip: float | None

    def solver(self, iterations: int) -> HardThreshold | PeeledThreshold:
        """The solver of so many steps, with the least noise that keeps the guarantee."""
        if self.peel:
            return calibrated_by_zcdp(lambda noise: self._peeled(noise, iterations), self.problem, self.guarantee)
        return calibrated(lambda noise: self._gaussian(noise, iterations), self.problem, self.guarantee)

    def _peeled(self, noise: float, iterations: int) -> PeeledThreshold:
        entries = self.entry if self.guarantee.private else math.inf
        slopes = self.slope if self.clip is None else self.clip / self.entry
        return PeeledThreshold(noise, iterations, entries, slopes, self.step, self.sparsity, self.radius, self.targets)

    def _gaussian(self, noise: float, iterations: int) -> HardThreshold:
        clip = self.slope * self.problem.rows.radius if self.clip is None else self.clip
        return HardThreshold(noise, iterations, clip, self.step, self.sparsity, self.radius)


def _curvatures(
    problem: Problem, s: int, entry: float, smoothness: float | None, condition: float | None
) -> tuple[float, float]:
    """a, which bounds the least curvature along 2s-sparse directions from above, and the smoothness along them."""
    beta = problem.loss.smoothness(Domain())
    if not math.isfinite(beta):
        raise InvalidInput(f"{type(problem.loss).__name__} loss has no smoothness, from which the step would come.")
    length = problem.rows.radius
    least = beta * min(length**2 / problem.rows.dimension, entry**2)
    if condition is not None and (smoothness is not None or not 1 <= condition < math.inf):
        raise InvalidInput(f"condition must be at least 1 and excludes smoothness, got {condition!r}, {smoothness!r}.")
    if smoothness is None:
        largest = beta * min(length**2, 2 * s * entry**2)
        smoothness = min(largest, math.inf if condition is None else condition * least)
    if not 0 < smoothness < math.inf:
        raise InvalidInput("rows without a bound give no step size: declare row_norm, entry_bound or smoothness.")
    return least, smoothness


def _steps(setting: _Setting, least: float, smoothness: float) -> int:
    """κ·ln n steps with κ = smoothness/a, or as many as the noise allows if those are fewer; from ln n to 400."""
    log = math.log(max(setting.problem.n, 2))
    wanted = max(log, min(smoothness / least * log, _affordable(setting, least, smoothness)))
    return max(1, math.ceil(min(current(shared.NUMBERS).most_iterations, wanted)))


def _affordable(setting: _Setting, least: float, smoothness: float) -> float:
    """The number of steps whose noise is a share of the length of a minimiser."""
    problem, s = setting.problem, setting.sparsity
    once = setting.solver(1)
    bound = once.clip if isinstance(once, HardThreshold) else math.sqrt(s) * once.entry_bound * once.slope_bound
    noise = once.noise_multiplier * bound / problem.n * math.sqrt(2 * s * math.log(max(problem.rows.dimension, 2)))
    return current(NUMBERS).noise_length_share * setting.targets / math.sqrt(least) * smoothness / noise
