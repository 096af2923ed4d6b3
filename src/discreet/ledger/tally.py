"""Running sums of what was charged under one budget: see `adaptive` for the rules and their proof."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from discreet.accounting.bounds import Bounds
from discreet.accounting.histories import histories
from discreet.errors import NotCertifiable
from discreet.events import Compose, Event, Gaussian, Promise, compose, from_json
from discreet.ledger.adaptive import (
    RESERVE,
    Accountant,
    Entry,
    Shares,
    gaussian_squared,
    orders,
    promises,
    stated_delta,
)
from discreet.ledger.base import Budget, Stated

__all__ = ["Tally"]


@dataclass
class _Sums:
    """What the rules need to know of all charges. Fractions are exact; floats are rounded up at each addition."""

    count: int = 0
    basic: Fraction | None = Fraction(0)  # None: the rule says nothing
    deltas: Fraction = Fraction(0)
    divergences: tuple[float, ...] = ()
    squared: float = 0.0
    claimed: Fraction = Fraction(0)
    claimed_deltas: Fraction = Fraction(0)
    unclaimed: bool = False


@dataclass
class Tally:
    """What was charged under one budget, ready for the next charge.

    Args:
        accountant: turns events into ε.
        budget: the limit.
    """

    accountant: Accountant
    budget: Budget
    first: Entry | None = None
    _sums: _Sums = field(default_factory=_Sums)
    _open: dict[int, Event] = field(default_factory=dict)  # charges whose promise has not been used
    _known: dict[Event, tuple[tuple[float, ...], float]] = field(default_factory=dict)
    _shares_of: tuple[Entry, Shares] | None = None

    def add(self, number: int, entry: Entry) -> None:
        """Take in a charge."""
        if self.first is None:
            self.first = entry
            self._sums.divergences = (0.0,) * len(orders(self.budget, self._shares(entry)))
        self._add_basic(self._sums, entry)
        if entry.ran is entry.charged and _ends_in_a_promise(entry.charged):
            self._open[number] = entry.charged
        else:
            self._add_others(self._sums, entry.ran)

    def use(self, number: int, ran: Event) -> None:
        """Take in what the promise of a charge is used for."""
        if number in self._open:
            self._add_others(self._sums, ran)
            del self._open[number]

    def require_countable(self, number: int, entry: Entry | None, used: Event | None = None) -> None:
        """Raise now what taking in a charge, or the use of its promise, would raise once it is written.

        A line that cannot be read stops all spending from the book.
        """
        tried = replace(self, _sums=replace(self._sums), _open=dict(self._open))
        if entry is not None:
            tried.add(number, entry)
        if used is not None:
            tried.use(number, used)

    def spent(self, more: Sequence[Event | Entry] = ()) -> Bounds:
        """ε, at the budget's δ, of all charges and of ``more`` that would follow.

        Raises:
            NotCertifiable: no rule can bound these events.
        """
        further = [one if isinstance(one, Entry) else Entry(one, one) for one in more]
        if self.first is None and not further:
            return Bounds(0.0, 0.0)
        first = self.first or further[0]
        if self._sums.count + len(further) == 1:
            return self.accountant.alone(first, self.budget)
        shares = self._shares(first)
        sums = replace(self._sums)
        if self.first is None:
            sums.divergences = (0.0,) * len(orders(self.budget, shares))
        for entry in further:
            self._add_basic(sums, entry, shares)
            self._add_others(sums, entry.ran, shares)
        found = _as_float(sums.basic)
        if self._others_may_follow(first, shares):
            for event in self._open.values():
                self._add_others(sums, event, shares)
            found = min(found, self._gaussian(sums, shares), self._renyi(sums, shares))
        if math.isinf(found):
            self._require_finite([first, *further])
        return Bounds(0.0, found)

    def basic(self, entries: Sequence[Entry]) -> float:
        """What the basic rule alone makes of charges that begin a book; infinite where it says nothing."""
        sums, shares = _Sums(), self._shares(entries[0])
        for entry in entries:
            self._add_basic(sums, entry, shares)
        return _as_float(sums.basic)

    def left(self) -> Stated | None:
        """An (ε, δ) at which one more run, of `RESERVE` below that δ, is certainly admitted; None where there is none.

        It is what the charges leave when ε's and δ's are added up, all charges stating theirs.
        """
        if self.first is None or self._sums.unclaimed:
            return None
        budget, shares = self.budget, self._shares(self.first)
        epsilon = budget.epsilon - float(self._sums.claimed)
        delta = (budget.delta * shares.stated - float(self._sums.claimed_deltas)) / (1 - RESERVE)
        if epsilon <= 1e-6 * budget.epsilon or delta < 0 or delta <= 1e-6 * budget.delta:
            return None
        return Stated(epsilon, min(delta, budget.delta * (1 - 1e-9)))

    def _others_may_follow(self, first: Entry, shares: Shares) -> bool:
        """Whether rules may read what a first charge's promise was used for; see the end of `adaptive`'s docstring."""
        budget = self.budget
        if not promises(first.charged, budget.unit) or budget.delta * shares.renyi == 0:
            return True
        if self.basic([first]) <= budget.epsilon:
            return True
        *before, promise = first.charged.events if isinstance(first.charged, Compose) else (first.charged,)
        if not isinstance(promise, Promise):
            return False
        from discreet.accounting.upper.stated import pure_epsilon

        pure = max(
            math.fsum(count * pure_epsilon(leaf.event, leaf.unit) for leaf, count in history.items())
            for history in histories(compose(before), budget.unit)
        )
        if not (pure + promise.epsilon <= budget.epsilon and promise.delta <= budget.delta):
            return False
        factor = 0.0
        with suppress(NotCertifiable):
            for order in orders(budget, shares):
                surely = math.fsum(self.accountant.divergence(event, order.alpha, budget.unit) for event in before)
                factor += order.share * math.exp(min((order.alpha - 1) * (pure - surely), 700.0))
            return factor <= 1
        return False

    def _shares(self, first: Entry) -> Shares:
        if self._shares_of is None or self._shares_of[0] != first:
            self._shares_of = (first, self.accountant.shares(first, self.budget))
            self._known = {}  # the orders follow from the shares
        return self._shares_of[1]

    def _add_basic(self, sums: _Sums, entry: Entry, shares: Shares | None = None) -> None:
        shares = shares or self._shares(self.first or entry)
        most = self.budget.delta * shares.stated
        sums.count += 1
        claim = entry.stated
        sums.unclaimed |= claim is None
        if claim is not None:
            sums.claimed += Fraction(claim.epsilon)
            sums.claimed_deltas += Fraction(claim.delta)
            if float(sums.deltas + Fraction(claim.delta)) <= most:
                sums.deltas += Fraction(claim.delta)
                sums.basic = None if sums.basic is None else sums.basic + Fraction(claim.epsilon)
                return
        own = stated_delta(entry.charged, self.budget.unit)
        sums.deltas += Fraction(own)
        if float(sums.deltas) > most:
            sums.basic = None
        if sums.basic is None:
            return
        place = 1 << (sums.count - 1).bit_length()
        share = own + self.budget.delta * shares.unstated * 6 / (math.pi * place) ** 2
        try:
            epsilon = self.accountant.epsilon(entry.charged, share, self.budget.unit).upper
        except NotCertifiable:
            epsilon = math.inf
        sums.basic = sums.basic + Fraction(epsilon) if math.isfinite(epsilon) else None

    def _add_others(self, sums: _Sums, event: Event, shares: Shares | None = None) -> None:
        if event not in self._known:
            shares = shares or self._shares(self.first)  # type: ignore[arg-type]
            at = orders(self.budget, shares)
            unit = self.budget.unit
            self._known[event] = self.accountant.divergences(event, at, unit), gaussian_squared(event, unit)
        divergences, squared = self._known[event]
        sums.divergences = tuple(_up(a + b) for a, b in zip(sums.divergences, divergences, strict=True))
        sums.squared = _up(sums.squared + squared)

    def _gaussian(self, sums: _Sums, shares: Shares) -> float:
        share = self.budget.delta * shares.gaussian
        if share == 0 or math.isinf(sums.squared):
            return math.inf
        if sums.squared == 0:
            return 0.0
        multiplier = self.budget.unit.sensitivity(1.0) / math.sqrt(sums.squared) * (1 - 1e-14)
        return self.accountant.epsilon(Gaussian(multiplier), share, self.budget.unit).upper

    def _renyi(self, sums: _Sums, shares: Shares) -> float:
        found = math.inf
        for order, total in zip(orders(self.budget, shares), sums.divergences, strict=True):
            alpha, log_share = order.alpha, math.log(self.budget.delta * order.share)
            value = total + math.log1p(-1 / alpha) - (log_share + math.log(alpha)) / (alpha - 1)
            found = min(found, max(0.0, value + 1e-13 * (1 - log_share)))
        return found

    def _require_finite(self, entries: Sequence[Entry]) -> None:
        """Say which event no rule can bound, where there is one."""
        for entry in entries:
            self.accountant.epsilon(entry.charged, self.budget.delta, self.budget.unit)

    # --- what a summary keeps -------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The sums as JSON can hold them, every bit kept."""
        sums = self._sums
        return {
            "first": None if self.first is None else _entry_to_dict(self.first),
            "count": sums.count,
            "basic": None if sums.basic is None else str(sums.basic),
            "deltas": str(sums.deltas),
            "divergences": [value.hex() for value in sums.divergences],
            "squared": sums.squared.hex(),
            "claimed": str(sums.claimed),
            "claimed_deltas": str(sums.claimed_deltas),
            "unclaimed": sums.unclaimed,
            "open": {str(number): event.to_json() for number, event in self._open.items()},
        }

    @classmethod
    def from_dict(cls, facts: dict[str, Any], accountant: Accountant, budget: Budget) -> Tally:
        """The tally that `to_dict` wrote."""
        first = facts["first"]
        found = cls(accountant, budget, None if first is None else _entry_from_dict(first))
        found._sums = _Sums(
            int(facts["count"]),
            None if facts["basic"] is None else Fraction(facts["basic"]),
            Fraction(facts["deltas"]),
            tuple(map(float.fromhex, facts["divergences"])),
            float.fromhex(facts["squared"]),
            Fraction(facts["claimed"]),
            Fraction(facts["claimed_deltas"]),
            bool(facts["unclaimed"]),
        )
        found._open = {int(number): from_json(text) for number, text in facts["open"].items()}
        return found


def _as_float(value: Fraction | None) -> float:
    return math.inf if value is None else float(value)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _ends_in_a_promise(event: Event) -> bool:
    return any(isinstance(part, Promise) for part in (event.events if isinstance(event, Compose) else (event,)))


def _entry_to_dict(entry: Entry) -> dict[str, Any]:
    return {"charged": entry.charged.to_json(), "ran": entry.ran.to_json(), "stated": entry.stated}


def _entry_from_dict(facts: dict[str, Any]) -> Entry:
    stated = facts["stated"]
    return Entry(from_json(facts["charged"]), from_json(facts["ran"]), None if stated is None else Stated(*stated))
