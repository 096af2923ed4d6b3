"""The private half of every estimator: declared guarantee, ledger, randomness, number of rows, certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from discreet.data.unprotected import is_unprotected
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.events import Event, NonPrivate, Promise, compose
from discreet.ledger import Ledger
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.noise.bits import Bits
from discreet.queries.count import RowCount
from discreet.report.certificate import FROM_THE_DATA, Certificate
from discreet.solvers import Guarantee
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
    "plain_settings",
    "spent_epsilon",
]

SOME_ROWS = 1e4
"""Stands for the number of rows while it is not known; no refusal of a plan depends on it."""

_ROUNDING = 1e-9
"""Of ε: what summing up a plan may add to what its calibration found."""
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

    def _aim(self, guarantee: Guarantee, ledger: Ledger) -> Guarantee:
        """What plans are calibrated to: where there is a budget, within the guarantee by what its rules may ask for."""
        if not guarantee.private or ledger.budget is None:
            return guarantee
        return Guarantee(guarantee.epsilon * (1 - 3 * _ROUNDING), ledger.portion(guarantee.delta), guarantee.unit)

    def _payment(self, aim: Guarantee, what: str) -> Payment:
        """A release as the ledger's history has it, and the (ε, δ) that it is charged as."""
        stated = (aim.epsilon * (1 + _ROUNDING), aim.delta) if aim.private else None
        mark = f", NOT PRIVATE: bounds {FROM_THE_DATA}" if self._bounds_from_the_data() else ""
        return Payment(f"{type(self).__name__}({what}){mark}", stated)

    def _counted(
        self, vault: Vault, aim: Guarantee, name: str, rehearsed: Callable[[Guarantee], Event], released: list[Event]
    ) -> tuple[float, Guarantee, Payment]:
        """A private number of rows, what the run that follows from it is calibrated to, and what pays for that run.

        Count and run are one charge, so that a budget of just this guarantee has room for them. Where that much is no
        longer left they are two: a ledger finds that runs whose events it knows add up to less than their ε's.

        Args:
            vault: the rows.
            aim: what both must keep together.
            name: of the run, for the ledger's history.
            rehearsed: the event of a run, were there `SOME_ROWS`. What it refuses is refused before rows are counted.
            released: the count's event is added to it.
        """
        count, promise, rest = self._count(aim)
        event, run = count.event(vault.unit), rehearsed(rest)
        try:
            rows, payment = vault.release_first(count, promise, self._payment(aim, name))
        except BudgetExceeded:
            vault.ledger.require([event, run], vault.unit)
            rows = vault.release(count, note=f"{type(self).__name__}: number of rows")
            payment = self._payment(rest, name)
        released.append(event)
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
        """How the rows are counted, what is promised of the run that follows, and what that run is calibrated to.

        A private count is ε₁-DP and the run that follows is (ε − ε₁, δ)-DP whatever the count said: basic composition,
        valid although the run's steps depend on the count.
        """
        share, unit = _COUNT_SHARE * aim.epsilon, aim.unit
        promise = Promise(aim.epsilon - share, aim.delta, unit.rows_per_unit)
        rest = Guarantee(promise.epsilon * (1 - 2 * _ROUNDING), aim.delta, unit)
        return Noisy(RowCount(), Laplace(unit.rows_per_unit / share)), promise, rest

    def _must_count(self, guarantee: Guarantee) -> bool:
        """Whether the number of rows is private, and must be released first."""
        return guarantee.private and guarantee.unit.relation == "add-remove" and self.n_public is None

    def _certificate(
        self,
        released: list[Event],
        guarantee: Guarantee,
        aim: Guarantee,
        name: str,
        solver: Any,
        protective: bool,
        payment: Payment,
    ) -> Certificate:
        event = compose(released)
        if isinstance(event, NonPrivate) or not guarantee.private:
            spent = math.inf
        elif payment.promised_by is not None:
            spent = guarantee.epsilon  # by the promise, which the ledger has verified
        elif self._must_count(guarantee):  # count and run are two charges: the run is what it is
            rest = self._count(aim)[2]
            spent = guarantee.epsilon + max(0.0, spent_epsilon(compose(released[1:]), rest) - rest.epsilon)
        else:
            spent = spent_epsilon(event, aim)
            spent = guarantee.epsilon if spent == aim.epsilon else spent
        settings = {k: v for k, v in plain_settings(solver).items() if v is not None}
        bounds = self._bounds_from_the_data()
        unprotected = [*self._unprotected(), *bounds]
        if guarantee.unit.relation == "replace-one":
            unprotected.append("number of rows")
        return Certificate(
            spent, guarantee.delta, guarantee.unit, event, name, settings, tuple(unprotected), protective and not bounds
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


def spent_epsilon(event: Event, guarantee: Guarantee) -> float:
    """The ε that a run cost, at the guarantee's δ: what was promised, or the truth where it is more."""
    from discreet.accounting import delta, epsilon

    # a calibrated plan has nothing to spare, which one look at δ(ε) shows; inverting the curve takes dozens
    if guarantee.delta > 0:
        used = delta(event, guarantee.epsilon, guarantee.unit).upper / guarantee.delta
        if 1 - 1e-4 <= used <= 1:
            return guarantee.epsilon
    spent = epsilon(event, guarantee.delta, guarantee.unit).upper
    return min(guarantee.epsilon, spent) if spent <= guarantee.epsilon * (1 + _ROUNDING) else spent


def plain_settings(solver: Any) -> dict[str, Any]:
    """A solver's settings as plain values for the certificate."""
    tree = asdict(solver) if is_dataclass(solver) and not isinstance(solver, type) else {}
    plain = (int, float, str, bool, dict, type(None))
    return {key: value if isinstance(value, plain) else str(value) for key, value in tree.items()}
