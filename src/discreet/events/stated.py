"""Events that state a guarantee and nothing of how it is reached: pure, approximate, concentrated and Rényi DP."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.events.base import Event, count, fraction, number

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Promise",
    "PureDP",
    "RenyiDP",
]


@dataclass(frozen=True)
class PureDP(Event):
    """Any ε-DP release."""

    epsilon: float

    def __post_init__(self) -> None:
        number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")


@dataclass(frozen=True)
class ApproxDP(Event):
    """Any (ε, δ)-DP release."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        number(self, "delta", fraction, "in [0, 1]")


@dataclass(frozen=True)
class Promise(Event):
    """Whatever is released next: (ε, δ)-DP as a whole, however it was chosen. Charged before it is known.

    Stated for units of up to ``rows_per_unit`` rows under the relation in which it is accounted; nothing is claimed for
    larger ones. Under add-remove it says what such a unit costs when it comes or goes; an exchange of rows is two such
    steps, however many rows the promise is made for.
    """

    epsilon: float
    delta: float
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        number(self, "delta", fraction, "in [0, 1]")
        count(self, "rows_per_unit", 1)


@dataclass(frozen=True)
class ZCDP(Event):
    """Any ρ-zCDP release (Bun–Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        number(self, "rho", lambda r: 0 <= r < math.inf, "non-negative and finite")


@dataclass(frozen=True)
class RenyiDP(Event):
    """Any (α, τ)-RDP release: D_α ≤ ``divergence`` at the one ``order`` α, and so at every lower one (Mironov 2017).

    Stated for units of up to ``rows_per_unit`` rows under the relation in which it is accounted; nothing is claimed for
    larger ones.
    """

    order: float
    divergence: float
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        number(self, "order", lambda a: 1 < a < math.inf, "greater than 1 and finite")
        number(self, "divergence", lambda t: 0 <= t < math.inf, "non-negative and finite")
        count(self, "rows_per_unit", 1)
