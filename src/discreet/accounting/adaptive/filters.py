"""Budgets for runs whose noise, batches or stopping depend on what was already answered.

Ordinary composition fixes the events beforehand. When the analyst chooses each next event after seeing the last answer,
a *filter* decides whether it may still happen, so that the whole run keeps a guarantee fixed in advance.

- `ZCDPFilter`: Σ ρ_i ≤ ρ keeps ρ-zCDP (Feldman–Zrnic 2021, theorem 4.3, all orders at once; Whitehouse et al. 2023).
- `RenyiFilter`: Σ D_α ≤ τ at one order α fixed beforehand keeps (α, τ)-RDP (Feldman–Zrnic 2021; Lécuyer 2021).
- `GDPFilter`: Σ μ_i² ≤ μ² keeps μ-GDP for Gaussian releases (Smith–Thakurta 2022; Koskela–Tobaben–Honkela 2023).
- `PureFilter`: Σ ε_i ≤ ε keeps ε-DP (Rogers et al. 2016).
- `ApproxFilter`: √(2 ln(1/δ')·Σ ε_i²) + ½Σ ε_i² ≤ ε and Σ δ_i ≤ δ − δ' keep (ε, δ)-DP (Whitehouse et al. 2023, theorem
  1).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction

from discreet.accounting.bounds import sum_up
from discreet.accounting.histories import histories
from discreet.accounting.upper.renyi import divergence
from discreet.accounting.upper.stated import approximate, pure_epsilon
from discreet.accounting.upper.zcdp import zcdp_rho, zcdp_to_epsilon
from discreet.errors import BudgetExceeded, InvalidInput, NotCertifiable
from discreet.events import ZCDP, ApproxDP, Event, Gaussian, Poisson, PureDP, RenyiDP
from discreet.units import Adjacency, Unit

__all__ = [
    "ApproxFilter",
    "GDPFilter",
    "PrivacyFilter",
    "PureFilter",
    "RenyiFilter",
    "ZCDPFilter",
]

_SLACK = 1e-12  # relative: sums of floats may round up, and a budget must not refuse its own last share


class PrivacyFilter(ABC):
    """A budget in one additive currency, spent before each release.

    Args:
        budget: the most that may ever be spent.
        adjacency: the relation, or a `Unit`.
    """

    def __init__(self, budget: float, adjacency: Adjacency) -> None:
        if not 0 <= budget < math.inf:
            raise InvalidInput(f"a filter's budget must be non-negative and finite, got {budget!r}.")
        self.budget = float(budget)
        self.unit = Unit.of(adjacency)
        self._spent = 0.0

    @abstractmethod
    def cost(self, event: Event) -> float:
        """What ``event`` costs in the filter's currency."""

    @abstractmethod
    def event(self) -> Event:
        """The whole budget as one event: what any run under this filter guarantees, whatever it did."""

    @property
    def spent(self) -> float:
        """The sum of all costs so far."""
        return self._spent

    @property
    def remaining(self) -> float:
        """What is left, never negative."""
        return max(0.0, self.budget - self.spent)

    def affords(self, event: Event) -> bool:
        """Whether ``event`` still fits."""
        return self._after(self.cost(event)) <= self.budget * (1 + _SLACK)

    def spend(self, event: Event) -> None:
        """Pay for ``event``, before it is released.

        Raises:
            BudgetExceeded: it does not fit. Nothing is charged, and nothing may be released.
        """
        cost = self.cost(event)
        after = self._after(cost)
        if not after <= self.budget * (1 + _SLACK):
            raise BudgetExceeded(
                f"{type(event).__name__} costs {cost:g}, but {self.remaining:g} of {self.budget:g} is left "
                f"({type(self).__name__}, {self.unit}). Nothing was released; use more noise or stop."
            )
        self._spent = after

    def _after(self, cost: float) -> float:
        # Rounded up at every addition, so the sum never falls below the truth.
        return math.nextafter(self._spent + cost, math.inf) if cost else self._spent


class ZCDPFilter(PrivacyFilter):
    """Keeps a fully adaptive run ρ-zCDP.

    Example:
        >>> budget = ZCDPFilter(0.5, "add-remove")
        >>> budget.spend(Gaussian(2.0))
        >>> budget.remaining
        0.375
    """

    def cost(self, event: Event) -> float:
        """ρ of the event."""
        return zcdp_rho(event, self.unit)

    def event(self) -> ZCDP:
        """``ZCDP(ρ)``."""
        return ZCDP(self.budget * (1 + _SLACK))

    def epsilon(self, delta: float) -> float:
        """ε at ``delta`` of the whole budget, whatever was spent."""
        return zcdp_to_epsilon(self.budget * (1 + _SLACK), delta)


class RenyiFilter(PrivacyFilter):
    """Keeps a fully adaptive run (α, τ)-RDP at one order chosen beforehand; sampled events are welcome.

    Example:
        >>> budget = RenyiFilter(8.0, 0.5, "replace-one")
        >>> budget.spend(Poisson(0.01, Gaussian(2.0)))
        >>> round(budget.spent, 6)
        0.000403
    """

    def __init__(self, order: float, budget: float, adjacency: Adjacency) -> None:
        super().__init__(budget, adjacency)
        if not 1 < order < math.inf:
            raise InvalidInput(f"a Rényi order must exceed 1 and be finite, got {order!r}.")
        self.order = float(order)

    @classmethod
    def for_target(cls, order: float, epsilon: float, delta: float, adjacency: Adjacency) -> RenyiFilter:
        """The largest filter at ``order`` that keeps (ε, δ)-DP (conversion of Canonne–Kamath–Steinke 2020)."""
        if not (epsilon > 0 and 0 < delta < 1):
            raise InvalidInput(f"a target needs ε > 0 and δ in (0, 1), got ({epsilon!r}, {delta!r}).")
        budget = epsilon - _conversion(order, delta)
        if budget <= 0:
            raise InvalidInput(f"order {order:g} cannot reach ε = {epsilon:g} at δ = {delta:g}; use a larger order.")
        return cls(order, budget * (1 - 2 * _SLACK), adjacency)

    def cost(self, event: Event) -> float:
        """D_α of the event."""
        return divergence(event, self.order, self.unit)

    def event(self) -> RenyiDP:
        """``RenyiDP(α, τ)``, for the filter's own unit."""
        return RenyiDP(self.order, self.budget * (1 + _SLACK), self.unit.rows_per_unit)

    def epsilon(self, delta: float) -> float:
        """ε at ``delta`` of the whole budget, whatever was spent."""
        return max(0.0, self.budget * (1 + _SLACK) + _conversion(self.order, delta))


class GDPFilter(PrivacyFilter):
    """Keeps a fully adaptive run of Gaussian releases μ-GDP: Gaussians add exactly, so nothing is lost to adaptivity.

    ``budget``, ``spent`` and ``remaining`` are in μ².

    Example:
        >>> budget = GDPFilter(1.0, "add-remove")
        >>> for _ in range(4):
        ...     budget.spend(Gaussian(2.0))
        >>> budget.affords(Gaussian(100.0))
        False
    """

    def __init__(self, mu: float, adjacency: Adjacency) -> None:
        if not mu >= 0:
            raise InvalidInput(f"a GDP budget μ must be non-negative, got {mu!r}.")
        super().__init__(mu * mu, adjacency)

    @property
    def mu(self) -> float:
        """The μ that the whole run keeps."""
        return math.sqrt(self.budget * (1 + _SLACK))

    def event(self) -> Gaussian:
        """The Gaussian release of the same μ; a budget of 0 has none.

        Raises:
            InvalidInput: the budget is 0.
        """
        if not self.budget:
            raise InvalidInput("a GDP filter without a budget allows no release; give μ > 0.")
        return Gaussian(self.unit.sensitivity(1.0) / self.mu)

    def cost(self, event: Event) -> float:
        """μ² of Gaussian releases."""
        return self._squared(event, self.unit)

    def _squared(self, event: Event, unit: Unit) -> float:
        worst = 0.0
        for history in histories(event, unit):
            total = 0.0
            for leaf, count in history.items():
                if isinstance(leaf.event, Poisson) and leaf.event.rate == 1:
                    total += count * self._squared(leaf.event.event, leaf.unit)
                elif isinstance(leaf.event, Gaussian):
                    mu = leaf.event.mu(leaf.unit)
                    total += count * (mu * mu)  # a product overflows to infinity, a power raises
                else:
                    raise NotCertifiable(
                        f"a GDP filter takes Gaussian releases only, not {type(leaf.event).__name__}; use RenyiFilter."
                    )
            worst = max(worst, total)
        return worst


class PureFilter(PrivacyFilter):
    """Keeps a fully adaptive run ε-DP.

    Example:
        >>> from discreet.events import Laplace
        >>> budget = PureFilter(1.0, "replace-one")
        >>> budget.spend(Laplace(4.0))
        >>> round(budget.remaining, 9)
        0.5
    """

    def event(self) -> PureDP:
        """``PureDP(ε)``."""
        return PureDP(self.budget * (1 + _SLACK))

    def cost(self, event: Event) -> float:
        """ε of the event.

        Raises:
            NotCertifiable: a leaf has no pure guarantee.
        """
        total = max(
            sum_up((pure_epsilon(leaf.event, leaf.unit), count) for leaf, count in history.items())
            for history in histories(event, self.unit)
        )  # fmt: skip
        if math.isinf(total):
            raise NotCertifiable(f"{type(event).__name__} has no pure ε; use ZCDPFilter, RenyiFilter or ApproxFilter.")
        return total


class ApproxFilter(PrivacyFilter):
    """Keeps a fully adaptive run of (ε_i, δ_i)-DP releases (ε, δ)-DP with advanced-composition rates.

    ``slack`` = δ' pays for concentration, the rest of δ for the releases' own δ_i. Internally the currency is Σ ε_i²,
    whose budget solves √(2 ln(1/δ')·v) + v/2 = ε.

    Example:
        >>> from discreet.events import ApproxDP, Repeat
        >>> budget = ApproxFilter(1.0, 1e-5, "add-remove", slack=5e-6)
        >>> budget.spend(Repeat(ApproxDP(0.01, 1e-9), 100))
        >>> round(budget.epsilon_spent, 3)
        0.499
    """

    def __init__(self, epsilon: float, delta: float, adjacency: Adjacency, slack: float | None = None) -> None:
        slack = delta / 2 if slack is None else slack
        if not (epsilon > 0 and 0 < slack <= delta < 1):
            raise InvalidInput(f"need ε > 0 and 0 < slack ≤ δ < 1, got ε={epsilon!r}, δ={delta!r}, slack={slack!r}.")
        self._width = math.sqrt(2 * math.log(1 / slack))
        root = 2 * epsilon / (self._width + math.sqrt(self._width**2 + 2 * epsilon))
        super().__init__(root * root * (1 - 2 * _SLACK), adjacency)
        self._promise = ApproxDP(epsilon, delta)
        left = float(delta) - slack
        exact = Fraction(left) + Fraction(slack) <= Fraction(delta)
        self.delta_budget = left if exact else math.nextafter(left, -math.inf)  # with δ' never more than δ
        self.delta_spent = 0.0

    def cost(self, event: Event) -> float:
        """Σ ε_i² of the event's releases, each stated with its own ε_i."""
        return self._both(event)[0]

    def event(self) -> ApproxDP:
        """``ApproxDP(ε, δ)`` of the whole budget."""
        return self._promise

    @property
    def epsilon_spent(self) -> float:
        """The ε that the squares spent so far amount to."""
        return self._width * math.sqrt(self.spent) + self.spent / 2

    def affords(self, event: Event) -> bool:
        """Whether both its ε_i and its δ_i still fit."""
        return super().affords(event) and self._delta_after(self._both(event)[1]) <= self.delta_budget

    def spend(self, event: Event) -> None:
        """Pay for ``event`` in Σ ε_i² and in Σ δ_i, or in neither."""
        delta = self._both(event)[1]
        if not self._delta_after(delta) <= self.delta_budget:
            raise BudgetExceeded(
                f"{type(event).__name__} fails with probability {delta:g}, but only "
                f"{self.delta_budget - self.delta_spent:g} is left of δ. Nothing was released."
            )
        super().spend(event)
        self.delta_spent = self._delta_after(delta)

    def _delta_after(self, delta: float) -> float:
        return sum_up([(self.delta_spent, 1), (delta, 1)])

    def _both(self, event: Event) -> tuple[float, float]:
        squares, deltas = 0.0, 0.0
        for history in histories(event, self.unit):
            square, failures = 0.0, []
            for leaf, count in history.items():
                stated = approximate(leaf.event, leaf.unit)
                epsilon = stated.epsilon if stated else pure_epsilon(leaf.event, leaf.unit)
                if math.isinf(epsilon):
                    raise NotCertifiable(
                        f"{type(leaf.event).__name__} states no (ε, δ); use RenyiFilter, or state it as ApproxDP."
                    )
                square += count * (epsilon * epsilon)
                failures.append((stated.delta if stated else 0.0, count))
            squares, deltas = max(squares, square), max(deltas, sum_up(failures))
        return squares, deltas


def _conversion(order: float, delta: float) -> float:
    return -(math.log(delta) + math.log(order)) / (order - 1) + math.log1p(-1 / order)
