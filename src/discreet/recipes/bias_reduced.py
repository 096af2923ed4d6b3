"""Settings of bias-reduced descent (`discreet.solvers.bias_reduced`) from public facts: those of least predicted risk.

Two predictions compete. The proved bound, D√(V/T) + D·bias with V the second moment, is about every sparse loss; where
d ≫ n it exceeds trivial ones and would ask for steps too short to leave θ = 0. In a linear model the error of a
gradient matters through the scores alone: if nothing is projected, T steps of size η change the score of a row by noise
of variance η²·T·v·radius², v = `BiasReduced.score_variance`, which costs ½·smoothness times that, and stopping early
costs D²/(2ηT). The sum is least at the path length ηT with (ηT)³ = D²T/(2β·v), β = smoothness·radius².

T is the filter's budget over a step's expected cost. The best of a grid of noises, batches and Rényi orders is found
without data, by the second prediction. Gradients are then debiased (projected, and the bias of that reduced) where
projecting the largest batch is proved to help under this noise; ``projecting=True`` takes the first prediction instead.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.recipes import shared
from discreet.recipes.shared import checked_recalibration_share, clipping_slope, smoothness_bound
from discreet.solvers.base import Problem
from discreet.solvers.bias_reduced import Batches, BiasReduced, Iterate
from discreet.solvers.parts.recalibration import Recalibration
from discreet.tuned import current
from discreet.units import Unit

__all__ = ["expected_cost", "level_costs", "planned", "recipe"]

_ROUNDING = 1e-9  # sums of many small costs may round up
_NOISES = tuple(2.0 ** (k / 2) for k in range(-2, 15))
"""Noise multipliers that are tried: from ½ to 128 in ratios of √2."""
_ORDERS = tuple(1.0 + 2.0**k for k in range(8))
"""Rényi orders of the filter that are tried: from 2 to 129."""


_MOST_STEPS = 128  # limits the time of a run
_LEVELS = (2, 3, 4)
"""Numbers of doublings from a leaf to the largest batch that are tried: a step takes memory for 2^levels vectors."""
_HALVINGS = 6  # the smallest leaf that is tried has n/2^6 rows, and larger ones are its doubles


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    clip: float | None = None,
    noise_multiplier: float | None = None,
    smallest: int | None = None,
    levels: int | None = None,
    step: float | None = None,
    iterations: int | None = None,
    iterate: Iterate | None = None,
    seed: int = 0,
    projecting: bool | None = None,
    recalibration_share: float | None = None,
) -> BiasReduced:
    """Bias-reduced descent whose filter is the guarantee, with the noise and batches of the least predicted risk.

    Args:
        problem: public facts.
        guarantee: what to keep; ε = ∞ runs without noise, filter and clip, by default 2000 steps with all rows in each,
            so that it ends at the minimiser.
        sparsity: most non-zero entries of a row; by default nothing is assumed, and the ℓ2 ball alone projects.
        clip: ℓ2 bound on a row's gradient; by default that of the largest slope at θ = 0.
        noise_multiplier: noise of each leaf's sum over ``clip``.
        smallest: rows of a leaf.
        levels: number of doublings from a leaf to the largest batch, 2 to 4 by default (1 below 4 rows).
        step: step size.
        iterations: the most steps, at most 128 by default.
        iterate: ``"average"``, ``"last"`` or, for losses that are not convex, ``"random"``; by default the last where
            scale and offset are fitted, else the average.
        seed: public seed of the levels.
        projecting: whether means are projected and debiased. By default they are where projecting the largest batch is
            proved to help under the noise that is best without; True searches for settings by the proved bound, and
            False never projects.
        recalibration_share: of the filter's budget for fits of offset and scale before and after; default 0.1 without
            constraint or ridge on a loss of bounded curvature, else 0: no such fits.

    Raises:
        InvalidInput: pure DP was asked for, rows are unbounded, the budget admits no step, a sparsity without
            projections, or a share for fits that cannot be made.
    """
    _check(problem, guarantee, sparsity, projecting)
    usual = current(shared.NUMBERS)
    slope = clipping_slope(problem, guarantee, usual.score_bound)
    share = checked_recalibration_share(problem, guarantee, recalibration_share, usual.large_share)
    if clip is None:
        clip = problem.rows.radius * slope if guarantee.private else math.inf
    outline = _outline(problem, guarantee, 1.0 / smoothness_bound(problem, slope), clip, sparsity, seed)
    if not guarantee.private and smallest is None and levels is None and not projecting:
        return _without_privacy(outline, problem, step, iterations, iterate)
    most = _MOST_STEPS if iterations is None else iterations
    outline = replace(outline, iterations=most, iterate=iterate or ("last" if share else "average"))
    grid = _grid(problem, guarantee, noise_multiplier, smallest, levels, projecting)
    search = _Search(problem, guarantee.unit, outline, step, share, _distance(problem, share))
    best = _best(search, grid, guarantee, debias=projecting is None)
    if guarantee.private and noise_multiplier is None:
        best = _spending_all(best, 1 - share, problem, guarantee.unit)
    return _with_fits(best, share, problem, guarantee.unit) if share else best


def level_costs(solver: BiasReduced, problem: Problem, unit: Unit) -> tuple[float, ...]:
    """A step's Rényi divergence at the filter's order for each level N."""
    nowhere = np.broadcast_to(0.0, problem.rows.shape)  # no event depends on θ: a thousand candidates need no room
    asked = (next(solver.estimate(problem, nowhere, k)) for k in range(solver.levels))
    return tuple(_divergence(measurement.event(unit), solver.order, unit) for measurement in asked)


def expected_cost(solver: BiasReduced, problem: Problem, unit: Unit) -> float:
    """E over N of a step's Rényi divergence at the filter's order."""
    costs = level_costs(solver, problem, unit)
    return math.fsum(solver.probability(k) * costs[k] for k in range(solver.levels))


def planned(solver: BiasReduced, problem: Problem, unit: Unit) -> BiasReduced:
    """The solver without its filter: a plan of as many steps as the budget is expected to pay for."""
    if not solver.budget:
        return solver
    left = solver.budget - (solver.costs[-1] if solver.costs else 0.0)
    count = math.floor(left / expected_cost(solver, problem, unit))
    return replace(solver, iterations=max(1, min(solver.iterations, count)), budget=0.0, costs=())


@lru_cache(maxsize=4096)
def _divergence(event: Event, order: float, unit: Unit) -> float:
    from discreet.accounting.upper.renyi import divergence

    return divergence(event, order, unit)


def _check(problem: Problem, guarantee: Guarantee, sparsity: int | None, projecting: bool | None) -> None:
    if not problem.rows.bounded:
        raise InvalidInput("bias-reduced descent needs rows of bounded length: give row_norm.")
    if guarantee.private and guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    if projecting is False and sparsity is not None:
        raise InvalidInput("sparsity only decides how means are projected, and projecting=False asks for none.")


def _outline(
    problem: Problem, guarantee: Guarantee, step: float, clip: float, sparsity: int | None, seed: int
) -> BiasReduced:
    """All that does not depend on noise and batches; without noise, and with the longest step."""
    batches: Batches = "fixed-size" if guarantee.unit.relation == "replace-one" else "poisson"
    entries = problem.rows.dimension if sparsity is None else sparsity
    return BiasReduced(0.0, 1, clip, step, 1, 1, entries, batches, seed=seed)


def _without_privacy(
    outline: BiasReduced, problem: Problem, step: float | None, iterations: int | None, iterate: Iterate | None
) -> BiasReduced:
    """Steps with all rows in each."""
    return replace(
        outline,
        iterations=current(shared.NUMBERS).exact_iterations if iterations is None else iterations,
        step=outline.step if step is None else step,
        smallest=math.ceil(problem.n / 2),  # two of them hold all rows
        iterate=iterate or "last",
        projecting=False,
    )


def _distance(problem: Problem, share: float) -> float:
    """D: 5/radius, 1.5/radius where scale and offset are fitted, or the largest norm in the set: steps start at 0."""
    rows, usual = problem.rows, current(shared.NUMBERS)
    scores = usual.recalibrated_score_bound if share else usual.score_bound
    return min(problem.domain.radius_in(math.prod(rows.shape)), scores / rows.radius)


_Point = tuple[float, tuple[int, int], tuple[float, float], bool]


def _grid(
    problem: Problem,
    guarantee: Guarantee,
    noise_multiplier: float | None,
    smallest: int | None,
    levels: int | None,
    projecting: bool | None,
) -> Iterator[_Point]:
    """(noise, (smallest, levels), (order, budget), projecting) of every candidate."""
    shapes = _shapes(problem, smallest, levels)
    if not guarantee.private:
        noises, budgets = [0.0], [(_ORDERS[0], 0.0)]
        shapes = [max(shapes, key=lambda shape: (shape[0] << shape[1], shape[0]))]
    else:
        noises = list(_NOISES) if noise_multiplier is None else [noise_multiplier]
        budgets = list(_budgets(guarantee))
        if not budgets:
            raise InvalidInput(
                f"no Rényi filter keeps ε = {guarantee.epsilon:g} at δ = {guarantee.delta:g}: ask for a larger ε or δ, "
                "or use solver='descent'."
            )
    return itertools.product(noises, shapes, budgets, [bool(projecting)])


def _shapes(problem: Problem, smallest: int | None, levels: int | None) -> list[tuple[int, int]]:
    """(rows of a leaf, doublings) of all batches that fit in n rows."""
    leaf = max(1, int(problem.n) >> _HALVINGS)  # and its doubles, so that few batches are accounted for
    bases = [leaf << k for k in range(_HALVINGS)] if smallest is None else [smallest]
    few = problem.n < 1 << _LEVELS[0]  # rows: one doubling is all that fits
    doublings = (levels,) if levels is not None else (1,) if few else _LEVELS
    shapes = [(b, m) for b in bases for m in doublings if (b << m) <= problem.n]
    if not shapes:
        raise InvalidInput(f"a batch of smallest·2^levels rows must fit in n = {problem.n:g}; ask for smaller ones.")
    return shapes


def _budgets(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    """(α, τ) for each order that can prove the guarantee."""
    from discreet.accounting.adaptive.filters import RenyiFilter

    for order in _ORDERS:
        try:
            budget = RenyiFilter.for_target(order, guarantee.epsilon, guarantee.delta, guarantee.unit)
        except InvalidInput:
            continue
        yield order, budget.budget


@dataclass(frozen=True)
class _Search:
    """What all candidates have in common.

    Args:
        problem: public facts.
        unit: whom the filter protects.
        outline: a solver whose noise, batches and budget are to be replaced, and whose step is the longest one.
        step: the step asked for; None takes that of the least predicted risk.
        share: of the budget for the fits of offset and scale.
        distance: D, how far from the start the best model is expected to be.
    """

    problem: Problem
    unit: Unit
    outline: BiasReduced
    step: float | None
    share: float
    distance: float

    def candidate(
        self, noise: float, shape: tuple[int, int], filtered: tuple[float, float], projecting: bool
    ) -> tuple[float, BiasReduced]:
        """(predicted excess risk, solver) of one point of the grid."""
        (smallest, levels), (order, budget) = shape, filtered
        made = replace(
            self.outline,
            noise_multiplier=noise,
            smallest=smallest,
            levels=levels,
            order=order,
            budget=budget,
            projecting=projecting,
        )
        taken = float(made.iterations)
        if budget:
            taken = min(taken, budget * (1 - self.share) / expected_cost(made, self.problem, self.unit))
        if taken < 1:
            return math.inf, made
        if projecting and made.bias_bound(self.problem):
            return self._proved(made, taken)
        return self._by_scores(made, taken)

    def debiased(self, plain: BiasReduced) -> BiasReduced:
        """The debiased estimator at the same noise and batches, where projecting its largest batch is proved to help.

        Elsewhere there is no bias to reduce: nothing is projected, the correction is 0, and leaves only add noise.
        """
        made = replace(plain, projecting=True)
        if not made.projects(self.problem, made.smallest << made.levels):
            return plain
        taken = float(made.iterations)
        if made.budget:
            taken = min(taken, made.budget * (1 - self.share) / expected_cost(made, self.problem, self.unit))
        return self._by_scores(made, taken)[1]

    def _proved(self, made: BiasReduced, taken: float) -> tuple[float, BiasReduced]:
        """By the bound on stochastic descent with bias (`theory.biased_descent`)."""
        longest, distance = self.outline.step, self.distance
        moment, bias = made.second_moment_bound(self.problem), made.bias_bound(self.problem)
        eta = (min(longest, distance / math.sqrt(taken * moment)) or longest) if self.step is None else self.step
        return distance**2 / (2 * eta * taken) + eta * moment / 2 + distance * bias, replace(made, step=eta)

    def _by_scores(self, made: BiasReduced, taken: float) -> tuple[float, BiasReduced]:
        """By the noise in scores."""
        longest, distance, beta = self.outline.step, self.distance, 1 / self.outline.step
        variance = made.score_variance()
        path = (distance**2 * taken / (2 * beta * variance)) ** (1 / 3)
        # a path of 0 is that of a set of one point
        eta = (min(longest, path / taken) or longest) if self.step is None else self.step
        risk = distance**2 / (2 * eta * taken) + beta * eta**2 * taken * variance / 2
        return risk, replace(made, step=eta)


def _best(search: _Search, grid: Iterator[_Point], guarantee: Guarantee, *, debias: bool) -> BiasReduced:
    """The candidate of least predicted risk, debiased if asked for and there is a bias."""
    risk, best = min((search.candidate(*point) for point in grid), key=lambda pair: pair[0])
    if math.isinf(risk):
        raise InvalidInput(
            f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g} on {search.problem.n:g} rows admits no step of this "
            "noise and these batches; ask for more noise or smaller batches."
        )
    return search.debiased(best) if debias and guarantee.private else best


def _spending_all(solver: BiasReduced, share: float, problem: Problem, unit: Unit) -> BiasReduced:
    """Less noise, down to the grid's next, where the most steps do not spend the budget."""

    def affords(noise: float) -> bool:
        cost = expected_cost(replace(solver, noise_multiplier=noise), problem, unit)
        return solver.iterations * cost <= share * solver.budget

    low, high = solver.noise_multiplier / math.sqrt(2), solver.noise_multiplier
    for _ in range(12 if affords(high) else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if affords(middle) else (middle, high)
    return replace(solver, noise_multiplier=high)


def _with_fits(solver: BiasReduced, share: float, problem: Problem, unit: Unit) -> BiasReduced:
    """The solver that leaves ``share`` of its budget to the fits, whose releases cost 1/ν² of what ν = 1 does."""
    reserve = share * solver.budget
    alone = _divergence(Recalibration(1.0).event(problem.loss), solver.order, unit)
    costs = (*level_costs(solver, problem, unit), reserve * (1 + _ROUNDING))
    return replace(solver, recalibration_multiplier=math.sqrt(alone / reserve), costs=costs)
