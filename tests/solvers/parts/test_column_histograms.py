"""What released histograms say of knots."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.refinement import ColumnBlock
from discreet.solvers.parts.column_histograms import ColumnHistogram, histogram_cells, split_histograms

NUMBER = ColumnBlock("x", 0, 6, "number", 0.5)


def histogram(shares: list[float]) -> ColumnHistogram:
    """Five parts of the scale with these shares of the rows, each evenly filled."""
    return ColumnHistogram(NUMBER, 1000 * np.repeat(shares, 13)[:64])


def test_used_is_the_perplexity_of_the_parts() -> None:
    assert histogram([0.2] * 5).used(5) == pytest.approx(1.0, abs=0.01)
    assert ColumnHistogram(NUMBER, np.eye(64)[7]).used(5) == pytest.approx(1 / 5)
    half = np.zeros(64)
    half[[0, 63]] = 1.0
    assert half.sum() == 2
    assert ColumnHistogram(NUMBER, half).used(5) == pytest.approx(2 / 5)


def test_knots_move_only_where_rows_use_few_parts() -> None:
    even = tuple(np.linspace(0, 1, 6))
    wide, narrow = histogram([0.35, 0.3, 0.2, 0.1, 0.05]), histogram([0.02, 0.46, 0.5, 0.01, 0.01])
    assert wide.knots_where_needed(6, 0.6).at == pytest.approx(even)
    assert narrow.knots_where_needed(6, 0.6).at == narrow.knots(6).at
    assert sum(0.2 < at < 0.6 for at in narrow.knots(6).at) >= 3


@pytest.mark.parametrize("largest", [1.0, 1e4, 2.0**62, 1e300])
def test_counts_add_up_to_the_rows_however_large_their_noise_is(largest: float) -> None:
    """Beside counts of 2^62 a number of rows is less than their last digit."""
    cells = histogram_cells((NUMBER,))
    released = largest * np.linspace(-1.0, 1.0, 64)
    for n in (1.0, 60.0, 1e6):
        (found,) = split_histograms(cells, released, n)
        assert found.counts.min() >= 0
        assert found.counts.sum() == pytest.approx(n)
        assert (np.diff(found.counts) >= 0).all()
        assert found.counts[-1] > 0
