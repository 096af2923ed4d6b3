"""What charges cost when each may have been chosen after seeing what the earlier ones released.

The analyst who fits a second model has seen the first. Composing privacy curves assumes that the events were fixed
beforehand; here they are not, so charges are admitted by *filters*, rules that hold for fully adaptive choices. Each
rule turns the charges e_1, …, e_k so far into an ε that is valid at its share of the budget's δ:

- *Gaussian*, when every leaf is a Gaussian release: ε of the composition. Gaussian releases add exactly in μ²,
  adaptively or not (Smith–Thakurta 2022; Koskela–Tobaben–Honkela 2023).
- *Rényi*, a rule for each of several orders α that the budget fixes beforehand: Σ D_α(e_i), converted to ε
  (Feldman–Zrnic 2021; conversion of Canonne–Kamath–Steinke 2020, proposition 12). One order is the best for a Gaussian
  run that spends the whole budget; the others serve books of which little is spent.
- *basic*: Σ ε_i, each e_i at its own δ_i (Rogers–Roth–Ullman–Vadhan 2016). A charge that states (ε_i, δ_i), which was
  verified when it was charged, is taken at its word while Σ δ_i stays within the share for what is stated. For any
  other, δ_i is what the event itself states as its failure probability, out of the same share, plus 6/(π j)² of the
  share for what is unstated, j the next power of two from i on: the sum always stays within it.

The spent ε is the least of them all. **Claim**: if every charge was admitted by "least ≤ ε", all releases together are
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
the transcripts on which a Rényi rule holds of what was run. Outside G nothing else is ever charged: P(S ∖ G) ≤
e^ε·Q(S ∖ G) + δ'·P(Gᶜ). In G, assigned to one order each, what follows the first release has D_α less by that
release's, against a loss of at most ε₁, so that P(S ∩ G) ≤ e^ε·Q(S ∩ G) + Σ_α δ_α·e^{(α−1)(ε₁ − D_α)}·P(G). Together
that is at most δ if the factor before P(G) is; a count under Laplace noise has e^{(α−1)(ε₁ − D_α)} < 2. Where it is
not, such a charge stays the only one. (What is not Gaussian leaves no Gaussian rule; before a promise alone there is
nothing that G could depend on.)

All of this is kept in running sums (`Tally`), so that one more charge costs the same after a hundred thousand as after
ten. Those of D_α and μ² are rounded up at every addition. Those of stated ε_i and δ_i are exact, and rounded to the
nearest double once, when they are compared with the budget: ten charges of 0.1 are admitted to a budget of 1, which
they exceed by a relative 6e-17. The claim holds for ε and δ that are larger by a relative 2^−53.

The proof needs rules that stay the same. In a book that was begun when there was one Rényi order (formats 1 and 2),
some transcripts may end under a rule of that time and others under one of these; each set of rules has the whole of δ,
so that the releases of such a book are together (ε, 2δ)-DP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from discreet.accounting.bounds import Bounds, sum_up
from discreet.accounting.histories import histories
from discreet.errors import NotCertifiable
from discreet.events import ApproxDP, Event, Gaussian, Promise
from discreet.ledger.base import Budget, Stated
from discreet.units import Unit

__all__ = [
    "RESERVE",
    "Accountant",
    "Divergence",
    "Entry",
    "EpsilonFunction",
    "Order",
    "Shares",
    "gaussian_squared",
    "orders",
    "stated_delta",
]

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


_OTHERS = 6
"""Further Rényi orders, each twice the one before: 2⁶ times the order that suits a budget suits 2⁻¹² of it."""
_EVEN = Shares(1 / 4, 1 / 4, 1 / 4, 1 / 4)
_MOSTLY_STATED = Shares(1 - RESERVE, RESERVE / 2, RESERVE / 4, RESERVE / 4)
_ALL_STATED = Shares(1.0, 0.0, 0.0, 0.0)


@lru_cache(maxsize=1 << 12)
def _certified(event: Event, delta: float, unit: Unit) -> Bounds:
    from discreet import accounting

    return accounting.epsilon(event, delta, unit)


def _renyi(event: Event, order: float, unit: Unit) -> float:
    from discreet.accounting.upper import renyi

    return renyi.divergence(event, order, unit)


@lru_cache(maxsize=1 << 12)
def _keeps(event: Event, stated: Stated, unit: Unit) -> bool:
    from discreet import accounting
    from discreet.accounting.upper.classical import basic_epsilon_upper

    try:
        if promises(event, unit):
            return basic_epsilon_upper(event, stated.delta, unit) <= stated.epsilon
        # a calibrated plan is seen to keep its guarantee by one look at δ(ε); inverting the curve takes dozens
        if stated.delta > 0 and accounting.delta(event, stated.epsilon, unit).upper <= stated.delta:
            return True
        return accounting.epsilon(event, stated.delta, unit).upper <= stated.epsilon
    except NotCertifiable:
        return False


@dataclass(frozen=True)
class Accountant:
    """How a ledger turns events into ε.

    Args:
        epsilon: accounts for one event that was fixed beforehand; by default `discreet.accounting.epsilon`.
        divergence: its Rényi divergence; by default `discreet.accounting.upper.renyi.divergence`.
    """

    epsilon: EpsilonFunction = _certified
    divergence: Divergence = _renyi

    def keeps(self, event: Event, stated: Stated, unit: Unit) -> bool:
        """Whether ``event`` is certainly (ε, δ)-DP as ``stated``."""
        if self.epsilon is not _certified:
            return self.epsilon(event, stated.delta, unit).upper <= stated.epsilon
        return _keeps(event, stated, unit)

    def alone(self, entry: Entry, budget: Budget) -> Bounds:
        """ε of one charge at the whole of the budget's δ."""
        claim = entry.stated.epsilon if entry.stated and entry.stated.delta <= budget.delta else math.inf
        if math.isfinite(claim) and promises(entry.charged, budget.unit):
            return Bounds(0.0, claim)
        found = self.epsilon(entry.charged, budget.delta, budget.unit)
        return found if found.upper <= claim else Bounds(min(found.lower, claim), claim)

    def shares(self, first: Entry, budget: Budget) -> Shares:
        """Even, unless the first charge states an (ε, δ) that leaves something of δ: then basic composition has it.

        Where the first charge has no finite Rényi divergence, and never will have, the other rules are of no use.
        """
        if first.stated is None or first.stated.delta >= budget.delta:
            return _EVEN
        cost = math.inf
        with suppress(NotCertifiable):
            (order, *_) = orders(budget, _MOSTLY_STATED)
            cost = (
                0.0
                if promises(first.charged, budget.unit)
                else self.divergence(first.charged, order.alpha, budget.unit)
            )
        if math.isinf(cost):
            return _ALL_STATED
        return _MOSTLY_STATED if first.stated.delta <= (1 - RESERVE) * budget.delta else _EVEN

    def divergences(self, event: Event, orders: Sequence[Order], unit: Unit) -> tuple[float, ...]:
        """D_α of an event at each of the orders, infinite where none is known."""
        try:
            return tuple(self.divergence(event, one.alpha, unit) for one in orders)
        except NotCertifiable:
            return (math.inf,) * len(orders)


def gaussian_squared(event: Event, unit: Unit) -> float:
    """Σμ² of an event that is nothing but Gaussian releases, the largest over its histories; infinite for others."""
    if not _is_gaussian(event, unit):
        return math.inf
    return max(
        sum_up(
            (leaf.event.mu(leaf.unit) ** 2, count)
            for leaf, count in history.items()
            if isinstance(leaf.event, Gaussian)
        )
        for history in histories(event, unit)
    )


def stated_delta(event: Event, unit: Unit) -> float:
    """The failure probability that an event states itself."""
    return max(
        math.fsum(n * leaf.event.delta for leaf, n in history.items() if isinstance(leaf.event, ApproxDP | Promise))
        for history in histories(event, unit)
    )


def _is_gaussian(event: Event, unit: Unit) -> bool:
    return all(isinstance(leaf.event, Gaussian) for history in histories(event, unit) for leaf in history)


def promises(event: Event, unit: Unit) -> bool:
    """Whether an event contains a promise."""
    return any(isinstance(leaf.event, Promise) for history in histories(event, unit) for leaf in history)


class Order(NamedTuple):
    """One Rényi order, and its share of the budget's δ."""

    alpha: float
    share: float


def orders(budget: Budget, shares: Shares) -> tuple[Order, ...]:
    """The Rényi orders that a budget fixes: half of their share is for the one that suits it when it is spent.

    That is 1 + √(ln(1/δ)/ρ), the best for a Gaussian run of zCDP parameter ρ that spends the whole budget.
    """
    if budget.delta * shares.renyi == 0:
        return ()
    tail = -math.log(budget.delta * shares.renyi)
    rho = (math.sqrt(tail + budget.epsilon) - math.sqrt(tail)) ** 2
    whole = 1.0 + max(math.sqrt(tail / rho), 2.0**-20)  # an order is more than 1 in doubles, whatever the budget
    others = [Order(1.0 + (whole - 1) * 2.0**k, shares.renyi / 2 / _OTHERS) for k in range(1, _OTHERS + 1)]
    return (Order(whole, shares.renyi / 2), *others)
