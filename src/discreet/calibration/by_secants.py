"""From a guarantee to a solver by a few looks at δ(ε), for plans whose accounting takes long.

A plan of perturbed minimisers, Gaussian releases and selections has no profile in closed form: one look at δ(ε) takes a
tenth of a second, and one at ε(δ) several times as long. ln δ(ε) is nearly linear in the logarithm of the noise, so
that a few secants find the noise to a thousandth. Of units with several rows, what is known of δ(ε) is further from
the truth than what is known of ε(δ), which is then looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from discreet.calibration.calibrate import calibrated, scaled_event
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import foresee
from discreet.events import compose
from discreet.solvers.base import Problem, Solver

__all__ = ["NEARLY_ALL", "calibrated_by_secants"]

NEARLY_ALL = 0.98
"""The share of δ that a plan uses at least: 2 % of δ are less than a thousandth of ε, and of the noise."""
_AIM = 0.99
_MOST_LOOKS = 12
S = TypeVar("S", bound=Solver)


def calibrated_by_secants(make: Callable[[float], S], problem: Problem, guarantee: Guarantee, near: float) -> S:
    """make(noise) with noise that keeps the guarantee and uses at least 98 % of δ, or nearly all of ε; none for ε = ∞.

    Args:
        make: a solver, all of whose noise is in proportion to its argument.
        problem: public facts.
        guarantee: what to keep.
        near: about the noise that is looked for.

    Raises:
        InvalidInput: δ = 0 asks for pure DP, which Gaussian noise cannot give.
    """
    if not guarantee.private or guarantee.delta == 0 or guarantee.unit.rows_per_unit > 1:
        return calibrated(make, problem, guarantee)
    from discreet.accounting import delta

    once = compose(foresee(make(1.0), problem, guarantee.unit))

    def excess(noise: float) -> float:
        """ln of what is used of δ, over what is aimed at."""
        used = delta(scaled_event(once, noise), guarantee.epsilon, guarantee.unit).upper / guarantee.delta
        return math.log(max(used, 1e-300) / _AIM)

    points = [(math.log(noise), excess(noise)) for noise in (near, 1.05 * near)]
    for _ in range(_MOST_LOOKS):
        (x0, e0), (x1, e1) = points[-2:]
        if math.log(NEARLY_ALL / _AIM) <= e1 <= math.log(1 / _AIM):
            return make(math.exp(x1))
        slope = (e1 - e0) / (x1 - x0) if e1 != e0 else -1.0
        move = -e1 / slope if slope < 0 else 0.1 * (1 if e1 > 0 else -1)  # more noise never uses more of δ
        at = x1 + min(0.5, max(-0.5, move))
        points.append((at, excess(math.exp(at))))
    return calibrated(make, problem, guarantee)
