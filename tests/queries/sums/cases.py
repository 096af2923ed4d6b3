"""Rows for the tests of sums of sparse rows."""

from __future__ import annotations

import numpy as np

from discreet.rows import RowSpec

D = 30
ROWS = RowSpec(D, norm=2.0)
ODD = np.array([0.0, 2.0, -2.0, 1e308, -1e308, np.inf, np.nan, 1e-320, 0.7, -1e-4])


def one_row(rng: np.random.Generator, trial: int) -> np.ndarray:
    """Ordinary, spread, spiky and broken rows."""
    kind = trial % 4
    if kind == 0:
        return rng.normal(size=(1, D))
    if kind == 1:
        return np.full((1, D), rng.choice([1.0, -1.0])) * rng.choice([1, -1], (1, D))
    if kind == 2:
        return rng.choice(ODD, (1, D))
    row = np.zeros((1, D))
    row[0, rng.integers(D)] = rng.choice(ODD)
    return row
