"""Second moments of the columns are means of squares, each row's cut to the bound."""

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.rows import RowSpec


def test_second_moments_are_means_of_squares() -> None:
    rng = np.random.default_rng(3)
    rows = RowSpec(50, 2.0, 1.0)
    X = rng.uniform(-0.2, 0.2, size=(100, 50))
    query = ColumnSecondMoment(rows, 25.0)
    data = in_memory(X, np.zeros(100), rows)
    np.testing.assert_allclose(query.grid * query.integers(data), (X**2).sum(axis=0), rtol=1e-3)
    np.testing.assert_allclose(query.unrounded(data), (X**2).sum(axis=0), rtol=1e-4)
    spike = np.zeros((1, 50))
    spike[0, 3] = 2.0  # all of its length in one entry: cut to the bound
    assert query.integers(in_memory(spike, np.zeros(1), rows))[3] == query.bound
    with pytest.raises(InvalidInput, match="spread"):
        ColumnSecondMoment(rows, 0.5)
