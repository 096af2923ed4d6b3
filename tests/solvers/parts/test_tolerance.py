"""The tolerance of certified minimisers is public, and above what float64 can do."""

import pytest

from discreet.losses import Logistic
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec
from discreet.solvers.parts.tolerance import public_tolerance

ROWS = RowSpec(4, norm=1.0, intercept=0.5)


def test_tolerance_is_public_and_above_float64():
    query = RidgeMinimiser(ROWS, Logistic(), 1.0)
    assert public_tolerance(query, 1e6, 5.0) == pytest.approx(2.0**-38 * 1e6 * query.gradient_bound)
    assert public_tolerance(query, 10, 5.0) >= query.least_tolerance(0.0)
