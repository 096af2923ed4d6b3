"""The Lasso: which set, and which settings of Frank–Wolfe, from public facts alone.

Least squares over an ℓ1 ball, with targets and features centred in their public bounds. Two solvers can do it:

* Frank–Wolfe, whose noise is proportional to radius × clip, to the largest *entry* F of a row and to ln d. Residuals
  larger than the clip count as if they were that large, as in Huber's loss. With q the noise of a choice
  (`frank_wolfe.selection_noise`) the bound 2Γ/T + radius·clip·q·√T, Γ ∝ radius², is least at T ∝ (radius/q)^⅔, where it
  is proportional to radius^(4/3)·q^⅔: it stays below the variance of the targets, whatever the budget, if the radius is
  at most proportional to q^−½. Hence radius = min(4, 0.1/√q): under strong noise the set shrinks, and the prediction
  falls back to the middle of the targets' bounds.
* The private Newton method, whose noise is proportional to the *length* r of a row and to √d, and which fits correlated
  columns at once. Its noise over Frank–Wolfe's is r/F, so it is the choice up to (r/F)² = 50, and where no bound on the
  entries is known. It regularises by itself, and the radius is 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.calibration.guarantee import Guarantee
from discreet.recipes import frank_wolfe
from discreet.recipes.frank_wolfe import selection_noise
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "LassoNumbers", "default_radius", "narrow", "walk"]


@dataclass(frozen=True)
class LassoNumbers(Tuned):
    """The Lasso's set and clip. Targets are within ±1 and entries within ±1; other bounds scale them."""

    clip: float = tuned(0.125, "Frank–Wolfe's clip over the largest target", "sweep: lasso-clip")
    radius: float = tuned(4.0, "ℓ1 radius under little noise", "sweep: lasso-radius")
    radius_times_root_noise: float = tuned(
        0.1, "Frank–Wolfe's radius times √q, q the noise of a choice, where that is less", "sweep: lasso-small"
    )
    most_squared_ratio: float = tuned(
        50.0, "largest (row norm/entry bound)² for which the private Newton method is taken", "sweep: lasso-narrow"
    )
    most_columns: int = tuned(
        1000,
        "most columns for which the private Newton method is taken",
        "judgement: that of least squares without constraint, beyond which a second moment costs more than it gains",
    )


NUMBERS = LassoNumbers()


def narrow(rows: RowSpec, feature_bound: float) -> bool:
    """Whether rows are hardly longer than their largest entry: then gradients are released, not vertices chosen.

    Example:
        >>> narrow(RowSpec(40, norm=40**0.5), 1.0), narrow(RowSpec(400, norm=20.0), 1.0)
        (True, False)
    """
    numbers = current(NUMBERS)
    few = rows.n_features <= numbers.most_columns
    return few and rows.norm**2 <= numbers.most_squared_ratio * feature_bound**2


def default_radius(
    rows: RowSpec, n: float, guarantee: Guarantee, feature_bound: float | None, *, walks: bool = True
) -> float:
    """The ℓ1 radius for targets in [−1, 1].

    Args:
        rows: public facts about the rows.
        n: public or privately released number of rows.
        guarantee: what to keep.
        feature_bound: public bound F on every |x_j|; None takes r/√d, for rows whose length r is spread evenly.
        walks: whether the solver is Frank–Wolfe: min(4, 0.1/√q)/F; else 4/F.

    Example:
        >>> from discreet.units import Unit
        >>> round(default_radius(RowSpec(100, norm=10.0), 10_000, Guarantee(1.0, 1e-8, Unit("add-remove")), 1.0), 2)
        1.75
    """
    numbers = current(NUMBERS)
    if feature_bound is None:
        feature_bound = rows.norm / math.sqrt(max(rows.n_features, 1)) if rows.bounded else 1.0
    if not (walks and guarantee.private):
        return numbers.radius / feature_bound
    noise = selection_noise(2 * rows.dimension, n, guarantee)
    return min(numbers.radius, numbers.radius_times_root_noise / math.sqrt(noise)) / feature_bound


def walk(
    problem: Problem,
    guarantee: Guarantee,
    options: Mapping[str, Any],
    *,
    feature_bound: float,
    target_bound: float = 1.0,
) -> FrankWolfe:
    """Frank–Wolfe with the Lasso's clip.

    Args:
        problem: least squares over an ℓ1 ball.
        guarantee: what to keep.
        options: options of Frank–Wolfe, which take the place of what would be chosen.
        feature_bound: public bound on every |x_j|, features being centred; with ``target_bound`` it chooses the clip
            and the number of steps.
        target_bound: public bound on |y|, targets being centred.
    """
    chosen = dict(options)
    if guarantee.private:
        chosen.setdefault("clip", current(NUMBERS).clip * target_bound * feature_bound)
        if "iterations" not in chosen:
            chosen = {"feature_bound": feature_bound, "target_bound": target_bound} | chosen
    return frank_wolfe.recipe(problem, guarantee, **chosen)
