"""A book read from its first line to its last: datasets, their budgets, and what was charged to each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from discreet._version import __version__
from discreet.errors import DiscreetError, InvalidInput, LedgerUnavailable
from discreet.events import Event, from_json
from discreet.ledger.adaptive import Accountant, Entry
from discreet.ledger.base import Budget, Charge, Stated, Status
from discreet.ledger.lines import START, Head, Kind, Line, Lines
from discreet.ledger.tally import Tally
from discreet.units import Unit

__all__ = ["Book", "Facts", "Limit", "budget_from_dict", "budget_to_dict", "charges_of"]

_UNREADABLE = (
    DiscreetError, ValueError, TypeError, LookupError, AttributeError, RecursionError,
)  # fmt: skip
_event = lru_cache(maxsize=1 << 12)(from_json)  # weekly fits are the same event, year after year


@dataclass
class Facts:
    """What is known of one dataset besides its charges."""

    budget: Budget | None
    parents: tuple[str, ...] = ()
    frozen: str | None = None
    parts: dict[str, Budget] = field(default_factory=dict)


class Limit(NamedTuple):
    """One budget that a charge must stay within."""

    dataset: str
    analyst: str
    budget: Budget
    tally: Tally

    def __str__(self) -> str:
        return f"dataset {self.dataset!r}" + (f", part of {self.analyst!r}," if self.analyst else "")


class Book:
    """What all lines up to ``head`` say."""

    def __init__(self, accountant: Accountant) -> None:
        self.accountant = accountant
        self.head = START
        self.charges = 0
        self.summarised = 0
        self.datasets: dict[str, Facts] = {}
        self._tallies: dict[tuple[str, str], Tally] = {}

    def follow(self, lines: Lines, place: str) -> None:
        """Read on to the end of the book, of which all that was read before must be there.

        Raises:
            LedgerUnavailable: a line is not as it was written.
        """
        if self.head == START:
            self._skip_to_a_summary(lines)
        for line in lines.after(self.head.number):
            self.take(line, place)

    def take(self, line: Line, place: str) -> None:
        """Read one line."""
        about = f"line {line.number}" + (f" (charge {line.charge})" if line.charge else "")
        try:
            if not line.follows(self.head):
                raise InvalidInput("it does not follow from the line before")
            if line.kind not in get_args(Kind):
                raise InvalidInput("there is no such kind of line")
            reader: Callable[[Line, dict[str, Any]], None] = getattr(self, f"_{line.kind}")
            reader(line, json.loads(line.body))
        except _UNREADABLE as problem:
            raise LedgerUnavailable(
                f"{about} of the ledger {place} cannot be understood ({problem}). What it spent is unknown, so nothing "
                "more can be charged and nothing was released; restore the ledger from its backup."
            ) from problem
        self.head = line.head

    def lineage(self, dataset: str) -> tuple[str, ...]:
        """A dataset and all that it was derived from."""
        found: list[str] = []
        queue = [dataset]
        while queue:
            name = queue.pop(0)
            if name not in found and name in self.datasets:
                found.append(name)
                queue += self.datasets[name].parents
        return tuple(found)

    def descendants(self, dataset: str) -> tuple[str, ...]:
        """A dataset and all that were derived from it."""
        return tuple(name for name in self.datasets if dataset in self.lineage(name)) or (dataset,)

    def limits(self, dataset: str, analyst: str = "") -> list[Limit]:
        """Every budget that a charge to a dataset counts against."""
        found = []
        for name in self.lineage(dataset):
            for part in ("", analyst) if analyst else ("",):
                budget = self.datasets[name].parts.get(part) if part else self.datasets[name].budget
                if budget is not None:
                    found.append(Limit(name, part, budget, self._tally(name, part, budget)))
        return found

    def _tally(self, dataset: str, analyst: str, budget: Budget) -> Tally:
        return self._tallies.setdefault((dataset, analyst), Tally(self.accountant, budget))

    # --- one method for each kind of line -------------------------------------------------------------------------

    def _store(self, line: Line, body: dict[str, Any]) -> None:
        """Take the name of the book, by which the digests of all further lines differ from those of others."""

    def _dataset(self, line: Line, body: dict[str, Any]) -> None:
        parents = tuple(body.get("parents", ()))
        if line.dataset in self.datasets:
            raise InvalidInput(f"dataset {line.dataset!r} has its budget already")
        if unknown := [name for name in parents if name not in self.datasets]:
            raise InvalidInput(f"there is no dataset {unknown[0]!r} that it could be derived from")
        self.datasets[line.dataset] = Facts(budget_from_dict(body["budget"]), parents)

    def _allocation(self, line: Line, body: dict[str, Any]) -> None:
        part, facts, name = budget_from_dict(body["budget"]), self.datasets[line.dataset], body["name"]
        if part is None or facts.budget is None or not facts.budget.has_part(part):
            raise InvalidInput(f"{part} is not a part of {facts.budget}")
        if not isinstance(name, str) or name in facts.parts:
            raise InvalidInput(f"{name!r} has a part already, or is no name")
        facts.parts[name] = part

    def _freeze(self, line: Line, body: dict[str, Any]) -> None:
        self.datasets[line.dataset].frozen = str(body["note"])

    def _thaw(self, line: Line, body: dict[str, Any]) -> None:
        self.datasets[line.dataset].frozen = None

    def _charge(self, line: Line, body: dict[str, Any]) -> None:
        charge = charge_from(line, body)
        if charge.id != self.charges + 1:
            raise InvalidInput(f"it is not charge {self.charges + 1}")
        if line.dataset not in self.datasets:
            raise InvalidInput(f"there is no dataset {line.dataset!r}")
        for limit in self.limits(line.dataset, charge.analyst):
            if charge.unit != limit.budget.unit:
                raise InvalidInput(f"the budget is under {limit.budget.unit}, the charge under {charge.unit}")
            limit.tally.add(charge.id, Entry(charge.event, charge.event, charge.stated))
        self.charges = charge.id

    def _use(self, line: Line, body: dict[str, Any]) -> None:
        self._require_charge(line)
        ran = _event(body["event"])
        for limit in self.limits(line.dataset, body.get("analyst", "")):
            limit.tally.use(line.charge or 0, ran)

    def _end(self, line: Line, body: dict[str, Any]) -> None:
        """How a run ended changes nothing that was paid."""
        self._require_charge(line)
        if body["status"] not in get_args(Status):
            raise InvalidInput(f"no run ends {body['status']!r}")

    def _require_charge(self, line: Line) -> None:
        if not 0 < (line.charge or 0) <= self.charges:
            raise InvalidInput(f"there is no charge {line.charge} before it")

    def _summary(self, line: Line, body: dict[str, Any]) -> None:
        """For readers who begin here."""
        self.summarised = line.number

    # --- summaries ------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All that was read, for a line from which others can go on."""
        return {
            "version": __version__,
            "charges": self.charges,
            "datasets": [
                {
                    "name": name,
                    "budget": budget_to_dict(facts.budget),
                    "parents": list(facts.parents),
                    "frozen": facts.frozen,
                    "parts": {part: budget_to_dict(budget) for part, budget in facts.parts.items()},
                }
                for name, facts in self.datasets.items()
            ],
            "tallies": [[*key, tally.to_dict()] for key, tally in self._tallies.items()],
        }

    def _skip_to_a_summary(self, lines: Lines) -> None:
        """Begin at the last summary; one that another version or another accountant made is not used."""
        line = lines.last_summary()
        if line is None or self.accountant != Accountant():
            return
        before = lines.digest(line.number - 1)
        if before is None or not line.follows(Head(line.number - 1, before)):
            return
        try:
            self._read_summary(json.loads(line.body))
        except _UNREADABLE:
            self.charges, self.datasets, self._tallies = 0, {}, {}
            return
        self.head, self.summarised = line.head, line.number

    def _read_summary(self, facts: dict[str, Any]) -> None:
        if facts["version"] != __version__:
            raise InvalidInput("a summary of another version")
        for one in facts["datasets"]:
            parts = {name: budget for name, kept in one["parts"].items() if (budget := budget_from_dict(kept))}
            budget = budget_from_dict(one["budget"])
            self.datasets[one["name"]] = Facts(budget, tuple(one["parents"]), one["frozen"], parts)
        for dataset, analyst, kept in facts["tallies"]:
            known = self.datasets[dataset]
            limit = known.parts[analyst] if analyst else known.budget
            if limit is None:
                raise InvalidInput("a tally without a budget")
            self._tallies[dataset, analyst] = Tally.from_dict(kept, self.accountant, limit)
        self.charges = int(facts["charges"])


def budget_to_dict(budget: Budget | None) -> dict[str, Any] | None:
    """A budget for a line's body."""
    if budget is None:
        return None
    unit = budget.unit
    return {"epsilon": budget.epsilon, "delta": budget.delta, "relation": unit.relation, "rows": unit.rows_per_unit}


def budget_from_dict(facts: dict[str, Any] | None) -> Budget | None:
    """The budget in a line's body."""
    if facts is None:
        return None
    return Budget.of(facts["epsilon"], facts["delta"], Unit(facts["relation"], facts["rows"]))


def charge_from(line: Line, body: dict[str, Any]) -> Charge:
    """The charge that a line records."""
    stated = body["stated"]
    if not all(isinstance(body.get(name, ""), str) for name in ("note", "analyst")):
        raise InvalidInput("its note and its analyst are no texts")
    return Charge(
        int(line.charge or 0), line.at, _event(body["event"]), Unit(body["relation"], body["rows"]), body["note"],
        protective=body.get("protective", True), stated=None if stated is None else Stated.of(stated),
        dataset=line.dataset, analyst=body.get("analyst", ""),
    )  # fmt: skip


def charges_of(lines: Iterator[Line] | list[Line]) -> list[Charge]:
    """The charges that these lines are about, as they are now.

    Raises:
        LedgerUnavailable: a line is about a charge that is not among them.
    """
    found: dict[int, dict[str, Any]] = {}
    charges: dict[int, Charge] = {}
    for line in lines:
        body, number = json.loads(line.body), int(line.charge or 0)
        if line.kind == "charge":
            charges[number] = charge_from(line, body)
            found[number] = {}
        elif number not in found:
            raise LedgerUnavailable(f"line {line.number} of the ledger is about charge {number}, of another dataset.")
        elif line.kind == "use":
            found[number]["ran"] = _event(body["event"])
        elif line.kind == "end":
            found[number]["status"] = body["status"]
    return [_changed(charges[number], changes) for number, changes in found.items()]


def _changed(charge: Charge, changes: dict[str, Event | str]) -> Charge:
    return replace(charge, **changes) if changes else charge  # type: ignore[arg-type]
