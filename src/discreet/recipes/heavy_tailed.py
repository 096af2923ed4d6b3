"""Settings of heavy-tailed sparse regression (`discreet.solvers.heavy_tailed`) from public facts.

By default the scales of columns and targets and the columns' centre are found privately first, half of a small share
of the budget for either, and all bounds are in units of the scales, around the centre: entries are shrunk to
`theory.balanced_entry_bound` of columns with the fourth moment of a normal law, 3, and slopes are cut at 1.345, where
Huber's loss loses 5 % to least squares under normal noise (Huber 1964). Where moments, K or a step are declared, where
rows have no bound, and for δ = 0 there are no searches.

Then all settings are those of the error bound (`discreet.theory.heavy_tailed`): the step η = 1/smoothness, which
contracts if 1 − 1/φ < η·(restricted eigenvalues of E xxᵀ) < 1 + 1/φ, φ the golden ratio, and the bound K on entries and
targets that balances the bias of shrinkage with the noise. T = ⌈ln n⌉ parts in either case. No number is tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from discreet.calibration.by_zcdp import calibrated_by_zcdp
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import foresee
from discreet.errors import InvalidInput
from discreet.events import Event, compose
from discreet.losses import Squared
from discreet.mechanisms.peeling import LaplacePeeling, Peeling
from discreet.recipes import shared
from discreet.recipes.shared import declared_sparsity
from discreet.solvers.base import Problem
from discreet.solvers.heavy_tailed import HeavyTailed
from discreet.solvers.parts import column_centre, location_scale
from discreet.theory.heavy_tailed import balanced_entry_bound
from discreet.tuned import current

__all__ = ["recipe"]

Mechanism = Literal["gumbel", "laplace"]

_NORMAL = 3.0  # fourth moment of a standard normal law
_HUBER = (
    1.345  # slopes over the scale, at which Huber's loss keeps 95 % of the efficiency of least squares (Huber 1964)
)


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    radius: float | None = None,
    moment: float | None = None,
    smoothness: float | None = None,
    mechanism: Mechanism | None = None,
    parts: int | None = None,
    entry_bound: float | None = None,
    step: float | None = None,
) -> HeavyTailed:
    """Heavy-tailed sparse regression with the least noise that keeps the guarantee.

    Args:
        problem: squared loss.
        guarantee: what must be kept.
        sparsity: s; None takes the problem's `SparseSet`.
        radius: ℓ2 bound C on θ; None takes the problem's set, or else none, without searches for scales 1.
        moment: public bound M on E[x_ij⁴] and E[y⁴]; None finds scales instead, or where there are no searches takes 1.
        smoothness: public bound on the eigenvalues of E[xxᵀ] along sparse directions; None takes √M, which bounds
            E[x_ij²], so that columns without correlation contract if their kurtosis is below 6.8.
        mechanism: ``"gumbel"`` for `Peeling`; ``"laplace"`` for `LaplacePeeling`, which is pure DP and what None
            takes where δ = 0.
        parts: T; None takes ⌈ln n⌉.
        entry_bound: K, of entries and targets; None takes `balanced_entry_bound`, without privacy none.
        step: η; None takes 1/smoothness. With any of these five there are no searches for scales.

    Raises:
        InvalidInput: a moment or smoothness that is not positive or would have no effect, an unknown mechanism, or
            δ = 0 without Laplace noise.
    """
    _check_effects(problem, moment, smoothness, entry_bound, step)
    nothing_declared = (moment, smoothness, entry_bound, step, mechanism) == (None,) * 5
    if nothing_declared and problem.rows.bounded and not (guarantee.private and guarantee.delta == 0):
        return _in_scales(problem, guarantee, *declared_sparsity(problem, sparsity, radius), parts)
    moment = 1.0 if moment is None else moment
    s, declared = declared_sparsity(problem, sparsity, radius)
    laplace = _takes_laplace(moment, smoothness, mechanism, guarantee)
    steps = _parts(problem) if parts is None else parts
    eta = 1 / (math.sqrt(moment) if smoothness is None else smoothness) if step is None else step

    def make(peeling: Peeling | LaplacePeeling, bound: float = 1.0) -> HeavyTailed:
        return HeavyTailed(peeling, steps, bound, eta, 1.0 if declared is None else declared)

    peeling, scale = _laplace(make, problem, guarantee, s) if laplace else _gumbel(make, problem, guarantee, s)
    if entry_bound is None:
        rows, d = problem.n / steps, problem.rows.dimension
        entry_bound = balanced_entry_bound(moment, rows, d, scale) if guarantee.private else math.inf
    return make(peeling, entry_bound)


def _parts(problem: Problem) -> int:
    """⌈ln n⌉."""
    return max(1, math.ceil(math.log(max(problem.n, 2))))


def _in_scales(problem: Problem, guarantee: Guarantee, s: int, radius: float | None, parts: int | None) -> HeavyTailed:
    """In units of scales, around a centre, that are found privately with half a share of the budget each."""
    count = _parts(problem) if parts is None else parts
    share = current(shared.NUMBERS).estimate_share
    searches, sums = location_scale.far_steps(), current(column_centre.NUMBERS).releases

    def make(noise: float, entry_bound: float = 1.0) -> HeavyTailed:
        peeling = Peeling.balanced(s, noise / math.sqrt(1 - share))
        scales, centre = (noise * math.sqrt(2 * releases / share) for releases in (searches, sums))
        return HeavyTailed(peeling, count, entry_bound, 1.0, radius, _HUBER, scales, centre)

    found = calibrated_by_zcdp(make, problem, guarantee)
    if not guarantee.private:
        return replace(found, entry_bound=math.inf, slope_bound=math.inf)
    assert isinstance(found.peeling, Peeling)
    scale, rows = found.peeling.selection_multiplier, problem.n / count
    return replace(found, entry_bound=balanced_entry_bound(_NORMAL, rows, problem.rows.dimension, scale))


def _check_effects(
    problem: Problem, moment: float | None, smoothness: float | None, entry_bound: float | None, step: float | None
) -> None:
    """Refuse another loss, and options that others leave without effect."""
    if not isinstance(problem.loss, Squared):
        raise InvalidInput(
            f"heavy-tailed regression has squared loss, not {type(problem.loss).__name__}; use solver='hard_threshold'."
        )
    if smoothness is not None and step is not None:
        raise InvalidInput("smoothness chooses the step, which was given too: leave one out.")
    if moment is not None and entry_bound is not None and (step is not None or smoothness is not None):
        raise InvalidInput("moment chooses entry_bound and the step, which were both given: leave it out.")


def _takes_laplace(moment: float, smoothness: float | None, mechanism: Mechanism | None, guarantee: Guarantee) -> bool:
    """Whether values get Laplace noise; refuses values of options that mean nothing."""
    if not 0 < moment < math.inf:
        raise InvalidInput(f"moment must be positive and finite, got {moment!r}.")
    if smoothness is not None and not 0 < smoothness < math.inf:
        raise InvalidInput(f"smoothness must be positive and finite, got {smoothness!r}.")
    if mechanism not in ("gumbel", "laplace", None):
        raise InvalidInput(f"mechanism must be 'gumbel' or 'laplace', got {mechanism!r}.")
    pure = guarantee.private and guarantee.delta == 0
    if mechanism == "gumbel" and pure:
        raise InvalidInput("delta = 0 asks for pure DP, which Gaussian values cannot give; use mechanism='laplace'.")
    return mechanism == "laplace" or pure


def _gumbel(
    make: Callable[[Peeling], HeavyTailed], problem: Problem, guarantee: Guarantee, s: int
) -> tuple[Peeling, float]:
    """Peeling with the least noise that keeps the guarantee, and the noise multiplier of its selections.

    What it costs does not depend on K, which is chosen for this noise afterwards.
    """
    found = calibrated_by_zcdp(lambda noise: make(Peeling.balanced(s, noise)), problem, guarantee).peeling
    assert isinstance(found, Peeling)
    return found, found.selection_multiplier


def _laplace(
    make: Callable[[LaplacePeeling], HeavyTailed], problem: Problem, guarantee: Guarantee, s: int
) -> tuple[LaplacePeeling, float]:
    """Laplace peeling with the least noise that keeps the guarantee, and its noise multiplier."""
    if not guarantee.private:
        return LaplacePeeling(s, 0.0), 0.0
    from discreet.accounting import calibrate

    def plan(noise: float) -> Event:
        return compose(foresee(make(LaplacePeeling(s, noise)), problem, guarantee.unit))

    noise = calibrate(plan, guarantee.epsilon, guarantee.delta, guarantee.unit)
    return LaplacePeeling(s, noise), noise
