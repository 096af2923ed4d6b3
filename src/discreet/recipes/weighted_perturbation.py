"""Settings of objective perturbation in weighted columns (`discreet.solvers.weighted_perturbation`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.losses import Logistic
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.recipes import objective_perturbation, shared
from discreet.solvers.base import Problem
from discreet.solvers.parts import column_weights, recalibration
from discreet.solvers.parts.private_scales import Diagonal
from discreet.solvers.weighted_perturbation import WeightedPerturbation, check
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "WeightedPerturbationNumbers", "is_bag_of_words", "known_scales", "recipe"]


@dataclass(frozen=True)
class WeightedPerturbationNumbers(Tuned):
    """Tuned numbers of this recipe."""

    shrink: float = tuned(
        0.8,
        "λ/(ν·L·R) with few columns; 2.5 times as much with half as many as rows, and for bags of words",
        "sweep: weighted-shrink",
    )
    little_noise: float = tuned(
        5e-4,
        "noise in the mean gradient, √d·ν/n, above which columns are weighted; above 20 times that rows are centred",
        "sweep: quiet",
    )
    count_noise: float = tuned(
        1e-2,
        "noise of a count over n above which columns are not weighted, and scale and offset get a share of the "
        "budget in proportion to it; twice that is how far the share of a class is taken to be off that the sum of "
        "slopes tells",
        "sweep: loudest",
    )
    word_cut: float = tuned(0.25, "slope at which logistic losses of bags of words are cut", "sweep: word-cut")


NUMBERS = WeightedPerturbationNumbers()

_NEARLY = 1 - 1e-9
"""Slopes that are cut at all have a privacy profile that composes with Gaussians in closed form. With that of uncut
slopes, where large slopes have little curvature, calibration takes many times as long for nearly the same noise."""
_MOST_ENTRIES = 1e7  # centred rows are dense, and must fit in memory


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    regularisation: float | None = None,
    slope_bound: float | None = None,
    power: float | None = None,
    spread: float | None = None,
    moment_share: float | None = None,
    place_share: float | None = None,
    recalibration_share: float | None = None,
    centre_share: float | None = None,
    damping: float | None = None,
) -> WeightedPerturbation:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: two classes, no constraint, no ridge of the user's.
        guarantee: what to keep.
        regularisation: λ in units of the sum; by default 0.8·ν·L·R·(1 + 3·min(d/n, ½)), for bags of words
            (sparse rows of at least 1000 columns) 2·ν·L·R, and at least R²/ε.
        slope_bound: ℓ2 bound on a weighted row's gradient; by default that of a logistic slope at a score of 0, for
            bags of words half of it, and other losses' own.
        power: weights are (f_j + τ)^−power, by default ¼; 0 leaves columns as they are.
        spread: over how many entries a row's squared length is expected to be spread, by default 25.
        moment_share: of the budget (in 1/σ²) for the columns' second moments, by default 0.05.
        place_share: of the budget for the range of the scores, by default 0.02, more under much noise.
        recalibration_share: of the budget for scale and offset, by default 0.08, and in proportion to ν/n above 0.01.
        centre_share: of the budget for the mean row; 0 leaves rows uncentred. By default 0.05, or 0 for more than 1000
            columns (or 1e7 entries), little noise (√d·κ/n ≤ 0.01), and models without an intercept.
        damping: τ in units of the squared row norm; by default (ν/2)²·radius²/(norm²·n).

    Raises:
        InvalidInput: not two classes, a constraint or ridge, rows without bound, pure DP, or shares that leave nothing.
        HypothesisViolated: the loss has no bounded curvature.
    """
    check(problem)
    weights = current(column_weights.NUMBERS)
    shares = _shares(problem, guarantee, moment_share, place_share, recalibration_share, centre_share)
    bound = _slope_bound(problem, guarantee) if slope_bound is None else slope_bound
    if guarantee.private and isinstance(problem.loss, Logistic):
        bound = min(bound, _NEARLY * problem.rows.radius)
    exponent, entries = weights.power if power is None else power, weights.spread if spread is None else spread
    if not guarantee.private:
        scales = Diagonal(0.0, damping or 1 / problem.n, exponent, entries)
        return WeightedPerturbation(scales, 0.0, 0.0, 0.0, regularisation or 0.0, bound)
    nu = multiplier(gaussian_multiplier(guarantee), _left(shares))
    ridge = _regularisation(problem, guarantee, nu, bound) if regularisation is None else regularisation
    tau = column_weights.chance_damping(problem, nu) if damping is None else damping
    scales = Diagonal(0.0, tau, exponent, entries, centred=shares["centre_share"] > 0)
    rest = bound, objective_perturbation.deviation(guarantee), 2 * current(NUMBERS).count_noise
    noiseless = WeightedPerturbation(scales, 0.0, 0.0, 0.0, ridge, *rest)
    return _with_noise(noiseless, problem, guarantee, shares)


def known_scales(problem: Problem, guarantee: Guarantee, nu: float) -> Diagonal:
    """How second moments that are known already become weights of columns, for a minimiser with noise ν."""
    weights = current(column_weights.NUMBERS)
    tau = column_weights.chance_damping(problem, nu) if nu else 1 / problem.n
    centred = guarantee.private and _centre_share(problem, guarantee) > 0
    return Diagonal(0.0, tau, weights.power, weights.spread, centred=centred)


def is_bag_of_words(problem: Problem) -> bool:
    """Sparse rows of at least 1000 columns.

    With slopes cut at ¼ every row has full influence until it is right by a margin of 1.1; from there on
    the others have more, such as kinds of text that are rare within their class.
    """
    return problem.sparse and problem.rows.n_features >= current(shared.NUMBERS).many_columns


def _shares(
    problem: Problem,
    guarantee: Guarantee,
    moment_share: float | None,
    place_share: float | None,
    recalibration_share: float | None,
    centre_share: float | None,
) -> dict[str, float]:
    """Shares of the budget (in 1/σ²) for everything but the minimiser.

    By default the range of the scores has a fifth of what it has together with scale and offset.
    """
    usual, place = current(shared.NUMBERS), current(recalibration.NUMBERS).place_share
    fits = _fit_share(problem, guarantee)
    shares = {
        "moment_share": usual.estimate_share if moment_share is None else moment_share,
        "place_share": place * fits if place_share is None else place_share,
        "recalibration_share": (1 - place) * fits if recalibration_share is None else recalibration_share,
        "centre_share": _centre_share(problem, guarantee) if centre_share is None else centre_share,
    }
    _left(shares)
    return shares


def _fit_share(problem: Problem, guarantee: Guarantee) -> float:
    """A tenth for scale and offset together, and in proportion to ν/n above a hundredth, up to a half.

    The share of the second class then errs by a few per cent at most until ν/n exceeds a twentieth: a model that says
    little else should not be worse than that share alone.
    """
    usual = current(shared.NUMBERS).large_share
    if not guarantee.private:
        return usual
    much = rough_multiplier(guarantee) / problem.n / current(NUMBERS).count_noise
    return min(0.5, usual * max(1.0, much))


def _left(shares: dict[str, float]) -> float:
    return remaining_share("the minimiser", shares, may_be_zero="centre_share")


def _centre_share(problem: Problem, guarantee: Guarantee) -> float:
    """A twentieth where rows are few and narrow enough to be dense, noise is much, and there is an intercept; else 0.

    Centred rows differ in length, and clipping them costs what less noise brings unless √d·κ/n is above a hundredth.
    """
    rows, n, usual = problem.rows, problem.n, current(shared.NUMBERS)
    small = rows.n_features <= min(usual.many_columns, _MOST_ENTRIES / n)
    noise = rough_multiplier(guarantee) * math.sqrt(rows.n_features) / n if guarantee.private else 0.0
    return usual.estimate_share if small and noise > 20 * current(NUMBERS).little_noise and rows.intercept else 0.0


def _slope_bound(problem: Problem, guarantee: Guarantee) -> float:
    """Logistic slopes are cut at ½, those of bags of words at ¼; without privacy nothing is cut."""
    if not (isinstance(problem.loss, Logistic) and guarantee.private):
        return math.inf
    usual = shared.slope_at_zero(problem, 1.0)
    return (current(NUMBERS).word_cut if is_bag_of_words(problem) else usual) * problem.rows.radius


def _regularisation(problem: Problem, guarantee: Guarantee, nu: float, slope_bound: float) -> float:
    """λ = 0.8·ν·L·R·(1 + 3·min(d/n, ½)), or 2·ν·L·R for bags of words; at least R²/ε.

    A column of second moment f has curvature n·f/4, and f is about 1/d: the ridge that balances its noise σ = νL grows
    with d/n (Hoerl–Kennard 1970). In a bag of words most directions have next to no curvature, so the noise in a score
    is at most νLR/λ whatever the dimension. Curvature is at most R²/4, so R²/ε leaves log det a quarter of ε.
    """
    rows = problem.rows
    bounds = RidgeMinimiser(rows, problem.loss, 1.0, slope_bound)
    share = 0.5 if is_bag_of_words(problem) else min(rows.n_features / problem.n, 0.5)
    ridge = current(NUMBERS).shrink * (1 + 3 * share) * nu * bounds.gradient_bound * rows.radius
    return max(ridge, 4 * guarantee.unit.rows_per_unit * bounds.curvature_bound / guarantee.epsilon)


def _with_noise(
    noiseless: WeightedPerturbation, problem: Problem, guarantee: Guarantee, shares: dict[str, float]
) -> WeightedPerturbation:
    """All noise in proportion to that of one release with the whole budget, with the least that keeps the guarantee."""

    def make(noise: float) -> WeightedPerturbation:
        centre, moments = (multiplier(noise, shares[name]) for name in ("centre_share", "moment_share"))
        return replace(
            noiseless,
            scales=replace(noiseless.scales, centre_multiplier=centre, moment_multiplier=moments),
            noise_multiplier=multiplier(noise, _left(shares)),
            place_multiplier=multiplier(noise, shares["place_share"]),
            recalibration_multiplier=multiplier(noise, shares["recalibration_share"]),
        )

    return calibrated(make, problem, guarantee)
