"""Settings of inference (`discreet.solvers.inference`) from public facts, and how many rows it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.errors import InvalidInput
from discreet.losses import CappedPoisson, Huber, Logistic, Poisson, Squared
from discreet.losses.capped_poisson import MOST_COUNT
from discreet.recipes import objective_perturbation, shared
from discreet.solvers.base import Problem
from discreet.solvers.inference import Inference, check
from discreet.solvers.parts.average_slope import sums_for_average_slope
from discreet.solvers.parts.requirements import require_bounded_rows
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "InferenceNumbers", "recipe", "rows_needed"]


@dataclass(frozen=True)
class InferenceNumbers(Tuned):
    """Tuned numbers of this recipe."""

    scale_share: float = tuned(
        0.01,
        "share of the budget for each sum of one number: spread of the residuals, mean count, Σψ², Σψ', average slope",
        "judgement: one number of n rows is known to √(100)·ν/n of its bound, which at the gate is below a hundredth",
    )
    ridge: float = tuned(
        32.0,
        "λ·ε over the largest curvature, for losses whose slope and curvature can be worst together",
        "judgement: the noise is then 6 % above a Gaussian release's, with 16 it would be 10 %, with 64 5 %",
    )
    linked_ridge: float = tuned(
        2.0,
        "λ·ε for the logistic loss and rows of length 1",
        "theorem: from 1 on log det is free in one release (objective_perturbation.md, section 3); 2 leaves room for "
        "what is released beside it",
    )
    outlier: float = tuned(
        2.5,
        "slopes of least squares are cut at so many standard deviations",
        "judgement: the cut loses 1 % of efficiency under normal errors (Huber 1964), and noise grows in proportion",
    )
    rows_needed: float = tuned(
        30.0,
        "rows over ν·d^1.5, ν the multiplier of one release, from which intervals are expected",
        "judgement: bench/results/intervals.md",
    )


NUMBERS = InferenceNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    moment_share: float | None = None,
    start_share: float | None = None,
    scale_share: float | None = None,
    hessian_share: float | None = None,
    score_share: float | None = None,
    regularisation: float | None = None,
    cap: int | None = None,
    outlier: float | None = None,
) -> Inference:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: logistic regression of two classes, least squares, Huber or Poisson regression of plain counts.
        guarantee: what to keep.
        moment_share: of the budget (in 1/σ²) for the second moment, by default 0.1.
        start_share: of the budget for the first gradient of regressions, by default 0.02.
        scale_share: of the budget for each sum of one number, and for each of two that average marginal effects of
            classes and counts need, by default 0.01.
        hessian_share: of the budget for the Hessian, by default 0.1, for counts 0.15.
        score_share: of the budget for the robust variance, by default 0.1.
        regularisation: λ for rows of length 1; by default 2/ε for the logistic loss, else 32·(largest curvature)/ε.
        cap: where counts are capped, by default where standard errors are least (`parts.count_cap.best_cap`); for
            robust intervals at the bound that was declared for them, as a cap takes their law for Poisson's.
        outlier: where slopes of least squares are cut, by default at 2.5 standard deviations.

    Raises:
        InvalidInput: another loss, several outputs, a constraint or ridge, rows without bound, pure DP, shares that
            leave nothing, or counts without a small bound for robust intervals.
    """
    check(problem)
    numbers, usual = current(NUMBERS), current(shared.NUMBERS)
    most = _cap(problem, guarantee) if cap is None else CappedPoisson(cap).cap
    cut = numbers.outlier if outlier is None else outlier
    rows = guarantee.unit.rows_per_unit
    noiseless = Inference(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, cut, most, problem.robust, rows_per_person=rows)
    if not guarantee.private:
        return noiseless
    require_bounded_rows(problem, "inference")
    several = isinstance(problem.loss, Squared | Huber | Poisson)
    shares = {
        "moment_share": usual.large_share if moment_share is None else moment_share,
        "start_share": (2 * numbers.scale_share if start_share is None else start_share) if several else 0.0,
        "scale_share": numbers.scale_share if scale_share is None else scale_share,
        "hessian_share": _hessian_share(problem) if hessian_share is None else hessian_share,
        "score_share": (usual.large_share if score_share is None else score_share) if problem.robust else 0.0,
    }
    spent = dict(shares, scale_share=shares["scale_share"] * _scales(problem))
    left = remaining_share("the minimiser", spent, may_be_zero=("start_share", "scale_share", "score_share"))
    ridge = _regularisation(problem, guarantee) if regularisation is None else regularisation
    settings = replace(noiseless, regularisation=ridge, deviation=objective_perturbation.deviation(guarantee))

    return calibrated(lambda noise: _with_noise(settings, shares, left, noise), problem, guarantee)


def _with_noise(settings: Inference, shares: dict[str, float], left: float, noise: float) -> Inference:
    """All noise in proportion to that of one release with the whole budget."""
    return replace(
        settings,
        moment_multiplier=multiplier(noise, shares["moment_share"]),
        scale_multiplier=multiplier(noise, shares["scale_share"]),
        start_multiplier=multiplier(noise, shares["start_share"]),
        noise_multiplier=multiplier(noise, left),
        hessian_multiplier=multiplier(noise, shares["hessian_share"]),
        score_multiplier=multiplier(noise, shares["score_share"]),
    )


def rows_needed(guarantee: Guarantee, dimension: int) -> float:
    """About how many rows intervals need: 30·ν·d^1.5, ν the noise multiplier of one release with the whole budget.

    Example:
        >>> from discreet.units import Unit
        >>> round(rows_needed(Guarantee(1.0, 1e-6, Unit("add-remove")), 10), -2)
        4000.0
    """
    return current(NUMBERS).rows_needed * gaussian_multiplier(guarantee) * dimension**1.5


def _cap(problem: Problem, guarantee: Guarantee) -> int:
    """0: where standard errors are least. Robust intervals of counts take the whole count, whose law is not known."""
    if not (problem.robust and guarantee.private and isinstance(problem.loss, Poisson)):
        return 0
    if not problem.largest_count <= MOST_COUNT:
        raise InvalidInput(
            f"robust intervals of counts need target_bounds of at most {MOST_COUNT}, got {problem.largest_count:g}: "
            "what is cut from larger counts is known on average for Poisson counts only. Lower the bound, to which "
            "counts are clipped, or leave robust=True out. Nothing was released."
        )
    return math.ceil(max(problem.largest_count, 1.0))


def _hessian_share(problem: Problem) -> float:
    """A tenth; for counts, whose largest curvature is far above that of most rows, half as much again."""
    return current(shared.NUMBERS).large_share * (1.5 if isinstance(problem.loss, Poisson) else 1)


def _scales(problem: Problem) -> int:
    """How many sums are released with the share of one number."""
    return {Squared: 3, Huber: 2, Poisson: 1}.get(type(problem.loss), 0) + sums_for_average_slope(problem)


def _regularisation(problem: Problem, guarantee: Guarantee) -> float:
    """λ in proportion to the largest curvature of a row of length 1 over ε; more for units of several rows."""
    numbers, rows = current(NUMBERS), guarantee.unit.rows_per_unit
    if isinstance(problem.loss, Logistic):
        return numbers.linked_ridge * guarantee.unit.sensitivity(1.0) / guarantee.epsilon
    return numbers.ridge * rows / guarantee.epsilon
