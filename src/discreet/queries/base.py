"""What a query promises: a sum over rows, on an integer grid, with a bound that the query itself enforces."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset

__all__ = ["Integers", "Norm", "Query"]

Integers: TypeAlias = NDArray[np.int64]
Norm: TypeAlias = Literal["l1", "l2", "linf"]


class Query(Protocol):
    """A sum of bounded integer contributions, one a row.

    ``bound`` is the largest ``norm`` of one row's contribution in grid steps, ``grid`` the value of a step. Both are
    public, and hold for every row whatever it contains.
    """

    @property
    def norm(self) -> Norm:
        """The norm in which a row's contribution is bounded."""
        ...

    @property
    def bound(self) -> int:
        """Largest norm of one row's contribution, in grid steps."""
        ...

    @property
    def grid(self) -> float:
        """Value of one grid step."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        ...

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        ...

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The same sum without clipping to the grid, for runs without privacy."""
        ...
