"""What is wrong with a cell, as its column is declared: a pure function of that cell and of public constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from discreet.data.cells import column_cells, read_codes, read_floats
from discreet.data.columns import Boolean, Categorical, Column, Ignore, Numeric, Person

__all__ = ["PROBLEMS", "possible_problems", "problem_codes"]

PROBLEMS: Final = ("missing", "unreadable", "out of range", "unlisted")
"""What may be wrong with a cell; their codes are 1, 2, 3, 4, and 0 is the code of a cell as declared."""

Codes = npt.NDArray[np.int8]


def possible_problems(column: Column) -> tuple[str, ...]:
    """Those of `PROBLEMS` that a cell of this column can have."""
    if isinstance(column, Ignore | Person):
        return ()
    return PROBLEMS[:3] if isinstance(column, Numeric) else (PROBLEMS[0], PROBLEMS[3])


def problem_codes(values: Iterable[Any], column: Column) -> Codes:
    """The code of each cell.

    A cell is *missing* if it is empty, undefined or neither text nor a number. What is there is *unreadable* if it is
    no number where one is declared, *out of range* if it is beyond the bounds, and *unlisted* if it is none of the
    categories, or neither of the two values of a boolean column.

    Example:
        >>> problem_codes([25, " 40 ", "", "old", 1000], Numeric(17, 90)).tolist()
        [0, 0, 1, 2, 3]
        >>> problem_codes(["clerk", "pilot", None], Categorical(["clerk", "nurse"])).tolist()
        [0, 4, 1]
    """
    cells = column_cells(values) if isinstance(values, np.ndarray) else list(values)
    missing = _missing(cells)
    match column:
        case Numeric():
            numbers = read_floats(cells)
            with np.errstate(invalid="ignore"):
                beyond = (numbers < column.low) | (numbers > column.high)
            found = np.select([np.isnan(numbers), beyond], [2, 3], 0)
        case Categorical() | Boolean():
            found = np.where(column.unlisted(cells), 4, 0)
        case Ignore() | Person():
            return np.zeros(len(cells), np.int8)
    return np.where(missing, 1, found).astype(np.int8)


def _missing(cells: Any) -> npt.NDArray[np.bool_]:
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return np.isnan(cells) if cells.dtype.kind == "f" else np.zeros(len(cells), bool)
    return np.asarray(read_codes(cells, {"": 0}, 1) == 0)
