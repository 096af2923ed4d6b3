"""The privacy profile of the best of K runs, from that of one run; the proof is in ``docs/maths/accounting.md``.

Let one run have the profile δ₁, and let K have the generating function f. The best run is in an output set of one
run's probability x only if some run is: with probability h(x) = 1 − f(1 − x). Its privacy loss is that of one run
plus a tilt, log f'(1 − v) − log f'(1 − u), with u and v the two datasets' probabilities of a better score. That is an
event like any other, u ≤ e^t·v + δ₁(t), so the tilt has a bound T, and

    δ(ε) ≤ h(δ₁(ε − T)).

Truncated negative binomial: T = (1 + η)·τ, τ the least t with (1/γ − 1)·δ₁(t) ≤ e^t − 1. Poisson: T = E[K]·δ₁(0).
No Rényi divergence is needed, so whatever has a profile can be run again and again.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.curve import curve
from discreet.accounting.exact.pairs import symmetric
from discreet.accounting.rules import Rule, Unbounded, from_profile, rule
from discreet.accounting.run_count import log_inverse_gamma
from discreet.events import PrivateSelection
from discreet.units import Adjacency, Unit

__all__ = ["SelectionProfile"]

Array = NDArray[np.float64]
_FAINT = 1e-30  # what is left of one run's profile from here on counts as failure in a composition
_FAR = 1e4  # an ε beyond which nothing but failure is left
_NODES = 385
_ROUNDING = 1e-12


class SelectionProfile:
    """δ(ε) and ε(δ) of a private selection.

    Args:
        event: the selection.
        adjacency: the relation, or a `Unit`; one run is read under the same.

    Example:
        >>> from discreet.events import Laplace
        >>> best = SelectionProfile(PrivateSelection(Laplace(1.0), 3.0), "add-remove")
        >>> round(best.tilt, 3), round(best.epsilon(0.0), 3)
        (0.824, 1.824)
    """

    def __init__(self, event: PrivateSelection, adjacency: Adjacency) -> None:
        self.event = event
        self.one = curve(event.event, adjacency)
        self.poisson = event.distribution == "poisson"
        self.log_gamma = 0.0 if self.poisson else log_inverse_gamma(event.mean, event.eta)
        self.tilt = self._tilt()
        self._table: tuple[Array, Array] | None = None

    def _one(self, epsilon: float) -> float:
        return self.one.delta(epsilon).upper

    def _tilt(self) -> float:
        """T, rounded up."""
        if self.poisson:
            return self.event.mean * self._one(0.0) * (1 + _ROUNDING)
        return (1 + self.event.eta) * self._least_ratio() * (1 + _ROUNDING)

    def _least_ratio(self) -> float:
        """The least t found with (1/γ − 1)·δ₁(t) ≤ e^t − 1: then no event is more than e^t times as likely on one
        dataset as on the other, once γ/(1 − γ) is added to both probabilities.
        """
        from scipy.optimize import brentq

        most = math.expm1(self.log_gamma) * (1 + _ROUNDING)
        high = math.log1p(most * self._one(0.0))  # δ₁ falls, so τ lies between these two
        low = math.log1p(most * self._one(high))
        if not low < high:
            return high

        def short(t: float) -> float:
            return math.log(math.expm1(t)) - math.log(most) - math.log(max(self._one(t), 1e-320))

        low = max(low * (1 - _ROUNDING), 1e-9 * high)
        t = low if short(low) >= 0 else brentq(short, low, high * (1 + _ROUNDING), xtol=1e-300, rtol=1e-11)
        while most * self._one(t) > math.expm1(t):
            t *= 1 + 1e-10
        return float(t)

    def hit(self, x: Array) -> Array:
        """h(x): the probability that some run is where each is with probability x."""
        if self.poisson:
            return np.asarray(-np.expm1(-self.event.mean * x))
        if self.log_gamma == 0:
            return x
        return self._share(np.log1p(math.expm1(self.log_gamma) * x)) / float(self._share(np.array(self.log_gamma)))

    def unhit(self, delta: float) -> float:
        """The x with h(x) = δ."""
        if delta >= 1:
            return 1.0
        if self.poisson:
            return min(1.0, -math.log1p(-delta) / self.event.mean)
        if self.log_gamma == 0:
            return delta
        eta, part = self.event.eta, delta * float(self._share(np.array(self.log_gamma)))
        return math.expm1(part if eta == 0 else -math.log1p(-eta * part) / eta) / math.expm1(self.log_gamma)

    def _share(self, t: Array) -> Array:
        """(1 − e^{−ηt})/η."""
        eta = self.event.eta
        return t if eta == 0 else np.asarray(-np.expm1(-eta * t) / eta)

    def epsilon(self, delta: float) -> float:
        """T + ε₁(h⁻¹(δ)): one question about one run."""
        if delta >= 1:
            return 0.0
        return self.tilt + self.one.upper(self.unhit(delta) * (1 - _ROUNDING))

    def profile(self, epsilon: Array) -> Array:
        """h(δ₁(ε − T)) for arrays of ε ≥ 0; of many ε by chords in e^ε, in which a profile is convex."""
        wanted = np.asarray(epsilon, dtype=float) - self.tilt
        few = np.size(wanted) <= 16
        one = symmetric(lambda e: np.array([self._one(float(t)) for t in e]) if few else self._chords(e))
        return np.minimum(self.hit(one(wanted)) * (1 + _ROUNDING), 1.0)

    def _chords(self, epsilon: Array) -> Array:
        if self._table is None:
            nodes = np.linspace(0.0, self._top_of_one(), _NODES)
            self._table = nodes, np.array([self._one(float(t)) for t in nodes])
        nodes, values = self._table
        right = np.clip(np.searchsorted(nodes, epsilon), 1, len(nodes) - 1)
        width = nodes[right] - nodes[right - 1]
        part = np.expm1(np.clip(epsilon - nodes[right - 1], 0.0, width)) / np.maximum(np.expm1(width), 1e-300)
        return np.asarray(values[right - 1] + part * (values[right] - values[right - 1]))

    @property
    def top(self) -> float:
        """The ε from which on next to nothing is left; infinite where a run protects nothing."""
        return (self.tilt + self._top_of_one()) * (1 + _ROUNDING)

    def _top_of_one(self) -> float:
        pure = self.one.upper(0.0)
        if math.isfinite(pure):
            return pure
        failure = self._one(_FAR)
        return self.one.upper(min(1.0, failure * (1 + 1e-9) + _FAINT)) if failure < 1 else math.inf


@rule.register
def _(event: PrivateSelection, unit: Unit) -> Rule:
    best = SelectionProfile(event, Unit.of(unit))
    top = best.top
    if not math.isfinite(top):
        return Unbounded()
    return from_profile(best.profile, top, inverse=best.epsilon, pure=math.isfinite(best.one.upper(0.0)))
