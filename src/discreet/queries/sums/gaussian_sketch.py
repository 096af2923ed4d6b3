"""A public Gaussian matrix as the sketch of sparse rows, for which the error of ℓ1 recovery is a theorem.

Its entries are independent N(0, 1), rounded to multiples of 2^−11 and drawn from a public seed; the matrix is kept in
memory. With m rows, A/√m leaves every vector of ℓ1 norm R and length r, with the probability that
`discreet.theory.l1_recovery` states, a length of nearly r − R·E max|g_i|/√m or more (Gordon 1988).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.errors import InvalidInput
from discreet.noise.bits import Bits

__all__ = ["ENTRY_BITS", "MOST_ENTRIES", "MOST_ROWS", "GaussianSketch"]

ENTRY_BITS = 11
"""Entries are whole multiples of 2^−11, exact in single precision; none exceeds 12 in size."""
MOST_ENTRIES = 2**26
"""The most entries of a matrix, which then takes 256 MB."""
MOST_ROWS = 2**14
"""The most rows of a matrix."""
_LONGEST = 2**8  # of a row's sketch, over the row: sums of 2^27 of them stay within 2^53 steps


@dataclass(frozen=True)
class GaussianSketch:
    """The linear map A/√rows from ``d`` to ``rows`` dimensions.

    Args:
        d: number of columns.
        rows: number of rows, m.
        seed: public seed.
        stretch: the most by which a row may be lengthened before its sketch is cut.
    """

    d: int
    rows: int
    seed: int = 0
    stretch: float = 1.5

    def __post_init__(self) -> None:
        if not (1 <= self.rows <= MOST_ROWS and self.d >= 1 and self.d * self.rows <= MOST_ENTRIES):
            raise InvalidInput(
                f"a Gaussian sketch has at most {MOST_ROWS} rows and {MOST_ENTRIES} entries, got {self}."
            )
        if not (self.stretch >= 1 and self.column_length * self.stretch <= _LONGEST):
            raise InvalidInput(
                f"a sketch's stretch must be at least 1 and at most {_LONGEST / self.column_length:g}, got "
                f"{self.stretch!r}."
            )

    @property
    def column_length(self) -> float:
        """√rows, which the matrix is divided by."""
        return math.sqrt(self.rows)

    @cached_property
    def _columns(self) -> NDArray[np.float32]:
        """The columns of A, one a row of this array."""
        words = Bits.seeded(self.seed % 2**64).words(self.d * self.rows)
        drawn = ndtri(((words >> np.uint64(12)) + 0.5) * 2.0**-52).reshape(self.d, self.rows)
        return np.asarray(np.rint(drawn * 2**ENTRY_BITS) / 2**ENTRY_BITS, dtype=np.float32)

    def apply(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """A x/√rows."""
        return np.asarray(x.astype(np.float32) @ self._columns, dtype=np.float64) / self.column_length

    def adjoint(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Aᵀ y/√rows."""
        return np.asarray(self._columns @ y.astype(np.float32), dtype=np.float64) / self.column_length

    def squared_norm(self) -> float:
        """A bound on ‖A/√rows‖²: the sum of the squares of all entries, over rows."""
        return float(np.square(self._columns, dtype=np.float64).sum()) / self.rows

    def add_rows(
        self, steps: Any, indices: Any, edges: Any, most_squared: float, rounded: bool, total: NDArray[np.float64]
    ) -> None:
        """Add each row's sketch, in whole steps and cut to a squared length, to ``total``."""
        from discreet.queries.kernels.sketch import sketch_rows_densely

        sketch_rows_densely(steps, indices, edges, self._columns, most_squared, rounded, total)
