"""The compiled loop of `ColumnEnergy` over dense rows."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_energies(X, scale, factor, bound, total):  # type: ignore[no-untyped-def]
    """total += ⌊c·squares⌋ of every row, with one c ≤ ``factor`` a row such that no row is longer than ``bound``.

    Sums run in column order, as those over stored entries do, so a dense row and the same row held sparse agree.
    """
    n, d = X.shape
    squares = np.empty(d)
    for i in range(n):
        length = 0.0
        for j in range(d):
            step = np.float64(np.rint(np.float64(X[i, j] * scale[i])))
            squares[j] = step * step if abs(step) < np.inf else 0.0
            length += squares[j] * squares[j]
        c = min(factor, bound / max(np.sqrt(length), 1.0))
        length = 0.0
        for j in range(d):
            squares[j] = np.floor(squares[j] * c)
            length += squares[j] * squares[j]
        if length <= bound * bound:  # but for float rounding, always
            for j in range(d):
                total[j] += squares[j]
