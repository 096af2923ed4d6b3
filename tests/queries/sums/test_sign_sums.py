"""Sums of signs refuse directions whose projections would not be exact."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.queries.sums.sign_sums import SignSums
from discreet.rows import RowSpec

COLUMNS = 1200
ROWS = RowSpec(COLUMNS, 1.0, 0.5)


def test_a_direction_of_other_numbers_is_refused():
    with pytest.raises(InvalidInput, match="exact"):
        SignSums(ROWS, np.full(COLUMNS, 0.5), (0.0, 0.0), (1.0, 1.0))
    with pytest.raises(InvalidInput, match="columns"):
        SignSums(ROWS, np.ones(3), (0.0, 0.0), (1.0, 1.0))
