"""The Lasso as a problem for private Frank–Wolfe: which set, which clip, from public facts alone.

Least squares over an ℓ1 ball, with targets and features centred in their public bounds. The noise of a choice is
proportional to radius × clip, and the two decide the accuracy more than anything else:

* the clip is a quarter of the largest target. Larger residuals count as if they were that large, as in Huber's loss;
* the radius is 4 times the ratio of the bounds, or 2 times where nε < 2000 and noise outweighs what a larger set gains.

``bench/defaults.py`` compares both with others on synthetic problems: a quarter loses far less than a half, an eighth
is a little better on average; no radius is best everywhere. Where rows are few for the noise, all are far off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import InvalidInput
from discreet.geometry import L1Ball
from discreet.losses import Squared
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe, default
from discreet.solvers.planning import Guarantee

__all__ = ["default_radius", "lasso", "walk"]

_CLIP = 0.25
_RADIUS, _SMALL_RADIUS, _ENOUGH = 4.0, 2.0, 2000.0


def default_radius(n_epsilon: float, feature_bound: float) -> float:
    """The ℓ1 radius for targets in [−1, 1]: 4 over the feature bound, or 2 where nε < 2000."""
    return (_RADIUS if n_epsilon >= _ENOUGH else _SMALL_RADIUS) / feature_bound


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
    """The problem and the solver of a private Lasso.

    Args:
        rows: public facts about the rows; an intercept of ``feature_bound`` lets the ball hold a constant too.
        n: public or privately released number of rows.
        guarantee: what to keep.
        target_bound: public bound on |y|, targets being centred.
        feature_bound: public bound on every |x_j|, features being centred.
        radius: ℓ1 bound on the coefficients; None chooses it.
        clip: ℓ∞ bound on a row's gradient; None takes a quarter of target_bound·feature_bound.
        iterations: number of steps; None balances walk and noise.

    Raises:
        InvalidInput: a bound is not positive.

    Example:
        >>> from discreet.units import Unit
        >>> problem, solver = lasso(RowSpec(100, norm=10.0), 10_000, Guarantee(1.0, 1e-8, Unit("add-remove")))
        >>> problem.domain, solver.clip
        (L1Ball(radius=4.0), 0.25)
    """
    if not (target_bound > 0 and feature_bound > 0):
        raise InvalidInput(f"bounds must be positive, got target_bound={target_bound}, feature_bound={feature_bound}.")
    if radius is None:
        radius = target_bound * default_radius(n * guarantee.epsilon, feature_bound)
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
