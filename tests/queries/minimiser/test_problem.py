"""The statement of a ridge-regularised problem: what it refuses, and its bound on curvature."""

import numpy as np
import pytest

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.losses import Logistic, Quantile, Softmax
from discreet.queries.minimiser.problem import RidgeProblem
from discreet.rows import RowSpec


@pytest.mark.parametrize(
    ("loss", "kwargs", "error"),
    [
        (Quantile(0.5), {}, HypothesisViolated),
        (Softmax(3), {"slope_bound": 0.5}, HypothesisViolated),
        (Logistic(), {"slope_bound": 0.0}, InvalidInput),
        (Logistic(), {"regularisation": -1.0}, InvalidInput),
    ],
)
def test_refusals(loss, kwargs, error):
    arguments = {"regularisation": 1.0} | kwargs
    with pytest.raises(error):
        RidgeProblem(RowSpec(2, 1.0), loss, **arguments)


@pytest.mark.parametrize("cut", [0.05, 0.25, 0.4, 0.5, 0.8])
def test_cut_logistic_losses_bend_no_more_than_claimed(cut):
    """Over lengths r ≤ R and scores z: the curvature where the slope is below L/r, times r²; nearly attained."""
    rows = RowSpec(3, 2.0, 1.0)
    query = RidgeProblem(rows, Logistic(), 1.0, cut * rows.radius)
    z = np.linspace(-8, 8, 20_001)
    most = 0.0
    for length in np.linspace(0.01, 1.0, 100) * rows.radius:
        uncut = np.abs(Logistic().slope(z, 1.0)) < query.gradient_bound / length
        most = max(most, float((Logistic().curvature(z, 1.0) * uncut).max() * length**2))
    assert 0.999 * query.curvature_bound < most <= query.curvature_bound
