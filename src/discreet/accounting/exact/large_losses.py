"""Large losses that are rare, counted apart from the lattice.

Let A say that the loss of some step exceeds a reach W. Then, exactly,

    δ(ε) = δ(ε; not A) + P(A) − e^ε Q(A) + R,        0 ≤ R = e^ε Q(A, S ≤ ε) − P(A, S ≤ ε) ≤ e^ε Q(A, S ≤ ε),

S being the sum of the losses: where S > ε all of dP − e^ε dQ counts, and where S ≤ ε it is not positive. P(A) and Q(A)
are known, so that a lattice need reach no further than W, however large the losses beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.accounting.exact.lattice import Law
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["LargeLosses", "large_losses"]

_ORDERS = (
    10.0,
    14.0,
    17.0,
    20.0,
    24.0,
    28.0,
    40.0,
)  # over the reach: moments by which small losses are shown not to make up for a large one


@dataclass(frozen=True)
class LargeLosses:
    """What is known of Q where the loss of some step lies beyond the reach."""

    probability: float
    """Q(A), at most or at least (`Cut.above`)."""
    expected: float
    """The expected number of such steps under Q, at least Q(A)."""
    reach: float
    """The least of such losses."""
    below: float
    """The expected number of losses before the first point under Q, at most."""
    moments: tuple[tuple[float, float], ...]
    """Orders a, and bounds of log E_Q e^{−aS'}, S' the sum of the losses of all steps but one."""
    shift: float
    """How far rounding may have moved the sum of losses."""

    def returned(self, epsilon: float, *, upper: bool) -> float:
        """What is to be taken off P(A): e^ε Q(A) and no more, or at least so much less what S ≤ ε may leave of it."""
        if not upper:
            return math.exp(epsilon) * self.probability * (1 + 1e-13) + 5e-324
        room = self.reach - epsilon - 2 * self.shift
        if room <= 0 or not self.moments:
            return 0.0
        least = min(moment - order * room * (1 - 1e-13) for order, moment in self.moments)
        kept = self.probability - self.expected * min(1.0, self.below + math.exp(min(least, 0.0)) * (1 + 1e-13))
        return max(0.0, math.exp(epsilon) * kept * (1 - 1e-13))


def large_losses(laws: Sequence[Law], counts: Sequence[int]) -> LargeLosses | None:
    """What was cut off the laws of a run's steps, if anything was.

    The steps other than the one with the large loss sum up to less than −x with a probability under Q of at most the
    expected number of losses before the first point, and e^{−ax}·E_Q e^{−aS'} for the others. The lattice spreads e^L
    under Q and keeps its mean, so that E_Q e^{−aL} is at most Σ p_l e^{−(1+a)l} and the mass beyond the reach. Rounding
    may have moved a share of a cell to its right end, 2·error/(1 − e^{−spacing}), where it counts less by a factor of
    e^{−(1+a)·spacing}, whose exponent is above −1: at most 8e(2 + a) times the error of the moment.
    """
    cuts = [(law.cut, law, times) for law, times in zip(laws, counts, strict=True) if law.cut is not None]
    if not cuts:
        return None
    finite = sum(times * math.log1p(-cut.above) if cut.above < 1 else -math.inf for cut, _, times in cuts)
    expected = sum(times * (cut.above * (1 + 8 * cut.error) + 1e-280) for cut, _, times in cuts) * (1 + 1e-13)
    below = sum(times * cut.below for cut, _, times in cuts) * (1 + 1e-13)
    reach = min(float(law.losses[-1]) for _, law, _ in cuts)
    shift = sum(times * law.shift for law, times in zip(laws, counts, strict=True))
    moments = []
    for order in (share / reach for share in _ORDERS if reach > 0):
        if (1 + order) * laws[0].spacing >= 1:
            continue
        total, least = 0.0, 0.0
        for law, times in zip(laws, counts, strict=True):
            moment = _log_moment(law, order)
            total, least = total + times * moment, min(least, moment)
        moments.append((order, total - least + 1e-12 * abs(total)))
    return LargeLosses(0.0 - math.expm1(finite), expected, reach, below, tuple(moments), shift)


def _log_moment(law: Law, order: float) -> float:
    """A bound of log E_Q e^{−aL} of a step, without what lies before the first point."""
    known = law.probabilities > 0
    losses, beyond, error = law.losses[known], 0.0, 0.0
    if law.cut is not None:
        beyond, error = law.cut.above * (1 + 8 * law.cut.error) + 1e-280, law.cut.error
    terms = np.log(law.probabilities[known]) - (1 + order) * losses
    peak = max(float(terms.max()), 0.0)
    size = 800 + peak + (1 + order) * 4 * float(np.abs(losses).max()) + len(losses)
    rounding = 1.01 * (8 * UNIT_ROUNDOFF * size + 8 * math.e * (2 + order) * error)
    return peak + math.log(float(np.exp(terms - peak).sum()) + beyond) + rounding
