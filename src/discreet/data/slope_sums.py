"""Sums of whole rows with whole slopes, described by numbers, so that a backend may compute them in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Integers
from discreet.losses import Loss

__all__ = ["SlopeCaps", "SlopeSum"]


@dataclass(frozen=True, eq=False)
class SlopeCaps:
    """The largest whole slope of each row, ⌊bound/√N_i·(1 − 2^-50)⌋ but at most ``largest``; 0 where N_i = 0.

    N_i is the squared length of row i, or of the row that it stands for: Σ_j squares_j·(x_ij − centre_j)² + ``own``, a
    whole number below 2^53.

    Args:
        key: what blocks remember the slopes by, for as long as the rows are held.
        bound: the largest length of a contribution.
        largest: the largest slope, whatever the length.
        squares: squared weights of the features; None for the row's own length.
        centre: of the features, in steps.
        own: what the constant column adds.
    """

    key: Any
    bound: int
    largest: float = np.inf
    squares: NDArray[np.float64] | None = None
    centre: NDArray[np.float64] | None = None
    own: float = 0.0


class SlopeSum(ABC):
    """A function for ``Dataset.map_sum``: Σ_i a_i·x_i over the whole rows x_i of a block, constant column included.

    a_i = rint(min(max(ℓ'(z_i, y_i)·``steps``, −c_i), c_i)) with z_i = ⟨x_i, ``theta``⟩·``score_unit``, and 0 where that
    is NaN. θ is whole and so short that ⟨x_i, θ⟩ is below 2^53 in any order of summation. Called with a block it gives
    the block's sum; a backend that holds rows elsewhere may compute the same integers from these fields.
    """

    @property
    @abstractmethod
    def loss(self) -> Loss:
        """The loss ℓ."""

    @abstractmethod
    def parameter(self) -> tuple[NDArray[np.float64], float]:
        """``theta`` in whole steps, and ``score_unit``."""

    @property
    @abstractmethod
    def steps(self) -> float:
        """A slope of 1 in whole steps."""

    @abstractmethod
    def caps(self) -> SlopeCaps:
        """How the c_i follow from the rows."""

    @abstractmethod
    def __call__(self, block: Block) -> Integers:
        """The sum of a block."""
