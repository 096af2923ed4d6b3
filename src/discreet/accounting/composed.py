"""One history of one unit's rows, in one direction: which accountant answers, and how far it can be trusted.

Gaussians alone have closed forms; so has any single release; everything smooth goes along the contour; the rest, and
what the contour cannot certify tightly, through the Fourier accountant. The intervals of two accountants are
intersected; if they have no point in common one of the two is wrong, nobody knows which, and `Contradiction` is raised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Union

import numpy as np

from discreet.accounting.bounds import Bounds, guarded, in_range, meet
from discreet.accounting.exact import gaussian
from discreet.accounting.exact.best_of_family import best_of_family
from discreet.accounting.exact.contour import MOST_NODES, Contour, Failing
from discreet.accounting.exact.cumulants import log_kappa
from discreet.accounting.exact.fourier import Fourier
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import DiscretePair, GaussianPair, Pair, ProfilePair, attained, is_dear, roughly
from discreet.accounting.exact.placement import Placement
from discreet.accounting.exact.sampling import Spliced
from discreet.accounting.exact.single_release import (
    delta_of_one,
    epsilon_of_one,
    greatest_finite_loss,
    rough_epsilon_of_one,
)
from discreet.accounting.exact.tabulated import tabulated
from discreet.accounting.histories import History
from discreet.accounting.rules import Mu, Pairs, Rho, Rule, Unbounded, zcdp_pair
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from discreet.accounting.exact.bounded_range import BoundedRange
    from discreet.accounting.exact.rare import RareLosses

__all__ = ["ComposedLoss", "composed_losses"]

Engine = Literal["auto", "contour", "fourier"]
Accountant = Union[Failing, Fourier, "RareLosses"]
_TIGHT = 1e-3  # an interval so narrow needs no second opinion
_NARROW = 0.01  # an interval so narrow is not worth a longer sum
_FEWEST_NODES = 1 << 10  # quicker than anything else
_FEW_NODES = 1 << 15  # as quick as a lattice
_BOTH = "the contour and the Fourier accountant"


def composed_losses(history: History, known: Callable[..., Rule]) -> tuple[ComposedLoss, ...]:
    """The privacy loss of a history in each direction; one loss when they do not differ.

    Args:
        history: leaves and their counts.
        known: leaf ↦ its rule.
    """
    mus: list[tuple[float, int]] = []
    rho = 0.0
    sides: list[tuple[Pairs, int]] = []
    for leaf, count in history.items():
        if count > 10**300:
            raise NotCertifiable("more than 1e300 repetitions are beyond the range of doubles.")
        match known(leaf):
            case Unbounded(least):
                return (ComposedLoss([], unbounded=True, least=least),)
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
    remove = ComposedLoss(common + [(pairs.remove, n) for pairs, n in sides])
    if all(pairs.remove is pairs.add for pairs, _ in sides):
        return (remove,)
    return remove, ComposedLoss(common + [(pairs.add, n) for pairs, n in sides])


class ComposedLoss:
    """The sum of independent privacy losses: one history of one unit's rows, in one direction."""

    def __init__(
        self, parts: list[tuple[Pair | ProfilePair, int]], *, unbounded: bool = False, least: float = 0.0
    ) -> None:
        self.parts = parts
        self.unbounded = unbounded
        self.least = least  # of ε at every δ < 1, where nothing bounds it from above
        self.near: Placement | None = None
        self._contour: Contour | None = None

    def tabulated(self) -> ComposedLoss:
        """This loss with its profiles' values on a grid, which bound it, in place of their own, which are dear."""
        parts = [(tabulated(pair), n) for pair, n in self.parts]
        return ComposedLoss(parts, unbounded=self.unbounded, least=self.least)

    @property
    def mu(self) -> float | None:
        """μ when the composed loss is exactly Gaussian, else None."""
        if not self.parts:
            return math.inf if self.unbounded else 0.0
        if len(self.parts) == 1 and isinstance(self.parts[0][0], GaussianPair):
            return self.parts[0][0].mu
        return None

    @property
    def placement(self) -> Placement | None:
        """Where the contour's nodes are, if there is one: a start for a similar loss (``near``)."""
        return self._contour.placement if self._contour is not None else None

    @property
    def top(self) -> float:
        """The greatest privacy loss possible."""
        return math.inf if self.unbounded else sum(n * pair.top for pair, n in self.parts)

    @property
    def one_sided(self) -> bool:
        """Whether some pair is a bound that need not be reached, so that other bounds may be lower."""
        return any(attained(pair) is not pair for pair, _ in self.parts)

    @property
    def has_direct_bound(self) -> bool:
        """Whether no classical bound is lower: of one release whose bound states ε itself, and of Gaussian releases on
        batches of fixed size, whose Rényi divergences and single ε are those of the very pair that is composed here.
        """
        single = self._single()
        if isinstance(single, ProfilePair):
            return single.inverse is not None
        spliced = [pair.remove for pair, _ in self.parts if isinstance(pair, Spliced)]
        sides = spliced + [pair for pair, _ in self.parts if not isinstance(pair, Spliced)]
        return bool(spliced) and all(isinstance(side, GaussianPair | Mixture) for side in sides)

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
        return self._total([n * greatest_finite_loss(pair) for pair, n in self.parts], 1)

    def _only_failure(self) -> Bounds:
        """δ beyond every finite loss."""
        if (pair := self._single()) is not None:
            most, least = pair.infinite, math.nextafter(pair.infinite, 0.0)
        else:
            most, least = self._failure() * (1 + 1e-13), self._failure() * (1 - 1e-13)
        return Bounds(0.0 if self.one_sided else least, most)

    def _total(self, losses: list[float], side: int) -> float:
        """The sum of ``losses``, rounded up (side 1) or down (−1); a single loss has been rounded up by its rule."""
        total = math.fsum(losses)
        if math.isinf(total):
            return total
        if self._single() is not None:
            return total if side > 0 else math.nextafter(total, 0.0)
        return total * (1 + side * 4 * UNIT_ROUNDOFF)

    def contour(self, most_nodes: int = MOST_NODES) -> Contour:
        """The contour accountant of this loss; its last sum may have ``most_nodes``."""
        if self._contour is not None:
            self._contour.most_nodes = most_nodes
        else:
            rough = [type(pair).__name__ for pair, _ in self.parts if not hasattr(pair, "on_contour")]
            if rough:
                raise NotCertifiable(f"the contour accountant needs moment generating functions; {rough[0]} has none.")
            if all(isinstance(pair, DiscretePair) for pair, _ in self.parts):
                raise NotCertifiable("atoms do not decay along the contour.")
            self._contour = Contour(self.parts, near=self.near, most_nodes=most_nodes)  # type: ignore[arg-type]
        return self._contour

    @property
    def _smooth(self) -> bool:
        """Whether the contour accountant speaks, and no loss has atoms."""
        return all(hasattr(pair, "on_contour") and pair.lattice is None for pair, _ in self.parts)

    def _single(self) -> Pair | ProfilePair | None:
        return self.parts[0][0] if len(self.parts) == 1 and self.parts[0][1] == 1 else None

    def delta(self, epsilon: float, engine: Engine = "auto") -> Bounds:
        """Certified bounds of δ(ε), ε ≥ 0."""
        if self.unbounded:  # ε below a loss of 1e299 leaves 1 − δ below all doubles
            return Bounds(1 - UNIT_ROUNDOFF if epsilon < self.least / 2 else 0.0, 1.0)
        if (mu := self.mu) is not None and engine == "auto":
            return gaussian.delta_bounds(epsilon, mu)
        if epsilon >= self._most_finite():
            return self._only_failure()
        if engine == "auto" and (pair := self._single()) is not None:
            return delta_of_one(pair, epsilon)
        if engine == "auto" and (repeated := self._repeated_selection()) is not None:
            try:
                return in_range(guarded(lambda: repeated[0].delta(repeated[1], epsilon)), 1.0)
            except NotCertifiable:
                pass
        best, asked = Bounds(0.0, 1.0), 0
        for answer in self._engines(engine):
            asked += 1
            try:
                found = in_range(guarded(lambda answer=answer, known=best.upper < 1: answer(known).delta(epsilon)), 1.0)  # type: ignore[misc]
            except NotCertifiable:
                if engine != "auto":
                    raise
                continue
            best = meet(best, found, _BOTH)
            if best.upper - best.lower <= (_NARROW if asked > 1 else _TIGHT) * best.upper:
                break
        return best

    def epsilon(self, delta: float, engine: Engine = "auto", *, lower: bool = True) -> Bounds:
        """Certified bounds of the least ε ≥ 0 with δ(ε) ≤ δ; without ``lower`` the lower one may be 0."""
        if engine == "auto" and 0 < delta < 1 and (repeated := self._repeated_selection()) is not None:
            try:
                found = in_range(
                    guarded(lambda: repeated[0].epsilon(repeated[1], delta, lower=lower)), self.most(delta)
                )
            except NotCertifiable:
                found = self._epsilon(delta, engine, lower)
            if not lower or found.upper - found.lower <= _NARROW * found.upper:
                return found
            found = meet(found, self._epsilon(delta, engine, lower), "the accountants of repeated selections")
        else:
            found = self._epsilon(delta, engine, lower)
        if not lower or engine == "contour" or not 0 < delta < 1 or len(self.parts) != 1:
            return found
        pair, times = self.parts[0]
        if not isinstance(pair, ProfilePair) or pair.family is None:
            return found
        return Bounds(max(found.lower, best_of_family(pair.family, times, delta)), found.upper)

    def _rare(self) -> RareLosses:
        from discreet.accounting.exact.rare import RareLosses  # numba is slow to load

        return RareLosses(self.parts)

    def _repeated_selection(self) -> tuple[BoundedRange, int] | None:
        """The accountant of repeated exponential mechanisms, and how often, where there is nothing else."""
        if len(self.parts) != 1 or self.parts[0][1] < 2:
            return None
        pair, times = self.parts[0]
        if not isinstance(pair, ProfilePair) or pair.bounded_range is None:
            return None
        from discreet.accounting.exact.bounded_range import BoundedRange  # numba is slow to load

        return BoundedRange(pair.bounded_range), times

    def _epsilon(self, delta: float, engine: Engine, lower: bool) -> Bounds:
        if self.unbounded:
            return Bounds(self.least, math.inf) if delta < 1 else Bounds(0.0, 0.0)
        if delta >= 1 or not self.parts:
            return Bounds(0.0, 0.0)
        if delta == 0:
            top = self._total([n * pair.top for pair, n in self.parts], -1)
            return Bounds(0.0 if self.one_sided else top, self.most(0.0))
        if (mu := self.mu) is not None and engine == "auto":
            return gaussian.epsilon_bounds(delta, mu)
        if engine == "auto" and (pair := self._single()) is not None:
            found = epsilon_of_one(pair, delta, lower=lower)
            return Bounds(min(found.lower, self.most(delta)), min(found.upper, self.most(delta)))
        best = Bounds(self._reached(delta) if lower and engine == "auto" else 0.0, self.most(delta))
        lower = lower and best.lower == 0  # what is known need not be sought on a lattice
        problem: Exception | None = None
        answered = False
        for asked, answer in enumerate(self._engines(engine, for_epsilon=True)):
            if asked >= 2 and answered and (not lower or best.upper - best.lower <= _NARROW * best.upper):
                break
            both = lower or answered  # a second opinion is one only if it can contradict the first
            try:
                found = in_range(
                    guarded(lambda answer=answer, known=answered, both=both: answer(known).epsilon(delta, lower=both)),  # type: ignore[misc]
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

    def _reached(self, delta: float) -> float:
        """A lower bound of ε(δ) by pairs that are reached though they do not dominate; or 0."""
        if not self.one_sided:
            return 0.0
        from discreet.accounting.exact.rare import reached_epsilon  # numba is slow to load

        return reached_epsilon(self.parts, delta, _FEW_NODES)

    def estimate(self, delta: float) -> float:
        """ε(δ) to a per cent or so, by the saddle point alone where there is one."""
        if self.unbounded or self.mu is not None or delta <= 0 or delta >= 1:
            return self.epsilon(delta).upper
        if (pair := self._single()) is not None:
            return min(rough_epsilon_of_one(pair, delta), self.most(delta))
        try:
            if all(hasattr(pair, "on_contour") for pair, _ in self.parts):
                return min(guarded(lambda: self.contour().cumulants.guess(delta)), self.top)
            parts = [(roughly(pair), n) for pair, n in self.parts]
            return min(guarded(lambda: Fourier(parts).estimate(delta)), self.top)
        except NotCertifiable:
            return self.epsilon(delta, lower=False).upper

    def _engines(
        self, engine: Engine, *, for_epsilon: bool = False
    ) -> list[Callable[[bool], Failing | Fourier | RareLosses]]:
        """Who is asked, in this order, knowing whether somebody has answered: lattices are quicker than many nodes."""

        def contour(answered: bool, most_nodes: int = MOST_NODES) -> Failing:
            return Failing(self.contour(most_nodes), self._failure())

        def fourier(answered: bool) -> Fourier:
            settled = 2e-2 if self.one_sided and not any(is_dear(pair) for pair, _ in self.parts) else 1e-5
            return Fourier(self.parts, 0.8 * _NARROW if self._smooth and not answered else 1e-6, settled)

        if engine == "auto":
            rare: list[Callable[[bool], Accountant]] = []
            if for_epsilon and self._smooth:
                rare = [lambda answered: self._rare()]
            return [lambda answered: contour(answered, _FEW_NODES), *rare, fourier, contour]
        return [contour] if engine == "contour" else [lambda answered: Fourier(self.parts)]

    def _failure(self) -> float:
        """The probability that some of the composed losses is infinite."""
        if any(pair.infinite >= 1 for pair, _ in self.parts):
            return 1.0
        return 0.0 - math.expm1(sum(n * math.log1p(-pair.infinite) for pair, n in self.parts))

    def _chernoff(self, delta: float) -> float:
        """ε ≤ (K(c) − log δ + log κ(c))/c at the best c for which K(c) can be proved."""
        if self._failure() > 0:
            return math.inf

        def bound() -> float:
            cs, moments = self.contour().cumulants.known()
            target = math.log(delta)
            c = float(cs[int(np.argmin((moments - target + log_kappa(cs)) / cs))])
            moment = sum(n * pair.log_moment_upper(c) for pair, n in self.contour().parts)
            spread = moment - target + float(log_kappa(c))
            return max(
                0.0, (spread + 32 * UNIT_ROUNDOFF * (abs(moment) + abs(target) + 8)) / c * (1 + 4 * UNIT_ROUNDOFF)
            )

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
            near = self.near is not None and self.near.count <= _FEWEST_NODES
            if not near and self._smooth and guarded(lambda: self._rare().within(epsilon, delta)):
                return True
            return guarded(lambda: self._quickly_within(epsilon, math.log(delta)))
        except NotCertifiable:
            return False

    def _quickly_within(self, epsilon: float, target: float) -> bool:
        contour = self.contour(_FEW_NODES)
        if self._failure() > 0:
            raise NotCertifiable("not quickly")
        if contour.quickly_within(epsilon, target):
            return True
        cs, moments = contour.cumulants.known()
        height = moments - cs * epsilon + log_kappa(cs)
        j = int(np.argmin(height))
        if height[j] < target - 1e-3:
            c = float(cs[j])
            proved = sum(n * pair.log_moment_upper(c) for pair, n in contour.parts)
            rounding = 1e-9 + 32 * UNIT_ROUNDOFF * (abs(proved) + c * epsilon + abs(target))
            if proved - c * epsilon + float(log_kappa(c)) < target - rounding:
                return True
        return contour.log_delta(epsilon, target)[1] <= target - 4 * UNIT_ROUNDOFF * (1 + abs(target))
