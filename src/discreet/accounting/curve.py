"""The privacy curve of an event: δ(ε) and ε(δ), each as a certified interval."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from scipy.optimize import brentq

from discreet.accounting.bounds import Bounds, Contradiction, guarded
from discreet.accounting.composed import ComposedLoss, Engine, composed_losses
from discreet.accounting.exact.pairs import ProfilePair, is_dear
from discreet.accounting.histories import histories
from discreet.accounting.rules import rule
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import Event
from discreet.floats import as_number
from discreet.units import Adjacency, Unit

__all__ = ["Curve", "Method", "curve", "delta", "epsilon"]

Method = Literal["auto", "contour", "fourier", "renyi", "zcdp", "gdp", "advanced", "basic"]
_WIDE = 0.01  # classical bounds, which hold from above only, are not nearer to the truth than that
_UPPER_ONLY = ("renyi", "zcdp", "advanced", "basic")


class Curve:
    """δ(ε) and ε(δ) of one event under one relation; work is kept between questions.

    Example:
        >>> from discreet.events import Gaussian, Repeat
        >>> both = curve(Repeat(Gaussian(10.0), 1000), "add-remove")
        >>> round(both.epsilon(1e-6).upper, 5)
        19.42366
    """

    def __init__(self, event: Event, adjacency: Adjacency, *, method: Method = "auto") -> None:
        if not isinstance(event, Event):
            raise InvalidInput(f"event must be an Event, got {event!r}.")
        if method not in get_args(Method):
            raise InvalidInput(f"method must be one of {', '.join(get_args(Method))}, got {method!r}.")
        self.event = event
        self.unit = Unit.of(adjacency)
        self.method: Method = method
        self._composed: list[tuple[ComposedLoss, ...]] | None = None

    def _histories(self) -> list[tuple[ComposedLoss, ...]]:
        if self._composed is None:
            self._composed = guarded(
                lambda: [
                    composed_losses(history, lambda leaf: rule(leaf.event, leaf.unit))
                    for history in histories(self.event, self.unit)
                ]
            )
        return self._composed

    def start_from(self, other: Curve | None) -> Curve:
        """This curve, whose contours are tried where those of ``other``, a similar event's, are.

        It saves the search for them, and changes no bound by more than what the accountant allows itself.
        """
        if other is not None and self._without_a_rule() is None and other._without_a_rule() is None:
            for here, there in zip(self._histories(), other._histories(), strict=False):
                for loss, similar in zip(here, there, strict=False):
                    loss.near = similar.placement
        return self

    def delta(self, epsilon: float) -> Bounds:
        """The least δ such that the event is (ε, δ)-DP.

        Raises:
            InvalidInput: ε is negative or not a number.
            NotCertifiable: the chosen method proves nothing about this event.
        """
        epsilon = _real("epsilon", epsilon, 0.0, math.inf)
        if math.isinf(epsilon):
            return Bounds(0.0, 0.0)
        if self.method == "renyi":
            return Bounds(0.0, guarded(lambda: _delta_upper(self.event, epsilon, self.unit)))
        if self.method in _UPPER_ONLY:
            return Bounds(0.0, _delta_from_epsilon(lambda d: self.epsilon(d).upper, epsilon))
        if self.method == "gdp":
            self._all_gaussian()
        if self.method == "auto" and self._without_a_rule() is not None:
            return Bounds(0.0, guarded(lambda: _delta_upper(self.event, epsilon, self.unit)))
        engine: Engine = self.method if self.method in ("contour", "fourier") else "auto"
        try:
            return _worst(loss.delta(epsilon, engine) for both in self._histories() for loss in both)
        except NotCertifiable as failure:
            if self.method != "auto":
                raise self._named(failure) from failure
            self._tell(failure)
            return Bounds(0.0, self._other_delta(epsilon))

    def epsilon(self, delta: float) -> Bounds:
        """The least ε such that the event is (ε, δ)-DP.

        Raises:
            InvalidInput: δ is outside [0, 1] or not a number.
            NotCertifiable: the chosen method proves nothing about this event.
        """
        delta = _real("delta", delta, 0.0, 1.0)
        if self.method in _UPPER_ONLY:
            return Bounds(0.0, self._classical(self.method, delta))
        if self.method == "gdp":
            self._all_gaussian()
        if self.method in ("contour", "fourier"):
            try:
                return _worst(loss.epsilon(delta, self.method) for both in self._histories() for loss in both)
            except NotCertifiable as failure:
                raise self._named(failure) from failure
        return self._auto(delta)

    def upper(self, delta: float, enough: float = math.inf) -> float:
        """The upper bound of `epsilon` alone, for searches: the lower one is not refined.

        Args:
            delta: in [0, 1].
            enough: once a history's bound exceeds this the others are not asked. A result of at most ``enough`` is a
                bound of all; a larger one says no more than that it is larger.
        """
        if self.method != "auto":
            return self.epsilon(delta).upper
        return self._auto(_real("delta", delta, 0.0, 1.0), lower=False, enough=enough).upper

    def stated_upper(self, delta: float, enough: float) -> float:
        """`upper`, but within ``enough`` only if the upper end of `epsilon`, which may be found on another grid, is."""
        found = self.upper(delta, enough)
        known = self.method != "auto" or self._without_a_rule() is not None
        if found > enough or known or not any(_sought_on_grids(loss) for both in self._histories() for loss in both):
            return found
        return max(found, self.epsilon(delta).upper)

    def _auto(self, delta: float, *, lower: bool = True, enough: float = math.inf) -> Bounds:
        if (reason := self._without_a_rule()) is not None:
            return Bounds(0.0, self._other_upper(delta, reason))
        try:
            low, high, open_ended = self._two_sided(delta, lower, enough)
        except NotCertifiable as failure:
            self._tell(failure)
            return Bounds(0.0, self._other_upper(delta, self._named(failure)))
        wide = high - low > _WIDE * high if lower else open_ended
        settled = all(loss.has_direct_bound for both in self._histories() for loss in both)
        if (math.isinf(high) or (wide and not settled)) and delta > 0:
            other = self._other_upper(delta)
            high = other if low <= other <= high else high  # in doubt the guarantee is the larger
        return Bounds(low, high)

    def _two_sided(self, delta: float, lower: bool, enough: float) -> tuple[float, float, bool]:
        """The worst interval of all histories, and whether some bound need not be reached."""
        low, high, open_ended = 0.0, 0.0, False
        for both in self._histories():
            for loss in both:
                if high > enough:
                    return low, high, open_ended
                if loss is not both[0]:
                    loss.near = loss.near or both[0].placement
                    if loss.within(high, delta):
                        continue
                found_here = loss.epsilon(delta, lower=lower)
                if not found_here.lower <= found_here.upper:
                    raise Contradiction(f"a lower bound exceeds its upper one: {found_here}.")
                low, high = max(low, found_here.lower), max(high, found_here.upper)
                open_ended = open_ended or loss.one_sided
        return low, high, open_ended

    def _named(self, failure: NotCertifiable) -> NotCertifiable:
        """A failure of the same type whose message also names the event."""
        text = repr(self.event)
        return type(failure)(f"{failure} Event: {text if len(text) < 1000 else text[:1000] + '…'}, {self.unit}.")

    def _tell(self, failure: NotCertifiable) -> None:
        """Warn of a contradiction: the answer that follows is safe, but the library has a fault."""
        if isinstance(failure, Contradiction):
            message = f"{self._named(failure)} The answer rests on classical bounds alone. Please report this."
            warnings.warn(message, RuntimeWarning, stacklevel=4)

    def estimate(self, delta: float) -> float:
        """A quick ε(δ) that proves nothing: where a search may start."""
        if (reason := self._without_a_rule()) is not None:
            return self._other_upper(delta, reason)
        return max((loss.estimate(delta) for both in self._histories() for loss in both[:1]), default=0.0)

    @property
    def resolution(self) -> float:
        """A relative difference of ε below which the upper bounds of similar events do not tell them apart."""
        if self._without_a_rule() is not None:
            return 0.0
        pairs = [pair for both in self._histories() for loss in both for pair, _ in loss.parts]
        return 3e-4 if any(is_dear(pair) for pair in pairs) else 0.0

    @property
    def mu(self) -> float | None:
        """μ for which the event is exactly μ-Gaussian DP; None for noise that is not Gaussian, or on random batches."""
        if self._without_a_rule() is not None:
            return None
        found = [loss.mu for both in self._histories() for loss in both]
        known = [mu for mu in found if mu is not None]
        return max(known) if len(known) == len(found) and all(map(math.isfinite, known)) else None

    @property
    def is_slow(self) -> bool:
        """Whether an answer takes about a second: a loss that is known by its profile alone is composed with others."""
        if self._without_a_rule() is not None:
            return False
        losses = [loss.parts for both in self._histories() for loss in both]
        return any(
            sum(n for _, n in parts) > 1 and any(isinstance(pair, ProfilePair) for pair, _ in parts) for parts in losses
        )

    def tabulated(self) -> Curve:
        """This curve, or where `is_slow` one whose upper bounds may be larger by some 1e-5, in a tenth of the time."""
        if not self.is_slow:
            return self
        found = Curve(self.event, self.unit, method=self.method)
        found._composed = [tuple(loss.tabulated() for loss in both) for both in self._histories()]
        return found

    @property
    def has_contour(self) -> bool:
        """Whether the last answer was found along a contour."""
        return any(loss.placement is not None for both in self._composed or () for loss in both)

    def _all_gaussian(self) -> None:
        if any(loss.mu is None for both in self._histories() for loss in both):
            raise NotCertifiable(
                "method 'gdp' is exact for unsampled Gaussian noise only; for sampled noise it would be a limit, not a "
                "bound. Use 'auto'."
            )

    def _without_a_rule(self) -> NotCertifiable | None:
        """Why the two-sided accountants cannot speak, if so."""
        try:
            self._histories()
        except NotCertifiable as reason:
            return reason
        return None

    def _other_upper(self, delta: float, reason: NotCertifiable | None = None) -> float:
        """The least of the classical bounds that speak about this event; if none does, ``reason`` is raised."""
        found: list[float] = []
        for method in ("renyi", "zcdp", "basic"):
            try:
                found.append(self._classical(method, delta))
            except (NotCertifiable, InvalidInput):
                continue
        if not found and reason is not None:
            raise reason
        return max(min(found, default=math.inf), 0.0)

    def _classical(self, method: str, delta: float) -> float:
        """An upper bound of ε(δ) by a method that knows no lower one."""
        found = guarded(lambda: _upper_only(method)(self.event, delta, self.unit))
        if math.isnan(found):
            raise NotCertifiable(f"method {method!r} left the range of its arithmetic.")
        return max(0.0, found)

    def _other_delta(self, epsilon: float) -> float:
        """A bound of δ(ε) from the Rényi divergence, or 1."""
        try:
            found = guarded(lambda: _delta_upper(self.event, epsilon, self.unit))
        except (NotCertifiable, InvalidInput):
            return 1.0
        return min(found, 1.0) if found >= 0 else 1.0


def _sought_on_grids(loss: ComposedLoss) -> bool:
    """Whether bounds may be found on grids: of several releases, unless all are Gaussian or one selection repeated."""
    if loss.mu is not None or sum(times for _, times in loss.parts) == 1:
        return False
    return len(loss.parts) > 1 or getattr(loss.parts[0][0], "bounded_range", None) is None


def _worst(found: Iterable[Bounds]) -> Bounds:
    """The largest lower and the largest upper bound of all histories."""
    known = list(found)
    if any(not b.lower <= b.upper for b in known):
        raise Contradiction(f"a lower bound exceeds its upper one: {known}.")
    return Bounds(max((b.lower for b in known), default=0.0), max((b.upper for b in known), default=0.0))


def _upper_only(method: str) -> Callable[[Event, float, Unit], float]:
    """The function that bounds ε(δ) by a method that knows no lower bound."""
    from discreet.accounting.upper import classical, renyi, zcdp

    methods: dict[str, Callable[[Event, float, Unit], float]] = {
        "renyi": renyi.epsilon_upper,
        "zcdp": zcdp.zcdp_epsilon_upper,
        "advanced": classical.advanced_epsilon_upper,
        "basic": classical.basic_epsilon_upper,
    }
    return methods[method]


def _delta_upper(event: Event, epsilon: float, unit: Unit) -> float:
    """A bound of δ(ε) from Rényi divergences."""
    from discreet.accounting.upper.renyi import delta_upper

    return delta_upper(event, epsilon, unit)


def _delta_from_epsilon(epsilon_of: Callable[[float], float], epsilon: float) -> float:
    """A δ whose proved ε is at most ``epsilon``, close to the least (a relative 1e-12 where ε falls smoothly in δ).

    Brent's method proposes log δ; what is returned was itself found to be enough, or is 1.
    """
    least = -745.0
    if epsilon_of(math.exp(least)) <= epsilon:
        return math.exp(least)

    def excess(log_delta: float) -> float:
        value = epsilon_of(math.exp(log_delta)) - epsilon if log_delta < 0 else -1.0
        return min(value, 1e9) or -1e-12  # enough is never 0: where ε is constant the least δ is sought

    log_delta, step = float(brentq(excess, least, 0.0, xtol=1e-13, rtol=1e-15)), 2e-13
    while log_delta < 0 and epsilon_of(math.exp(log_delta)) > epsilon:
        log_delta, step = log_delta + step, 2 * step
    return math.exp(min(log_delta, 0.0))


def _real(name: str, value: object, least: float, most: float) -> float:
    number = as_number(value)
    if number is None:
        raise InvalidInput(f"{name} must be a number, got {value!r}.")
    if math.isnan(number) or not least <= number <= most:
        raise InvalidInput(f"{name} must be in [{least:g}, {most:g}], got {value!r}.")
    return number


def curve(event: Event, adjacency: Adjacency, *, method: Method = "auto") -> Curve:
    """The privacy curve of ``event``; see `Curve`.

    Args:
        event: what was or will be released.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`; ε under the two are different quantities.
        method: as in `epsilon`.
    """
    return Curve(event, adjacency, method=method)


def epsilon(event: Event, delta: float, adjacency: Adjacency, *, method: Method = "auto") -> Bounds:
    """The least ε for which ``event`` is (ε, δ)-DP, proved from both sides.

    Args:
        event: what was or will be released. delta: in [0, 1]; with 0 the pure-DP ε, infinite where there is none.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`. method: ``"auto"`` (the tightest that is proved),
        ``"contour"``, ``"fourier"``, ``"gdp"``, or one of the bounds that hold
            from above only: ``"renyi"``, ``"zcdp"``, ``"advanced"``, ``"basic"`` (their ``lower`` is 0).

    Raises:
        InvalidInput: an argument is out of range.
        NotCertifiable: the chosen method proves nothing about this event.

    Example:
        >>> from discreet.events import Gaussian, Poisson, Repeat
        >>> bounds = epsilon(Repeat(Poisson(0.01, Gaussian(4.0)), 10_000), 1e-5, "add-remove")
        >>> bounds.lower <= 0.94686680 <= bounds.upper, bounds.width < 1e-7
        (True, True)
    """
    return curve(event, adjacency, method=method).epsilon(delta)


def delta(event: Event, epsilon: float, adjacency: Adjacency, *, method: Method = "auto") -> Bounds:
    """The least δ for which ``event`` is (ε, δ)-DP, proved from both sides.

    Args:
        event: what was or will be released.
        epsilon: at least 0.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        method: as in `epsilon`.

    Raises:
        InvalidInput: an argument is out of range.
        NotCertifiable: the chosen method proves nothing about this event.

    Example:
        >>> from discreet.events import PureDP
        >>> round(delta(PureDP(1.0), 0.5, "replace-one").upper, 6)
        0.287649
    """
    return curve(event, adjacency, method=method).delta(epsilon)
