"""What is public about the rows: how many features, how long a row may be, and the integer grid that holds it.

A row x is clipped to ‖x‖₂ ≤ ``norm``, extended by the constant ``intercept`` and rounded to the grid
``radius / 2^ROW_BITS``. Every row is then a vector of integers whose squared length is at most 4^ROW_BITS, *verified in
integers*, so that all later sensitivities are exact whatever floating point did before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput

__all__ = ["MOST_ROWS", "MOST_ROWS_IN_PARTS", "ROW_BITS", "RowSpec"]

ROW_BITS = 18
"""A row's length in grid steps is at most 2^ROW_BITS: a resolution of 4e-6 of the longest row."""

MOST_ROWS = 2**27
"""Sums are bounded a priori: 2^27 rows × 2^34 (a row's largest contribution) stays below 2^62."""

MOST_ROWS_IN_PARTS = 2**36
"""Rows in files or on a cluster, whose sums are added in parts of at most `MOST_ROWS` rows: each part fits 62 bits, and
their sum is an integer of Python's, which has no limit (`discreet.data.base.exact_sum`)."""


@dataclass(frozen=True)
class RowSpec:
    """Public facts about rows.

    Args:
        n_features: number of columns.
        norm: ℓ2 bound to which every row is clipped; ``inf`` only for runs without privacy.
        intercept: value of the constant column that is appended (0: none). It counts in the row's length.
        outputs: number of scores a row gets: 1, or the number of classes for multinomial models.

    Example:
        >>> RowSpec(3, norm=3.0, intercept=4.0).radius
        5.0
    """

    n_features: int
    norm: float
    intercept: float = 0.0
    outputs: int = 1

    def __post_init__(self) -> None:
        if self.n_features < 0 or self.n_features + (self.intercept > 0) < 1:
            raise InvalidInput(f"rows need at least one column, got n_features={self.n_features}.")
        if not self.norm > 0:
            raise InvalidInput(
                f"row_norm must be positive, got {self.norm!r}: it is the ℓ2 length rows are clipped to."
            )
        if not 0 <= self.intercept < math.inf:
            raise InvalidInput(f"the intercept column must be finite and non-negative, got {self.intercept!r}.")

    @property
    def radius(self) -> float:
        """ℓ2 bound on a clipped row together with its constant column."""
        return math.hypot(self.norm, self.intercept)

    @property
    def bounded(self) -> bool:
        """Whether rows have a bound; without one nothing private can be released."""
        return math.isfinite(self.norm)

    @property
    def dimension(self) -> int:
        """Columns including the constant one."""
        return self.n_features + (self.intercept > 0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a parameter: (dimension,) or (outputs, dimension)."""
        return (self.dimension,) if self.outputs == 1 else (self.outputs, self.dimension)

    @property
    def grid(self) -> float:
        """Value of one grid step."""
        return self.radius / 2.0**ROW_BITS

    @property
    def unit(self) -> float:
        """Value of one step of a prepared row: the grid, or 1 where rows are unbounded and stay as they are."""
        return self.grid if self.bounded else 1.0

    @property
    def constant(self) -> float:
        """The constant column in steps of `unit`: a whole number on the grid."""
        return float(int(self.intercept / self.grid)) if self.bounded else self.intercept
