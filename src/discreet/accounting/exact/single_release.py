"""δ(ε) and ε(δ) of one release from the profile of its dominating pair, with the error of its evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from discreet.accounting.bounds import Bounds
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.normal import FAINT
from discreet.accounting.exact.pairs import DiscretePair, GaussianPair, LaplacePair, Pair, ProfilePair, attained
from discreet.accounting.exact.sampling import UpperOnly

__all__ = ["delta_of_one", "epsilon_of_one", "greatest_finite_loss", "rough_epsilon_of_one"]

_EVALUATION = 2e-12  # relative error granted to a closed-form profile, of P(L > ε)
_LARGEST_EXPONENT = 700.0
_PLAIN = 1e-290
"""A Q(L > ε) of which `FAINT` is nothing: e^ε times it is at most 1."""


def greatest_finite_loss(pair: Pair | ProfilePair) -> float:
    """The greatest finite loss."""
    if isinstance(pair, UpperOnly):
        return greatest_finite_loss(pair.pair)
    return float(pair.losses.max()) if isinstance(pair, DiscretePair) else pair.top


def _evaluation_error(pair: Pair | ProfilePair) -> float:
    """A profile's error relative to P(L > ε): tails of the normal law to u(32 + 4·39²), finite sums as their bins."""
    if isinstance(pair, ProfilePair | Mixture | GaussianPair):
        return _EVALUATION
    return max(_EVALUATION, 2 * pair.bin_error(-745.0))


def delta_of_one(pair: Pair | ProfilePair, epsilon: float, *, lower: bool = True) -> Bounds:
    """One release's profile, with the error of its evaluation; without ``lower`` no other pair is asked."""
    if isinstance(pair, ProfilePair) and pair.alone is not None:
        low = pair.alone.delta(epsilon, -1) if lower and pair.attained is not None else 0.0
        return Bounds(low, pair.alone.delta(epsilon, 1))
    if epsilon > _LARGEST_EXPONENT and not isinstance(pair, GaussianPair | LaplacePair | ProfilePair):
        # e^ε exceeds a double there. δ falls as ε grows, so an earlier value bounds it; from below nothing is said
        return Bounds(0.0, delta_of_one(pair, _LARGEST_EXPONENT).upper)
    at = np.array([epsilon])
    with np.errstate(all="ignore"):
        value = float(pair.profile(at)[0])
        tails = (value, 1.0) if isinstance(pair, ProfilePair) else [float(mass[1]) for mass in pair.masses(at)]
        above = tails[0] + (0.0 if isinstance(pair, ProfilePair) else pair.infinite)
    if math.isnan(value):
        return Bounds(0.0, 1.0)
    slack = _evaluation_error(pair) * (1.0 if math.isnan(above) else above)  # P(L > ε) is at most 1
    ratio = math.exp(min(epsilon, _LARGEST_EXPONENT))
    slack += ratio * 1e-323 + FAINT  # digits of Q(L > ε) near underflow, and all of P(L > ε)
    lost = 0.0 if tails[1] > _PLAIN else ratio * FAINT  # all of Q(L > ε): δ is less than it seems
    reached = attained(pair)
    if reached is pair:
        return Bounds(max(0.0, value - slack - lost), min(1.0, value + slack + 5e-324))
    low = 0.0 if reached is None or not lower else delta_of_one(reached, epsilon).lower
    return Bounds(low, min(1.0, value + slack + 5e-324))


def epsilon_of_one(pair: Pair | ProfilePair, delta: float, *, lower: bool = True) -> Bounds:
    """ε(δ) of one release: a root of its profile, then steps outwards until both sides are proved.

    Without ``lower`` the lower bound is 0 where another pair than the dominating one would have to be asked for it.
    """
    if isinstance(pair, ProfilePair) and pair.inverse is not None and pair.attained is None:
        return Bounds(0.0, pair.inverse(delta))
    if isinstance(pair, ProfilePair) and pair.alone is not None:
        low = pair.alone.epsilon(delta, -1) if lower and pair.attained is not None else 0.0
        return Bounds(low, pair.alone.epsilon(delta, 1))
    upper = _crossing(lambda e: delta_of_one(pair, e, lower=False).upper, pair, delta, 1)
    if not lower and attained(pair) is not pair:
        return Bounds(0.0, upper)
    return Bounds(_crossing(lambda e: delta_of_one(pair, e).lower, pair, delta, -1), upper)


def _crossing(bound: Callable[[float], float], pair: Pair | ProfilePair, delta: float, side: int) -> float:
    """Where a falling bound of δ(ε) crosses δ: an ε at which it is at most δ (side 1), or above δ (side −1)."""
    if bound(0.0) <= delta:
        return 0.0
    end = pair.span(-746.0)[1]
    if bound(end) > delta:
        return math.inf if side > 0 else end
    root = _root(bound, delta, end, 1e-15)
    step = 1e-15 * root
    for _ in range(100):
        at = min(max(root, 0.0), end)
        if (bound(at) <= delta) == (side > 0):
            return at
        root, step = root + side * step, 4 * step
    return end if side > 0 else 0.0


def _root(bound: Callable[[float], float], delta: float, end: float, precision: float) -> float:
    """Where log bound(ε) meets log δ on [0, end], where it changes sign; it proves nothing."""
    target = math.log(delta)

    def excess(epsilon: float) -> float:
        return math.log(max(bound(epsilon), 1e-320)) - target

    low, high = 0.0, min(end, 1.0)
    while high < end and excess(high) > 0:  # few ε are large, and none is far from the last one that is too small
        low, high = high, min(end, 16 * high)
    if excess(high) >= 0:
        return high
    found: float = brentq(excess, low, high, xtol=precision * 1e-3, rtol=max(precision, 1e-15), maxiter=500, disp=False)
    return found


def rough_epsilon_of_one(pair: Pair | ProfilePair, delta: float) -> float:
    """ε(δ) of one release to a thousandth; it proves nothing."""
    if isinstance(pair, ProfilePair) and pair.inverse is not None and pair.attained is None:
        return pair.inverse(delta)
    if isinstance(pair, ProfilePair) and pair.alone is not None:
        return pair.alone.estimate(delta)
    end = pair.span(-746.0)[1]

    def bound(epsilon: float) -> float:
        return delta_of_one(pair, epsilon, lower=False).upper

    if bound(0.0) <= delta:
        return 0.0
    return math.inf if bound(end) > delta else _root(bound, delta, end, 1e-4)
