"""What several recipes share: slopes to clip at, the sparsity asked for, budget shares of the fits around a descent."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.sparse_set import SparseSet
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain, Poisson, Softmax
from discreet.measurements import FixedSizeSampling, PoissonSampling, Sampling
from discreet.solvers.base import Problem
from discreet.solvers.parts.recalibration import fits
from discreet.tuned import Tuned, current, tuned

__all__ = [
    "NUMBERS",
    "SharedNumbers",
    "batches",
    "checked_recalibration_share",
    "clip_share",
    "clipping_slope",
    "curvature_bound",
    "declared_sparsity",
    "exact_ridge",
    "first_slope",
    "slope_at_zero",
    "smoothness_bound",
    "usual_slope",
]


@dataclass(frozen=True)
class SharedNumbers(Tuned):
    """Numbers that several recipes of gradient methods use. All are public and the same for all data."""

    score_bound: float = tuned(
        5.0,
        "largest |score| ⟨x, θ⟩ that the best model is expected to have: its length is this over the longest row",
        "sweep: wide-reach",
    )
    recalibrated_score_bound: float = tuned(
        1.5,
        "largest |score| where scale and offset are fitted after the descent, which then finds a direction only",
        "judgement: half of a score of 3, a probability of 95 %: a direction is found sooner than its length",
    )
    estimate_share: float = tuned(
        0.05,
        "share of the budget (in 1/σ²) for each estimate that is released beside the model: mean row, second moments "
        "of the columns, offset; and the least for location and scale",
        "judgement: before they were one number, shares from 0.03 to 0.1 differed by up to 0.005 in mean loss",
    )
    large_share: float = tuned(
        0.1,
        "share of the budget for what the whole model depends on: XᵀX, the fits of offset and scale, scores of runs",
        "sweep: share",
    )
    decay: float = tuned(0.85, "decay of the momentum", "sweep: scaled-decay")
    score_noise: float = tuned(
        1.6, "classes: standard deviation of the noise in a score up to which steps go on", "sweep: scaled-noise"
    )
    least_clip: float = tuned(0.25, "least clip over the largest gradient at θ = 0", "sweep: least-clip")
    clip_at_noise: float = tuned(
        0.03, "clip over that gradient, times the root of the noise share √d·κ/n", "sweep: clip-at-noise"
    )
    kink_width: float = tuned(
        0.1,
        "interval of scores over which the slope of a loss without bounded curvature is taken to change",
        "judgement: a tenth of the unit in which scores are measured",
    )
    many_columns: int = tuned(
        1000,
        "columns up to which XᵀX is released and rows are centred; sparse rows of so many are taken for bags of words",
        "judgement: on synthetic problems XᵀX is ahead with 800 columns, and with 1500 only where ε is large",
    )
    most_iterations: int = tuned(
        400, "most steps of a gradient method", "judgement: more take time and change the noise by little"
    )
    fewest_iterations: int = tuned(
        32,
        "fewest steps in coordinates that were scaled privately",
        "sweep: scaled-fewest",
    )
    exact_iterations: int = tuned(
        2000, "steps without privacy", "judgement: there is no noise, so more steps cost time alone"
    )


NUMBERS = SharedNumbers()


def batches(problem: Problem, rate: float | None, batch_size: int | None) -> Sampling | None:
    """Poisson batches by their rate, or batches of a fixed size; None takes all rows each step.

    Raises:
        InvalidInput: both were given.
    """
    if rate is not None and batch_size is not None:
        raise InvalidInput("give rate (Poisson batches) or batch_size (fixed-size batches), not both.")
    if rate is not None:
        return PoissonSampling(rate)
    return None if batch_size is None else FixedSizeSampling(batch_size, round(problem.n))


def exact_ridge(problem: Problem) -> float:
    """λ, in units of the sum, of classes without privacy: (radius/score bound)², where nothing of the user's bounds θ.

    Indicators of few rows, all of one class, have no finite minimiser: with 100 bins a column, predictions of such
    cells were certain, and wrong ones cost hundreds in log-loss. The minimiser with this ridge is the likeliest θ under
    a normal prior with which scores of the longest rows have the standard deviation 5, the score bound. It is one
    fixed number beside a sum over n rows.
    """
    classes = isinstance(problem.loss, Softmax) or problem.loss.slope_sign_fixed
    free = isinstance(problem.domain, WholeSpace) and not problem.ridge and problem.rows.bounded
    return (problem.rows.radius / current(NUMBERS).score_bound) ** 2 if classes and free else 0.0


def slope_at_zero(problem: Problem, target_bound: float) -> float:
    """The largest |slope| at θ = 0 over targets in ±target_bound: a fit starts there, and residuals only shrink.

    Raises:
        InvalidInput: the bound is not positive and finite.
    """
    if not 0 < target_bound < math.inf:
        raise InvalidInput(f"target_bound must be positive and finite, got {target_bound!r}.")
    return problem.loss.lipschitz(Domain(0.0, -target_bound, target_bound))


def clipping_slope(problem: Problem, guarantee: Guarantee, score_bound: float) -> float:
    """The slope to clip at: the largest at θ = 0, where a fit starts; without privacy the largest at scores in ±bound.

    Larger slopes are those of rows on the wrong side. A clipped convex loss is a convex loss that is straight there.
    """
    if problem.rows.outputs > 1:
        return math.sqrt(1 - 1 / problem.rows.outputs) if guarantee.private else math.sqrt(2.0)
    if guarantee.private:
        return slope_at_zero(problem, 1.0)
    return problem.loss.lipschitz(Domain(score_bound=score_bound, target_low=-1.0, target_high=1.0))


def first_slope(problem: Problem, target_bound: float) -> float:
    """The largest length of the slopes at θ = 0, where a fit starts, for any loss.

    √(1 − 1/K) with K outputs; 1 for counts, which are not negative; else `slope_at_zero`.
    """
    if problem.rows.outputs > 1:
        return math.sqrt(1 - 1 / problem.rows.outputs)
    if isinstance(problem.loss, Poisson):
        return problem.loss.lipschitz(Domain(0.0, 0.0, target_bound))
    return slope_at_zero(problem, target_bound)


def usual_slope(problem: Problem) -> float:
    """The largest |slope| there is, or 1 where there are larger; with K outputs the length of the slopes at θ = 0."""
    if problem.rows.outputs > 1:
        return math.sqrt(1 - 1 / problem.rows.outputs)
    return min(problem.loss.lipschitz(Domain(target_low=-1.0, target_high=1.0)), 1.0)


def curvature_bound(problem: Problem) -> float:
    """The largest curvature of the loss over attainable scores; for a kink, slope over the width of the kink."""
    numbers = current(NUMBERS)
    domain = Domain(score_bound=numbers.score_bound, target_low=-1.0, target_high=1.0)
    if isinstance(problem.loss, Poisson):  # coded counts are at most 1, so beyond e^z = 2 the clipped slope is flat
        domain = Domain(score_bound=math.log(2.0), target_low=0.0, target_high=1.0)
    smoothness = problem.loss.smoothness(domain)
    return smoothness if math.isfinite(smoothness) else usual_slope(problem) / numbers.kink_width


def smoothness_bound(problem: Problem, slope: float) -> float:
    """β: the largest curvature of the objective; a slope that jumps is taken to change over a short interval."""
    scores = Domain(score_bound=current(NUMBERS).score_bound, target_low=-1.0, target_high=1.0)
    curvature = problem.loss.smoothness(scores)
    if not math.isfinite(curvature):
        curvature = slope / current(NUMBERS).kink_width
    return curvature * problem.rows.radius**2 + problem.ridge


def clip_share(problem: Problem, noise_multiplier: float) -> float:
    """The clip over the largest gradient at θ = 0: 0.03/√ν, from a quarter under much noise to 1 under little.

    ν = √d·κ/n is the noise in the mean gradient as a share of its clip. Clipped residuals cost bias, which does not
    shrink with n, and save noise in proportion: so the clip grows like ν^−½ (the constant is from simulations).
    """
    numbers = current(NUMBERS)
    noise = math.sqrt(problem.rows.dimension) * noise_multiplier / problem.n
    return min(1.0, max(numbers.least_clip, numbers.clip_at_noise / math.sqrt(noise)))


def declared_sparsity(problem: Problem, sparsity: int | None, radius: float | None) -> tuple[int, float | None]:
    """The sparsity and radius asked for, or else those of the problem's set.

    Raises:
        InvalidInput: no sparsity anywhere, or one that contradicts the problem's set.
    """
    if isinstance(problem.domain, SparseSet):
        if sparsity not in (None, problem.domain.s):
            raise InvalidInput(f"sparsity={sparsity} contradicts the problem's set of sparsity {problem.domain.s}.")
        return problem.domain.s, problem.domain.radius if radius is None else radius
    if sparsity is None:
        raise InvalidInput("a sparse model needs a sparsity: give the option sparsity=…, or a SparseSet as domain.")
    return sparsity, radius


def checked_recalibration_share(
    problem: Problem, guarantee: Guarantee, asked: float | None, usual: float, possible: bool | None = None
) -> float:
    """The share of the budget for the fits of offset and scale: the one asked for, or the usual where fits can be made.

    Whether they can is asked of `fits`, unless ``possible`` says it.

    Raises:
        InvalidInput: a share of 1 or more, or one for fits that cannot be made.
    """
    possible = (fits(problem) if possible is None else possible) and guarantee.private
    if asked is None:
        return usual if possible else 0.0
    if not 0 <= asked < 1:
        raise InvalidInput(f"recalibration_share must be in [0, 1), got {asked!r}.")
    if asked and guarantee.private and not possible:
        raise InvalidInput(
            "offset and scale are fitted for one score a row and a loss of bounded curvature, the scale also for "
            "several classes by scaled_descent; without constraint and ridge. Leave recalibration_share out."
        )
    return asked if possible else 0.0
