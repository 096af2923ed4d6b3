"""Noise that is correlated between steps: DP-FTRL with a banded matrix, on integers, one step at a time.

Independent noise adds up along a training: after t steps the weights carry the noise of t draws. Here the noise of a
step cancels a part of the noise of those before. With the lower triangular Toeplitz matrix C of coefficients c_0, …,
c_{b−1} (b *bands*) and the integer sums x_1, x_2, … of the steps, what is released at step t is

    y_t = c_0·x_t + c_1·x_{t−1} + … + c_{b−1}·x_{t−b+1} + z_t,     z_t = round(σZ),

and the model moves by x̂ with C·x̂ = y, which is computed from released numbers alone: x̂ = x + C⁻¹z. The coefficients
are whole numbers, so that y is an integer sum with exact noise, like every release of the library.

**Claim.** Rows are in one of b groups each, drawn once by each row for itself, and step t samples the rows of group
t mod b by coins of rate q (`Cyclic`). A row that takes part at step t moves y_t, …, y_{t+b−1} by c_0·g, …, c_{b−1}·g,
for one integer vector g with ‖g‖ ≤ B, and nothing else until its group is up again, at step t + b. So its k = T/b turns
move disjoint stretches of the release, each as a whole by at most ‖c‖·B in ℓ2, and each with its own coin. Given the
group, the numbers before and the other rows' coins, a turn is the Gaussian mechanism of sensitivity ‖c‖·B on a row that
is present with probability q: ``Poisson(q, Gaussian(σ/(‖c‖·B)))``, and k of them are composed (Choquette-Choo et al.
2023, theorem 4). The group does not matter, as all groups have k turns. A round is one cycle of b steps, and has one
such event.

A round that broke off would bring rows back after fewer than b steps. The next round therefore begins a new matrix:
sums from before are forgotten, and no later number depends on them. A resumed training does the same.

Coefficients are those of the square root of the matrix of partial sums, c_i = binom(2i, i)/4^i, cut after b of them
(Kalinin and Lampert 2024), in whole multiples of 2^−10. Rounding them changes the noise by less than a thousandth, and
the claim not at all, since it is about the whole numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from discreet import events
from discreet.errors import InvalidInput
from discreet.measurements.sampling import PoissonSampling, independent_parts
from discreet.noise.bits import Bits
from discreet.queries.base import Norm
from discreet.torch.rows import TorchRows
from discreet.units import Unit

__all__ = ["BandedNoise", "Cyclic", "MixedSum", "square_root_coefficients"]

UNIT_COEFFICIENT: Final = 2**10
"""c_0: coefficients are whole multiples of 1/c_0 of it."""
LARGEST: Final = 2**61
"""Mixed sums stay below it, so that with noise they are 64-bit integers."""


def square_root_coefficients(bands: int) -> tuple[int, ...]:
    """The first coefficients of the square root of the matrix of partial sums, in units of 2^−10, rounded.

    Example:
        >>> square_root_coefficients(4)
        (1024, 512, 384, 320)
    """
    return tuple(round(UNIT_COEFFICIENT * math.comb(2 * i, i) / 4**i) for i in range(bands))


@dataclass(frozen=True)
class Cyclic:
    """``groups`` batches a round, one of each group of rows: a row draws its group once for the whole training.

    Args:
        groups: their number, b.
        rate_in_group: the probability q that a row takes part when its group is up.
    """

    groups: int
    rate_in_group: float
    _drawn: dict[int, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.groups < 1 or not 0 < self.rate_in_group <= 1:
            raise InvalidInput(f"groups need a rate in (0, 1], got {self.groups} and {self.rate_in_group!r}.")

    @property
    def steps(self) -> int:
        """One batch of each group."""
        return self.groups

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """One turn of a row: ``Poisson(rate_in_group, inner)``, or ``inner`` where all of a group take part.

        Raises:
            InvalidInput: a unit of several rows, which may be in several groups.
        """
        if unit.rows_per_unit != 1:
            raise InvalidInput(
                "bands=… protects single rows: rows of one person would be in several groups, whose turns overlap. "
                "Nothing was released."
            )
        return inner if self.rate_in_group == 1 else PoissonSampling(self.rate_in_group).event(inner, unit)

    def draw(self, rows: TorchRows, bits: Bits) -> Iterator[TorchRows]:
        """The batches of a cycle; groups are those of the first."""
        if len(rows) not in self._drawn:
            self._drawn[len(rows)] = independent_parts(len(rows), self.groups, bits)
        drawn, sampling = self._drawn[len(rows)], PoissonSampling(self.rate_in_group)
        for group in range(self.groups):
            members = rows.take(np.flatnonzero(drawn == group))
            yield members if self.rate_in_group == 1 else sampling.draw(members, bits)  # type: ignore[arg-type, misc]

    def rate(self, n: float) -> float:
        """The probability that a row is in a given batch, over its group and its coin."""
        return self.rate_in_group / self.groups


@dataclass(frozen=True)
class MixedSum:
    """What a mechanism needs to know of y: the bound ‖c‖·B of one turn, in whole steps."""

    bound: int
    grid: float = 1.0
    norm: Norm = "l2"


class BandedNoise:
    """The sums and releases that the next steps of a training need; it is inside the vault, like the rows.

    Args:
        coefficients: c, whole numbers, the first of which is not zero.
    """

    def __init__(self, coefficients: tuple[int, ...]) -> None:
        if not coefficients or coefficients[0] < 1:
            raise InvalidInput(f"coefficients are whole numbers that begin with a positive one, got {coefficients}.")
        self.coefficients = coefficients
        earlier = len(coefficients) - 1
        self._sums: deque[list[torch.Tensor]] = deque(maxlen=earlier)
        self._released: deque[list[torch.Tensor]] = deque(maxlen=earlier)
        self._mixing: list[torch.Tensor] | None = None
        self._steps = 0

    def begin_round(self) -> None:
        """Begin a cycle; where the one before broke off, with a new matrix."""
        if self._steps % len(self.coefficients):
            self._sums.clear()
            self._released.clear()
            self._steps = 0

    def query(self, bound: int) -> MixedSum:
        """The mixed sum, for rows of integers of length at most ``bound``; its bound is rounded up."""
        return MixedSum(math.isqrt(sum(c * c for c in self.coefficients) * bound**2 - 1) + 1)

    def require_room(self, most_rows: int, bound: int) -> None:
        """Refuse a grid on which mixed sums of so many rows could exceed 64-bit integers."""
        if most_rows * bound * sum(map(abs, self.coefficients)) >= LARGEST:
            raise InvalidInput("bands=… needs a coarser grid: sums of all rows do not fit 64-bit integers.")

    def mixed(self, total: list[torch.Tensor]) -> list[torch.Tensor]:
        """c_0·x_t + c_1·x_{t−1} + …; x_t is kept when the step has been released, by `unmixed`."""
        found = [self.coefficients[0] * one for one in total]
        for coefficient, earlier in zip(self.coefficients[1:], reversed(self._sums), strict=False):
            for one, before in zip(found, earlier, strict=True):
                one += coefficient * before
        self._mixing = [one.clone() for one in total]
        return found

    def unmixed(self, noisy: list[torch.Tensor]) -> list[torch.Tensor]:
        """x̂_t from y_t and the x̂ before: a computation from released numbers."""
        found = [one.clone() for one in noisy]
        for coefficient, earlier in zip(self.coefficients[1:], reversed(self._released), strict=False):
            for one, before in zip(found, earlier, strict=True):
                one -= coefficient * before
        found = [one / self.coefficients[0] for one in found]
        assert self._mixing is not None, "mixed() comes first"
        self._released.append(found)
        self._sums.append(self._mixing)
        self._mixing = None
        self._steps += 1
        return [one.clone() for one in found]

    def spread(self, steps: int) -> float:
        """Standard deviation of one entry of x̂ − x over that of independent noise of the same event, after ``steps``.

        It is ‖c‖·‖d‖ for the first ``steps`` coefficients d of the inverse series of c.
        """
        return _spread(self.coefficients, steps)


@cache
def _spread(c: tuple[int, ...], steps: int) -> float:
    inverse = [1.0 / c[0]]
    for t in range(1, steps):
        inverse.append(-sum(c[i] * inverse[t - i] for i in range(1, min(t + 1, len(c)))) / c[0])
    return math.sqrt(sum(v * v for v in c)) * math.sqrt(sum(v * v for v in inverse))
