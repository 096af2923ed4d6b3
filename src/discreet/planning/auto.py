"""Which solver ``solver="auto"`` takes: that of the first rule, in one table, whose condition holds.

This is the only place that chooses a solver. A condition reads public facts alone: the rows' bounds, the loss, the set,
the number of rows (public or privately released) and the guarantee. `RULES` is shown by ``discreet solvers``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.guarantee import Guarantee
from discreet.geometry import L1Ball, SparseSet, WholeSpace
from discreet.geometry.base import Atomic, Projectable
from discreet.losses import Poisson, Softmax, Squared
from discreet.planning.facts import Facts
from discreet.planning.rule import Rule
from discreet.recipes.exponential_mechanism import MOST_AXES
from discreet.recipes.hard_threshold import converges
from discreet.recipes.interactions import NUMBERS as INTERACTIONS
from discreet.recipes.shared import NUMBERS as SHARED
from discreet.recipes.single_scales import asked_for_scales
from discreet.recipes.weighted_perturbation import NUMBERS as WEIGHTED
from discreet.recipes.weighted_perturbation import is_bag_of_words
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "RULES", "Facts", "Rule", "choose", "options_of_rules", "prefers_peeling", "prefers_vertices"]


@dataclass(frozen=True)
class AutoNumbers(Tuned):
    """Thresholds between solvers: up to which size or noise each is the better choice."""

    most_noise: float = tuned(
        0.5,
        "noise share of a mean gradient, √min(d, n)·ν/n, beyond which second moments do not reduce the risk",
        "sweep: moment-noise",
    )
    many_coordinates: int = tuned(
        5000,
        "coordinates from which vertices of a polytope are chosen instead of releasing gradients",
        "judgement: a step of Frank–Wolfe does not take longer as d grows",
    )
    least_weighted_columns: int = tuned(
        32, "columns from which weights are worth their share of the budget", "judgement: synthetic problems"
    )
    most_entries_in_length: float = tuned(
        50.0, "(row norm / entry bound)² up to which a Lasso releases gradients", "sweep: lasso-narrow"
    )


NUMBERS = AutoNumbers()


def prefers_vertices(rows: RowSpec, entry_bound: float, *, pure: bool) -> bool:
    """Whether a Lasso chooses vertices of the ℓ1 ball (Frank–Wolfe) instead of releasing gradients.

    A choice pays for the largest entry of a row and for ln d; a gradient pays for the length of a row and for √d.

    Example:
        >>> from discreet.rows import RowSpec
        >>> prefers_vertices(RowSpec(40, norm=40**0.5), 1.0, pure=False)
        False
        >>> prefers_vertices(RowSpec(400, norm=20.0), 1.0, pure=False)
        True
    """
    numbers = current(NUMBERS)
    short = rows.norm**2 <= numbers.most_entries_in_length * entry_bound**2
    return pure or not (rows.n_features <= current(SHARED).many_columns and short)


def prefers_peeling(rows: RowSpec, entry_bound: float, sparsity: int) -> bool:
    """Whether sparse least squares release the largest entries of a gradient instead of a whole one.

    By the same comparison as `prefers_vertices`, and s released entries must cost less than a gradient: √(2s) times the
    largest entry, against the length of a row.

    Example:
        >>> from discreet.rows import RowSpec
        >>> prefers_peeling(RowSpec(40, norm=40**0.5), 1.0, 5), prefers_peeling(RowSpec(400, norm=20.0), 1.0, 5)
        (False, True)
    """
    cheaper = 2 * sparsity * entry_bound**2 < rows.norm**2
    return math.isfinite(entry_bound) and cheaper and prefers_vertices(rows, entry_bound, pure=False)


def _lasso_by_vertices(f: Facts) -> bool:
    p = f.problem
    declared = isinstance(p.domain, L1Ball) and math.isfinite(p.entry_bound) and isinstance(p.loss, Squared)
    return declared and f.private and not p.ridge and prefers_vertices(p.rows, p.entry_bound, pure=f.pure)


def _sparse_by_entries(f: Facts) -> bool:
    p = f.problem
    sparse = isinstance(p.domain, SparseSet) and isinstance(p.loss, Squared) and f.gaussian
    peels = sparse and prefers_peeling(p.rows, p.entry_bound, p.domain.s if isinstance(p.domain, SparseSet) else 0)
    return peels and (p.rows.n_features > current(SHARED).many_columns or converges(p, f.guarantee))


def _free_least_squares(f: Facts) -> bool:
    p = f.problem
    return f.gaussian and isinstance(p.loss, Squared) and f.free and bool(p.rows.intercept)


def _bag_of_words(f: Facts) -> bool:
    many = is_bag_of_words(f.problem)
    return many and f.gaussian and f.two_classes and f.noise_share <= current(NUMBERS).most_noise


def _worth_weights(f: Facts) -> bool:
    d = f.problem.rows.dimension
    if is_bag_of_words(f.problem) or not (f.gaussian and f.two_classes):
        return False
    if d < current(NUMBERS).least_weighted_columns:
        return False
    numbers = current(WEIGHTED)
    return f.count_noise <= numbers.count_noise and f.count_noise * math.sqrt(d) > numbers.little_noise


def _few_dimensions(f: Facts) -> bool:
    few = f.coordinates <= MOST_AXES
    return f.pure and not f.bounded_curvature and few and not f.problem.ridge


def _few_columns(f: Facts) -> bool:
    return f.coordinates <= current(SHARED).many_columns


def _counts(f: Facts) -> bool:
    known = f.gaussian and isinstance(f.problem.loss, Poisson) and f.free and f.problem.rows.bounded
    return known and _few_columns(f) and f.noise_share <= current(NUMBERS).most_noise


def _in_residuals(f: Facts) -> bool:
    p = f.problem
    known = p.residual_loss is not None and f.free and bool(p.rows.intercept) and _few_columns(f)
    if not f.private:
        return known
    if not (known and f.gaussian and p.rows.bounded and f.noise_share <= current(NUMBERS).most_noise):
        return False
    return asked_for_scales(p, f.guarantee) <= 1 / 2


RULES: tuple[Rule, ...] = (
    Rule(
        "intervals",
        lambda f: f.problem.inference,
        "intervals are asked for (`inference=True`)",
        "coefficients with a covariance, from released values alone",
        "docs/maths/intervals.md",
    ),
    Rule(
        "interactions",
        lambda f: f.crossable and f.count_noise * current(INTERACTIONS).least_rows <= 1,
        "a schema of up to 500 features, two classes or least squares, no constraint or ridge, "
        f"n/ν ≥ {INTERACTIONS.least_rows:g}",
        "knots where the rows are, and pairs of columns that tell more together than alone",
        "sweep least-rows",
    ),
    Rule(
        "exponential_mechanism",
        lambda f: not f.perturbable and f.pure and f.coordinates <= MOST_AXES and not f.problem.ridge,
        f"a loss that is not convex, or of your own: δ = 0, up to {MOST_AXES} coefficients",
        "pure privacy by one choice among the points of a grid, which asks nothing of the loss",
        "McSherry–Talwar 2007",
    ),
    Rule(
        "frank_wolfe",
        lambda f: (
            not f.perturbable
            and isinstance(f.problem.domain, Atomic)
            and not f.problem.ridge
            and (f.pure or not isinstance(f.problem.domain, Projectable))
        ),
        "a loss that is not convex, or of your own: a polytope, and δ = 0 or no projection",
        "choosing vertices is private for every loss",
        "Talwar–Thakurta–Zhang 2015",
    ),
    Rule(
        "descent",
        lambda f: not f.perturbable,
        "any other problem with a loss that is not convex, or of your own",
        "noisy gradients are private for every loss, and a late iterate of them is nearly stationary",
        "theory.random_iterate_stationarity",
    ),
    Rule(
        "frank_wolfe",
        _lasso_by_vertices,
        "Lasso with a bound F on entries: δ = 0, over 1000 columns, or (row norm/F)² > 50",
        "a choice of vertices pays for a row's largest entry and ln d, a noisy gradient for its length and √d",
        "sweep lasso-narrow",
    ),
    Rule(
        "hard_threshold",
        _sparse_by_entries,
        "sparse least squares, entries within ±F, δ > 0: (row norm/F)² > 2·sparsity and > 50, and noise that allows ¾ "
        "of the steps that converge; or over 1000 columns",
        "the largest entries of a gradient pay for a row's largest entry and √sparsity, a whole one for its length",
        "bench/results/sparse_regression.md",
    ),
    Rule(
        "scaled_descent",
        lambda f: _free_least_squares(f) and not _few_columns(f),
        "least squares with an intercept, no constraint, over 1000 coefficients, δ > 0",
        "gradients in scales that are estimated privately: the noise in a score does not grow with d",
        "docs/maths/scaled_descent.md",
        scales="single",
    ),
    Rule(
        "scaled_descent",
        lambda f: _free_least_squares(f) and f.noise_share > current(NUMBERS).most_noise,
        "least squares with an intercept, no constraint, noise share √min(d, n)·ν/n > 0.5, δ > 0",
        "under so much noise the centre of the targets comes first, then what the weights can add",
        "sweep moment-noise",
        scales="single",
    ),
    Rule(
        "scaled_descent",
        lambda f: (
            f.gaussian
            and isinstance(f.problem.loss, Squared)
            and _few_columns(f)
            and isinstance(f.problem.domain, Projectable)
        ),
        "least squares over a set with a projection, up to 1000 coefficients, δ > 0",
        "a noisy second moment whitens the gradients that follow",
        "theory.preconditioned",
        scales="full",
    ),
    Rule(
        "scaled_descent",
        lambda f: (
            not f.private
            and isinstance(f.problem.loss, Squared)
            and isinstance(f.problem.domain, SparseSet)
            and _few_columns(f)
        ),
        "sparse least squares without privacy, up to 1000 coefficients",
        "the quadratic is formed exactly and minimised over sparse vectors",
        "the path of the private solver at ε = ∞",
        scales="full",
    ),
    Rule(
        "hard_threshold",
        lambda f: (
            isinstance(f.problem.domain, SparseSet)
            and f.bounded_curvature
            and not f.pure
            and f.problem.rows.outputs == 1
        ),
        "a sparse set, a loss of bounded curvature, one output",
        "coordinates are selected, and noise is spent on those alone",
        "Jain–Tewari–Kar 2014; theory.hard_thresholding",
    ),
    Rule(
        "frank_wolfe",
        lambda f: (
            isinstance(f.problem.domain, Atomic)
            and not isinstance(f.problem.domain, Projectable)
            and not f.problem.ridge
        ),
        "a polytope without a projection",
        "choosing vertices needs no projection",
        "Talwar–Thakurta–Zhang 2015",
    ),
    Rule(
        "frank_wolfe",
        lambda f: (
            isinstance(f.problem.domain, Atomic)
            and not f.problem.ridge
            and (f.pure or f.coordinates > current(NUMBERS).many_coordinates)
        ),
        "a polytope, and δ = 0 or over 5000 coefficients",
        "choosing vertices costs ln d, noisy gradients cost √d",
        "Talwar–Thakurta–Zhang 2015",
    ),
    Rule(
        "exponential_mechanism",
        _few_dimensions,
        f"δ = 0, a loss without bounded curvature, up to {MOST_AXES} coefficients",
        "pure privacy by one choice among the points of a grid",
        "McSherry–Talwar 2007",
    ),
    Rule(
        "scaled_descent",
        _counts,
        "counts (Poisson loss), no constraint, up to 1000 coefficients, noise share ≤ 0.5, δ > 0",
        "a noisy second moment whitens gradients, whose curvature is far below its bound at most rows",
        "bench/results/whitened_losses.md",
        scales="full",
    ),
    Rule(
        "scaled_descent",
        _in_residuals,
        "Huber and quantile regression, width and smoothing not declared, no constraint, up to 1000 coefficients; "
        "ε = ∞, or noise share ≤ 0.5, ν/n ≤ 0.088 and δ > 0",
        "the spread of the residuals is the unit of widths, clips and steps, however wide the bounds of the targets",
        "bench/results/robust_losses.md",
        scales="residual",
    ),
    Rule(
        "descent",
        lambda f: not f.bounded_curvature and (f.private or not f.problem.loss.smooth),
        "a loss without bounded curvature",
        "clipped gradients need no curvature",
        "Bassily–Smith–Thakurta 2014",
    ),
    Rule(
        "objective_perturbation",
        lambda f: not f.private,
        "ε = ∞",
        "without noise it is the exact minimiser",
        "convexity",
    ),
    Rule(
        "descent",
        lambda f: isinstance(f.problem.loss, Squared) and f.gaussian and isinstance(f.problem.domain, WholeSpace),
        "least squares over 1000 coefficients without an intercept or with a ridge, δ > 0",
        "a few noisy gradients, as far as their noise allows",
        "Bassily–Smith–Thakurta 2014",
    ),
    Rule(
        "weighted_perturbation",
        _bag_of_words,
        f"two classes, sparse rows of at least {SHARED.many_columns} columns, noise share ≤ 0.5, δ > 0",
        "columns with large second moments dominate the row norm; weights give the informative rare ones more of it",
        "sweep solver-words",
    ),
    Rule(
        "weighted_perturbation",
        _worth_weights,
        "two classes, 32 columns or more, no bag of words, ν/n ≤ 0.01 and √d·ν/n > 0.0005, δ > 0",
        "columns nearer to one scale, then a direction, then its scale and offset",
        "sweeps loudest, quiet",
    ),
    Rule(
        "scaled_descent",
        lambda f: isinstance(f.problem.loss, Softmax) and f.gaussian and f.free and f.problem.rows.bounded,
        "several classes, no constraint, δ > 0",
        "columns centred and brought to one scale, then noisy gradients",
        "sweep solver-classes",
        scales="diagonal",
    ),
    Rule(
        "descent",
        lambda f: isinstance(f.problem.loss, Softmax) and f.guarantee.delta > 0,
        "several classes over a set or with a ridge, δ > 0",
        "one release of the minimiser would pay for the curvature of every class; noisy gradients do not",
        "sweep solver-classes",
    ),
    Rule(
        "objective_perturbation",
        lambda f: True,
        "everything else: bounded slopes and curvature",
        "one tightly accounted release of the minimiser",
        "Kifer–Smith–Thakurta 2012; Redberg–Koskela–Wang 2023",
    ),
)


def choose(problem: Problem, guarantee: Guarantee) -> Rule:
    """The first rule whose condition holds.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.units import Unit
        >>> choose(Problem(RowSpec(5, 1.0), Logistic(), 1000.0), Guarantee(1.0, 1e-6, Unit("replace-one"))).solver
        'objective_perturbation'
    """
    facts = Facts(problem, guarantee)
    return next(rule for rule in RULES if rule.when(facts))


def options_of_rules(solver: str, problem: Problem, guarantee: Guarantee) -> dict[str, str]:
    """The options that the first rule for a named solver would set, were it the only solver; none where none applies.

    Example:
        >>> from discreet.losses import Squared
        >>> from discreet.units import Unit
        >>> problem = Problem(RowSpec(2000, 1.0, 0.5), Squared(), 1000.0)
        >>> options_of_rules("scaled_descent", problem, Guarantee(1.0, 1e-6, Unit("replace-one")))
        {'scales': 'single'}
    """
    facts = Facts(problem, guarantee)
    found = (rule.options for rule in RULES if rule.solver == solver and rule.options and rule.when(facts))
    return next(found, {})
