"""What an evaluation found: metrics with intervals, beside what a guess without features would have."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from discreet.errors import InvalidInput, did_you_mean
from discreet.events import Event
from discreet.units import Unit

__all__ = ["CONFIDENCE", "Evaluation", "Metric"]

CONFIDENCE = 0.95
"""Nominal coverage of all intervals."""


@dataclass(frozen=True)
class Metric:
    """One figure of an evaluation.

    Args:
        name: what it is, such as ``accuracy``.
        value: the estimate.
        low: lower end of its interval, for noise and for the choice of the test rows together.
        high: upper end.
        guess: the figure of a guess that ignores all features: the commonest class, or the mean; None where the
            figure has none.
    """

    name: str
    value: float
    low: float
    high: float
    guess: float | None = None

    def __str__(self) -> str:
        guess = "" if self.guess is None else f"; a guess has {self.guess:.4g}"
        return f"{self.name} {self.value:.4g} ({self.low:.4g} to {self.high:.4g}{guess})"


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a model on test rows, and what they cost.

    Args:
        metrics: the figures.
        rows: how many rows had a known target: exact on public rows, with noise on private ones.
        epsilon: what was charged; ∞ where nothing protects the rows, 0 where they were declared public.
        unit: whose privacy was protected; None on public rows.
        event: what was charged; None on public rows.
        protective: whether the noise came from the operating system, and not from a seed.
    """

    metrics: tuple[Metric, ...]
    rows: float
    epsilon: float = 0.0
    unit: Unit | None = None
    event: Event | None = None
    protective: bool = True

    @property
    def private(self) -> bool:
        """Whether the rows are protected: they were not declared public, ε is finite, and there was no seed."""
        return self.unit is not None and self.protective and math.isfinite(self.epsilon)

    def __getitem__(self, name: str) -> Metric:
        known = {metric.name: metric for metric in self.metrics}
        if name not in known:
            raise InvalidInput(f"there is no metric {name!r}; there are {', '.join(known)}.{did_you_mean(name, known)}")
        return known[name]

    @property
    def privacy(self) -> str:
        """One line about what protects the rows."""
        if self.unit is None:
            return "rows declared public: nothing protects them"
        if not math.isfinite(self.epsilon):
            return "no privacy (ε = ∞)"
        line = f"ε = {self.epsilon:.4g}, δ = 0 ({self.unit})"
        return line if self.protective else f"NOT PRIVATE: seeded noise; would be {line}"

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as plain values."""
        return {
            "private": self.private,
            "privacy": self.privacy,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "rows": self.rows,
            "confidence": CONFIDENCE,
            "metrics": {
                m.name: {"value": _or_none(m.value), "low": _or_none(m.low), "high": _or_none(m.high), "guess": m.guess}
                for m in self.metrics
            },
            "event": None if self.event is None else self.event.to_dict(),
        }

    def to_json(self) -> str:
        """The evaluation as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.metrics), self.privacy])


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
