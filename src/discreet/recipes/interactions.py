"""Settings of the choice of interactions (`discreet.solvers.interactions`) from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

from discreet.calibration.by_secants import calibrated_by_secants
from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.events import Gaussian
from discreet.losses import Squared
from discreet.recipes import cut_least_squares, weighted_perturbation
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Solver
from discreet.solvers.interactions import Interactions, check, refined_rows
from discreet.solvers.parts.cut_least_squares import CutLeastSquares
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "InteractionNumbers", "recipe"]

S = TypeVar("S")


@dataclass(frozen=True)
class InteractionNumbers(Tuned):
    """Tuned numbers of this recipe."""

    choice_share: float = tuned(
        0.08,
        "share of the budget for the choice; half of it for the pilot, a quarter for histograms, and for fine ones",
        "sweep: choice-share",
    )
    least_rows: float = tuned(1500.0, "n/ν from which interactions are chosen", "sweep: least-rows")
    most: int = tuned(
        6, "pairs and finer resolutions chosen at most; twice as many from ten times least_rows on", "sweep: choices"
    )
    rows_per_cell: float = tuned(
        50.0,
        "n·μ over the number of cells of a pair in the fit, and n over that of all that is chosen",
        "judgement: 4, 6 and 8 knots are alike on synthetic tables of 8000 rows at ε = 2",
    )
    doubt: float = tuned(
        0.5, "probability that something is chosen by chance where there is nothing to find", "sweep: choice-doubt"
    )
    fine_knots: int = tuned(
        24,
        "knots of a column of numbers of finer resolution",
        "judgement: on synthetic tables with steps (8000 rows) knots gain up to 16 or 24",
    )
    well_used: float = tuned(
        0.6,
        "share of the parts between evenly spaced knots that rows use (by entropy), beyond which knots stay; up to "
        "three times least_rows, from where all knots move",
        "judgement: on six synthetic tables of 1500 to 3000 rows 0.6 loses next to nothing where moving all loses 0.6 "
        "points (or R² in hundredths); of ten with more rows moving is better on eight, by 0.1",
    )
    recurring: float = tuned(
        2.0,
        "standard deviations by which a value recurs more often than those around it",
        "judgement: on synthetic tables with amounts (30 000 rows, ε = 1) 2 gains more than 3.1, and as much as 1",
    )


NUMBERS = InteractionNumbers()

_LEAST_PAIR_KNOTS = 4  # of a column in a pair
_LEAST_FINE_KNOTS = 12  # twice as many as a column of numbers has by itself
_CANDIDATES = 20  # columns, hence up to 190 tables: more take more time than the fit
_CELLS = 5
_FINE_CELLS = 8
_INSIDE = 0.75
_EXACT_RIDGE = 0.1  # without noise: cells of pairs without rows, or of one class, have finite coefficients
_RESIDUALS = 0.1  # of the share of the choice: 20 counts of all rows need little


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    most: int | None = None,
    fine_knots: int | None = None,
    pair_knots: int | None = None,
    pilot_share: float | None = None,
    choice_share: float | None = None,
    histogram_share: float | None = None,
    value_share: float | None = None,
) -> Interactions:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: two classes or least squares, of a table with a schema; no constraint and no ridge.
        guarantee: what to keep.
        most: how many pairs and finer resolutions are chosen at most; by default 6, or 12 where n/ν ≥ 15 000, and
            fewer where n < 4800.
        fine_knots: of a column of numbers of finer resolution, by default 24, and fewer where n < 7200.
        pair_knots: of a column in a pair, by default 4 to 8.
        pilot_share: of the budget (in 1/σ²) for the additive model whose residuals pairs are chosen by.
        choice_share: of the budget for the choice.
        histogram_share: of the budget for the histograms of columns.
        value_share: of the budget for fine histograms of columns of which most rows have one value.

    Raises:
        InvalidInput: columns that are not known, several classes, a constraint or ridge, or pure DP.
    """
    check(problem)
    numbers = current(NUMBERS)
    shares = _shares(histogram_share, value_share, pilot_share, choice_share)
    count = _choices(problem, guarantee, numbers) if most is None else most
    cells = _pair_knots(problem, guarantee, numbers) if pair_knots is None else pair_knots
    noise, knots = gaussian_multiplier(guarantee), _fine_knots(problem, numbers) if fine_knots is None else fine_knots
    additive = replace(problem, columns=())
    refined = replace(additive, rows=_widest(problem, count, max(cells**2, knots)), sparse=True)
    solver = Interactions(
        pilot=_inner(additive, _part(guarantee, noise, shares["pilot_share"])),
        fit=_inner(refined, _part(guarantee, noise, _left(shares)), current(cut_least_squares.NUMBERS).offset_share),
        histogram_multiplier=multiplier(noise, shares["histogram_share"]),
        value_multiplier=multiplier(noise, shares["value_share"]),
        residual_multiplier=multiplier(noise, shares["residual_share"]),
        # s choices of scale b cost as much as a Gaussian release of noise b/√s
        choice_multiplier=multiplier(noise, shares["choice_share"]) * math.sqrt(count),
        most=count,
        candidates=_CANDIDATES,
        cells=_CELLS,
        fine_cells=_FINE_CELLS,
        fine_knots=knots,
        well_used=numbers.well_used if _few_rows(problem, guarantee, numbers) else 1.0,
        recurring=numbers.recurring,
        rows_per_value=numbers.rows_per_cell,
        pair_knots=cells,
        inside=_INSIDE,
        doubt=numbers.doubt,
    )
    return _calibrated(solver, problem, guarantee, noise) if noise else solver


def _calibrated(solver: Interactions, problem: Problem, guarantee: Guarantee, noise: float) -> Interactions:
    """The solver with all of its noise, which is in proportion to that of one release, as small as may be."""
    return calibrated_by_secants(lambda least: _scaled(solver, least / noise), problem, guarantee, noise)


def _shares(
    histogram: float | None, value: float | None, pilot: float | None, choice: float | None
) -> dict[str, float]:
    """Shares of the budget (in 1/σ²) for everything but the fit."""
    usual = current(NUMBERS).choice_share
    shares = {
        "histogram_share": usual / 4 if histogram is None else histogram,
        "value_share": usual / 4 if value is None else value,
        "pilot_share": usual / 2 if pilot is None else pilot,
        "choice_share": usual if choice is None else choice,
    }
    shares["residual_share"] = _RESIDUALS * shares["choice_share"]
    _left(shares)
    return shares


def _left(shares: dict[str, float]) -> float:
    return remaining_share("the fit", shares)


def _widest(problem: Problem, choices: int, features: int) -> RowSpec:
    """Public facts about refined rows with as many choices as there may be: settings are made for these."""
    return refined_rows(problem.rows, problem.rows.n_features + choices * features)


def _choices(problem: Problem, guarantee: Guarantee, numbers: InteractionNumbers) -> int:
    """6, or 12 where n·μ is at least ten times what a choice needs at all, and each of more choices is still clear.

    Fewer where there are too few rows for the cells of as many of the smallest pairs.
    """
    clear = not guarantee.private or problem.n >= 10 * numbers.least_rows * rough_multiplier(guarantee)
    for_rows = problem.n / (numbers.rows_per_cell * _LEAST_PAIR_KNOTS**2)
    return int(min(2 * numbers.most if clear else numbers.most, max(1, for_rows)))


def _cells_by_sampling(problem: Problem, numbers: InteractionNumbers) -> float:
    """As many cells of each choice that all of them together have one for each 50 rows: each is estimated from rows."""
    return problem.n / (numbers.rows_per_cell * numbers.most)


def _pair_knots(problem: Problem, guarantee: Guarantee, numbers: InteractionNumbers) -> int:
    """√(n·μ/50), from 4 to 8, where μ is one over the noise of a single release; fewer where rows are few."""
    cells = _cells_by_sampling(problem, numbers)
    if guarantee.private:
        cells = min(cells, problem.n / rough_multiplier(guarantee) / numbers.rows_per_cell)
    return int(min(8, max(_LEAST_PAIR_KNOTS, math.sqrt(cells))))


def _few_rows(problem: Problem, guarantee: Guarantee, numbers: InteractionNumbers) -> bool:
    """Whether n/ν is below three times what a choice needs at all, 4500."""
    return guarantee.private and problem.n < 3 * numbers.least_rows * rough_multiplier(guarantee)


def _fine_knots(problem: Problem, numbers: InteractionNumbers) -> int:
    """24, or fewer where rows are few."""
    return int(min(numbers.fine_knots, max(_LEAST_FINE_KNOTS, _cells_by_sampling(problem, numbers))))


def _part(guarantee: Guarantee, noise: float, share: float) -> Guarantee:
    """The guarantee of one Gaussian release with this share of the budget."""
    if not guarantee.private:
        return guarantee
    from discreet.accounting import epsilon

    spent = epsilon(Gaussian(noise / math.sqrt(share)), guarantee.delta, guarantee.unit).upper
    return replace(guarantee, epsilon=max(spent, share * guarantee.epsilon))  # at a large δ some noise costs no ε


def _inner(problem: Problem, guarantee: Guarantee, offset_share: float = 0.0) -> Solver | CutLeastSquares:
    """What fits encoded or refined columns; the pilot's residuals need no mean of 0."""
    if isinstance(problem.loss, Squared):
        return cut_least_squares.in_known_scales(problem, guarantee, offset_share)
    return weighted_perturbation.recipe(problem, guarantee, regularisation=None if guarantee.private else _EXACT_RIDGE)


def _scaled(settings: S, factor: float) -> S:
    """The settings with every noise multiplier in them multiplied."""
    changed: dict[str, Any] = {}
    for field in fields(settings):  # type: ignore[arg-type]
        value = getattr(settings, field.name)
        if field.name.endswith("multiplier"):
            changed[field.name] = value * factor
        elif is_dataclass(value) and not isinstance(value, type):
            changed[field.name] = _scaled(value, factor)
    changed = {name: value for name, value in changed.items() if _init(settings, name)}
    return replace(settings, **changed)  # type: ignore[type-var]


def _init(settings: Any, name: str) -> bool:
    return next(field.init for field in fields(settings) if field.name == name)
