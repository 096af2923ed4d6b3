"""Sums over rows of how far a public model's predictions are from numeric targets.

Claim: a row with a known target contributes 1 to the count of such rows, and for each of k measures a value in [0, 1]
less ½: whole numbers of steps of 2^−20, with ℓ1 norm at most (1 + k/2)·2^20, for every row content whatever. A row
without a known target contributes nothing. Two rows with known targets differ by 1 in each measure at most and not in
the count, so that no two rows are further than max(k, 1 + k/2)·2^20 from each other in ℓ1. θ is rounded to whole steps,
so ⟨x, θ⟩ is exact in any order of summation and a row's contribution depends on nothing but the row and the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["MEASURES", "MOST_DEVIANCE", "OutcomeSums", "measure"]

Floats: TypeAlias = NDArray[np.float64]

_STEPS = 2**20  # in a value of 1

MOST_DEVIANCE = 2.0
"""The largest Poisson deviance of one row that counts, in units of the largest count that is declared."""

MEASURES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "squared_error": lambda p, y: ((p - y) / 2) ** 2,
    "target": lambda p, y: (y + 1) / 2,
    "squared_target": lambda p, y: y**2,
    "share": lambda p, y: y,
    "shortfall": lambda p, y: np.maximum(y - p, 0) / 2,
    "excess": lambda p, y: np.maximum(p - y, 0) / 2,
    "below": lambda p, y: (y <= p).astype(np.float64),
    "deviance": lambda p, y: poisson_deviance(p, y) / MOST_DEVIANCE,
    "entropy": lambda p, y: -np.e * _y_log(y, np.maximum(y, 0)),
}
"""Functions of a coded prediction and target in [−1, 1], with values in [0, 1]; what is beyond is clipped."""


def poisson_deviance(predicted: Floats, y: Floats) -> Floats:
    """2(y log(y/predicted) − y + predicted), which is 0 where the prediction is right."""
    with np.errstate(all="ignore"):
        return 2 * (_y_log(y, y / predicted) - y + predicted)


def _y_log(y: Floats, ratio: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.where(y > 0, y * np.log(ratio), 0.0)


def measure(name: str, predicted: Floats, y: Floats) -> Floats:
    """The values of a measure in [0, 1], one a row; what is not a number counts as 1, the worst."""
    with np.errstate(all="ignore"):
        values = MEASURES[name](predicted, y)
    return np.clip(np.where(np.isnan(values), 1.0, values), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class OutcomeSums:
    """The number of rows with a known target, and Σ (measure − ½) over them for each measure.

    Args:
        rows: public facts about the rows, which have one score each.
        loss: whose ``mean`` turns scores ⟨x, θ⟩ into predicted targets.
        theta: the model, of shape ``rows.shape``.
        measures: names of `MEASURES`.
        low: the least prediction on the coded scale; predictions are clipped to [low, 1], and targets to [−1, 1].
    """

    rows: RowSpec
    loss: Loss
    theta: Floats
    measures: tuple[str, ...]
    low: float = -1.0

    norm: ClassVar[Norm] = "l1"
    grid: ClassVar[float] = 1.0 / _STEPS

    def __post_init__(self) -> None:
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, the rows need {self.rows.shape} and one output.")

    @property
    def bound(self) -> int:
        """1 for the count and ½ for each measure, in steps."""
        return _STEPS + len(self.measures) * (_STEPS // 2)

    @property
    def replace_one_factor(self) -> float:
        """max(k, 1 + k/2) over 1 + k/2, for k measures, rounded up."""
        k = len(self.measures)
        return math.nextafter(max(k, 1 + k / 2) / (1 + k / 2), 2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """(1 + number of measures,)."""
        return (1 + len(self.measures),)

    def integers(self, data: Dataset) -> Integers:
        """The exact sums in grid steps, the count first."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm or a schema.")

        def block_sum(block: Block) -> Integers:
            values, known = self._values(block, rounded=True)
            steps = np.rint(values * _STEPS).astype(np.int64) - _STEPS // 2
            return np.append(_STEPS * known.sum(), np.where(known, steps, 0).sum(axis=1)).astype(np.int64)

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The sums in floating point, the count first."""

        def block_sum(block: Block) -> Floats:
            values, known = self._values(block, rounded=False)
            return np.append(known.sum(), np.where(known, values - 0.5, 0.0).sum(axis=1))

        return np.sum(data.map_blocks(block_sum), axis=0)

    def _values(self, block: Block, *, rounded: bool) -> tuple[Floats, NDArray[np.bool_]]:
        known = np.isfinite(block.y)
        values = np.zeros((len(self.measures), len(block.y)))
        for part, z in linear_predictors(block, self.theta, rounded=rounded):
            y = np.clip(np.where(known[part], block.y[part], 0.0), -1.0, 1.0)
            with np.errstate(all="ignore"):
                predicted = np.clip(np.nan_to_num(self.loss.mean(z)), self.low, 1.0)
            for place, name in enumerate(self.measures):
                values[place, part] = measure(name, predicted, y)
        return values, known
