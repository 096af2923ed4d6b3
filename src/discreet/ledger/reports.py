"""What a ledger tells: its budget, its history, and what was spent."""

from __future__ import annotations

import math

from discreet.accounting.bounds import Bounds
from discreet.errors import InvalidInput
from discreet.events import Event, compose
from discreet.ledger.adaptive import RESERVE, Entry
from discreet.ledger.base import Budget, Charge, Stated
from discreet.ledger.book import Limit, charges_of
from discreet.ledger.open_book import OpenBook
from discreet.units import Adjacency, Unit

__all__ = ["Reports"]


class Reports(OpenBook):
    """All that can be asked without changing anything."""

    @property
    def budget(self) -> Budget | None:
        """The dataset's budget, or the analyst's part of it; None when it only records."""
        with self._lines(write=False):
            limit = self._own_limit()
        return None if limit is None else limit.budget

    def _own_limit(self) -> Limit | None:
        """The limit that is spoken of: the analyst's part, the dataset's, or that of the first it is derived from."""
        limits = self._book.limits(self.dataset, self.analyst)
        parts = [limit for limit in limits if limit.analyst]
        return next(iter(parts or limits), None)

    def portion(self, delta: float) -> float:
        """The part of its δ that a run should use: then runs whose ε's and δ's add up to the budget are all admitted.

        The budget keeps the rest for rules by which runs add up to less than the sum of their ε's. A run that takes
        all of the budget's δ leaves nothing to add up, and may use all of it.
        """
        budget, delta = self.budget, Stated.of((0.0, delta)).delta
        return delta if budget is None or delta >= budget.delta else delta * (1 - RESERVE - 1e-9)

    def history(self) -> tuple[Charge, ...]:
        """Every charge of this dataset and of those derived from it, oldest first; an analyst sees the own ones."""
        with self._lines(write=False) as lines:
            found = charges_of(lines.of_datasets(self._book.descendants(self.dataset)))
        return tuple(charge for charge in found if self.analyst in ("", charge.analyst))

    def spent(self, delta: float | None = None, adjacency: Adjacency | None = None) -> Bounds:
        """The certified ε of everything charged so far, whatever became of the runs.

        Args:
            delta: by default, and only for, a ledger with a budget: its δ. Without a budget it must be said, and the
                answer holds for runs that were not chosen by looking at each other's results.
            adjacency: likewise, the unit.
        """
        with self._lines(write=False):
            limit = self._own_limit()
            if limit is not None:
                budget = limit.budget
                if delta not in (None, budget.delta) or (adjacency is not None and Unit.of(adjacency) != budget.unit):
                    raise InvalidInput(
                        f"what was spent is stated as the budget is, {budget}; leave delta and adjacency out."
                    )
                return limit.tally.spent()
        charges = self.history()
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

    def forecast(self, event: Event, unit: Adjacency, stated: tuple[float, float] | None, times: int) -> float | None:
        """The certified ε of all charges so far and of ``times`` more that are alike. Nothing is charged.

        Returns:
            None without a budget in this unit.

        Example:
            >>> from discreet.events import PureDP
            >>> from discreet.ledger import Ledger
            >>> ledger = Ledger(epsilon=1.0, delta=1e-6, adjacency="replace-one")
            >>> round(ledger.forecast(PureDP(0.25), "replace-one", (0.25, 0.0), 3), 6)
            0.75
        """
        if type(times) is not int or times < 0:
            raise InvalidInput(f"times must be a whole number, 0 or more, got {times!r}.")
        with self._lines(write=False):
            limit = self._own_limit()
            if limit is None or limit.budget.unit != Unit.of(unit):
                return None
            claim = None if stated is None else Stated.of(stated)
            return limit.tally.spent([Entry(event, event, claim)] * times).upper
