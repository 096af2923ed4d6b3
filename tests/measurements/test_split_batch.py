"""Noisy sums of the parts of a batch: each row is in one part, and all parts are one release."""

from __future__ import annotations

import numpy as np
import pytest

from discreet import events
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.losses import Logistic
from discreet.measurements import FixedSizeSampling, PoissonSampling, SplitBatch
from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.units import Unit

REPLACE, ADD = Unit("replace-one"), Unit("add-remove")
N, D = 64, 40
ROWS = RowSpec(D, 1.0)


def test_each_row_is_in_one_part():
    query = GradientSum(ROWS, Logistic(), np.zeros(D), 1.0)
    rows = RowSpec(1, 1.0)
    alike = GradientSum(rows, Logistic(), np.zeros(1), 1.0)
    ones = in_memory(np.ones((N, 1)), np.ones(N), rows)  # every gradient is −½, so a sum counts rows
    bits = Bits.seeded(5)
    for _ in range(50):
        sums = SplitBatch(alike, Gaussian(0.0), FixedSizeSampling(16, N), 4).sample(ones, REPLACE, bits)
        np.testing.assert_allclose(np.ravel(sums), [-2.0] * 4, rtol=1e-5)
        everybody = SplitBatch(alike, Gaussian(0.0), PoissonSampling(1.0), 3).sample(ones, REPLACE, bits)
        assert np.sum(everybody) == pytest.approx(-N / 2)
    event = SplitBatch(query, Gaussian(3.0), FixedSizeSampling(16, N), 4).event(REPLACE)
    assert event == events.FixedSize(16, N, events.Gaussian(3.0))  # once, however many parts
    assert SplitBatch(query, Gaussian(0.0), PoissonSampling(0.5), 2).event(ADD) == events.NonPrivate()
    with pytest.raises(InvalidInput, match="reveal n"):
        SplitBatch(query, Gaussian(3.0), FixedSizeSampling(16, N), 2).event(ADD)
    with pytest.raises(InvalidInput, match="equal parts"):
        SplitBatch(query, Gaussian(3.0), FixedSizeSampling(16, N), 3)
