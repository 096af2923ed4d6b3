"""One history of one unit's rows, in one direction: which accountant answers, and how far it can be trusted.

Gaussians alone have closed forms; so has any single release; everything smooth goes along the contour; the rest, and
what the contour cannot certify tightly, through the Fourier accountant. The intervals of two accountants are
intersected; if they have no point in common one of the two is wrong, nobody knows which, and `Contradiction` is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from discreet.accounting import gaussian
from discreet.accounting.bounds import Bounds, guarded, meet
from discreet.accounting.contour import Contour, log_kappa
from discreet.accounting.fold import World
from discreet.accounting.fourier import Fourier
from discreet.accounting.mixture import Mixture
from discreet.accounting.pairs import Atoms, GaussianPair, LaplacePair, Pair, ProfilePair, attained
from discreet.accounting.rules import Mu, Pairs, Rho, Rule, Unbounded, zcdp_pair
from discreet.accounting.sampling import UpperOnly
from discreet.errors import NotCertifiable

__all__ = ["Run", "runs"]

Engine = Literal["auto", "contour", "fourier"]
_TIGHT = 1e-6
_UNIT = 2.0**-53
_EVALUATION = 2e-12  # relative error granted to a closed-form profile, of P(L > ε)
_LARGEST_EXPONENT = 700.0
_MOST_TIMES = 10**300
_BOTH = "the contour and the Fourier accountant"


def runs(world: World, known: Callable[..., Rule]) -> tuple[Run, ...]:
    """The run of a history in each direction; one when they do not differ.

    Args:
        world: leaves and their counts.
        known: leaf ↦ its rule.
    """
    mus: list[tuple[float, int]] = []
    rho = 0.0
    sides: list[tuple[Pairs, int]] = []
    for leaf, count in world.items():
        if count > _MOST_TIMES:
            raise NotCertifiable(
                f"more than 1e{len(str(_MOST_TIMES)) - 1} repetitions are beyond the range of doubles."
            )
        match known(leaf):
            case Unbounded():
                return (Run([], unbounded=True),)
            case Mu(mu):
                mus.append((mu, count))
            case Rho(value):
                rho += count * value
            case Pairs() as pairs:
                sides.append((pairs, count * pairs.times))
    mu = gaussian.root_of_squares(mus)
    if mu > 0 and rho == 0 and len(sides) == 1 and sides[0][1] == 1:
        beside = sides[0][0].beside
        together = beside(mu) if beside else None
        if together is not None:
            sides, mu = [(together, 1)], 0.0
    common: list[tuple[Pair | ProfilePair, int]] = []
    if mu > 0:
        common.append((GaussianPair(mu), 1))
    if rho > 0:
        common.append((zcdp_pair(rho), 1))
    remove = Run(common + [(pairs.remove, n) for pairs, n in sides])
    if all(pairs.remove is pairs.add for pairs, _ in sides):
        return (remove,)
    return remove, Run(common + [(pairs.add, n) for pairs, n in sides])


def _checked(bounds: Bounds, top: float) -> Bounds:
    """An engine's interval for a quantity in [0, top], if it is one."""
    lower = min(bounds.lower, top) if bounds.lower <= top * (1 + 1e-9) else bounds.lower
    return meet(Bounds(0.0, top), Bounds(lower, bounds.upper), "an accountant's bounds and those known beforehand")


class Run:
    """Independent privacy losses that add up."""

    def __init__(self, parts: list[tuple[Pair | ProfilePair, int]], *, unbounded: bool = False) -> None:
        self.parts = parts
        self.unbounded = unbounded
        self._contour: Contour | None = None

    @property
    def mu(self) -> float | None:
        """μ when the run is exactly Gaussian."""
        if not self.parts:
            return math.inf if self.unbounded else 0.0
        if len(self.parts) == 1 and isinstance(self.parts[0][0], GaussianPair):
            return self.parts[0][0].mu
        return None

    @property
    def top(self) -> float:
        """The greatest privacy loss possible."""
        return math.inf if self.unbounded else sum(n * pair.top for pair, n in self.parts)

    @property
    def one_sided(self) -> bool:
        """Whether some pair is a bound that need not be reached, so that other bounds may be lower."""
        return any(attained(pair) is not pair for pair, _ in self.parts)

    @property
    def settled(self) -> bool:
        """Whether the run is one release whose bound answers for ε itself, and is the best that is known of it."""
        pair = self._single()
        return isinstance(pair, ProfilePair) and pair.inverse is not None

    def most(self, delta: float) -> float:
        """The sum of the greatest finite losses, where δ provably pays for every infinite one; else infinite.

        Both sides of the comparison with δ are tried: the sum of the failures, in exact arithmetic, and the
        probability of any failure with its rounding. A δ that was itself added up from stated ones then suffices.
        """
        reach = self._most_finite()
        if self.unbounded or math.isinf(reach):
            return math.inf
        stated = sum((n * Fraction(pair.infinite) for pair, n in self.parts), Fraction(0))
        return reach if stated <= Fraction(delta) or self._failure() * (1 + 1e-13) <= delta else math.inf

    def _most_finite(self) -> float:
        return self._total([n * _reach(pair) for pair, n in self.parts], 1)

    def _only_failure(self) -> Bounds:
        """δ beyond every finite loss."""
        if (pair := self._single()) is not None:
            most = least = pair.infinite
        else:
            most, least = self._failure() * (1 + 1e-13), self._failure() * (1 - 1e-13)
        return Bounds(0.0 if self.one_sided else least, most)

    def _total(self, losses: list[float], side: int) -> float:
        """Their sum, rounded up or down unless it is one number as it was stated."""
        total = math.fsum(losses)
        if self._single() is not None or math.isinf(total):
            return total
        return total * (1 + side * 4 * _UNIT)

    def contour(self) -> Contour:
        """The contour accountant of this run."""
        if self._contour is None:
            rough = [type(pair).__name__ for pair, _ in self.parts if not hasattr(pair, "on_contour")]
            if rough:
                raise NotCertifiable(f"the contour accountant needs moment generating functions; {rough[0]} has none.")
            if all(isinstance(pair, Atoms) for pair, _ in self.parts):
                raise NotCertifiable("atoms do not decay along the contour.")
            self._contour = Contour(self.parts)  # type: ignore[arg-type]
        return self._contour

    def _single(self) -> Pair | ProfilePair | None:
        return self.parts[0][0] if len(self.parts) == 1 and self.parts[0][1] == 1 else None

    def delta(self, epsilon: float, engine: Engine = "auto") -> Bounds:
        """Certified bounds of δ(ε), ε ≥ 0."""
        if self.unbounded:
            return Bounds(1.0, 1.0)
        if (mu := self.mu) is not None and engine == "auto":
            return gaussian.delta_bounds(epsilon, mu)
        if epsilon >= self._most_finite():
            return self._only_failure()
        if engine == "auto" and (pair := self._single()) is not None:
            return _evaluate(pair, epsilon)
        best = Bounds(0.0, 1.0)
        for answer in self._engines(engine):
            try:
                found = _checked(guarded(lambda answer=answer: answer().delta(epsilon)), 1.0)  # type: ignore[misc]
            except NotCertifiable:
                if engine != "auto":
                    raise
                continue
            best = meet(best, found, _BOTH)
            if best.upper - best.lower <= _TIGHT * best.upper:
                break
        return best

    def epsilon(self, delta: float, engine: Engine = "auto", *, lower: bool = True) -> Bounds:
        """Certified bounds of the least ε ≥ 0 with δ(ε) ≤ δ; without ``lower`` the lower one may be 0."""
        if self.unbounded:
            return Bounds(math.inf, math.inf) if delta < 1 else Bounds(0.0, 0.0)
        if delta >= 1 or not self.parts:
            return Bounds(0.0, 0.0)
        if delta == 0:
            top = self._total([n * pair.top for pair, n in self.parts], -1)
            return Bounds(0.0 if self.one_sided else top, self.most(0.0))
        if (mu := self.mu) is not None and engine == "auto":
            return gaussian.epsilon_bounds(delta, mu)
        if engine == "auto" and (pair := self._single()) is not None:
            found = _solve(pair, delta)
            return Bounds(min(found.lower, self.most(delta)), min(found.upper, self.most(delta)))
        best = Bounds(0.0, self.most(delta))
        problem: Exception | None = None
        answered = False
        for answer in self._engines(engine):
            both = lower or answered  # a second opinion is one only if it can contradict the first
            try:
                found = _checked(
                    guarded(lambda answer=answer, both=both: answer().epsilon(delta, lower=both)),  # type: ignore[misc]
                    self.most(delta),
                )
            except NotCertifiable as refusal:
                if engine != "auto":
                    raise
                problem = refusal
                continue
            best, answered = meet(best, found, _BOTH), True
            if best.upper - best.lower <= _TIGHT * best.upper:
                return best
        if math.isinf(best.upper) and problem is not None:
            best = Bounds(best.lower, self._chernoff(delta))
        return best

    def estimate(self, delta: float) -> float:
        """ε(δ) to a per cent or so, by the saddle point alone where there is one."""
        if self.unbounded or self.mu is not None or delta <= 0 or delta >= 1:
            return self.epsilon(delta).upper
        if (pair := self._single()) is not None:
            return min(_rough(pair, delta), self.most(delta))
        try:
            if all(hasattr(pair, "on_contour") for pair, _ in self.parts):
                return min(guarded(lambda: self.contour()._guess(delta)), self.top)
            return min(guarded(lambda: Fourier(self.parts).estimate(delta)), self.top)
        except NotCertifiable:
            return self.epsilon(delta, lower=False).upper

    def _engines(self, engine: Engine) -> list[Callable[[], _Failing | Fourier]]:
        both: dict[str, Callable[[], _Failing | Fourier]] = {
            "contour": lambda: _Failing(self.contour(), self._failure()),
            "fourier": lambda: Fourier(self.parts),
        }
        return list(both.values()) if engine == "auto" else [both[engine]]

    def _failure(self) -> float:
        """The probability of an infinite loss anywhere in the run."""
        if any(pair.infinite >= 1 for pair, _ in self.parts):
            return 1.0
        return 0.0 - math.expm1(sum(n * math.log1p(-pair.infinite) for pair, n in self.parts))

    def _chernoff(self, delta: float) -> float:
        """ε ≤ (K(c) − log δ + log κ(c))/c at the best c for which K(c) can be proved."""
        if self._failure() > 0:
            return math.inf

        def bound() -> float:
            cs, moments = self.contour()._cumulants()
            target = math.log(delta)
            c = float(cs[int(np.argmin((moments - target + log_kappa(cs)) / cs))])
            moment = sum(n * pair.log_moment_upper(c) for pair, n in self.contour().parts)
            spread = moment - target + float(log_kappa(c))
            return max(0.0, (spread + 32 * _UNIT * (abs(moment) + abs(target) + 8)) / c * (1 + 4 * _UNIT))

        try:
            found = guarded(bound)
        except NotCertifiable:
            return math.inf
        return math.inf if math.isnan(found) else found

    def within(self, epsilon: float, delta: float) -> bool:
        """Whether δ(ε) ≤ δ can be proved quickly: by a moment bound, else by one contour sum."""
        if self.unbounded or delta <= 0 or math.isinf(epsilon):
            return False
        if epsilon >= self._total([n * pair.top for pair, n in self.parts], 1):
            return True
        try:
            return guarded(lambda: self._quickly_within(epsilon, math.log(delta)))
        except NotCertifiable:
            return False

    def _quickly_within(self, epsilon: float, target: float) -> bool:
        contour = self.contour()
        if self._failure() > 0:
            raise NotCertifiable("not quickly")
        cs, moments = contour._cumulants()
        height = moments - cs * epsilon + log_kappa(cs)
        j = int(np.argmin(height))
        if height[j] < target - 1e-3:
            c = float(cs[j])
            proved = sum(n * pair.log_moment_upper(c) for pair, n in contour.parts)
            rounding = 1e-9 + 32 * _UNIT * (abs(proved) + c * epsilon + abs(target))
            if proved - c * epsilon + float(log_kappa(c)) < target - rounding:
                return True
        return contour.log_delta(epsilon)[1] <= target - 4 * _UNIT * (1 + abs(target))


class _Failing:
    """The contour accountant of finite losses, beside a probability of failure that is added to δ."""

    def __init__(self, contour: Contour, failure: float) -> None:
        self.contour = contour
        self.most, self.least = failure * (1 + 1e-13), failure * (1 - 1e-13)

    def delta(self, epsilon: float) -> Bounds:
        """δ of the finite losses, plus the failure."""
        finite = self.contour.delta(epsilon)
        return Bounds(finite.lower + self.least, min(1.0, finite.upper + self.most))

    def epsilon(self, delta: float, *, lower: bool = True) -> Bounds:
        """ε at what failure leaves of δ."""
        if delta <= self.most:
            return Bounds(0.0, math.inf)
        low, high = delta - self.most, delta - self.least
        bounds = self.contour.epsilon(low)
        return bounds if low == high or not lower else Bounds(self.contour.epsilon(high).lower, bounds.upper)


def _reach(pair: Pair | ProfilePair) -> float:
    """The greatest finite loss."""
    if isinstance(pair, UpperOnly):
        return _reach(pair.pair)
    return float(pair.losses.max()) if isinstance(pair, Atoms) else pair.top


def _evaluation_error(pair: Pair | ProfilePair) -> float:
    """Of a profile, relative to P(L > ε): tails of the normal law to u(32 + 4·39²), finite sums as their bins."""
    if isinstance(pair, ProfilePair | Mixture | GaussianPair):
        return _EVALUATION
    return max(_EVALUATION, 2 * pair.bin_error(-745.0))


def _evaluate(pair: Pair | ProfilePair, epsilon: float) -> Bounds:
    """One release's profile, with the error of its evaluation."""
    if epsilon > _LARGEST_EXPONENT and not isinstance(pair, GaussianPair | LaplacePair | ProfilePair):
        # e^ε exceeds a double there. δ falls as ε grows, so an earlier value bounds it; from below nothing is said
        return Bounds(0.0, _evaluate(pair, _LARGEST_EXPONENT).upper)
    at = np.array([epsilon])
    with np.errstate(all="ignore"):
        value = float(pair.profile(at)[0])
        above = value if isinstance(pair, ProfilePair) else float(pair.masses(at)[0][1]) + pair.infinite
    if math.isnan(value):
        return Bounds(0.0, 1.0)
    slack = _evaluation_error(pair) * (1.0 if math.isnan(above) else above)  # P(L > ε) is at most 1
    slack += math.exp(min(epsilon, _LARGEST_EXPONENT)) * 1e-323  # of Q(L > ε), where it loses digits to underflow
    reached = attained(pair)
    if reached is pair:
        return Bounds(max(0.0, value - slack), min(1.0, value + slack + 5e-324))
    low = 0.0 if reached is None else _evaluate(reached, epsilon).lower
    return Bounds(low, min(1.0, value + slack + 5e-324))


def _solve(pair: Pair | ProfilePair, delta: float) -> Bounds:
    """ε(δ) of one release: a root of its profile, then steps outwards until both sides are proved."""
    if isinstance(pair, ProfilePair) and pair.inverse is not None and pair.attained is None:
        return Bounds(0.0, pair.inverse(delta))
    upper = _crossing(lambda e: _evaluate(pair, e).upper, pair, delta, 1)
    return Bounds(_crossing(lambda e: _evaluate(pair, e).lower, pair, delta, -1), upper)


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
    found: float = brentq(
        lambda e: math.log(max(bound(e), 1e-320)) - target, 0.0, end, xtol=precision * 1e-3, rtol=max(precision, 1e-15)
    )
    return found


def _rough(pair: Pair | ProfilePair, delta: float) -> float:
    """ε(δ) of one release to a thousandth; it proves nothing."""
    if isinstance(pair, ProfilePair) and pair.inverse is not None and pair.attained is None:
        return pair.inverse(delta)
    end = pair.span(-746.0)[1]

    def bound(epsilon: float) -> float:
        return _evaluate(pair, epsilon).upper

    if bound(0.0) <= delta:
        return 0.0
    return math.inf if bound(end) > delta else _root(bound, delta, end, 1e-4)
