"""The rule of spending: charge first, sample afterwards, never refund.

A ledger stores *events*, not ε. A charge is accepted when everything charged before and the new event together satisfy
ε(δ) ≤ budget, on certified upper bounds that hold for adaptively chosen charges (see `adaptive`), computed inside the
same transaction that writes it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

from discreet.errors import InvalidInput, PlanViolation
from discreet.events import ApproxDP, Compose, Event, Promise, compose
from discreet.ledger.adaptive import Accountant, Entry
from discreet.ledger.admission import admit, refuse_frozen
from discreet.ledger.base import Budget, Charge, ConnectionLost, Stated, Status
from discreet.ledger.book import Book, budget_to_dict, charges_of
from discreet.ledger.lines import START, Head, Lines, random_name
from discreet.ledger.managed import Managed
from discreet.ledger.places import store_at
from discreet.ledger.sqlite import require_readable
from discreet.text import checked_text
from discreet.units import Adjacency, Unit

__all__ = ["Ledger"]


class Ledger(Managed):
    """All that was ever released about one dataset, and the most that may be.

    The budget (``epsilon``, ``delta``, ``adjacency``) of a dataset is written once, when the dataset is first named;
    after that it can be read by opening the ledger without those arguments, and never changed. A ledger of a new
    dataset without ``epsilon`` only records.

    A ledger is one book of lines, each bound to the one before by a hash. A ledger remembers how far it has read: every
    use finds all lines that were there before, or is refused. A file that is lost, emptied, restored from an older copy
    or exchanged for another one is `LedgerUnavailable`, never a new budget. The memory travels with the ledger to other
    processes (`pickle`), and a ``witness`` keeps it between them.

    Copies of a ledger (`copy.copy`, `copy.deepcopy`, scikit-learn's ``clone``) are the same ledger: a budget cannot be
    multiplied by copying its owner.

    Args:
        url: a path such as ``"budget.db"``, ``"sqlite:///budget.db"``, which is the same,
            ``"postgresql://user@host/database"``, or ``"memory:"``.
        epsilon: the budget's ε.
        delta: the budget's δ.
        adjacency: the relation, or the `Unit`, in which the budget is stated.
        dataset: the name of the people whose privacy is spent. Two datasets that share a person share a name, or one is
            ``derived_from`` the other.
        derived_from: the datasets that the people of a new one come from: what is charged to it is charged to them.
        analyst: whose part of the budget is used; see `allocate`.
        witness: a second file, best on another disk, that holds the last line seen. A book that does not have it any
            more, such as a restored backup, is refused.
        accountant: turns events into ε; by default certified, and valid for adaptively chosen runs.

    Raises:
        InvalidInput: the arguments are incomplete, or contradict the budget that was set before.
        LedgerUnavailable: the file cannot be used, or has more than one name (hard links).

    Example:
        >>> from discreet.events import PureDP
        >>> from discreet.accounting.bounds import Bounds
        >>> pure = Accountant(epsilon=lambda event, delta, unit: Bounds(event.epsilon, event.epsilon))
        >>> ledger = Ledger("memory:", epsilon=1.0, delta=1e-6, adjacency="replace-one", accountant=pure)
        >>> ledger.charge(PureDP(0.7), "replace-one", note="first model")
        1
        >>> round(ledger.remaining(), 6)
        0.3
    """

    def __init__(
        self,
        url: str | os.PathLike[str] = "memory:",
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        adjacency: Adjacency | None = None,
        dataset: str = "default",
        derived_from: str | Sequence[str] = (),
        analyst: str = "",
        witness: str | os.PathLike[str] | None = None,
        accountant: Accountant | None = None,
    ) -> None:
        if not checked_text("dataset", dataset).strip():
            raise InvalidInput(f"dataset must be a name, got {dataset!r}.")
        wanted = Budget.of(epsilon, delta, adjacency)
        parents = (derived_from,) if isinstance(derived_from, str) else derived_from
        if not isinstance(parents, tuple | list):
            raise InvalidInput(f"derived_from must be a name or a list of names, got {derived_from!r}.")
        self._attach(
            dataset, checked_text("analyst", analyst), store_at(url), accountant or Accountant(), witness, START
        )
        self._open(wanted, tuple(checked_text("derived_from", parent) for parent in parents))

    def _open(self, wanted: Budget | None, parents: tuple[str, ...]) -> None:
        with self._lines(write=False):
            known = self.dataset in self._book.datasets
        if not known and wanted is None and not parents:
            self._refuse_a_stranger()
            return  # written, without a budget, by the first charge
        if not known:
            with self._lines(write=True) as lines:
                if self.dataset not in self._book.datasets:
                    self._create(lines, wanted, parents)
            with self._lines(write=False):
                pass
        facts = self._book.datasets[self.dataset]
        if (wanted is not None and wanted != facts.budget) or (parents and parents != facts.parents):
            budget = facts.budget
            raise InvalidInput(
                f"dataset {self.dataset!r} in {self.url} was opened "
                f"{'without a budget' if budget is None else f'with the budget {budget}'}"
                f"{f', derived from {facts.parents}' if facts.parents else ''}, which cannot be changed to "
                f"{wanted}{f', derived from {parents}' if parents else ''}. Open it without epsilon, delta and "
                "adjacency to go on as it is."
            )

    def _create(self, lines: Lines, budget: Budget | None, parents: tuple[str, ...]) -> None:
        for parent in parents:
            if parent not in self._book.datasets:
                raise InvalidInput(f"{self.url} has no dataset {parent!r}, from which {self.dataset!r} is derived.")
            for name in self._book.lineage(parent):
                limit = self._book.datasets[name].budget
                if budget is not None and limit is not None and limit.unit != budget.unit:
                    raise InvalidInput(f"dataset {name!r} has its budget under {limit.unit}, not under {budget.unit}.")
        self._write(lines, "dataset", {"budget": budget_to_dict(budget), "parents": list(parents)})

    def _refuse_a_stranger(self) -> None:
        # A misspelt name would otherwise be a second, unlimited budget for the same people.
        if self._book.datasets:
            known = ", ".join(map(repr, self._book.datasets))
            raise InvalidInput(
                f"{self.url} has no dataset {self.dataset!r}; it has {known}. To add one, say "
                "its budget: epsilon, delta and adjacency."
            )

    @staticmethod
    def datasets(url: str | os.PathLike[str]) -> tuple[str, ...]:
        """The names of all datasets that the ledger at ``url`` knows, in the order of their arrival."""
        store, book = store_at(url), Book(Accountant())
        with store.transaction(write=False) as lines:
            book.follow(lines, store.url)
        return tuple(book.datasets)

    def charge(
        self,
        event: Event,
        unit: Adjacency,
        *,
        note: str = "",
        protective: bool = True,
        stated: tuple[float, float] | None = None,
        key: str | None = None,
    ) -> int:
        """Pay for ``event`` before it happens. When this returns the charge is durable; nothing is ever refunded.

        An event that ends in a `Promise` is paid for before it is known what the promise will be used for: `fulfil`.

        Args:
            event: everything that is about to be released.
            unit: the relation in which it will be released; it must be the budget's.
            note: a line for the history. It must not contain data.
            protective: False for a run with a user's seed, whose noise is not private.
            stated: an (ε, δ) that the event keeps. It is verified, and where it holds the charge counts as no more:
                charges whose stated ε's and δ's add up to no more than the budget are admitted.
            key: names this release. When the outcome of a charge is unknown, because a connection broke, the same call
                with the same key pays once. It is for retries *before* anything is sampled: one charge pays for one
                release.

        Returns:
            The charge's id, for `fulfil` and `release`.

        Raises:
            BudgetExceeded: the budget does not cover it.
            InvalidInput: another unit, a statement that is no (ε, δ), a key that paid for something else, a frozen
                dataset, or an unprotective run in a durable ledger.
            LedgerUnavailable: the charge cannot be written.
        """
        if not isinstance(event, Event):
            raise InvalidInput(f"a ledger is charged with events, got {event!r}.")
        unit = Unit.of(unit)
        if self.durable and not protective:
            raise InvalidInput(
                f"a run with a seed (random_state) protects nobody, so {self.url} does not take it. Remove the seed, "
                "or use Ledger('memory:') for experiments. Nothing was charged and nothing was released."
            )
        note = checked_text("a charge's note", str(note))
        stated = None if stated is None else Stated.of(stated)
        if self.durable:
            require_readable(event)
        key = random_name() if key is None else checked_text("a charge's key", key)
        try:
            return self._charge_once(event, unit, note, protective, stated, key)
        except ConnectionLost:  # whether it was written is unknown: the key tells
            return self._charge_once(event, unit, note, protective, stated, key)

    def _charge_once(
        self, event: Event, unit: Unit, note: str, protective: bool, stated: Stated | None, key: str
    ) -> int:
        with self._lines(write=True) as lines:
            paid = lines.keyed(key)
            if paid is not None:
                return self._paid_before(lines, paid.charge or 0, event, unit)
            return self._charge(lines, event, unit, note, protective, stated, key)

    def _charge(
        self, lines: Lines, event: Event, unit: Unit, note: str, protective: bool, stated: Stated | None, key: str
    ) -> int:  # fmt: skip
        if self.dataset not in self._book.datasets:
            self._refuse_a_stranger()
            self._write(lines, "dataset", {"budget": None, "parents": []})
        refuse_frozen(self._book, self.dataset, self.analyst)
        limits = self._book.limits(self.dataset, self.analyst)
        claim = self._verified(event, unit, stated) if limits else None
        admit(limits, [Entry(event, event, claim)], unit, self.url)
        number = self._book.charges + 1
        facts = {
            "event": event.to_json(), "relation": unit.relation, "rows": unit.rows_per_unit, "note": note,
            "stated": claim, "analyst": self.analyst, "protective": protective,
        }  # fmt: skip
        if self._due_for_a_summary():
            self._write(lines, "summary", self._book.to_dict(), dataset="")
        self._write(lines, "charge", facts, number, key)
        return number

    def _paid_before(self, lines: Lines, number: int, event: Event, unit: Unit) -> int:
        (charge,) = charges_of(lines.about(number))
        paid = charge.event, charge.unit, charge.dataset, charge.analyst
        if paid != (event, unit, self.dataset, self.analyst) or charge.status != "charged":
            raise InvalidInput(
                f"the key of charge {number} has paid for something else, or its run has ended ({charge.status}). A "
                "key names one release. Nothing was charged and nothing was released."
            )
        return number

    def _verified(self, event: Event, unit: Unit, stated: tuple[float, float] | None) -> Stated | None:
        """The statement, if it holds; an event that is nothing but a statement makes it itself."""
        if stated is None:
            from discreet.accounting.upper.classical import approximate

            found = approximate(event, unit) if isinstance(event, ApproxDP | Promise) else None
            return None if found is None else Stated(*found)
        return Stated.of(stated) if self.keeps(event, unit, stated) else None

    def keeps(self, event: Event, unit: Unit, stated: tuple[float, float]) -> bool:
        """Whether ``event`` is certainly (ε, δ)-DP as ``stated``, by this ledger's accountant."""
        return self._accountant.keeps(event, Stated.of(stated), unit)

    def fulfil(self, charge_id: int, event: Event) -> None:
        """Say what the promise of a charge is used for, before anything of it is released. A promise is used once.

        Args:
            charge_id: an open charge whose event ends in a `Promise`.
            event: what is about to be released; as a whole it must keep the promised (ε, δ).

        Raises:
            PlanViolation: it does not, or the promise has been used. Nothing of it may be released.
            InvalidInput: there is no such open charge, or it promises nothing.
        """
        if not isinstance(event, Event):
            raise InvalidInput(f"a promise is used for an event, got {event!r}.")
        if self.durable:
            require_readable(event)
        with self._lines(write=False) as lines:
            charge = self._still_open(charge_id, lines)
        *before, promise = charge.event.events if isinstance(charge.event, Compose) else (charge.event,)
        if not isinstance(promise, Promise):
            raise InvalidInput(f"charge {charge_id} promises nothing: it paid for {charge.event}.")
        if not self._accountant.keeps(event, Stated(promise.epsilon, promise.delta), charge.unit):
            raise PlanViolation(
                f"the run costs more than ε = {promise.epsilon:.9g} at δ = {promise.delta:g} ({charge.unit}), which "
                f"charge {charge_id} promised. It was not run, and nothing of it was released; its charge stays."
            )
        with self._lines(write=True) as lines:
            if self._still_open(charge_id, lines).ran is not None:
                raise PlanViolation(f"the promise of charge {charge_id} has been used. Nothing more was released.")
            used_for = event.events if isinstance(event, Compose) else (event,)
            facts = {"event": compose([*before, *used_for]).to_json(), "analyst": charge.analyst}
            self._write(lines, "use", facts, charge_id)

    def _still_open(self, charge_id: int, lines: Lines) -> Charge:
        there = type(charge_id) is int and 0 < charge_id <= self._book.charges
        found = charges_of(lines.about(charge_id)) if there else []
        charge = next((one for one in found if one.dataset == self.dataset), None)
        if charge is None:
            raise InvalidInput(f"dataset {self.dataset!r} in {self.url} has no charge {charge_id!r}.")
        if charge.status != "charged":
            raise InvalidInput(f"charge {charge_id} is already {charge.status}; a charge ends once.")
        return charge

    def require(self, events: Sequence[Event | Entry], unit: Adjacency) -> None:
        """Refuse what `charge` would refuse, without charging: for runs whose first charge is not their last.

        Raises:
            BudgetExceeded: the budget does not cover all of ``events``, charged one after another.
            InvalidInput: another unit than the budget's.
        """
        with self._lines(write=False):
            refuse_frozen(self._book, self.dataset, self.analyst)
            admit(self._book.limits(self.dataset, self.analyst), events, Unit.of(unit), self.url)

    def release(self, charge_id: int, status: Status = "completed") -> None:
        """Record how a charged run ended: ``"completed"``, or ``"stopped-early"``. What it paid stays paid.

        Raises:
            InvalidInput: there is no such charge that is still open.
        """
        if status not in ("completed", "stopped-early"):
            raise InvalidInput(f"a run ends 'completed' or 'stopped-early', got {status!r}.")
        with self._lines(write=True) as lines:
            self._still_open(charge_id, lines)
            self._write(lines, "end", {"status": status}, charge_id)

    def __repr__(self) -> str:
        facts = self._book.datasets.get(self.dataset)
        budget = None if facts is None else facts.budget
        return f"Ledger({self.url!r}, dataset={self.dataset!r}, budget={'none' if budget is None else str(budget)})"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.durable:
            _refuse_pickling()
        witness = None if self._witness is None else str(self._witness.path)
        return _reopen, (self._store.address, self.dataset, self.analyst, self._accountant, witness, self._seen)


def _refuse_pickling() -> NoReturn:
    raise InvalidInput(
        "a ledger in memory cannot be sent to another process: each copy could spend the whole budget. "
        "Use Ledger('sqlite:///budget.db', …)."
    )


def _reopen(
    address: str, dataset: str, analyst: str, accountant: Accountant, witness: str | None, seen: Head
) -> Ledger:
    """The ledger with what it has seen. Its file is read on first use: a model may be copied without its ledger."""
    ledger = Ledger.__new__(Ledger)
    ledger._attach(dataset, analyst, store_at(address), accountant, witness, seen)
    return ledger
