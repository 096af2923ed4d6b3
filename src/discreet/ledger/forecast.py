"""What several charges would bring a ledger to, before the first of them is made."""

from __future__ import annotations

from discreet.events import Event
from discreet.ledger.adaptive import Entry
from discreet.ledger.base import Stated
from discreet.ledger.ledger import Ledger
from discreet.units import Unit

__all__ = ["spent_after"]


def spent_after(
    ledger: Ledger, event: Event, unit: Unit, stated: tuple[float, float] | None, times: int
) -> float | None:
    """The certified ε of all charges so far and of ``times`` more that are alike; None without a budget in this unit.

    Nothing is charged.

    Args:
        ledger: the ledger.
        event: one of the further charges.
        unit: the relation in which they would be made.
        stated: an (ε, δ) that each keeps.
        times: how many there would be.

    Example:
        >>> from discreet.events import PureDP
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6, adjacency="replace-one")
        >>> round(spent_after(ledger, PureDP(0.25), Unit("replace-one"), (0.25, 0.0), 3), 6)
        0.75
    """
    budget = ledger.budget
    if budget is None or budget.unit != unit:
        return None
    before = [Entry(charge.event, charge.ran or charge.event, charge.stated) for charge in ledger.history()]
    claim = None if stated is None else Stated.of(stated)
    return ledger._accountant.spent([*before, *[Entry(event, event, claim)] * times], budget).upper
