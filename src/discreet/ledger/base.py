"""What a ledger keeps, and what a place to keep it must promise.

The rule of spending lives once, in `Ledger`. A *store* only keeps records, and promises one thing: between entering
and leaving a writing transaction nobody else writes, and leaving it cleanly means that the records are durable.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias

from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.floats import as_number
from discreet.units import Adjacency, Unit

__all__ = ["Budget", "Charge", "Past", "Records", "Stated", "Status", "Store"]

Status: TypeAlias = Literal["charged", "completed", "stopped-early"]


@dataclass(frozen=True)
class Budget:
    """The most that may ever be learned about one unit: (``epsilon``, ``delta``) under ``unit``'s relation."""

    epsilon: float
    delta: float
    unit: Unit

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "unit", replace(self.unit, enforced=False)
        )  # a ledger does not see whose rows are used
        if not 0 < self.epsilon < math.inf:
            raise InvalidInput(f"a budget's epsilon must be positive and finite, got {self.epsilon!r}.")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"a budget's delta must be in [0, 1), got {self.delta!r}.")

    @classmethod
    def of(cls, epsilon: float | None, delta: float | None, adjacency: Adjacency | None) -> Budget | None:
        """A budget from a user's words, which are three or none.

        Raises:
            InvalidInput: some are missing, or are no budget.
        """
        if epsilon is None and delta is None and adjacency is None:
            return None
        if epsilon is None or delta is None or adjacency is None:
            raise InvalidInput(
                "a budget is epsilon, delta and adjacency together, for instance epsilon=1.0, delta=1e-6, "
                f"adjacency='replace-one'; got epsilon={epsilon!r}, delta={delta!r}, adjacency={adjacency!r}."
            )
        found = as_number(epsilon), as_number(delta)
        if found[0] is None or found[1] is None:
            raise InvalidInput(f"a budget is two numbers, got epsilon={epsilon!r} and delta={delta!r}.")
        return cls(found[0], found[1], Unit.of(adjacency))

    def advice(self, unit: Unit) -> str:
        """What to change so that a run under ``unit``, which is another one than the budget's, can be charged to it."""
        if unit.relation != self.unit.relation:
            return f"Use adjacency={self.unit.relation!r}."
        rows = self.unit.rows_per_unit
        if unit.enforced:
            return f"Give persons rows up to {rows}: {{unit: {rows}}} in the schema, or rows_per_unit={rows}."
        return f"Use rows_per_unit={rows}."

    def __str__(self) -> str:
        return f"ε = {self.epsilon:g} at δ = {self.delta:g} ({self.unit})"


class Stated(NamedTuple):
    """(ε, δ) that a charge keeps as a whole, for the unit in which it was charged."""

    epsilon: float
    delta: float

    @classmethod
    def of(cls, stated: object) -> Stated:
        """A statement from a caller's pair of numbers.

        Raises:
            InvalidInput: it is no pair of an ε ≥ 0 and a δ in [0, 1].
        """
        pair = stated if isinstance(stated, tuple | list) and len(stated) == 2 else (None, None)
        epsilon, delta = map(as_number, pair)
        if epsilon is None or delta is None or not epsilon >= 0 or not 0 <= delta <= 1:
            raise InvalidInput(f"what a charge states is a pair (epsilon, delta) of numbers, got {stated!r}.")
        return cls(epsilon, delta)


@dataclass(frozen=True)
class Charge:
    """One line of the ledger: what was paid for, when, and how the run that paid for it ended.

    ``stated`` is the (ε, δ) that the charge was verified to keep. ``ran`` is, for a charge whose event ends in a
    `Promise`, what that was used for; None while it is not known.
    """

    id: int
    at: str
    event: Event
    unit: Unit
    note: str = ""
    status: Status = "charged"
    protective: bool = True
    stated: Stated | None = None
    ran: Event | None = None


class Past(NamedTuple):
    """A dataset's past in a few words, by which a ledger finds that its records were lost or exchanged.

    ``store`` names the place where the records were made (None for a file too old to have a name), ``last`` is the id
    of the last charge that is summed up, and ``digest`` a hash of all charges up to it. ``settled`` counts those that
    ended and those whose promise was used; it only grows, so that no promise is used again in an older copy.
    """

    store: str | None
    last: int
    digest: str
    settled: int = 0


class Records(Protocol):
    """The records inside one transaction."""

    def datasets(self) -> tuple[str, ...]:
        """The names of all datasets that the store knows."""

    def budget(self, dataset: str) -> Budget | None:
        """The dataset's budget; None when it is unknown or without a budget."""

    def create(self, dataset: str, budget: Budget | None) -> None:
        """Write a new dataset and its budget, which nothing changes afterwards."""

    def charges(self, dataset: str) -> tuple[Charge, ...]:
        """All charges of a dataset in the order of their arrival."""

    def past(self, dataset: str, last: int | None = None) -> Past:
        """The dataset's charges up to ``last``, or all of them, summed up."""

    def append(self, dataset: str, charge: Charge) -> int:
        """Write a charge and return the id that it was given (``charge.id`` is ignored)."""

    def mark(self, charge_id: int, status: Status) -> None:
        """Change a charge's status, and nothing else about it."""

    def fulfil(self, charge_id: int, ran: Event) -> None:
        """Write what a promise is used for, and change nothing else about its charge."""


class Store(Protocol):
    """A place where records are kept: memory, one SQLite file, …"""

    durable: bool
    """Whether the records outlive this process."""

    @property
    def url(self) -> str:
        """Where the records are."""

    def transaction(self, *, write: bool, create: bool = True) -> AbstractContextManager[Records]:
        """All-or-nothing access. With ``write`` it excludes every other writer, in this and any other process.

        Args:
            write: whether the records may be changed.
            create: whether a writer may begin where there are no records yet.

        Raises:
            LedgerUnavailable: the records cannot be read or written.
        """
