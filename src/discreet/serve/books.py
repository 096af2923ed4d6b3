"""What the pages show of a ledger: figures of budgets and charges, nothing about a row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from discreet.accounting.calibrate import calibrate
from discreet.errors import BudgetExceeded, InvalidInput, NotCertifiable
from discreet.events import ApproxDP, Event, Gaussian
from discreet.ledger import Budget, Charge, Ledger
from discreet.ledger.adaptive import Entry
from discreet.ledger.base import Stated
from discreet.ledger.course import Course, Point

__all__ = ["Answer", "Bar", "Books", "UnknownDataset", "picture"]

_MOST_RUNS = 1000


class UnknownDataset(InvalidInput):
    """The ledger has no dataset of this name."""


@dataclass(frozen=True)
class Bar:
    """One budget and how much of it is spent."""

    name: str
    budget: Budget
    spent: float

    @property
    def share(self) -> float:
        """The spent part of ε, from 0 to 1."""
        return min(1.0, self.spent / self.budget.epsilon)


@dataclass(frozen=True)
class Answer:
    """Whether runs would be admitted, and the ε that would then be spent; None where it cannot be said."""

    kind: str
    admitted: bool
    total: float | None
    reason: str = ""


class Books:
    """The ledgers of one place, kept open: a book that loses a line between two requests is refused."""

    def __init__(self, place: str | Path) -> None:
        self.place = place
        self._course = Course(place)
        self._open: dict[tuple[str, str], Ledger] = {}
        self._lock = Lock()

    def names(self) -> tuple[str, ...]:
        """All datasets."""
        return Ledger.datasets(self.place)

    def ledger(self, dataset: str, analyst: str = "") -> Ledger:
        """An open ledger.

        Raises:
            UnknownDataset: there is none of this name, or the analyst has no part of it.
        """
        with self._lock:
            found = self._open.get((dataset, analyst))
        if found is not None:
            return found
        if dataset not in self.names():
            raise UnknownDataset(f"there is no dataset {dataset!r}.")
        found = Ledger(self.place, dataset=dataset, analyst=analyst)
        if analyst and analyst not in found.allocations():
            raise UnknownDataset(f"{analyst!r} has no part of the budget of {dataset!r}.")
        with self._lock:
            return self._open.setdefault((dataset, analyst), found)

    def bar(self, dataset: str, analyst: str = "") -> Bar | None:
        """A dataset's budget, or an analyst's part of it; None where there is none."""
        found = self.ledger(dataset, analyst)
        budget = found.budget
        return None if budget is None else Bar(analyst or dataset, budget, found.spent().upper)

    def facts(self, dataset: str) -> dict[str, Any]:
        """What the pages say of one dataset."""
        found = self.ledger(dataset)
        parts = [self.bar(dataset, name) for name in found.allocations()]
        return {
            "name": dataset,
            "bar": self.bar(dataset),
            "parts_of": [part for part in parts if part is not None],
            "frozen": found.frozen,
        }

    def charges(self, dataset: str) -> tuple[Charge, ...]:
        """Every charge, the newest first."""
        return self.ledger(dataset).history()[::-1]

    def course(self, dataset: str) -> list[Point]:
        """How the spent ε grew."""
        return self._course.read().get(dataset, [])

    def what_if(self, dataset: str, analyst: str, epsilon: float, delta: float, times: int) -> list[Answer]:
        """Whether ``times`` further fits of (``epsilon``, ``delta``) would be admitted. Nothing is charged.

        The first answer holds for every fit: ε's and δ's are all that is known of it. The second holds for fits whose
        noise is Gaussian, of which more fit into a budget.

        Raises:
            InvalidInput: these are no ε, δ and number of fits.
        """
        if not (0 < epsilon < float("inf") and 0 <= delta < 1 and 1 <= times <= _MOST_RUNS):
            raise InvalidInput(
                f"ε must be positive, δ at least 0 and below 1, and the number of fits from 1 to {_MOST_RUNS}."
            )
        found = self.ledger(dataset, analyst)
        budget = found.budget
        if budget is None:
            return [Answer("Every fit", True, None, "The dataset has no budget: it only records.")]
        aim = found.portion(delta)
        kinds: list[tuple[str, Event]] = [("Every fit", ApproxDP(epsilon, aim))]
        try:
            noise = calibrate(Gaussian, epsilon, aim, budget.unit)
            kinds.append(("Fits with Gaussian noise", Gaussian(noise)))
        except (InvalidInput, NotCertifiable):  # δ = 0, for instance
            pass
        return [_answer(found, name, Entry(event, event, Stated(epsilon, aim)), times) for name, event in kinds]


def _answer(found: Ledger, kind: str, entry: Entry, times: int) -> Answer:
    budget = found.budget
    assert budget is not None
    try:
        total = found.forecast(entry.charged, budget.unit, entry.stated, times)
    except NotCertifiable:
        total = None
    try:
        found.require([entry] * times, budget.unit)
    except (BudgetExceeded, InvalidInput, NotCertifiable) as problem:
        return Answer(kind, False, total, str(problem))
    return Answer(kind, True, total)


def picture(points: list[Point], budget: Budget) -> dict[str, Any]:
    """The corners of a step line in a box of 300 × 120, and its first and last day."""
    known = [moment for point in points if (moment := _moment(point.at)) is not None]
    if not known:
        return {"corners": "", "first": "", "last": ""}
    times: list[float] = []
    for point in points:  # a clock that went backwards stands still; older files have no times of datasets
        now, before = _moment(point.at), times[-1] if times else known[0]
        times.append(before if now is None else max(now, before))
    dated = [point.at[:10] for point in points if _moment(point.at) is not None]
    width = times[-1] - times[0]
    corners, height = [], 120.0
    for index, (time, point) in enumerate(zip(times, points, strict=True)):
        x = 300 * (time - times[0]) / width if width > 0 else 300 * index / max(1, len(points) - 1)
        corners.append(f"{x:.2f},{height:.2f}")
        height = 120 * (1 - min(1.0, point.spent / budget.epsilon))
        corners.append(f"{x:.2f},{height:.2f}")
    corners.append(f"300,{height:.2f}")
    return {"corners": " ".join(corners), "first": dated[0], "last": dated[-1]}


def _moment(at: str) -> float | None:
    try:
        return datetime.fromisoformat(at).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
