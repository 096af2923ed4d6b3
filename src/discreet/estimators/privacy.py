"""What every estimator does about privacy: from a declared guarantee to a charge, a run in the vault, a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from discreet import rows as limits
from discreet.calibration import Guarantee
from discreet.data.base import Dataset
from discreet.data.persons import Persons
from discreet.data.unprotected import is_unprotected
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.estimators.callers import require_all_fits, warned_of_steps
from discreet.estimators.checks import EPSILONS, check_kind, check_range
from discreet.estimators.progress import progress_bar
from discreet.estimators.provenance import declared_bounds, rows_bounds, settings_bounds
from discreet.events import NonPrivate, Promise, compose
from discreet.ledger import Ledger
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.noise.bits import Bits
from discreet.planning.plan import Plan, spent_epsilon
from discreet.queries.sums.count import RowCount
from discreet.recipes import OF_MANY_ROWS
from discreet.report.certificate import FROM_THE_DATA, PREPROCESSING, Certificate, unprotected_kind
from discreet.report.record import record_of
from discreet.solvers import Filtered
from discreet.solvers.inference import Inference
from discreet.solvers.interactions import Interactions
from discreet.tuned import Tuned, current, tuned
from discreet.units import Unit
from discreet.vault import Payment, Vault

__all__ = ["NUMBERS", "SOME_ROWS", "CountNumbers", "PlanFor", "PrivateEstimator", "bits_for", "opened", "summable"]

PlanFor: TypeAlias = Callable[[float, Guarantee], Plan]
"""From a number of rows, public or released, and a guarantee to a plan."""

SOME_ROWS = 1e4
"""A number of rows to plan for before the rows are counted: it shows whether the declarations can be planned at all."""

_FEWEST_ROWS = 2.0
"""The least number of rows that a private count is taken to say: solvers need that many."""


@dataclass(frozen=True)
class CountNumbers(Tuned):
    """Tuned numbers of the private count of rows."""

    count_share: float = tuned(
        0.02,
        "share of ε for a private number of rows, under add-remove where no number is declared public",
        "judgement: at ε = 1 the count errs by about 50 rows, little where a model can be learnt at all",
    )


NUMBERS = CountNumbers()


def opened(ledger: Any) -> Ledger:
    """The ledger that was given, the one at the url that was given, or a new one in memory."""
    if ledger is None:
        return Ledger()
    return ledger if isinstance(ledger, Ledger) else Ledger(ledger)


def bits_for(random_state: Any) -> Bits:
    """Random bits of the operating system; or reproducible bits from a seed, with which nothing is private."""
    if random_state is None:
        return Bits.secure()
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return Bits.seeded(int(random_state))
    raise InvalidInput(f"random_state must be None (private) or an integer seed, got {random_state!r}.")


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Declarations that all estimators take, and the private run that they share.

    A constructor only stores the declarations, as scikit-learn expects; `_fit_in_vault` checks, plans, charges, runs
    and certifies.
    """

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    adjacency: str = "replace-one"
    rows_per_unit: int = 1
    n_public: int | None = None
    ledger: Any = None
    random_state: int | None = None

    # --- what was declared --------------------------------------------------------------------------------------------

    def _check_privacy(self) -> None:
        for field in fields(self):
            check_kind(field.name, getattr(self, field.name), str(field.type))
        if not self.epsilon > 0:
            raise InvalidInput(f"epsilon must be positive, got {self.epsilon!r}; use float('inf') for no privacy.")
        if math.isfinite(self.epsilon):
            check_range("epsilon", self.epsilon, *EPSILONS, "more protects nobody: use float('inf') for no privacy")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must be in [0, 1), got {self.delta!r}.")
        if self.n_public is not None and not (isinstance(self.n_public, int | np.integer) and self.n_public >= 1):
            raise InvalidInput(f"n_public must be a positive integer, got {self.n_public!r}.")
        if self.n_public is not None:
            check_range("n_public", self.n_public, 1, 10**15, "rows are counted in doubles")
        Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]

    def _delta(self, n: int, private: bool) -> float:
        if self.delta is not None:
            return float(self.delta)
        if not private:
            return 0.0
        if self.n_public is not None:
            return 1.0 / self.n_public**2
        if self.adjacency == "replace-one":
            return 1.0 / max(n, 2) ** 2
        raise InvalidInput(
            "under add-remove the number of rows is private, so delta cannot follow from it: give delta=…, or declare "
            "n_public=…. Nothing was released."
        )

    def _guarantee(self, n: int, persons: Persons | None = None) -> Guarantee:
        """What the declarations ask for; ``n`` is read only where the number of rows, or of persons, is public."""
        rows = self.rows_per_unit if persons is None else persons.most_rows
        unit = Unit(self.adjacency, rows, persons is not None)  # type: ignore[arg-type]
        return Guarantee(float(self.epsilon), self._delta(n, math.isfinite(self.epsilon)), unit)

    # --- the private run ----------------------------------------------------------------------------------------------

    def _fit_in_vault(
        self, data: Dataset, plan_for: PlanFor, asked: str, persons: Persons | None = None
    ) -> NDArray[np.float64]:
        """Plan, charge, run and certify: sets ``privacy_`` and ``n_iter_``, and returns what the solver found.

        Args:
            data: the rows.
            plan_for: a plan for a number of rows and a guarantee; it uses no data.
            asked: the solver that was asked for, for the ledger's history.
            persons: whose each row is, where persons are protected.
        """
        n = len(data) if persons is None else persons.count  # nothing depends on it where it is private
        guarantee = self._guarantee(n, persons)
        self._learned_before = warned_of_steps(self) if guarantee.private else ()
        vault = Vault(data, guarantee.unit, opened(self.ledger), bits_for(self.random_state), persons=persons)
        aim = replace(guarantee, delta=vault.ledger.portion(guarantee.delta)) if guarantee.private else guarantee
        try:
            if self._must_count(guarantee):
                rows, rest, payment = self._counted(vault, aim, plan_for, asked)
                plan = _after_count(plan_for, rows, rest)
            else:
                plan = plan_for(self._public_rows(n, guarantee, persons), aim)
                payment = self._payment(aim, plan.name)
                require_all_fits(vault.ledger, lambda: plan.event, vault.unit, payment.stated)
            found = self._run(vault, plan, guarantee, payment)
        except KeyboardInterrupt as stop:
            stop.add_note(_stays_charged(vault, guarantee))
            raise
        self.privacy_ = self._certificate(vault, plan, guarantee)
        return found

    def _run(self, vault: Vault, plan: Plan, guarantee: Guarantee, payment: Payment) -> NDArray[np.float64]:
        """Run by plan or, where the solver brings one, under its filter; sets ``n_iter_``."""
        solver, self.n_iter_ = plan.solver, 0
        budget = solver.filter(vault.unit) if isinstance(solver, Filtered) else None
        with progress_bar(guarantee, _in_words(plan), shown=bool(getattr(self, "verbose", False))) as shown:

            def progress(done: int, planned: int) -> None:
                self.n_iter_ = done
                if shown:
                    shown(done, planned)

            if budget is None:
                answers: list[Any] | None = [] if isinstance(plan.solver, Inference | Interactions) else None
                found = vault.run(solver, plan.problem, payment=payment, progress=progress, answers=answers)
                self._keep(plan, answers or [])
                return found
            return vault.run_filtered(solver, plan.problem, budget, payment=payment, progress=progress)

    def _keep(self, plan: Plan, answers: list[Any]) -> None:
        """Keep released values from which more than the model can be computed; by default none."""

    def _found(self) -> dict[str, str]:
        """What a run chose, in words, for the certificate: released values; by default nothing."""
        return {}

    def _payment(self, aim: Guarantee, what: str) -> Payment:
        """How a run is paid for: the line in the ledger's history, and the (ε, δ) that it states."""
        taken = self._bounds_from_the_data()
        mark = f", NOT PRIVATE: {unprotected_kind(taken)}" if taken else ""
        return Payment(f"{type(self).__name__}({what}){mark}", aim.stated if aim.private else None)

    # --- the number of rows -------------------------------------------------------------------------------------------

    def _must_count(self, guarantee: Guarantee) -> bool:
        """Whether the number of rows is private, and must be released first."""
        return guarantee.private and guarantee.unit.relation == "add-remove" and self.n_public is None

    def _public_rows(self, n: int, guarantee: Guarantee, persons: Persons | None = None) -> float:
        """The number of rows to divide by, where it is public; persons who count once have k rows each."""
        each = 1 if persons is None or persons.declared.weights == "rows" else persons.most_rows
        if guarantee.unit.relation == "replace-one" or not guarantee.private:
            if self.n_public is not None and guarantee.private and self.n_public != n:
                what = "rows" if persons is None else "persons"
                raise InvalidInput(f"under replace-one n is public: n_public={self.n_public}, but X has {n} {what}.")
            return float(n * each)
        assert self.n_public is not None
        return float(self.n_public * each)

    @staticmethod
    def _count(aim: Guarantee) -> tuple[Noisy, Promise, Guarantee]:
        """The count of rows, and what the run that follows must keep: as a promise and as a guarantee.

        A private count is ε₁-DP and the run that follows is (ε − ε₁, δ)-DP whatever the count said: basic composition,
        valid although the run's steps depend on the count. The two add up to the tightened ε, so that their sum, which
        a ledger rounds up, stays within the ε that is stated.
        """
        share, unit = current(NUMBERS).count_share * aim.epsilon, aim.unit
        promise = Promise(aim.tightened().epsilon - share, aim.delta, unit.rows_per_unit)
        return Noisy(RowCount(), Laplace(unit.rows_per_unit / share)), promise, replace(aim, epsilon=promise.epsilon)

    def _count_error(self, rest: Guarantee) -> float:
        """The standard deviation of the private number of rows of a run that keeps ``rest``; 0 where it is public."""
        if not self._must_count(rest):
            return 0.0
        share = current(NUMBERS).count_share
        return math.sqrt(2) * rest.unit.rows_per_unit * (1 - share) / (share * rest.epsilon)

    def _counted(self, vault: Vault, aim: Guarantee, plan_for: PlanFor, asked: str) -> tuple[float, Guarantee, Payment]:
        """Count the rows privately.

        Count and run are one charge, so that a budget of exactly this guarantee has room for them. Where less is left
        they are two charges: a ledger that knows both events may find that they add up to less than their ε's.
        What cannot be planned for `SOME_ROWS` is refused before rows are counted.

        Returns:
            The private number of rows, what the run must keep, and the payment for the run.
        """
        count, promise, rest = self._count(aim)
        likely = plan_for(SOME_ROWS, rest)
        both = compose([count.event(vault.unit), promise])
        require_all_fits(vault.ledger, lambda: both, vault.unit, self._payment(aim, asked).stated)
        try:
            rows, payment = vault.release_first(count, promise, self._payment(aim, asked))
        except BudgetExceeded:
            vault.ledger.require([count.event(vault.unit), likely.event], vault.unit)
            rows = vault.release(count, note=f"{type(self).__name__}: number of rows")
            payment = self._payment(rest, asked)
        return max(_FEWEST_ROWS, float(rows)), rest, payment

    # --- the certificate ----------------------------------------------------------------------------------------------

    def _certificate(self, vault: Vault, plan: Plan, guarantee: Guarantee) -> Certificate:
        """The certificate of everything that the vault has charged."""
        event = compose(vault.charged)
        if isinstance(event, NonPrivate) or not guarantee.private:
            spent = math.inf
        elif self._must_count(guarantee):
            # ε₁ of the count and ε − ε₁ of the run: the vault refuses a run that costs more than it states or promises
            spent = guarantee.epsilon
        else:
            spent = spent_epsilon(event, plan.guarantee)
        bounds = self._bounds_from_the_data()
        unprotected = [*self._unprotected(), *bounds]
        if guarantee.unit.relation == "replace-one":
            unprotected.append("number of people" if guarantee.unit.enforced else "number of rows")
        return Certificate(
            spent,
            guarantee.delta,
            guarantee.unit,
            event,
            plan.name,
            plan.settings | self._found(),
            tuple(unprotected),
            vault.protective and not bounds,
            record=self._record(vault, plan, guarantee),
        )

    def _record(self, vault: Vault, plan: Plan, guarantee: Guarantee) -> dict[str, Any]:
        """When, where, of what and by what questions the certificate came to be; where its bounds come from."""
        counted = current(NUMBERS).count_share * guarantee.epsilon if self._must_count(guarantee) else None
        rows = None if counted else plan.problem.n
        bounds = declared_bounds(self) + rows_bounds(guarantee.unit, rows, counted)
        given, void = getattr(self, "solver_options", None), bool(self._bounds_from_the_data())
        bounds += settings_bounds(plan.settings, given, void=void)
        return record_of(
            type(self).__name__, vault.ledger, vault.charge_ids, protective=vault.protective, rows=rows,
            unit=guarantee.unit, target=getattr(self, "_target", None), bounds=bounds, asked=vault.asked,
        )  # fmt: skip

    def _unprotected(self) -> tuple[str, ...]:
        return ()

    def _bounds_from_the_data(self) -> tuple[str, ...]:
        """Declarations that were taken from the data without protection: what is fitted with them is not private."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            columns = value.items() if isinstance(value, Mapping) else ()
            found += [f"bounds of {name}" for name, c in columns if getattr(c, "bounds_private", True) is False]
            found += [field.name] if is_unprotected(value) else []
        found += [f"{PREPROCESSING} by the step {name!r}" for name in getattr(self, "_learned_before", ())]
        return tuple(f"{what}, {FROM_THE_DATA}" for what in found)


def summable(plan_for: PlanFor, n: int) -> PlanFor:
    """``plan_for``, refusing plans whose sums are proved exact for fewer rows than there are; n ≤ `MOST_ROWS` has none.

    Sums of gradients are integers that are added in parts (`discreet.data.base.exact_sum`). Other queries add floats
    that are whole below 2^53, or have an error bound, for up to `MOST_ROWS` rows.
    """
    if n <= limits.MOST_ROWS:
        return plan_for

    def checked(count: float, guarantee: Guarantee) -> Plan:
        plan = plan_for(count, guarantee)
        if plan.name not in OF_MANY_ROWS or not guarantee.private:
            raise InvalidInput(
                f"more than {limits.MOST_ROWS} rows are summed exactly by solver={OF_MANY_ROWS[0]!r} alone: name it. "
                "Nothing was released."
            )
        return plan

    return checked


def _stays_charged(vault: Vault, guarantee: Guarantee) -> str:
    """What an interrupted fit leaves in the ledger."""
    if not vault.charge_ids:
        return "Nothing was charged."
    which = ", ".join(map(str, vault.charge_ids))
    return (
        f"Charged, and not refunded: up to ε = {guarantee.epsilon:g}, δ = {guarantee.delta:.3g} ({guarantee.unit}), as "
        f"charge {which} of dataset {vault.ledger.dataset!r} in {vault.ledger.url}. The fit was interrupted."
    )


def _after_count(plan_for: PlanFor, rows: float, rest: Guarantee) -> Plan:
    """The plan for a number of rows that has been released; some options fit some numbers of rows only."""
    try:
        return plan_for(rows, rest)
    except InvalidInput as refusal:
        raise type(refusal)(
            f"{refusal} This was found after the number of rows had been released as about {rows:.0f}: it is "
            "charged, together with the promise of a run; nothing else was released. n_public=… avoids counting."
        ) from None


def _in_words(plan: Plan) -> str:
    noise = getattr(plan.solver, "noise_multiplier", 0.0)
    return plan.label + (f", noise multiplier {noise:.4g}" if noise else "")
