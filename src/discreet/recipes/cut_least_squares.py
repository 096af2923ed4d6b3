"""Settings of least squares with cut slopes in known scales (`discreet.solvers.parts.cut_least_squares`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier
from discreet.recipes import objective_perturbation, shared, weighted_perturbation
from discreet.solvers.base import Problem
from discreet.solvers.parts.cut_least_squares import CutLeastSquares
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "CutLeastSquaresNumbers", "in_known_scales"]


@dataclass(frozen=True)
class CutLeastSquaresNumbers(Tuned):
    """Tuned numbers of this recipe."""

    reach: float = tuned(
        1.5,
        "where slopes are cut over a bound that three quarters of residuals keep; more where noise is less than that "
        "of a clip at the largest target",
        "judgement: on three synthetic tables (12 000 and 30 000 rows, ε = 1) 1 is best where errors are symmetric, "
        "and 2 where they are skewed",
    )
    log_det: float = tuned(
        0.1,
        "share of ε that log det may take: the ridge is at least R²/(this·ε)",
        "judgement: on the same tables a twentieth and a tenth are alike, a fifth is worse",
    )
    offset_share: float = tuned(
        0.02,
        "share of the fit's budget for the mean residual",
        "judgement: one number beside d coefficients; by theory its share is about 1/d",
    )


NUMBERS = CutLeastSquaresNumbers()

_EXACT_RIDGE = 0.1  # without noise: cells of pairs without rows have finite coefficients


def in_known_scales(problem: Problem, guarantee: Guarantee, offset_share: float = 0.0) -> CutLeastSquares:
    """For rows whose centre and second moments are known: the minimiser, and the mean residual; not calibrated.

    Args:
        problem: least squares, no constraint, no ridge of the user's.
        guarantee: what to keep; the noise is that of Gaussian releases alone, without what log det costs.
        offset_share: of the budget (in 1/σ²) for the mean residual; 0 leaves it out, as does a model without an
            intercept, which could not take it.
    """
    offset_share = offset_share if problem.rows.intercept else 0.0
    if not guarantee.private:
        scales = weighted_perturbation.known_scales(problem, guarantee, 0.0)
        return CutLeastSquares(scales, 0.0, 0.0, _EXACT_RIDGE, math.inf, math.inf)
    noise, radius, numbers = gaussian_multiplier(guarantee), problem.rows.radius, current(NUMBERS)
    nu = multiplier(noise, 1 - offset_share)
    cut = shared.clip_share(problem, noise) * radius
    return CutLeastSquares(
        weighted_perturbation.known_scales(problem, guarantee, nu),
        nu,
        multiplier(noise, offset_share),
        _regularisation(problem, guarantee, nu * cut),
        cut,
        numbers.reach * _growth(problem, noise),
        objective_perturbation.deviation(guarantee),
    )


def _regularisation(problem: Problem, guarantee: Guarantee, tilt: float) -> float:
    """λ = 0.8·νLR·(1 + 3·min(d/n, ½)), as of two classes, and at least 10·R²/ε, for which log det takes a tenth of ε.

    Squared loss has no link between slope and curvature, by which a logistic loss pays for log det in part.
    """
    radius, share = problem.rows.radius, min(problem.rows.n_features / problem.n, 0.5)
    usual = current(weighted_perturbation.NUMBERS).shrink * (1 + 3 * share) * tilt * radius
    floor = guarantee.unit.rows_per_unit * radius**2 / (current(NUMBERS).log_det * guarantee.epsilon)
    return max(usual, floor)


def _growth(problem: Problem, noise: float) -> float:
    """max(1, 0.03/√s), s the noise in the mean gradient over its clip: cut residuals cost bias, which stays as n grows.

    It is the law of `clip_share`, from where that cuts nothing on.
    """
    numbers = current(shared.NUMBERS)
    return max(1.0, numbers.clip_at_noise / math.sqrt(math.sqrt(problem.rows.dimension) * noise / problem.n))
