"""Rows held for the optimiser: one row's gradient keeps its bound, in exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.losses import Huber, Logistic, Quantile, SmoothedHinge, Squared
from discreet.queries.minimiser.held_rows import held_rows
from discreet.queries.minimiser.problem import RidgeProblem
from discreet.rows import RowSpec

LOSSES = [Logistic(), SmoothedHinge(0.5), Huber(0.7), Squared(), Quantile(0.3, width=0.2)]


def adversarial_rows(rng, n, d):
    """Rows of every size, with infinities and NaN, and targets to match."""
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, size=(n, 1))
    X[rng.random((n, d)) < 0.02] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 0.0])
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[rng.random(n) < 0.1] = rng.choice([0.0, 3.0, np.nan, np.inf, -1e300, 1e-300])
    return X, y


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_rows_gradient_never_exceeds_its_bound(loss):
    """slope²·‖row‖² ≤ L², in exact fractions, over 10⁴ adversarial rows; one row more moves the sum by just that."""
    rng = np.random.default_rng(1)
    rows = RowSpec(3, norm=2.0, intercept=0.5)
    query = RidgeProblem(rows, loss, 1.0, slope_bound=1.3)
    bound = Fraction(query.gradient_bound) / Fraction(rows.unit)
    X, y = adversarial_rows(rng, 10_000, 3)
    checked = 0
    for start in range(0, 10_000, 2000):
        (block,) = in_memory(X[start : start + 2000], y[start : start + 2000], rows).map_blocks(lambda b: b)
        theta = rng.normal(size=4) * 10.0 ** rng.integers(-2, 3)
        for i in range(2000):
            single = held_row(block, i, loss, query.slope_bound)
            high, low = single.gradient(theta)
            whole = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(high, low, strict=True)]
            # products slope·step are rounded once, by 2^-53 each
            assert sum(v * v for v in whole) <= bound * bound * (1 + Fraction(1, 2**50))
            checked += 1
    assert checked == 10_000


def held_row(block, i, loss, slope_bound):
    from discreet.data.base import DenseBlock

    one = slice(i, i + 1)
    single = DenseBlock(block.rows, block.X[one], block.y[one], block.scale[one], block.squared_length[one])
    return held_rows(single, loss, slope_bound, rounded=True)
