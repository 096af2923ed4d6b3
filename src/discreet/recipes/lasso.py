"""The Lasso's set from public facts alone: the ℓ1 radius of least squares with targets and features in public bounds.

With q the noise of a choice (`frank_wolfe.selection_noise`), Frank–Wolfe's bound 2Γ/T + radius·clip·q·√T, Γ ∝ radius²,
is least at T ∝ (radius/q)^⅔, where it is proportional to radius^(4/3)·q^⅔. It stays below the variance of the targets,
whatever the budget, if the radius is at most proportional to q^−½. Hence radius = min(5, 0.1/√q), 5 being the largest
score expected of any model (`recipes.shared`): under strong noise the set shrinks, and the prediction falls back to the
middle of the targets' bounds. Solvers by gradients regularise by themselves, and their radius is 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.guarantee import Guarantee
from discreet.recipes import shared
from discreet.recipes.frank_wolfe import selection_noise
from discreet.rows import RowSpec
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "LassoNumbers", "default_radius"]


@dataclass(frozen=True)
class LassoNumbers(Tuned):
    """The Lasso's set. Targets are within ±1 and entries within ±1; another bound on entries scales it."""

    radius_times_root_noise: float = tuned(
        0.1, "Frank–Wolfe's radius times √q, q the noise of a choice, where that is less", "sweep: lasso-small"
    )


NUMBERS = LassoNumbers()


def default_radius(
    rows: RowSpec, n: float, guarantee: Guarantee, feature_bound: float | None, *, vertices: bool = True
) -> float:
    """The ℓ1 radius for targets in [−1, 1].

    Args:
        rows: public facts about the rows.
        n: public or privately released number of rows.
        guarantee: what to keep.
        feature_bound: public bound F on every |x_j|; None takes r/√d, for rows whose length r is spread evenly.
        vertices: whether vertices will be chosen, by Frank–Wolfe: min(5, 0.1/√q)/F; else 5/F.

    Example:
        >>> from discreet.units import Unit
        >>> round(default_radius(RowSpec(100, norm=10.0), 10_000, Guarantee(1.0, 1e-8, Unit("add-remove")), 1.0), 2)
        1.75
    """
    largest = current(shared.NUMBERS).score_bound
    if feature_bound is None:
        feature_bound = rows.norm / math.sqrt(max(rows.n_features, 1)) if rows.bounded else 1.0
    if not (vertices and guarantee.private):
        return largest / feature_bound
    noise = selection_noise(2 * rows.dimension, n, guarantee)
    return min(largest, current(NUMBERS).radius_times_root_noise / math.sqrt(noise)) / feature_bound
