"""δ(ε) of an event as a ball: the question that tests ask.

Precision is raised until the ball is narrow. A ball is a proof whatever its width, so no choice made here in floats
(where to integrate, how finely) can make an answer wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from flint import arb, ctx
from tests.accounting.reference import inversion, laws, sums
from tests.accounting.reference.laws import Law, Points, Unsupported

from discreet.events import Event

__all__ = ["Unsupported", "delta_ball"]

Method = Callable[[list[tuple[Law, int]], float], arb]
_ENOUGH_BITS = {sums.positive_sum: 42, inversion.invert: 12}  # an inversion is rarely limited by precision


def delta_ball(
    event: Event, relation: str, epsilon: float, rows: int = 1, method: Method | None = None, effort: int = 8_000_000
) -> arb:
    """The least δ for which the event is (ε, δ)-DP, over both directions of the relation.

    Args:
        event: Gaussian, Laplace, discrete or sampled leaves, composed and repeated.
        relation: ``"add-remove"`` or ``"replace-one"``.
        epsilon: at least 0.
        rows: of one unit.
        method: `sums.positive_sum` or `inversion.invert`; otherwise the first of them that applies.
        effort: how long an inversion may be, see there.

    Raises:
        Unsupported: there is no method here for this event, or it would take too long.
    """
    answer = arb(0)
    for precision in (128, 256, 512):
        with ctx.workprec(precision):
            laws.clear()
            balls = [_one(direction, epsilon, method, effort) for direction in laws.directions(event, relation, rows)]
            answer = functools.reduce(lambda a, b: a.max(b), (ball for ball, _ in balls))
        if all(ball.rel_accuracy_bits() >= _ENOUGH_BITS[used] for ball, used in balls):
            break
    return answer


def _one(direction: list[tuple[Law, int]], epsilon: float, method: Method | None, effort: int) -> tuple[arb, Method]:
    alive, missing = arb(1), arb(0)
    for law, n in direction:
        if isinstance(law, Points):
            alive *= (1 - law.infinite) ** n
            missing += n * law.missing
    used = method or sums.positive_sum
    try:
        finite = used(direction, epsilon)
    except Unsupported:
        if method is not None:
            raise
        used = inversion.invert
        finite = inversion.invert(direction, epsilon, effort)
    finite = finite.max(arb(0)) + arb(0).union(missing)
    return (1 - alive) + finite, used
