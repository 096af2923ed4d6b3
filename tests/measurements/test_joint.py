"""Joint releases: the composition of their events, and one answer of each measurement."""

from __future__ import annotations

import numpy as np

from discreet import events
from discreet.data.memory import in_memory
from discreet.measurements import Joint, Noisy
from discreet.mechanisms import Gaussian, Laplace
from discreet.noise.bits import Bits
from discreet.queries.sums.count import RowCount
from discreet.queries.sums.row_sum import RowSum
from discreet.rows import RowSpec
from discreet.units import Unit

ROWS = RowSpec(2, 1.0)
UNIT = Unit("add-remove")


def test_a_joint_release_is_the_composition_of_its_measurements() -> None:
    both = [Noisy(RowSum(ROWS), Gaussian(3.0)), Noisy(RowCount(), Laplace(2.0))]
    data = in_memory(np.full((5, 2), 0.1), np.zeros(5), ROWS)
    assert Joint(both).event(UNIT) == events.Compose([events.Gaussian(3.0), events.Laplace(2.0)])
    total, count = Joint(both).sample(data, UNIT, Bits.seeded(1))
    bits = Bits.seeded(1)  # the same bits, read by one measurement after the other
    assert np.array_equal(total, both[0].sample(data, UNIT, bits))
    assert count == both[1].sample(data, UNIT, bits)
    blank_total, blank_count = Joint(both).blank()
    assert blank_total.tolist() == [0.0, 0.0]
    assert blank_count == 0.0
