"""What charges cost when each may have been chosen after seeing what the earlier ones released.

The analyst who fits a second model has seen the first. Composing privacy curves assumes that the events were fixed
beforehand; here they are not, so charges are admitted by *filters*, rules that hold for fully adaptive choices. Each
rule turns the charges e_1, …, e_k so far into an ε that is valid at its share of the budget's δ:

- *Gaussian*, when every leaf is a Gaussian release: ε of the composition. Gaussian releases add exactly in μ²,
  adaptively or not (Smith–Thakurta 2022; Koskela–Tobaben–Honkela 2023).
- *Rényi*: Σ D_α(e_i), converted to ε, at the one order α that the budget fixes beforehand (Feldman–Zrnic 2021;
  conversion of Canonne–Kamath–Steinke 2020, proposition 12).
- *basic*: Σ ε_i, each e_i at its own δ_i (Rogers–Roth–Ullman–Vadhan 2016). A charge that states (ε_i, δ_i), which was
  verified when it was charged, is taken at its word while Σ δ_i stays within the share for what is stated. For any
  other, δ_i is what the event itself states as its failure probability, out of the same share, plus 6/(π i)² of the
  share for what is unstated, of which the sum always stays within it.

The spent ε is the least of the three. **Claim**: if every charge was admitted by "least ≤ ε", all releases together are
(ε, δ)-DP. *Proof.* A rule's ε grows with every charge. So on the transcripts T_r at whose end rule r holds it held all
along, and there the run is the same as if rule r alone had filtered it: P(S ∩ T_r) ≤ e^ε·Q(S ∩ T_r) + δ_r. Assign each
transcript to one rule that holds at its end and sum: P(S) ≤ e^ε·Q(S) + Σ δ_r, with Σ δ_r = δ. ∎

A first charge is chosen before anything was seen, so the shares may depend on it (`Shares`). It is admitted on its own
privacy curve at the whole of δ; when only that admits it, no second charge ever passes a rule, and the run is that one
event.

A *promise* is a charge for what is not yet known. The basic rule, and a first charge's curve, read what was promised.
The other two read what it was used for, once that is known and before it is released: to a filter it is one more event
that was chosen adaptively. Until then a promise has no finite cost under them.

A *first* promise that no rule admitted, only the whole of δ, is the exception: what it is used for may depend on what
was released with it, so that some transcripts would end with the whole of δ spent on it and others under a rule, and
the two add up to more than δ. Let what comes before the promise be ε₁-DP, ε₁ + ε' ≤ ε for a promise of (ε', δ'), and G
the transcripts on which the Rényi rule holds of what was run. Outside G nothing else is ever charged: P(S ∖ G) ≤
e^ε·Q(S ∖ G) + δ'·P(Gᶜ). In G what follows the first release has D_α less by that release's, against a loss of at most
ε₁, so that P(S ∩ G) ≤ e^ε·Q(S ∩ G) + δ_r·e^{(α−1)(ε₁ − D_α)}·P(G). Together that is at most δ if the factor before P(G)
is; a count under Laplace noise has e^{(α−1)(ε₁ − D_α)} < 2. Where it is not, such a charge stays the only one. (What is
not Gaussian leaves no Gaussian rule; before a promise alone there is nothing that G could depend on.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from discreet.accounting.bounds import Bounds
from discreet.accounting.histories import histories
from discreet.errors import NotCertifiable
from discreet.events import ApproxDP, Compose, Event, Gaussian, Promise, compose
from discreet.ledger.base import Budget, Stated
from discreet.units import Unit

__all__ = ["RESERVE", "Accountant", "Divergence", "Entry", "EpsilonFunction", "Shares"]

RESERVE = 1 / 16
"""The share of the budget's δ that is kept for the rules whose total is less than Σ ε_i.

Runs that leave this share of their own δ unused, which costs them 0.2 % of noise, are admitted whenever their ε's and
δ's add up to no more than the budget.
"""

EpsilonFunction: TypeAlias = Callable[[Event, float, Unit], Bounds]
"""(event, δ, unit) → certified interval for ε."""

Divergence: TypeAlias = Callable[[Event, float, Unit], float]
"""(event, order α, unit) → upper bound on the Rényi divergence D_α between neighbours."""


class Entry(NamedTuple):
    """One charge: as it was charged, as it was run where a promise has been used, and the (ε, δ) that it states."""

    charged: Event
    ran: Event
    stated: Stated | None = None


class Shares(NamedTuple):
    """How the budget's δ is divided, fixed by the budget and the first charge before anything is released."""

    stated: float
    unstated: float
    gaussian: float
    renyi: float


_EVEN = Shares(1 / 4, 1 / 4, 1 / 4, 1 / 4)
_MOSTLY_STATED = Shares(1 - RESERVE, RESERVE / 2, RESERVE / 4, RESERVE / 4)
_ALL_STATED = Shares(1.0, 0.0, 0.0, 0.0)


def _certified(event: Event, delta: float, unit: Unit) -> Bounds:
    from discreet import accounting

    return accounting.epsilon(event, delta, unit)


def _renyi(event: Event, order: float, unit: Unit) -> float:
    from discreet.accounting.upper import renyi

    return renyi.divergence(event, order, unit)


@dataclass(frozen=True)
class Accountant:
    """How a ledger turns events into ε.

    Args:
        epsilon: accounts for one event that was fixed beforehand; by default `discreet.accounting.epsilon`.
        divergence: its Rényi divergence; by default `discreet.accounting.upper.renyi.divergence`.
    """

    epsilon: EpsilonFunction = _certified
    divergence: Divergence = _renyi

    def spent(self, charges: Sequence[Event | Entry], budget: Budget) -> Bounds:
        """ε, at the budget's δ, of charges made one after another, each possibly after seeing the earlier releases.

        Raises:
            NotCertifiable: no rule can bound these events.
        """
        entries = [charge if isinstance(charge, Entry) else Entry(charge, charge) for charge in charges]
        if not entries:
            return Bounds(0.0, 0.0)
        if len(entries) == 1:
            return self._alone(entries[0], budget)
        shares = self._shares(entries[0], budget)
        ran, charged = [entry.ran for entry in entries], [entry.charged for entry in entries]
        found = math.inf
        for rule in (self._gaussian, self._renyi) if self._others_may_follow(entries[0], budget, shares) else ():
            with suppress(NotCertifiable):  # the other rule may apply, and basic composition always does
                found = min(found, rule(ran, budget, shares))
        try:
            found = min(found, self._basic(charged, budget, shares, [entry.stated for entry in entries]))
        except NotCertifiable:
            if math.isinf(found):
                raise
        return Bounds(0.0, found)

    def keeps(self, event: Event, stated: Stated, unit: Unit) -> bool:
        """Whether ``event`` is certainly (ε, δ)-DP as ``stated``."""
        from discreet import accounting
        from discreet.accounting.upper.classical import basic_epsilon_upper

        if self.epsilon is not _certified:
            return self.epsilon(event, stated.delta, unit).upper <= stated.epsilon
        try:
            if _promises(event, unit):
                return basic_epsilon_upper(event, stated.delta, unit) <= stated.epsilon
            # a calibrated plan is seen to keep its guarantee by one look at δ(ε); inverting the curve takes dozens
            if stated.delta > 0 and accounting.delta(event, stated.epsilon, unit).upper <= stated.delta:
                return True
            return accounting.epsilon(event, stated.delta, unit).upper <= stated.epsilon
        except NotCertifiable:
            return False

    def left(self, entries: Sequence[Entry], budget: Budget) -> Stated | None:
        """An (ε, δ) at which one more run, of `RESERVE` below that δ, is certainly admitted; None where there is none.

        It is what the charges leave when ε's and δ's are added up, all charges stating theirs.
        """
        claims = [entry.stated for entry in entries if entry.stated is not None]
        if not entries or len(claims) < len(entries):
            return None
        shares = self._shares(entries[0], budget)
        epsilon = budget.epsilon - math.fsum(claim.epsilon for claim in claims)
        delta = (budget.delta * shares.stated - math.fsum(claim.delta for claim in claims)) / (1 - RESERVE)
        if epsilon <= 1e-6 * budget.epsilon or delta < 0 or delta <= 1e-6 * budget.delta:
            return None
        return Stated(epsilon, min(delta, budget.delta * (1 - 1e-9)))

    def _alone(self, entry: Entry, budget: Budget) -> Bounds:
        claim = entry.stated.epsilon if entry.stated and entry.stated.delta <= budget.delta else math.inf
        if math.isfinite(claim) and _promises(entry.charged, budget.unit):
            return Bounds(0.0, claim)
        found = self.epsilon(entry.charged, budget.delta, budget.unit)
        return found if found.upper <= claim else Bounds(min(found.lower, claim), claim)

    def _shares(self, first: Entry, budget: Budget) -> Shares:
        """Even, unless the first charge states an (ε, δ) that leaves something of δ: then basic composition has it.

        Where the first charge has no finite Rényi divergence, and never will have, the other rules are of no use.
        """
        if first.stated is None or first.stated.delta >= budget.delta:
            return _EVEN
        cost = math.inf
        with suppress(NotCertifiable):
            promises = _promises(first.charged, budget.unit)
            cost = 0.0 if promises else self._renyi([first.charged], budget, _MOSTLY_STATED)
        if math.isinf(cost):
            return _ALL_STATED
        return _MOSTLY_STATED if first.stated.delta <= (1 - RESERVE) * budget.delta else _EVEN

    def _others_may_follow(self, first: Entry, budget: Budget, shares: Shares) -> bool:
        """Whether rules may read what a first charge's promise was used for; see the end of the module's docstring."""
        if not _promises(first.charged, budget.unit) or budget.delta * shares.renyi == 0:
            return True
        with suppress(NotCertifiable):
            if self._basic([first.charged], budget, shares, [first.stated]) <= budget.epsilon:
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
        order = _order(budget, shares)
        with suppress(NotCertifiable):
            surely = math.fsum(self.divergence(event, order, budget.unit) for event in before)
            return (order - 1) * (pure - surely) <= -math.log(shares.renyi)
        return False

    def _gaussian(self, events: Sequence[Event], budget: Budget, shares: Shares = _EVEN) -> float:
        if budget.delta * shares.gaussian == 0 or not all(_is_gaussian(event, budget.unit) for event in events):
            return math.inf
        return self.epsilon(compose(events), budget.delta * shares.gaussian, budget.unit).upper

    def _renyi(self, events: Sequence[Event], budget: Budget, shares: Shares = _EVEN) -> float:
        if budget.delta * shares.renyi == 0:
            return math.inf
        order = _order(budget, shares)
        divergences = math.fsum(self.divergence(event, order, budget.unit) for event in events)
        share = math.log(budget.delta * shares.renyi)
        return max(0.0, divergences + math.log1p(-1 / order) - (share + math.log(order)) / (order - 1))

    def _basic(
        self,
        events: Sequence[Event],
        budget: Budget,
        shares: Shares = _EVEN,
        stated: Sequence[Stated | None] | None = None,
    ) -> float:
        most = budget.delta * shares.stated
        epsilons: list[float] = []
        deltas = Fraction(0)
        for i, (event, claim) in enumerate(zip(events, stated or [None] * len(events), strict=True), start=1):
            if claim is not None and float(deltas + Fraction(claim.delta)) <= most:
                deltas += Fraction(claim.delta)
                epsilons.append(claim.epsilon)
                continue
            own = _stated_delta(event, budget.unit)
            deltas += Fraction(own)
            if float(deltas) > most:
                return math.inf
            share = own + budget.delta * shares.unstated * 6 / (math.pi * i) ** 2
            epsilons.append(self.epsilon(event, share, budget.unit).upper)
        return math.fsum(epsilons)


def _stated_delta(event: Event, unit: Unit) -> float:
    return max(
        math.fsum(n * leaf.event.delta for leaf, n in history.items() if isinstance(leaf.event, ApproxDP | Promise))
        for history in histories(event, unit)
    )


def _is_gaussian(event: Event, unit: Unit) -> bool:
    return all(isinstance(leaf.event, Gaussian) for history in histories(event, unit) for leaf in history)


def _promises(event: Event, unit: Unit) -> bool:
    return any(isinstance(leaf.event, Promise) for history in histories(event, unit) for leaf in history)


def _order(budget: Budget, shares: Shares = _EVEN) -> float:
    """The best order for a Gaussian run that spends the whole budget: 1 + √(ln(1/δ)/ρ), ρ its zCDP parameter."""
    tail = -math.log(budget.delta * shares.renyi)
    rho = (math.sqrt(tail + budget.epsilon) - math.sqrt(tail)) ** 2
    return 1.0 + math.sqrt(tail / rho)
