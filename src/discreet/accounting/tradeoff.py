"""The trade-off function: what an attacker who tests for one unit can hope for."""

from __future__ import annotations

import math

from discreet.accounting.bounds import Bounds
from discreet.accounting.curve import Curve, curve
from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.units import Adjacency

__all__ = ["Tradeoff", "tradeoff"]

_GRID, _COARSE = 48, 12
"""Lines by which the function is bounded; fewer where each takes a second. Every number of them gives a bound."""


class Tradeoff:
    """The least false-negative rate at each false-positive rate, over all tests of one unit's presence.

    f(x) = sup over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε x, e^{−ε}(1 − δ(ε) − x)), the symmetric trade-off function that
    says the same as the curve δ(ε) (Dong–Roth–Su 2022, Propositions 2.5 and 2.13). Lines with proved δ bound it from
    below; between two lines, the concave α ↦ 1 − δ(α) − αx lies below the chords through its neighbours, prolonged,
    which bounds it from above.
    """

    def __init__(self, privacy: Curve) -> None:
        self.curve = privacy
        self._points: list[tuple[float, Bounds]] | None = None

    def _grid(self) -> list[tuple[float, Bounds]]:
        if self._points is None:
            top = self.curve.epsilon(1e-12).upper
            top = 30.0 if math.isinf(top) else min(max(top, 1e-3), 700.0)  # e^ε and its steps are needed as doubles
            self._points = []
            lines = _COARSE if self.curve.is_slow else _GRID
            for i in range(lines + 1):
                at = top * (i / lines) ** 1.5
                self._points.append((at, self.curve.delta(at)))
        return self._points

    def __call__(self, false_positive_rate: float) -> Bounds:
        """Certified bounds of the least false-negative rate.

        Raises:
            InvalidInput: the rate is outside [0, 1].
        """
        x = false_positive_rate
        if isinstance(x, bool) or not isinstance(x, int | float) or math.isnan(x) or not 0 <= x <= 1:
            raise InvalidInput(f"false_positive_rate must be in [0, 1], got {x!r}.")
        points = [(math.exp(at), bounds) for at, bounds in self._grid()]
        last = points[-1][0]
        # Concave in α, and in 1/α, with what may lie beyond the last point.
        steep = _sup([(a, 1 - b.upper - a * x, 1 - b.lower - a * x) for a, b in points])
        flat = _sup([(1 / a, (1 - b.upper - x) / a, (1 - b.lower - x) / a) for a, b in reversed(points)])
        low = max(0.0, steep.lower, flat.lower)
        high = max(low, steep.upper, flat.upper, 1 - last * x, (1 - x) / last)
        return Bounds(low, min(1 - x, high))

    def true_positive_rate(self, false_positive_rate: float) -> Bounds:
        """Certified bounds of the greatest true-positive rate at a false-positive rate."""
        miss = self(false_positive_rate)
        return Bounds(1 - miss.upper, 1 - miss.lower)


def _sup(points: list[tuple[float, float, float]]) -> Bounds:
    """Bounds of the supremum of a concave function known at (place, lower, upper), places increasing."""
    places, sure, hoped = zip(*points, strict=True)
    high = max(hoped)
    for i in range(len(points) - 1):
        left, right = places[i], places[i + 1]
        roofs = []  # lines above the function on the cell: chords through its neighbours, prolonged
        if i > 0:
            slope = (hoped[i] - sure[i - 1]) / (left - places[i - 1])
            roofs.append((hoped[i] - slope * left, slope))
        if i + 2 < len(points):
            slope = (sure[i + 2] - hoped[i + 1]) / (places[i + 2] - right)
            roofs.append((hoped[i + 1] - slope * right, slope))
        corners = [left, right]
        if len(roofs) == 2 and roofs[0][1] != roofs[1][1]:
            meeting = (roofs[1][0] - roofs[0][0]) / (roofs[0][1] - roofs[1][1])
            corners += [meeting] if left < meeting < right else []
        high = max(high, *(min(base + slope * at for base, slope in roofs) for at in corners))
    return Bounds(max(sure), high)


def tradeoff(event: Event, adjacency: Adjacency) -> Tradeoff:
    """The trade-off function of ``event``; see `Tradeoff`.

    Example:
        >>> from discreet.events import PureDP
        >>> attack = tradeoff(PureDP(1.0), "add-remove")
        >>> round(attack.true_positive_rate(0.01).upper, 4)
        0.0272
    """
    return Tradeoff(curve(event, adjacency))
