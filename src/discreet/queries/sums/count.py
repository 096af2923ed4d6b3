"""The number of rows. Claim: each row contributes exactly 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.queries.base import Integers, Norm

__all__ = ["RowCount"]


@dataclass(frozen=True)
class RowCount:
    """The number of rows, which is private under add-remove."""

    norm: ClassVar[Norm] = "l1"
    bound: ClassVar[int] = 1
    grid: ClassVar[float] = 1.0
    shape: ClassVar[tuple[int, ...]] = ()

    def integers(self, data: Dataset) -> Integers:
        """The number of rows."""
        return np.asarray(len(data), dtype=np.int64)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The number of rows, as a float."""
        return self.integers(data).astype(np.float64)
