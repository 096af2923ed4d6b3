"""A count of what fully adaptive runs have spent, which holds at every moment at once.

With probability 1 − δ, at every t the privacy loss is at most Σ D_α + log(m/δ)/(α − 1) for each of m orders: exp of the
loss less its Rényi bound is a supermartingale, and Ville's inequality holds at all times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.accounting.upper.renyi import divergence
from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.units import Adjacency, Unit

__all__ = ["RenyiOdometer"]

_SLACK = 1e-12  # relative: what sums of floats may be rounded down by


class RenyiOdometer:
    """A running ε that holds at every moment at once, for runs without a budget.

    With probability at least 1 − δ over the answers, the privacy loss at *every* time is at most `epsilon` as read
    then.

    Example:
        >>> from discreet.events import Gaussian
        >>> odometer = RenyiOdometer(1e-5, "add-remove", orders=[4.0, 16.0, 64.0])
        >>> for _ in range(10):
        ...     odometer.add(Gaussian(20.0))
        >>> round(odometer.epsilon, 3)
        1.0
    """

    def __init__(
        self, delta: float, adjacency: Adjacency, orders: Sequence[float] = (2.0, 4.0, 8.0, 16.0, 64.0)
    ) -> None:
        if not 0 < delta < 1:
            raise InvalidInput(f"an odometer needs δ in (0, 1), got {delta!r}.")
        if not orders or not all(1 < order < math.inf for order in orders):
            raise InvalidInput(f"an odometer needs finite orders above 1, got {list(orders)!r}.")
        self.delta = delta
        self.unit = Unit.of(adjacency)
        self._divergences = {float(order): 0.0 for order in orders}

    def add(self, event: Event) -> None:
        """Count ``event``, before it is released."""
        for order in self._divergences:
            self._divergences[order] += divergence(event, order, self.unit)

    @property
    def epsilon(self) -> float:
        """The reading: 0 while nothing was released."""
        if not any(self._divergences.values()):
            return 0.0
        share = math.log(len(self._divergences) / self.delta)
        return min(spent + share / (order - 1) for order, spent in self._divergences.items()) * (1 + _SLACK)
