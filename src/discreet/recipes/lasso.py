"""The Lasso: which set, which solver, which clip, from public facts alone.

Least squares over an ℓ1 ball, with targets and features centred in their public bounds. Two ways lead there:

* Frank–Wolfe pays for the largest *entry* F of a row and for ln d. The noise of a choice is proportional to radius ×
  clip. The clip is an eighth of the largest target: larger residuals count as if they were that large, as in Huber's
  loss. With q the noise of a choice (`frank_wolfe.selection_noise`) the bound 2Γ/T + radius·clip·q·√T, Γ ∝ radius²,
  is least at T ∝ (radius/q)^⅔, where it is in proportion to radius^(4/3)·q^⅔: it stays below what there is to learn,
  whatever the budget, if the radius is at most in proportion to q^−½. Hence radius = min(4, 0.1/√q): what noise would
  drown is not fitted, and the prediction falls back to the middle of the targets' bounds.
* The private Newton method pays for the *length* r of a row and for d, and learns correlated columns at once; the set
  is only where it ends. Its noise over Frank–Wolfe's is r/F, so it is the choice up to (r/F)² = 50, as where no bound
  on the entries is known. It shrinks by itself, and the radius is 4.

Constants are from ``bench/defaults.py``: independent, correlated, binary and rare columns, of which a few matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball
from discreet.losses import Squared
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe, default, selection_noise

__all__ = ["default_radius", "lasso", "narrow", "walk"]

_CLIP = 0.125
_RADIUS, _AFFORDABLE = 4.0, 0.1
_NARROW, _MOST_COLUMNS = 50.0, 1000


def narrow(rows: RowSpec, feature_bound: float) -> bool:
    """Whether rows are hardly longer than their largest entry: then gradients are released, not vertices chosen.

    Example:
        >>> narrow(RowSpec(40, norm=40**0.5), 1.0), narrow(RowSpec(400, norm=20.0), 1.0)
        (True, False)
    """
    return rows.n_features <= _MOST_COLUMNS and rows.norm**2 <= _NARROW * feature_bound**2


def default_radius(
    rows: RowSpec, n: float, guarantee: Guarantee, feature_bound: float | None, *, walks: bool = True
) -> float:
    """The ℓ1 radius for targets in [−1, 1].

    Args:
        rows: public facts about the rows.
        n: public or privately released number of rows.
        guarantee: what to keep.
        feature_bound: public bound F on every |x_j|; None takes r/√d, for rows whose length r is spread evenly.
        walks: whether Frank–Wolfe will walk there: min(4, 0.1/√q)/F; else 4/F.
    """
    if feature_bound is None:
        feature_bound = rows.norm / math.sqrt(max(rows.n_features, 1)) if rows.bounded else 1.0
    if not (walks and guarantee.private):
        return _RADIUS / feature_bound
    return min(_RADIUS, _AFFORDABLE / math.sqrt(selection_noise(2 * rows.dimension, n, guarantee))) / feature_bound


def lasso(
    rows: RowSpec,
    n: float,
    guarantee: Guarantee,
    *,
    target_bound: float = 1.0,
    feature_bound: float = 1.0,
    radius: float | None = None,
    clip: float | None = None,
    iterations: int | None = None,
) -> tuple[Problem, FrankWolfe]:
    """The problem and the solver of a private Lasso by Frank–Wolfe.

    Args:
        rows: public facts about the rows; an intercept of ``feature_bound`` lets the ball hold a constant too.
        n: public or privately released number of rows.
        guarantee: what to keep.
        target_bound: public bound on |y|, targets being centred.
        feature_bound: public bound on every |x_j|, features being centred.
        radius: ℓ1 bound on the coefficients; None chooses it.
        clip: ℓ∞ bound on a row's gradient; None takes an eighth of target_bound·feature_bound.
        iterations: number of steps; None balances walk and noise.

    Raises:
        InvalidInput: a bound is not positive.

    Example:
        >>> from discreet.units import Unit
        >>> problem, solver = lasso(RowSpec(100, norm=10.0), 10_000, Guarantee(1.0, 1e-8, Unit("add-remove")))
        >>> round(problem.domain.radius, 2), solver.clip
        (1.75, 0.125)
    """
    if not (target_bound > 0 and feature_bound > 0):
        raise InvalidInput(f"bounds must be positive, got target_bound={target_bound}, feature_bound={feature_bound}.")
    if radius is None:
        radius = target_bound * default_radius(rows, n, guarantee, feature_bound)
    problem = Problem(rows, Squared(), n, L1Ball(radius))
    given = {"iterations": iterations, "clip": clip}
    options = {name: value for name, value in given.items() if value is not None}
    return problem, walk(problem, guarantee, options, feature_bound=feature_bound, target_bound=target_bound)


def walk(
    problem: Problem,
    guarantee: Guarantee,
    options: Mapping[str, Any],
    *,
    feature_bound: float,
    target_bound: float = 1.0,
) -> FrankWolfe:
    """Frank–Wolfe with the Lasso's clip, unless the options have one; the bounds steer what the options leave open."""
    chosen = dict(options)
    if guarantee.private:
        chosen.setdefault("clip", _CLIP * target_bound * feature_bound)
        if "iterations" not in chosen:
            chosen = {"feature_bound": feature_bound, "target_bound": target_bound} | chosen
    return default(problem, guarantee, **chosen)
