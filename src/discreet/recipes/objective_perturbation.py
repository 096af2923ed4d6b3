"""Settings of objective perturbation (`discreet.solvers.objective_perturbation`) from public facts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.calibration.perturbed_minimum import least_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.errors import HypothesisViolated
from discreet.losses import Domain, Logistic, Softmax
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.recipes import shared
from discreet.solvers.base import Problem
from discreet.solvers.objective_perturbation import Constraint, ObjectivePerturbation
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "ObjectivePerturbationNumbers", "deviation", "natural_slope_bound", "recipe"]


@dataclass(frozen=True)
class ObjectivePerturbationNumbers(Tuned):
    """Tuned numbers of this recipe."""

    shrink: float = tuned(
        0.3,
        "classes: λ/(ν·L·R) under little noise with few columns; it grows with d/n and noise",
        "sweep: shrink",
    )
    shrink_noisy: float = tuned(
        4.0,
        "classes: least λ/(ν·L·R) over the noise share",
        "sweep: shrink-noisy",
    )
    shrink_regression: float = tuned(2.0, "numbers: λ/(ν·L·R) under little noise", "sweep: shrink-regression")
    doubling_noise: float = tuned(
        0.1,
        "numbers: noise share √min(d, n)·ν/n at which the ridge has doubled",
        "sweep: newton-faint",
    )
    cut_noise: float = tuned(0.08, "noise d·ν/n in scores above which logistic slopes are cut", "sweep: noisy")


NUMBERS = ObjectivePerturbationNumbers()

_DEVIATION = 1 / 300  # of ε for the distance of the certified point: costs less than 0.1 % of Gaussian noise
_PURE_DEVIATION = 0.01  # the same for Gamma-norm noise: costs 1 % of ε

Least: TypeAlias = Callable[[float, float, float], float]


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    regularisation: float | None = None,
    slope_bound: float | None = None,
    constraint: Constraint | None = None,
    label_share: float | None = None,
) -> ObjectivePerturbation:
    """The solver for a guarantee: least noise, and λ from public facts alone.

    Args:
        problem: public facts.
        guarantee: (ε, δ) and the unit; δ = 0 takes Gamma-norm noise; ε = ∞ no noise.
        regularisation: λ in units of the sum, instead of the choice of `_regularisation`, and without privacy of
            `shared.exact_ridge`.
        slope_bound: ℓ2 bound on a row's gradient; by default the loss's own, half of it for a logistic loss under much
            noise, and for the squared loss that of residuals up to 1. Without privacy nothing is cut.
        constraint: whether the domain is minimised over ("within") or projected on ("after").
        label_share: of the budget (in 1/σ²) for the sum of labels, by which scores of two classes are shrunk towards
            the constant model. None is by default: it is for rare classes under much noise, such as 0.03 to 0.1 for one
            of less than a tenth at n·ε < 1000. A tenth costs accuracy where classes are of about equal size; 0.03
            gains less, and no such cost was seen on average over simulated problems.

    Raises:
        HypothesisViolated: the loss has no bounded curvature; or no noise reaches ε at this ``regularisation``.
    """
    if not guarantee.private:
        bound = math.inf if slope_bound is None else slope_bound
        ridge = shared.exact_ridge(problem) if regularisation is None else regularisation
        return ObjectivePerturbation(0.0, ridge, bound, constraint=constraint)
    bound = _slope_bound(problem, guarantee) if slope_bound is None else slope_bound
    noiseless = ObjectivePerturbation(
        0.0, 0.0, bound, deviation(guarantee), "gaussian" if guarantee.delta else "gamma", constraint
    )
    guess = rough_multiplier(guarantee)
    least = _least(noiseless, problem, guarantee)
    if regularisation is None:
        regularisation, guess = _regularisation(noiseless, problem, guarantee, least)
    if label_share:
        return _with_labels(replace(noiseless, regularisation=regularisation), problem, guarantee, label_share)
    noise = least(regularisation, guess, 1e-6)
    return replace(noiseless, noise_multiplier=noise, regularisation=regularisation)


def _with_labels(
    noiseless: ObjectivePerturbation, problem: Problem, guarantee: Guarantee, share: float
) -> ObjectivePerturbation:
    """Both releases with the least noise that keeps the guarantee; λ grows with the minimiser's noise."""
    left = remaining_share("the minimiser", {"label_share": share})
    grown = noiseless.regularisation / math.sqrt(left)

    def make(noise: float) -> ObjectivePerturbation:
        return replace(
            noiseless,
            noise_multiplier=multiplier(noise, left),
            regularisation=grown,
            label_multiplier=multiplier(noise, share),
        )

    return calibrated(make, problem, guarantee)


def _least(noiseless: ObjectivePerturbation, problem: Problem, guarantee: Guarantee) -> Least:
    """A function of λ, a guess and a precision: the least noise multiplier that keeps the guarantee."""

    def least(strength: float, guess: float, precision: float) -> float:
        def measurement(nu: float) -> PerturbedMinimum:
            return replace(noiseless, noise_multiplier=nu, regularisation=strength).measurement(problem)

        return least_multiplier(measurement, guarantee, guess, precision)

    return least


def deviation(guarantee: Guarantee) -> float:
    """What the certified point's deviation from the minimiser may add to ε: ε/300; 1 % of ε for Gamma-norm noise."""
    return guarantee.epsilon * (_DEVIATION if guarantee.delta else _PURE_DEVIATION)


def natural_slope_bound(problem: Problem) -> float:
    """No bound where slopes have one themselves; else that of residuals up to 1."""
    return math.inf if math.isfinite(problem.loss.lipschitz(Domain())) else problem.rows.radius


def _slope_bound(problem: Problem, guarantee: Guarantee) -> float:
    """Logistic slopes are cut at their size at a score of 0 where that saves more noise than it adds bias.

    The cut loss is a straight line on the wrong side of the boundary: its minimiser still has the sign of the log-odds,
    but too large a size, whose excess risk b does not fall with n. Noise νL in the tilt of d directions of curvature
    κ·n/d costs ½·(L/R)²·(d·ν/n)²/κ, of which a cut at half the slopes saves three quarters: it pays for the log-loss
    where d·ν/n > √(8κb/3), and for accuracy, which the size does not matter to, before. Rows as long as their bound
    have b of about 0.01 and κ up to ¼, that is 0.08; shorter ones have less of either.
    """
    noise = rough_multiplier(guarantee) * problem.rows.dimension
    if isinstance(problem.loss, Logistic) and guarantee.delta and noise > current(NUMBERS).cut_noise * problem.n:
        return shared.slope_at_zero(problem, 1.0) * problem.rows.radius
    return natural_slope_bound(problem)


def _regularisation(
    noiseless: ObjectivePerturbation, problem: Problem, guarantee: Guarantee, least: Least
) -> tuple[float, float]:
    """(λ that balances the noise that it holds back against the shrinkage that it causes, a guess of its multiplier).

    λ₀ = `_scale` is the choice with noise ν₀ of a Gaussian release. With a = λ/λ₀, the error of a coefficient whose
    curvature is λ₀ is proportional to ((ν/ν₀)² + a²)/(1 + a)², least at a = 1 unless log det makes ν grow as λ falls.
    Logistic regression with λ ≥ R²/ε has no log det to pay for (the link), so a larger λ would only shrink.
    """
    radius = problem.rows.radius
    free = least(2.0**40 * radius**2, rough_multiplier(guarantee), 0.01)
    query = replace(noiseless, noise_multiplier=free, regularisation=radius**2).measurement(problem).query
    scale, ridge = _scale(problem, query, free, noiseless.noise), problem.ridge * problem.n
    if noiseless.noise == "gaussian" and query.link > 0 and query.directions == 1:
        scale = max(scale, guarantee.unit.sensitivity(1.0) * radius**2 / guarantee.epsilon)
        return max(scale - ridge, 0.0), free
    best, found = math.inf, (math.nan, math.nan)
    for a in 2.0 ** np.arange(0.0, 8.0, 0.5):
        strength = max(float(a) * scale - ridge, 0.0)
        try:
            ratio = least(strength, free, 0.01) / free
        except HypothesisViolated:  # log det exceeds ε
            continue
        error = (ratio**2 + a * a) / (1 + a) ** 2
        if error >= best:
            break
        best, found = error, (strength, ratio * free)
    assert math.isfinite(best)  # log det falls below any ε as λ grows
    return found


def _scale(problem: Problem, query: RidgeMinimiser, multiplier: float, noise: str) -> float:
    """λ₀ = ν·L·R times a factor that grows with noise and dimension.

    Classes: max(0.3 + 0.2·√x + 3·min(d/n, 1), 4s) at noise multiplier ν, with x = ν·min(d, n)/n, and s = √min(d, n)·ν/n
    the noise in the mean gradient over a row's bound. In a direction of curvature h, noise σ = νL against a coefficient
    θ_j asks for the ridge λ = σ²/(h·θ_j²) (Hoerl–Kennard 1970), and h is about n/d: that is λ ∝ σ·x. Its root costs
    less where the offset of unequal classes is shrunk with the rest; d/n is for chance among few rows; 4s is for so
    much noise that little but an offset can be learnt. Under little noise a coefficient of 3 log-odds a unit row is
    shrunk by as much as the tilt moves it.

    Numbers: 2·(1 + s/0.1); targets are coded to [−1, 1], so a unit row's score is about 1 at most.
    """
    numbers, d, n = current(NUMBERS), math.prod(problem.rows.shape), problem.n
    # Gamma-norm noise has a length of about d scales, so √d scales in each coordinate
    std = multiplier * (1.0 if noise == "gaussian" else math.sqrt(d))
    scale = std * query.gradient_bound * problem.rows.radius
    noise_share = math.sqrt(min(d, n)) * std / n
    if not (isinstance(problem.loss, Softmax) or problem.loss.slope_sign_fixed):
        return scale * (numbers.shrink_regression * (1 + noise_share / numbers.doubling_noise))
    share = min(d / n, 1.0)
    growth = 1 + 2 / 3 * math.sqrt(std * share) + 10 * share
    return scale * max(numbers.shrink * growth, numbers.shrink_noisy * noise_share)
