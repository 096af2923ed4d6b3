"""What a ledger keeps, and what a place to keep it must promise.

The rule of spending lives once, in `Ledger`. A *store* only keeps lines, and promises one thing: between entering
and leaving a writing transaction nobody else writes, and leaving it cleanly means that the new lines are durable.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, TypeAlias

from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.events import Event
from discreet.floats import as_number
from discreet.ledger.lines import Lines
from discreet.units import Adjacency, Unit

__all__ = ["Budget", "Charge", "ConnectionLost", "Stated", "Status", "Store"]

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

    def has_part(self, part: Budget) -> bool:
        """Whether ``part`` is in the same unit and no larger."""
        return part.unit == self.unit and part.epsilon <= self.epsilon and part.delta <= self.delta

    def advice(self, unit: Unit) -> str:
        """What to change so that a run under ``unit``, which is another one than the budget's, can be charged to it."""
        if unit.relation != self.unit.relation:
            return f"Use adjacency={self.unit.relation!r}."
        rows = self.unit.rows_per_unit
        persons = f"give persons rows up to {rows}: {{unit: {rows}}} in the schema, or rows_per_unit={rows}."
        if unit.enforced and unit.rows_per_unit == 1:
            return (
                "A network makes one example of all rows of a person, so that its budget is one for 1 row a unit "
                "(rows_per_unit=1), whatever the schema says; a dataset of the same people with such a budget adds to "
                f"this one, so give each a part of what you mean to spend. For other models {persons}"
            )
        if unit.enforced:
            return persons[0].upper() + persons[1:]
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
    `Promise`, what that was used for; None while it is not known. ``dataset`` is the one that was named, of which this
    may be an ancestor, and ``analyst`` whose part of the budget was used.
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
    dataset: str = ""
    analyst: str = ""


class ConnectionLost(LedgerUnavailable):
    """A store's server went away; whether the last line was written is not known to this client."""


class Store(Protocol):
    """A place where a book is kept: memory, one SQLite file, a PostgreSQL server."""

    durable: bool
    """Whether the book outlives this process."""

    @property
    def url(self) -> str:
        """Where the book is, without passwords."""

    @property
    def address(self) -> str:
        """What opens the same store again."""

    def transaction(self, *, write: bool, create: bool = True) -> AbstractContextManager[Lines]:
        """All-or-nothing access. With ``write`` it excludes every other writer, in this and any other process.

        Args:
            write: whether lines may be added.
            create: whether a writer may begin where there is no book yet.

        Raises:
            LedgerUnavailable: the book cannot be read or written.
        """
