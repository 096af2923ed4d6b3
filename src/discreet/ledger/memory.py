"""A store that lives and dies with its process: for notebooks, experiments and tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock

from discreet.errors import LedgerUnavailable
from discreet.events import Event
from discreet.ledger.base import Budget, Charge, Past, Records, Status

__all__ = ["MemoryStore"]


class MemoryStore:
    """Records in memory, one writer at a time among the threads of the process that made it.

    A forked process has a copy of the records, in which it could spend the whole budget once more: it may read them,
    not write.
    """

    durable = False
    url = "memory:"

    def __init__(self) -> None:
        self._lock = RLock()
        self._process = os.getpid()
        self._budgets: dict[str, Budget | None] = {}
        self._charges: list[tuple[str, Charge]] = []

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[Records]:
        """All-or-nothing access; see `Store`."""
        if write and os.getpid() != self._process:
            raise LedgerUnavailable(
                "a ledger in memory belongs to the process that made it, and this is a fork of it: each could spend "
                "the whole budget. Nothing was charged and nothing was released. Use Ledger('sqlite:///budget.db', …)."
            )
        with self._lock:
            budgets, charges = dict(self._budgets), list(self._charges)
            yield _MemoryRecords(budgets, charges)
            if write:
                self._budgets, self._charges = budgets, charges


class _MemoryRecords:
    def __init__(self, budgets: dict[str, Budget | None], charges: list[tuple[str, Charge]]) -> None:
        self._budgets, self._charges = budgets, charges

    def datasets(self) -> tuple[str, ...]:
        return tuple(self._budgets)

    def budget(self, dataset: str) -> Budget | None:
        return self._budgets.get(dataset)

    def create(self, dataset: str, budget: Budget | None) -> None:
        self._budgets[dataset] = budget

    def charges(self, dataset: str) -> tuple[Charge, ...]:
        return tuple(charge for name, charge in self._charges if name == dataset)

    def past(self, dataset: str, last: int | None = None) -> Past:
        return Past("memory:", 0, "")  # no other process can change it

    def append(self, dataset: str, charge: Charge) -> int:
        number = len(self._charges) + 1
        self._charges.append((dataset, replace(charge, id=number)))
        return number

    def mark(self, charge_id: int, status: Status) -> None:
        dataset, charge = self._charges[charge_id - 1]
        self._charges[charge_id - 1] = (dataset, replace(charge, status=status))

    def fulfil(self, charge_id: int, ran: Event) -> None:
        dataset, charge = self._charges[charge_id - 1]
        self._charges[charge_id - 1] = (dataset, replace(charge, ran=ran))
