"""What a query promises: a sum over rows, on an integer grid, with a bound that the query itself enforces."""

from __future__ import annotations

import math
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset

__all__ = ["ACUTE_FACTOR", "BoundedDifference", "Integers", "Norm", "Query", "replace_one_factor"]

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
        """The sum in floating point, without rounding to the grid, for runs without privacy."""
        ...


@runtime_checkable
class BoundedDifference(Protocol):
    """A query that bounds the difference of two rows' contributions better than the triangle inequality does.

    No two rows' contributions are further from each other, in the query's norm, than ``replace_one_factor`` times its
    bound. Like ``bound``, the factor is public and holds for every two rows whatever they contain.
    """

    @property
    def replace_one_factor(self) -> float:
        """Largest distance of two rows' contributions over the bound, between 1 and 2."""
        ...


ACUTE_FACTOR: Final = math.sqrt(2.0)
"""The replace-one factor in ℓ2 where no two contributions u, v are at an obtuse angle, as where none has a negative
entry: ‖u − v‖² = ‖u‖² + ‖v‖² − 2⟨u, v⟩ ≤ 2·bound². As a double it is above √2."""


def replace_one_factor(query: Query) -> float:
    """The sensitivity of a query under replace-one over its bound: 2 by the triangle inequality, or less."""
    return query.replace_one_factor if isinstance(query, BoundedDifference) else 2.0
