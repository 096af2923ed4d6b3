"""Coefficients in units that a reader knows, with standard errors, intervals, tests and contrasts.

Everything here is computed from an estimate and its covariance, which were computed from released values alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from discreet.errors import InvalidInput, NotEstimable, did_you_mean

__all__ = ["GATE", "Coefficient", "Contrast", "Intervals", "Summary"]

Array = NDArray[np.float64]

GATE = 1.0
"""The least q with which intervals are given: every eigenvalue of the Hessian is then above the norm of its noise."""


class Coefficient(NamedTuple):
    """One line of a table of coefficients; without intervals all but the estimate is NaN."""

    name: str
    column: str
    estimate: float
    standard_error: float
    z: float
    p: float
    low: float
    high: float


class Contrast(NamedTuple):
    """A linear combination of coefficients, tested against 0."""

    estimate: float
    standard_error: float
    z: float
    p: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Intervals:
    """Coefficients in natural units and their covariance.

    Args:
        names: what each coefficient is about; levels that are joined are named together.
        columns: the column of the table that each belongs to.
        estimates: the coefficients.
        covariance: theirs.
        quality: q, the least eigenvalue of the released Hessian over the norm of its noise.
        needs: what would be needed for intervals, in words, where q is below 1.
        notes: what a reader has to know: reference levels, and levels that were joined.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    estimates: Array
    covariance: Array
    quality: float
    needs: str = ""
    notes: tuple[str, ...] = ()

    @property
    def estimable(self) -> bool:
        """Whether noise leaves room for intervals."""
        return self.quality >= GATE

    def require(self) -> None:
        """Refuse what noise hides.

        Raises:
            NotEstimable: q is below 1.
        """
        if not self.estimable:
            raise NotEstimable(self.needs)

    def contrast(self, weights: Any, level: float = 0.95) -> Contrast:
        """Σ weight·coefficient, with its interval.

        Args:
            weights: a mapping from names of coefficients to weights, or one weight for each coefficient.
            level: of confidence.
        """
        self.require()
        vector = self._weights(weights)
        error = math.sqrt(max(float(vector @ self.covariance @ vector), 0.0))
        return Contrast(*_tested(float(vector @ self.estimates), error, level))

    def _weights(self, weights: Any) -> Array:
        if isinstance(weights, Mapping):
            vector = np.zeros(len(self.names))
            for name, weight in weights.items():
                if name not in self.names:
                    known = ", ".join(self.names)
                    raise InvalidInput(
                        f"no coefficient is called {name!r}; there are {known}.{did_you_mean(name, self.names)}"
                    )
                vector[self.names.index(name)] = weight
            return vector
        vector = np.asarray(weights, dtype=np.float64)
        if vector.shape != (len(self.names),):
            raise InvalidInput(
                f"a contrast has {len(self.names)} weights, one for each coefficient, got {vector.shape}."
            )
        return vector

    def table(self, level: float = 0.95) -> list[Coefficient]:
        """One line for each coefficient."""
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))
        errors = errors if self.estimable else np.full(len(self.names), math.nan)
        lines = zip(self.names, self.columns, self.estimates, errors, strict=True)
        return [Coefficient(name, column, *_tested(float(b), float(se), level)) for name, column, b, se in lines]

    def interval(self, level: float = 0.95) -> Array:
        """(low, high) of each coefficient."""
        self.require()
        return np.array([[line.low, line.high] for line in self.table(level)])


def _tested(estimate: float, error: float, level: float) -> tuple[float, float, float, float, float, float]:
    """(estimate, standard error, z, p, low, high) of a normal estimate."""
    if not (isinstance(level, int | float | np.number) and 0 < level < 1):
        raise InvalidInput(f"level must be between 0 and 1, got {level!r}.")
    z = estimate / error if error > 0 else math.nan
    reach = float(ndtri((1 + level) / 2)) * error
    return estimate, error, z, 2 * float(ndtr(-abs(z))), estimate - reach, estimate + reach


@dataclass(frozen=True)
class Summary:
    """A table of coefficients with what a reader has to know about it; printing it shows the table.

    Args:
        title: lines above the table.
        lines: the coefficients.
        level: of confidence.
        notes: lines below the table.
    """

    title: tuple[str, ...]
    lines: list[Coefficient]
    level: float = 0.95
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        intervals = any(math.isfinite(line.standard_error) for line in self.lines)
        percent = f"{100 * self.level:g}%"
        head = (
            ["", "estimate", "std. error", "z", "P>|z|", f"[{percent}", "interval]"] if intervals else ["", "estimate"]
        )
        rows = [head, *(_shown(line, intervals) for line in self.lines)]
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        body = [
            "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        rule = "-" * max(map(len, [*body, *self.title]))
        return "\n".join([*self.title, rule, body[0], rule, *body[1:], rule, *self.notes])


def _shown(line: Coefficient, intervals: bool) -> list[str]:
    numbers = [f"{line.estimate:.4g}"]
    if intervals:
        numbers += [
            f"{line.standard_error:.3g}",
            f"{line.z:.2f}",
            f"{line.p:.3f}",
            f"{line.low:.4g}",
            f"{line.high:.4g}",
        ]
    return [line.name, *numbers]
