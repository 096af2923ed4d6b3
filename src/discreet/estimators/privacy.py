"""The private half of every estimator: declared guarantee, ledger, randomness, number of rows, certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from discreet.calibration import Guarantee
from discreet.data.base import Dataset
from discreet.data.unprotected import is_unprotected
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.estimators.progress import progress_bar
from discreet.events import NonPrivate, Promise, compose
from discreet.ledger import Ledger
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.noise.bits import Bits
from discreet.planning.plan import Plan, spent_epsilon
from discreet.queries.sums.count import RowCount
from discreet.report.certificate import FROM_THE_DATA, Certificate
from discreet.solvers import Filtered
from discreet.units import Unit
from discreet.vault import Payment, Vault

__all__ = [
    "LENGTHS",
    "SOME_ROWS",
    "PrivateEstimator",
    "bits_for",
    "check_lengths",
    "check_range",
    "opened",
]

PlanFor: TypeAlias = Callable[[float, Guarantee], Plan]
"""From a number of rows, public or released, and a guarantee to a plan."""

SOME_ROWS = 1e4
"""Stands for the number of rows while it is not known; no refusal of a plan depends on it."""

_FEWEST_ROWS = 2.0
"""What a private number of rows is raised to: no solver refuses as many."""

_EPSILONS = (1e-10, 1e4)
LENGTHS = (1e-20, 1e20)
"""Of rows and targets: within them no product of what is declared leaves the range of doubles."""

_COUNT_SHARE = 0.02
"""Share of ε that a private number of rows costs under add-remove when none is declared public."""


def opened(ledger: Any) -> Ledger:
    """The ledger itself, one by its url, or one in memory."""
    if ledger is None:
        return Ledger()
    return ledger if isinstance(ledger, Ledger) else Ledger(ledger)


def check_range(name: str, value: Any, low: float, high: float, remedy: str) -> None:
    """Refuse a public number with which planning would leave the range of doubles."""
    if not low <= value <= high:
        raise InvalidInput(
            f"{name} must be between {low:g} and {high:g}, got {value:g}: {remedy}. Nothing was released."
        )


def check_lengths(row_norm: Any, target_bounds: Any = None) -> None:
    """Refuse declared bounds of rows and targets whose squares leave the range of doubles; others look at the rest."""
    rescale = "declare rows and targets in other units"
    if isinstance(row_norm, int | float | np.number) and 0 < row_norm < math.inf:
        check_range("row_norm", row_norm, *LENGTHS, rescale)
    bounds = target_bounds if isinstance(target_bounds, tuple | list) else ()
    if len(bounds) == 2 and all(isinstance(b, int | float | np.number) and math.isfinite(b) for b in bounds):
        check_range("the larger of target_bounds", max(abs(float(b)) for b in bounds), 0.0, LENGTHS[1], rescale)
        if bounds[0] < bounds[1]:
            width = float(bounds[1]) - float(bounds[0])
            check_range("the distance of target_bounds", width, LENGTHS[0], 2 * LENGTHS[1], rescale)


def bits_for(random_state: Any) -> Bits:
    """Protective randomness; or reproducible bits from a seed, which protect nobody."""
    if random_state is None:
        return Bits.secure()
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return Bits.seeded(int(random_state))
    raise InvalidInput(f"random_state must be None (private) or an integer seed, got {random_state!r}.")


@dataclass(eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Declarations that all estimators take. Their constructors only store them, as scikit-learn expects."""

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    adjacency: str = "replace-one"
    rows_per_unit: int = 1
    n_public: int | None = None
    ledger: Any = None
    random_state: int | None = None

    def _check_privacy(self) -> None:
        for field in fields(self):
            _check_kind(field.name, getattr(self, field.name), str(field.type))
        if not self.epsilon > 0:
            raise InvalidInput(f"epsilon must be positive, got {self.epsilon!r}; use float('inf') for no privacy.")
        if math.isfinite(self.epsilon):
            check_range("epsilon", self.epsilon, *_EPSILONS, "more protects nobody: use float('inf') for no privacy")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must be in [0, 1), got {self.delta!r}.")
        if self.n_public is not None and not (isinstance(self.n_public, int | np.integer) and self.n_public >= 1):
            raise InvalidInput(f"n_public must be a positive integer, got {self.n_public!r}.")
        if self.n_public is not None:
            check_range("n_public", self.n_public, 1, 10**15, "rows are counted in doubles")
        Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]

    def _ledger(self) -> Ledger:
        return opened(self.ledger)

    def _bits(self) -> Bits:
        return bits_for(self.random_state)

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

    def _guarantee(self, n: int) -> Guarantee:
        """What the declarations ask for; ``n`` is read only where the number of rows is public."""
        unit = Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]
        return Guarantee(float(self.epsilon), self._delta(n, math.isfinite(self.epsilon)), unit)

    def _fit_in_vault(self, data: Dataset, n: int, plan_for: PlanFor, asked: str) -> NDArray[np.float64]:
        """Plan, charge, run and certify: sets ``privacy_`` and ``n_iter_``, and returns what the solver found.

        Args:
            data: the rows.
            n: how many there are; nothing depends on it where it is private.
            plan_for: a plan for a number of rows and a guarantee; it uses no data.
            asked: the solver that was asked for, for the ledger's history.
        """
        guarantee = self._guarantee(n)
        vault = Vault(data, guarantee.unit, self._ledger(), self._bits())
        aim = replace(guarantee, delta=vault.ledger.portion(guarantee.delta)) if guarantee.private else guarantee
        if self._must_count(guarantee):
            rows, rest, payment = self._counted(vault, aim, plan_for, asked)
            plan = _after_count(plan_for, rows, rest)
        else:
            plan = plan_for(self._public_rows(n, guarantee), aim)
            payment = self._payment(aim, plan.name)
        found = self._run(vault, plan, guarantee, payment)
        self.privacy_ = self._certificate(vault, plan, guarantee, payment)
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
                return vault.run(solver, plan.problem, payment=payment, progress=progress)
            return vault.run_filtered(solver, plan.problem, budget, payment=payment, progress=progress)

    def _payment(self, aim: Guarantee, what: str) -> Payment:
        """A release as the ledger's history has it, and the (ε, δ) that it is charged as."""
        mark = f", NOT PRIVATE: bounds {FROM_THE_DATA}" if self._bounds_from_the_data() else ""
        return Payment(f"{type(self).__name__}({what}){mark}", aim.stated if aim.private else None)

    def _counted(self, vault: Vault, aim: Guarantee, plan_for: PlanFor, asked: str) -> tuple[float, Guarantee, Payment]:
        """A private number of rows, what the run that follows from it must keep, and what pays for that run.

        Count and run are one charge, so that a budget of just this guarantee has room for them. Where that much is no
        longer left they are two: a ledger finds that runs whose events it knows add up to less than their ε's.
        What cannot be planned for `SOME_ROWS` is refused before rows are counted.
        """
        count, promise, rest = self._count(aim)
        likely = plan_for(SOME_ROWS, rest)
        try:
            rows, payment = vault.release_first(count, promise, self._payment(aim, asked))
        except BudgetExceeded:
            vault.ledger.require([count.event(vault.unit), likely.event], vault.unit)
            rows = vault.release(count, note=f"{type(self).__name__}: number of rows")
            payment = self._payment(rest, asked)
        return max(_FEWEST_ROWS, float(rows)), rest, payment

    def _public_rows(self, n: int, guarantee: Guarantee) -> float:
        """The number of rows to divide by, where it is public."""
        if guarantee.unit.relation == "replace-one" or not guarantee.private:
            if self.n_public is not None and guarantee.private and self.n_public != n:
                raise InvalidInput(f"under replace-one n is public: n_public={self.n_public}, but X has {n} rows.")
            return float(n)
        assert self.n_public is not None
        return float(self.n_public)

    @staticmethod
    def _count(aim: Guarantee) -> tuple[Noisy, Promise, Guarantee]:
        """How the rows are counted, what is promised of the run that follows, and the guarantee that says the same.

        A private count is ε₁-DP and the run that follows is (ε − ε₁, δ)-DP whatever the count said: basic composition,
        valid although the run's steps depend on the count.
        """
        share, unit = _COUNT_SHARE * aim.epsilon, aim.unit
        promise = Promise(aim.stated[0] - share, aim.delta, unit.rows_per_unit)
        return Noisy(RowCount(), Laplace(unit.rows_per_unit / share)), promise, replace(aim, epsilon=promise.epsilon)

    def _must_count(self, guarantee: Guarantee) -> bool:
        """Whether the number of rows is private, and must be released first."""
        return guarantee.private and guarantee.unit.relation == "add-remove" and self.n_public is None

    def _certificate(self, vault: Vault, plan: Plan, guarantee: Guarantee, payment: Payment) -> Certificate:
        """Of everything that the vault has charged."""
        event = compose(vault.charged)
        if isinstance(event, NonPrivate) or not guarantee.private:
            spent = math.inf
        elif payment.promised_by is not None:
            spent = guarantee.epsilon  # by the promise, which the ledger has verified
        elif self._must_count(guarantee):  # count and run are two charges: the run is what it is
            run = compose(vault.charged[1:])
            spent = guarantee.epsilon + max(0.0, spent_epsilon(run, plan.guarantee) - plan.guarantee.epsilon)
        else:
            spent = spent_epsilon(event, plan.guarantee)
        bounds = self._bounds_from_the_data()
        unprotected = [*self._unprotected(), *bounds]
        if guarantee.unit.relation == "replace-one":
            unprotected.append("number of rows")
        return Certificate(
            spent,
            guarantee.delta,
            guarantee.unit,
            event,
            plan.name,
            plan.settings,
            tuple(unprotected),
            vault.protective and not bounds,
        )

    def _unprotected(self) -> tuple[str, ...]:
        return ()

    def _bounds_from_the_data(self) -> tuple[str, ...]:
        """Declarations that are marked as no declarations: what is fitted with them is not private."""
        found = []
        for field in fields(self):
            value = getattr(self, field.name)
            columns = value.items() if isinstance(value, Mapping) else ()
            found += [f"bounds of {name}" for name, c in columns if getattr(c, "bounds_private", True) is False]
            found += [field.name] if is_unprotected(value) else []
        return tuple(f"{what}, {FROM_THE_DATA}" for what in found)


_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "float": ("a number", (int, float, np.number)),
    "int": ("a whole number", (int, np.integer)),
    "bool": ("True or False", (bool, np.bool_)),
    "str": ("a word", (str,)),
}


def _check_kind(name: str, value: Any, declared: str) -> None:
    """Refuse a value of another kind than the parameter's annotation, in the same words for all."""
    kind, _, optional = declared.partition(" | ")
    if kind not in _KINDS or (optional and value is None):
        return
    words, types = _KINDS[kind]
    if not isinstance(value, types) or (kind != "bool" and isinstance(value, bool)):
        raise InvalidInput(f"{name} must be {words}, got {value!r}.")


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
    return plan.name + (f", noise multiplier {noise:.4g}" if noise else "")
