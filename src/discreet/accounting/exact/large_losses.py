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

_MOMENTS = ((1.0, 10.0), (1.0, 14.0), (1.0, 20.0), (1.0, 28.0), (0.25, 28.0), (0.25, 40.0), (0.25, 56.0))
"""Shares of the reach, as far as which losses below 0 are moments' affair, and orders over the reach."""


@dataclass(frozen=True)
class LargeLosses:
    """What is known of Q where the loss of some step lies beyond the reach."""

    probability: float
    """Q(A), at most or at least (`Cut.above`)."""
    expected: float
    """The expected number of such steps under Q, at least Q(A)."""
    reach: float
    """The least of such losses."""
    moments: tuple[tuple[float, float, float], ...]
    """Orders a, bounds of log E_Q e^{−aS'}, S' the sum of the losses of all steps but one, where none is below some −y,
    and of the expected number of those that are."""
    shift: float
    """How far rounding may have moved the sum of losses."""

    def returned(self, epsilon: float, *, upper: bool) -> float:
        """What is to be taken off P(A): e^ε Q(A) and no more, or at least so much less what S ≤ ε may leave of it."""
        if not upper:
            return math.exp(epsilon) * self.probability * (1 + 1e-13) + 5e-324
        room = self.reach - epsilon - 2 * self.shift
        if room <= 0 or not self.moments:
            return 0.0
        least = min(
            below + math.exp(min(moment - order * room * (1 - 1e-13), 0.0)) for order, moment, below in self.moments
        )
        kept = self.probability - self.expected * min(1.0, least * (1 + 1e-13))
        return max(0.0, math.exp(epsilon) * kept * (1 - 1e-13))


def large_losses(laws: Sequence[Law], counts: Sequence[int]) -> LargeLosses | None:
    """What was cut off the laws of a run's steps, if anything was.

    The steps other than the one with the large loss sum up to less than −x with a probability under Q of at most the
    expected number of losses below −y, and e^{−ax}·E_Q e^{−aS'} where there are none. The lattice spreads e^L
    under Q and keeps its mean, so that E_Q e^{−aL} is at most Σ p_l e^{−(1+a)l} and the mass beyond the reach. Rounding
    may have moved a share of a cell to its right end, 2·error/(1 − e^{−spacing}), where it counts less by a factor of
    e^{−(1+a)·spacing}, whose exponent is above −1: at most 8e(2 + a) times the error of the moment.
    """
    cuts = [(law.cut, law, times) for law, times in zip(laws, counts, strict=True) if law.cut is not None]
    if not cuts:
        return None
    finite = sum(times * math.log1p(-cut.above) if cut.above < 1 else -math.inf for cut, _, times in cuts)
    expected = sum(times * (cut.above * (1 + 8 * cut.error) + 1e-280) for cut, _, times in cuts) * (1 + 1e-13)
    reach = min(float(law.losses[-1]) for _, law, _ in cuts)
    shift = sum(times * law.shift for law, times in zip(laws, counts, strict=True))
    moments = []
    for share, order in ((share, order / reach) for share, order in _MOMENTS if reach > 0):
        if (1 + order) * laws[0].spacing >= 1:
            continue
        total, least, below = 0.0, 0.0, 0.0
        for law, times in zip(laws, counts, strict=True):
            moment, before = _log_moment(law, order, share * reach)
            total, least, below = total + times * moment, min(least, moment), below + times * before
        moments.append((order, total - least + 1e-12 * abs(total), below * (1 + 1e-12)))
    return LargeLosses(0.0 - math.expm1(finite), expected, reach, tuple(moments), shift)


def _log_moment(law: Law, order: float, far: float) -> tuple[float, float]:
    """Bounds of log E_Q e^{−aL} of a step over losses from ``−far`` on, and of the mass of Q below.

    Cells below a lattice point have all their mass at points up to it, cells above it at points from it on.
    """
    known = law.probabilities > 0
    losses, log_p = law.losses[known], np.log(law.probabilities[known])
    beyond, error, below = 0.0, 0.0, 0.0
    if law.cut is not None:
        beyond, error, below = law.cut.above * (1 + 8 * law.cut.error) + 1e-280, law.cut.error, law.cut.below
    near = int(np.searchsorted(losses, -far))
    if near > 0:  # at most one lattice point is on both sides
        masses = log_p[: near + 1] - losses[: near + 1]
        below += float(np.exp(np.minimum(masses, 0.0)).sum()) * (1 + 16 * error + 1e-10)
        losses, log_p = losses[near:], log_p[near:]
    if len(losses) == 0:
        return 0.0, 1.0
    terms = log_p - (1 + order) * losses
    peak = max(float(terms.max()), 0.0)
    size = 800 + peak + (1 + order) * 4 * float(np.abs(losses).max()) + len(losses)
    rounding = 1.01 * (8 * UNIT_ROUNDOFF * size + 8 * math.e * (2 + order) * error)
    return peak + math.log(float(np.exp(terms - peak).sum()) + beyond) + rounding, below
