"""What charges cost when each may have been chosen after seeing what the earlier ones released.

The analyst who fits a second model has seen the first. Composing privacy curves assumes that the events were fixed
beforehand; here they are not, so charges are admitted by *filters*, rules that hold for fully adaptive choices. Each
rule turns the charges e_1, …, e_k so far into an ε that is valid at its share of the budget's δ:

- *Gaussian* (δ/4), when every leaf is a Gaussian release: ε of the composition. Gaussian releases add exactly in μ²,
  adaptively or not (Smith–Thakurta 2022; Koskela–Tobaben–Honkela 2023).
- *Rényi* (δ/4): Σ D_α(e_i), converted to ε, at the one order α that the budget fixes beforehand (Feldman–Zrnic 2021;
  conversion of Canonne–Kamath–Steinke 2020, proposition 12).
- *basic* (δ/2): Σ ε_i, each e_i at its own δ_i (Rogers–Roth–Ullman–Vadhan 2016). δ_i is what the event itself states as
  its failure probability, of which the sum must stay within δ/4, plus (δ/4)·6/(π i)², of which the sum always does.

The spent ε is the least of the three. **Claim**: if every charge was admitted by "least ≤ ε", all releases together are
(ε, δ)-DP. *Proof.* A rule's ε grows with every charge. So on the transcripts T_r at whose end rule r holds it held all
along, and there the run is the same as if rule r alone had filtered it: P(S ∩ T_r) ≤ e^ε·Q(S ∩ T_r) + δ_r. Assign each
transcript to one rule that holds at its end and sum: P(S) ≤ e^ε·Q(S) + Σ δ_r, with Σ δ_r = δ. ∎

A first charge is chosen before anything was seen. It is admitted on its own privacy curve at the whole of δ; when only
that admits it, no second charge ever passes a rule, and the run is that one event.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from discreet.accounting.bounds import Bounds
from discreet.accounting.fold import worlds
from discreet.errors import NotCertifiable
from discreet.events import ApproxDP, Event, Gaussian, compose
from discreet.ledger.base import Budget
from discreet.units import Unit

__all__ = ["Accountant", "Curve", "Divergence"]

Curve: TypeAlias = Callable[[Event, float, Unit], Bounds]
"""(event, δ, unit) → certified interval for ε."""

Divergence: TypeAlias = Callable[[Event, float, Unit], float]
"""(event, order α, unit) → upper bound on the Rényi divergence D_α between neighbours."""


def _certified(event: Event, delta: float, unit: Unit) -> Bounds:
    from discreet import accounting

    return accounting.epsilon(event, delta, unit)


def _renyi(event: Event, order: float, unit: Unit) -> float:
    from discreet.accounting import renyi

    return renyi.divergence(event, order, unit)


@dataclass(frozen=True)
class Accountant:
    """How a ledger turns events into ε.

    Args:
        epsilon: accounts for one event that was fixed beforehand; by default `discreet.accounting.epsilon`.
        divergence: its Rényi divergence; by default `discreet.accounting.renyi.divergence`.
    """

    epsilon: Curve = _certified
    divergence: Divergence = _renyi

    def spent(self, events: Sequence[Event], budget: Budget) -> Bounds:
        """ε, at the budget's δ, of charges made one after another, each possibly after seeing the earlier releases.

        Raises:
            NotCertifiable: no rule can bound these events.
        """
        if not events:
            return Bounds(0.0, 0.0)
        if len(events) == 1:
            return self.epsilon(events[0], budget.delta, budget.unit)
        found, reason = math.inf, None
        for rule in (self._gaussian, self._renyi, self._basic):
            try:
                found = min(found, rule(events, budget))
            except NotCertifiable as problem:
                reason = problem
        if math.isinf(found) and reason is not None:
            raise reason
        return Bounds(0.0, found)

    def _gaussian(self, events: Sequence[Event], budget: Budget) -> float:
        if budget.delta == 0 or not all(_is_gaussian(event) for event in events):
            return math.inf
        return self.epsilon(compose(events), budget.delta / 4, budget.unit).upper

    def _renyi(self, events: Sequence[Event], budget: Budget) -> float:
        if budget.delta == 0:
            return math.inf
        order = _order(budget)
        divergences = math.fsum(self.divergence(event, order, budget.unit) for event in events)
        share = math.log(budget.delta / 4)
        return max(0.0, divergences + math.log1p(-1 / order) - (share + math.log(order)) / (order - 1))

    def _basic(self, events: Sequence[Event], budget: Budget) -> float:
        stated = [_stated_delta(event) for event in events]
        if math.fsum(stated) > budget.delta / 4:
            return math.inf
        shares = [own + budget.delta / 4 * 6 / (math.pi * i) ** 2 for i, own in enumerate(stated, start=1)]
        return math.fsum(
            self.epsilon(event, share, budget.unit).upper for event, share in zip(events, shares, strict=True)
        )


def _stated_delta(event: Event) -> float:
    return max(
        math.fsum(count * leaf.delta for leaf, count in world.items() if isinstance(leaf, ApproxDP))
        for world in worlds(event)
    )


def _is_gaussian(event: Event) -> bool:
    return all(isinstance(leaf, Gaussian) for world in worlds(event) for leaf in world)


def _order(budget: Budget) -> float:
    """The best order for a Gaussian run that spends the whole budget: 1 + √(ln(1/δ)/ρ), ρ its zCDP parameter."""
    tail = math.log(4 / budget.delta)
    rho = (math.sqrt(tail + budget.epsilon) - math.sqrt(tail)) ** 2
    return 1.0 + math.sqrt(tail / rho)
