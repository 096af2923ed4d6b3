"""The rule of spending: charge first, sample afterwards, never refund.

A ledger stores *events*, not ε. A charge is accepted when everything charged before and the new event together satisfy
ε(δ) ≤ budget, on certified upper bounds that hold for adaptively chosen charges (see `adaptive`), computed inside the
same transaction that writes it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import ROUND_DOWN, Context, Decimal
from typing import Any, NoReturn

from discreet.accounting.bounds import Bounds
from discreet.errors import BudgetExceeded, InvalidInput, PlanViolation
from discreet.events import ApproxDP, Compose, Event, Promise, compose
from discreet.ledger.adaptive import RESERVE, Accountant, Entry
from discreet.ledger.base import Budget, Charge, Records, Stated, Status, Store
from discreet.ledger.memory import MemoryStore
from discreet.ledger.seen import Seen
from discreet.ledger.sqlite import SQLiteStore, require_readable
from discreet.text import checked_path, checked_text, shortened
from discreet.units import Adjacency, Unit

__all__ = ["Ledger"]


class Ledger:
    """All that was ever released about one dataset, and the most that may be.

    The budget (``epsilon``, ``delta``, ``adjacency``) of a dataset is written once, when the dataset is first named;
    after that it can be read by opening the ledger without those arguments, and never changed. A ledger of a new
    dataset without ``epsilon`` only records.

    A ledger remembers what it has read. Every use of its file finds the same budget and all charges that were there
    before, or is refused: a file that is lost, emptied, restored from an older copy or exchanged for another one is
    `LedgerUnavailable`, never a new budget. The memory travels with the ledger to other processes (`pickle`).

    Copies of a ledger (`copy.copy`, `copy.deepcopy`, scikit-learn's ``clone``) are the same ledger: a budget cannot be
    multiplied by copying its owner.

    Args:
        url: a path such as ``"budget.db"``, ``"sqlite:///budget.db"``, which is the same, or ``"memory:"``.
        epsilon: the budget's ε.
        delta: the budget's δ.
        adjacency: the relation, or the `Unit`, in which the budget is stated.
        dataset: the name of the people whose privacy is spent. Two datasets that share a person share a name.
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
        accountant: Accountant | None = None,
    ) -> None:
        if not checked_text("dataset", dataset).strip():
            raise InvalidInput(f"dataset must be a name, got {dataset!r}.")
        wanted = Budget.of(epsilon, delta, adjacency)
        self.dataset = dataset
        self._store = _store(url)
        self._accountant = Accountant() if accountant is None else accountant
        self._seen: Seen | None = None
        self._open(wanted)

    @contextmanager
    def _records(self, *, write: bool) -> Iterator[Records]:
        """The store's records, after a check that nothing of what was seen before is missing."""
        seen = self._seen  # before the transaction begins: what other threads see meanwhile may not be in it
        with self._store.transaction(write=write, create=seen is None) as records:
            if seen is not None:
                seen.require(records, self.dataset, self.url)
            yield records
            if self.dataset in records.datasets():
                seen = Seen(records.budget(self.dataset), records.past(self.dataset))
        self._seen = seen

    def _open(self, wanted: Budget | None) -> None:
        with self._records(write=False) as records:
            known, budget = records.datasets(), records.budget(self.dataset)
        if self.dataset not in known:
            if wanted is None:
                self._refuse_a_stranger(known)
                return  # written, without a budget, by the first charge
            with self._records(write=True) as records:
                if self.dataset not in records.datasets():
                    records.create(self.dataset, wanted)
                budget = records.budget(self.dataset)
        if wanted is not None and wanted != budget:
            raise InvalidInput(
                f"dataset {self.dataset!r} in {self.url} was opened "
                f"{'without a budget' if budget is None else f'with the budget {budget}'}, which cannot be changed to "
                f"{wanted}. Open it without epsilon, delta and adjacency to go on as it is."
            )

    def _refuse_a_stranger(self, known: tuple[str, ...]) -> None:
        # A misspelt name would otherwise be a second, unlimited budget for the same people.
        if known:
            raise InvalidInput(
                f"{self.url} has no dataset {self.dataset!r}; it has {', '.join(map(repr, known))}. To add one, say "
                "its budget: epsilon, delta and adjacency."
            )

    @staticmethod
    def datasets(url: str | os.PathLike[str]) -> tuple[str, ...]:
        """The names of all datasets that the ledger at ``url`` knows, in the order of their arrival."""
        with _store(url).transaction(write=False) as records:
            return records.datasets()

    @property
    def url(self) -> str:
        """Where the records are kept."""
        return self._store.url

    @property
    def durable(self) -> bool:
        """Whether the records outlive this process."""
        return self._store.durable

    @property
    def budget(self) -> Budget | None:
        """The dataset's budget; None when it only records."""
        with self._records(write=False) as records:
            return records.budget(self.dataset)

    def portion(self, delta: float) -> float:
        """The part of its δ that a run should use: then runs whose ε's and δ's add up to the budget are all admitted.

        The budget keeps the rest for rules by which runs add up to less than the sum of their ε's. A run that takes
        all of the budget's δ leaves nothing to add up, and may use all of it.
        """
        budget, delta = self.budget, Stated.of((0.0, delta)).delta
        return delta if budget is None or delta >= budget.delta else delta * (1 - RESERVE - 1e-9)

    def charge(
        self,
        event: Event,
        unit: Adjacency,
        *,
        note: str = "",
        protective: bool = True,
        stated: tuple[float, float] | None = None,
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

        Returns:
            The charge's id, for `fulfil` and `release`.

        Raises:
            BudgetExceeded: the budget does not cover it.
            InvalidInput: another unit, a statement that is no (ε, δ), or an unprotective run in a durable ledger.
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
        with self._records(write=True) as records:
            if self.dataset not in records.datasets():
                self._refuse_a_stranger(records.datasets())
                records.create(self.dataset, None)
            budget = records.budget(self.dataset)
            claim = None
            if budget is not None:
                claim = self._verified(event, unit, stated)
                self._admit([Entry(event, event, claim)], unit, budget, records)
            now = datetime.now(UTC).isoformat(timespec="microseconds")  # tells equal charges apart in `Seen`
            charge = Charge(0, now, event, unit, note, protective=protective, stated=claim)
            return records.append(self.dataset, charge)

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
        with self._records(write=False) as records:
            charge = self._still_open(charge_id, records)
        *before, promise = charge.event.events if isinstance(charge.event, Compose) else (charge.event,)
        if not isinstance(promise, Promise):
            raise InvalidInput(f"charge {charge_id} promises nothing: it paid for {charge.event}.")
        if not self._accountant.keeps(event, Stated(promise.epsilon, promise.delta), charge.unit):
            raise PlanViolation(
                f"the run costs more than ε = {promise.epsilon:.9g} at δ = {promise.delta:g} ({charge.unit}), which "
                f"charge {charge_id} promised. It was not run, and nothing of it was released; its charge stays."
            )
        with self._records(write=True) as records:
            if self._still_open(charge_id, records).ran is not None:
                raise PlanViolation(f"the promise of charge {charge_id} has been used. Nothing more was released.")
            used_for = event.events if isinstance(event, Compose) else (event,)
            records.fulfil(charge_id, compose([*before, *used_for]))

    def _still_open(self, charge_id: int, records: Records) -> Charge:
        charge = next((c for c in records.charges(self.dataset) if c.id == charge_id), None)
        if charge is None:
            raise InvalidInput(f"dataset {self.dataset!r} in {self.url} has no charge {charge_id!r}.")
        if charge.status != "charged":
            raise InvalidInput(f"charge {charge_id} is already {charge.status}; a charge ends once.")
        return charge

    def require(self, events: Sequence[Event], unit: Adjacency) -> None:
        """Refuse what `charge` would refuse, without charging: for runs whose first charge is not their last.

        Raises:
            BudgetExceeded: the budget does not cover all of ``events``, charged one after another.
            InvalidInput: another unit than the budget's.
        """
        with self._records(write=False) as records:
            budget = records.budget(self.dataset)
            if budget is not None:
                self._admit(events, Unit.of(unit), budget, records)

    def _admit(self, events: Sequence[Event | Entry], unit: Unit, budget: Budget, records: Records) -> None:
        if unit != budget.unit:
            raise InvalidInput(
                f"dataset {self.dataset!r} has its budget under {budget.unit}; a run under {unit} cannot be charged to "
                f"it. {budget.advice(unit)} Nothing was charged and nothing was released."
            )
        before = [_entry(charge) for charge in records.charges(self.dataset)]
        total = self._accountant.spent([*before, *events], budget).upper
        if total <= budget.epsilon:  # also refuses when the accountant says NaN
            return
        spent = self._accountant.spent(before, budget).upper
        certain = self._accountant.left(before, budget)
        raise BudgetExceeded(
            f"dataset {self.dataset!r} has the budget {budget}. Spent: ε = {spent:.6g}; remaining: ε = "
            f"{max(0.0, budget.epsilon - spent):.6g}; with this run it would be ε = {total:.6g}. Nothing was charged "
            f"and nothing was released. Ask for a smaller epsilon"
            + (f" (up to {_down(certain[0])} at a delta of {_down(certain[1])} is certain)" if certain else "")
            + f"; or start over, with data about other people only, by a new ledger or dataset name ({self.url})."
        )

    def release(self, charge_id: int, status: Status = "completed") -> None:
        """Record how a charged run ended: ``"completed"``, or ``"stopped-early"``. What it paid stays paid.

        Raises:
            InvalidInput: there is no such charge that is still open.
        """
        if status not in ("completed", "stopped-early"):
            raise InvalidInput(f"a run ends 'completed' or 'stopped-early', got {status!r}.")
        with self._records(write=True) as records:
            self._still_open(charge_id, records)
            records.mark(charge_id, status)

    def history(self) -> tuple[Charge, ...]:
        """Every charge of this dataset, oldest first."""
        with self._records(write=False) as records:
            return records.charges(self.dataset)

    def spent(self, delta: float | None = None, adjacency: Adjacency | None = None) -> Bounds:
        """The certified ε of everything charged so far, whatever became of the runs.

        Args:
            delta: by default, and only for, a ledger with a budget: its δ. Without a budget it must be said, and the
                answer holds for runs that were not chosen by looking at each other's results.
            adjacency: likewise, the unit.
        """
        with self._records(write=False) as records:
            budget, charges = records.budget(self.dataset), records.charges(self.dataset)
        if budget is not None:
            if delta not in (None, budget.delta) or (adjacency is not None and Unit.of(adjacency) != budget.unit):
                raise InvalidInput(
                    f"what was spent is stated as the budget is, {budget}; leave delta and adjacency out."
                )
            return self._accountant.spent([_entry(charge) for charge in charges], budget)
        if delta is None or adjacency is None:
            raise InvalidInput(
                f"dataset {self.dataset!r} has no budget: say delta and adjacency, as in "
                "spent(delta=1e-6, adjacency='replace-one')."
            )
        unit = Unit.of(adjacency)
        strangers = {str(charge.unit) for charge in charges if charge.unit != unit}
        if strangers:
            raise InvalidInput(
                f"some runs were charged under {' and '.join(sorted(strangers))}, and ε under {unit} does not follow "
                "from them. Read history() and account for the parts."
            )
        if not charges:
            return Bounds(0.0, 0.0)
        return self._accountant.epsilon(compose(charge.event for charge in charges), delta, unit)

    def remaining(self) -> float:
        """The budget's ε less the spent ε, at the budget's δ; infinite without a budget.

        Composition is sublinear, so a further run of somewhat more than this ε may still be accepted; a run of at
        most this ε at a δ of its own may not, because the budget's δ covers all runs together.
        """
        budget = self.budget
        return math.inf if budget is None else max(0.0, budget.epsilon - self.spent().upper)

    def __repr__(self) -> str:
        budget = None if self._seen is None else self._seen.budget
        return f"Ledger({self.url!r}, dataset={self.dataset!r}, budget={'none' if budget is None else str(budget)})"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.durable:
            _refuse_pickling()
        return _reopen, (self.url, self.dataset, self._accountant, self._seen)


def _entry(charge: Charge) -> Entry:
    return Entry(charge.event, charge.ran or charge.event, charge.stated)


def _down(value: float) -> str:
    """Four digits, rounded down: what is said to be left is left."""
    return f"{float(Decimal(value).normalize(Context(prec=4, rounding=ROUND_DOWN))):g}"


def _refuse_pickling() -> NoReturn:
    raise InvalidInput(
        "a ledger in memory cannot be sent to another process: each copy could spend the whole budget. "
        "Use Ledger('sqlite:///budget.db', …)."
    )


def _reopen(url: str, dataset: str, accountant: Accountant, seen: Seen | None) -> Ledger:
    """The ledger with what it has seen. Its file is read on first use: a model may be copied without its ledger."""
    ledger = Ledger.__new__(Ledger)
    ledger.dataset, ledger._store, ledger._accountant, ledger._seen = dataset, _store(url), accountant, seen
    return ledger


def _store(url: str | os.PathLike[str]) -> Store:
    if url == "memory:":
        return MemoryStore()
    if isinstance(url, str) and url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return SQLiteStore(url.removeprefix("sqlite:///"))
    named = isinstance(url, str) and ":" not in url and os.path.splitext(url)[1]  # a name with an ending is a file's
    if named or isinstance(url, os.PathLike):
        return SQLiteStore(checked_path(url))
    raise InvalidInput(f"a ledger lives in a file, such as 'budget.db', or at 'memory:', got {shortened(url)}.")
