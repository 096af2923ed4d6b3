"""The trusted core: the only place that holds rows, protective randomness and the ledger at once.

Nothing is answered that the ledger has not already charged. A solver is first *rehearsed* with blank answers; the
events that it asks for are its plan. The whole plan is charged once, and then the same generator runs on data, where
each request must equal the next event of the plan. It may stop early; it may not deviate.

Where the plan depends on an answer, such as a private number of rows, the two are one charge: that answer's event and
a `Promise` of what the rest will cost. The plan made from the answer must keep the promise, or it is not run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.adaptive.filters import PrivacyFilter
from discreet.calibration.rehearse import rehearse
from discreet.data.base import Dataset
from discreet.data.persons import Persons
from discreet.errors import InvalidInput, PlanViolation
from discreet.events import Event, Promise, compose
from discreet.ledger import Ledger
from discreet.ledger.base import Status
from discreet.measurements import Measurement
from discreet.measurements.program import drive
from discreet.measurements.questions import Question, questions
from discreet.noise.bits import Bits
from discreet.solvers.base import Problem, Solver
from discreet.units import Unit

__all__ = ["Payment", "Progress", "Run", "Vault", "rehearse"]

Progress = Callable[[int, int], None]
"""Called with (steps done, steps planned) after each release; it never sees an answer."""


@dataclass(frozen=True)
class Payment:
    """How a run is paid for.

    Args:
        note: a line for the ledger's history. It must not contain data.
        stated: an (ε, δ) that the whole of it keeps; what costs more is refused before it is charged.
        promised_by: the charge whose promise pays for the run; by default the run is charged itself.
    """

    note: str = ""
    stated: tuple[float, float] | None = None
    promised_by: int | None = None


class Run:
    """A plan that has been charged, answered one measurement at a time by whoever drives it; made by `Vault.open`.

    It may stop early; it may not deviate: each measurement must have the event that the plan has at this place. One
    charge pays for one run: a copy, or a forked process, would go through the plan once more, so neither can answer.
    """

    def __init__(
        self, plan: Sequence[Event], done: int, ask: Callable[[Measurement], tuple[Event, Callable[[], Any]]],
        close: Callable[[Status], None],
    ) -> None:  # fmt: skip
        """Use `Vault.open` or `Vault.reopen`."""
        self._plan, self.done, self._ask, self._close = plan, done, ask, close
        self._process = os.getpid()

    @property
    def planned(self) -> int:
        """How many measurements were charged."""
        return len(self._plan)

    def answer(self, measurement: Measurement) -> Any:
        """Answer the next measurement of the plan.

        Raises:
            PlanViolation: it is not what was charged at this place, everything charged has been answered, or this
                process is a fork of the one that charged.
        """
        if os.getpid() != self._process:
            raise PlanViolation(
                "this is a fork of the process whose run was charged: each could release all of it. Nothing was "
                "released here; the first process goes on."
            )
        asked, sample = self._ask(measurement)
        planned = self._plan[self.done] if self.done < len(self._plan) else None
        if asked != planned:
            raise PlanViolation(f"asked for {asked}, but the plan charged {planned}; this was not released.")
        self.done += 1  # before the answer: a measurement that fails half way has used its place
        return sample()

    def skip(self, count: int) -> None:
        """Leave out measurements that were charged: they are not answered, and not refunded."""
        self.done = min(self.done + count, len(self._plan))

    def close(self) -> None:
        """Note in the ledger how the run ended."""
        if os.getpid() == self._process:
            self._close("completed" if self.done == len(self._plan) else "stopped-early")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuses `copy` and `pickle`."""
        raise PlanViolation(
            "a run that was charged cannot be copied: each copy could release all of it. Nothing was released by this."
        )


class Vault:
    """Holds the rows, and answers only what its ledger has charged.

    Args:
        data: the rows.
        unit: whose privacy is protected, and the rows of one person.
        ledger: is charged before anything is answered.
        bits: protective randomness.
        persons: whose each row is. No person then takes part with more rows than the unit says; by default that is
            declared, and believed.

    Raises:
        PlanViolation: a unit whose rows are said to be bounded without persons, or bounded to another number.
    """

    def __init__(self, data: Dataset, unit: Unit, ledger: Ledger, bits: Bits, persons: Persons | None = None) -> None:
        if unit.enforced != (persons is not None) or (persons is not None and persons.most_rows != unit.rows_per_unit):
            raise PlanViolation(f"the rows of a person were not bounded as {unit} says; nothing was released.")
        if persons is not None:
            data = persons.bounded(data, bits)
        self.__data, self.unit, self.ledger, self.__bits = data, unit, ledger, bits
        self.charged: list[Event] = []
        """Everything that was charged through this vault, in order: what a certificate states."""
        self.charge_ids: list[int] = []
        """The charges of the ledger that paid for it."""
        self.asked: Counter[Question] = Counter()
        """How often each question was answered, for the certificate: nothing in it depends on an answer."""

    @property
    def protective(self) -> bool:
        """Whether the randomness is private: false when it comes from a seed, which others may know."""
        return self.__bits.protective

    def _sample(self, measurement: Measurement) -> Any:
        first = not self.asked
        known = questions(measurement)
        self.asked.update(one if first or one in self.asked else one.without_numbers() for one in known)
        with np.errstate(all="ignore"):  # whatever numpy has to say about floating point, it would say about rows
            return measurement.sample(self.__data, self.unit, self.__bits)

    def _pay(self, plan: Sequence[Event], payment: Payment, promise: Promise | None = None) -> int:
        """Charge ``plan``, or say that an earlier charge's promise is used for it; either may refuse."""
        if payment.promised_by is not None:
            self.ledger.fulfil(payment.promised_by, compose(plan))
            charge = payment.promised_by
        else:
            event = compose([*plan, promise] if promise else plan)
            if payment.stated is not None and not self.ledger.keeps(event, self.unit, payment.stated):
                raise PlanViolation(
                    f"this run costs more than ε = {payment.stated[0]:.9g} at δ = {payment.stated[1]:g} ({self.unit}), "
                    "which it states. It was not charged, and nothing of it was released."
                )
            charge = self.ledger.charge(
                event, self.unit, note=payment.note, protective=self.protective, stated=payment.stated
            )
        self.charged.extend(plan)
        if charge not in self.charge_ids:
            self.charge_ids.append(charge)
        return charge

    def release(self, measurement: Measurement, *, note: str = "", payment: Payment | None = None) -> Any:
        """Charge one measurement, then answer it."""
        charge = self._pay([measurement.event(self.unit)], payment or Payment(note))
        answer = self._sample(measurement)
        self.ledger.release(charge)
        return answer

    def release_first(self, measurement: Measurement, promise: Promise, payment: Payment) -> tuple[Any, Payment]:
        """Charge one measurement and the promise of all that will follow from it; answer the measurement.

        Returns:
            The answer, and the payment for one run that keeps the promise.
        """
        charge = self._pay([measurement.event(self.unit)], payment, promise)
        return self._sample(measurement), replace(payment, promised_by=charge)

    def run(
        self,
        solver: Solver,
        problem: Problem,
        *,
        note: str = "",
        payment: Payment | None = None,
        progress: Progress | None = None,
        answers: list[Any] | None = None,
    ) -> NDArray[np.float64]:
        """Rehearse, charge the whole plan once, then run the solver inside that plan.

        Args:
            solver: the algorithm.
            problem: public facts.
            note: a line for the ledger's history.
            payment: how the run is paid for.
            progress: called after each release.
            answers: takes every released value, in order.
        """
        run = self.open(rehearse(solver, problem, self.unit), payment or Payment(note))

        def answer(measurement: Measurement) -> Any:
            value = run.answer(measurement)
            if answers is not None:
                answers.append(value)
            if progress:
                progress(run.done, run.planned)
            return value

        theta = np.asarray(drive(solver.steps(problem), answer), dtype=np.float64)
        run.close()
        return theta

    def open(self, plan: Sequence[Event], payment: Payment, after: Sequence[Measurement] = ()) -> Run:
        """Charge the whole plan once, and open a run inside it for whoever drives it from outside.

        ``after`` are measurements that another vault has answered before; they are charged together with the plan.
        """
        before = self._answered(after)
        return self._opened(plan, self._pay([*before, *plan], payment), 0)

    def _answered(self, measurements: Sequence[Measurement]) -> list[Event]:
        """The events of measurements that another vault has answered, whose questions this one's certificate names."""
        for measurement in measurements:
            self.asked.update(questions(measurement))
        return [measurement.event(self.unit) for measurement in measurements]

    def reopen(self, plan: Sequence[Event], charge: int, done: int, after: Sequence[Measurement] = ()) -> Run:
        """Go on with a run that was charged before, after the first ``done`` measurements of its plan.

        Args:
            plan: of the run.
            charge: paid for it, or for the measurements ``after`` and a promise that the run was said to keep.
            done: measurements of the plan that have been answered, or given up.
            after: what was answered before the run, under the same charge.

        Raises:
            InvalidInput: the ledger has no such open charge, or it paid for something else.
        """
        paid, before = next((c for c in self.ledger.history() if c.id == charge), None), self._answered(after)
        paid_for = None if paid is None else paid.ran if after else paid.event
        whole = compose([*before, *plan])
        if paid is None or paid.status != "charged" or paid_for != whole or paid.unit != self.unit:
            raise InvalidInput(
                f"charge {charge} of dataset {self.ledger.dataset!r} in {self.ledger.url} is not an open charge for "
                "this run. Nothing was released."
            )
        self.charged.extend([*before, *plan])
        self.charge_ids.append(charge)
        return self._opened(plan, charge, done)

    def _opened(self, plan: Sequence[Event], charge: int, done: int) -> Run:
        def ask(measurement: Measurement) -> tuple[Event, Callable[[], Any]]:
            return measurement.event(self.unit), lambda: self._sample(measurement)

        return Run(plan, done, ask, lambda status: self.ledger.release(charge, status))

    def run_filtered(
        self,
        solver: Solver,
        problem: Problem,
        budget: PrivacyFilter,
        *,
        note: str = "",
        payment: Payment | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:
        """Run a fully adaptive solver, whose noise, batches and stopping may depend on earlier answers.

        The ledger is charged the event of the filter's whole budget first. The filter then admits each request, or
        throws `BudgetExceeded` into the solver, which returns what it has.
        """
        if budget.unit != self.unit or budget.spent:
            raise PlanViolation(f"the filter must be fresh and for {self.unit}; nothing was released.")
        charge = self._pay([budget.event()], payment or Payment(note))
        done = 0

        def answer(measurement: Measurement) -> Any:
            nonlocal done
            budget.spend(measurement.event(self.unit))
            value = self._sample(measurement)
            done += 1
            if progress:
                progress(done, 0)
            return value

        theta = np.asarray(drive(solver.steps(problem), answer), dtype=np.float64)
        self.ledger.release(charge)
        return theta
