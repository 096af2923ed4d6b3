"""Whether charges may be made: every limit that they count against must cover them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, Context, Decimal

from discreet.errors import BudgetExceeded, InvalidInput
from discreet.events import Event
from discreet.floats import rounded_up
from discreet.ledger.adaptive import Entry
from discreet.ledger.book import Book, Limit
from discreet.units import Unit

__all__ = ["admit", "refuse_frozen"]


def admit(limits: Sequence[Limit], events: Sequence[Event | Entry], unit: Unit, place: str) -> None:
    """Refuse what some limit does not cover.

    Raises:
        BudgetExceeded: a budget does not cover all of ``events``, charged one after another.
        InvalidInput: another unit than a budget's.
    """
    for limit in limits:
        budget = limit.budget
        if unit != budget.unit:
            raise InvalidInput(
                f"{limit} has its budget under {budget.unit}; a run under {unit} cannot be charged to "
                f"it. {budget.advice(unit)} Nothing was charged and nothing was released."
            )
        total = limit.tally.spent(events).upper
        if total <= budget.epsilon:  # also refuses when the accountant says NaN
            continue
        spent, certain = limit.tally.spent().upper, limit.tally.left()
        remaining = max(0.0, budget.epsilon - spent)
        raise BudgetExceeded(
            f"{limit} has the budget {budget}. Spent: ε = {rounded_up(spent, 6)}; remaining: ε = {remaining:.6g}; with "
            f"this run it would be ε = {rounded_up(total, 6)}. Nothing was charged and nothing was released. Ask for a "
            "smaller epsilon"
            + (f" (up to {_down(certain[0])} at a delta of {_down(certain[1])} is certain)" if certain else "")
            + f"; or start over, with data about other people only, by a new ledger or dataset name ({place})."
        )


def refuse_frozen(book: Book, dataset: str, analyst: str) -> None:
    """Refuse charges to a frozen dataset, and by someone who was given no part of it.

    Raises:
        InvalidInput: so it is.
    """
    for name in book.lineage(dataset):
        note = book.datasets[name].frozen
        if note is not None:
            raise InvalidInput(
                f"dataset {name!r} is frozen{f' ({note})' if note else ''}. Nothing was charged and nothing was "
                "released. `discreet ledger thaw` allows charges again."
            )
    if analyst and not any(analyst in book.datasets[name].parts for name in book.lineage(dataset)):
        raise InvalidInput(
            f"{analyst!r} has no part of the budget of {dataset!r}. Nothing was charged and nothing was released. "
            "`discreet ledger allocate` gives one."
        )


def _down(value: float) -> str:
    """Four digits, rounded down: what is said to be left is left."""
    return f"{float(Decimal(value).normalize(Context(prec=4, rounding=ROUND_DOWN))):g}"
