"""Values that recur: found where they are, and every number in one cell whatever was released."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discreet.refinement import ColumnBlock
from discreet.solvers.parts.column_histograms import ColumnHistogram
from discreet.solvers.parts.recurring_values import FINE_BINS, recurring_bins, recurring_cells, spiked_columns

NUMBER = ColumnBlock("amount", 0, 6, "number", 0.5)
LEVELS = ColumnBlock("kind", 6, 8, "levels", 0.5)


def smooth(rows: float) -> np.ndarray:
    """A bell of this many rows in the middle of the scale."""
    bell = np.exp(-(((np.arange(FINE_BINS) + 0.5) / FINE_BINS - 0.5) ** 2) / 0.02)
    return np.asarray(rows * bell / bell.sum())


def test_planted_values_are_found_over_a_smooth_tail_and_noise() -> None:
    rng, noise = np.random.default_rng(0), 20.0
    planted = (3, 400, 401, 700, 1023)
    counts = smooth(20_000.0) + noise * rng.normal(size=FINE_BINS)
    counts[list(planted)] += 12 * noise
    assert recurring_bins(counts, noise, 5.0, 100) == planted
    assert recurring_bins(counts - 12 * noise * np.isin(np.arange(FINE_BINS), planted), noise, 5.0, 100) == ()


def test_sampling_of_a_smooth_tail_is_not_taken_for_recurrence() -> None:
    """Without noise too: counts of a smooth distribution differ by the root of their mean."""
    counts = np.random.default_rng(1).poisson(smooth(200_000.0)).astype(float)
    assert len(recurring_bins(counts, 0.0, 5.0, 100)) <= 1


def test_no_more_than_asked_and_the_largest_first() -> None:
    counts = np.zeros(FINE_BINS)
    counts[[10, 200, 500, 900]] = [50.0, 90.0, 70.0, 60.0]
    assert recurring_bins(counts, 1.0, 2.0, 2) == (200, 500)
    assert recurring_bins(counts, 1.0, 2.0, 0) == ()


def test_half_of_the_rows_in_one_cell_make_a_spike() -> None:
    shares = {0.49: False, 0.51: True, 1.0: True}
    for share, expected in shares.items():
        counts = np.array([share, *([(1 - share) / 63] * 63)]) * 1000
        found = spiked_columns((ColumnHistogram(LEVELS, np.array([999.0, 1.0])), ColumnHistogram(NUMBER, counts)))
        assert found == ((1,) if expected else ())


@given(
    st.sets(st.integers(0, FINE_BINS - 1), max_size=12),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_every_place_has_one_cell_and_every_bin_its_own(bins: set[int], places: list[float]) -> None:
    view = recurring_cells(tuple(sorted(bins)))
    inside = [(k + share) / FINE_BINS for k in bins for share in (0.0, 0.3, 0.7)]
    everywhere = np.array([*places, *inside])
    positions, values = np.zeros((len(everywhere), 1), np.int32), np.zeros((len(everywhere), 1))
    view.fill(everywhere, positions, values)
    assert (values == 1.0).all()
    assert ((positions >= 0) & (positions < view.width)).all()
    own = positions[len(places) :, 0].reshape(-1, 3)
    assert (own == own[:, :1]).all()
    assert len(np.unique(own[:, 0])) == len(bins)


@given(
    st.dictionaries(st.integers(0, FINE_BINS - 1), st.floats(-1e9, 1e9), max_size=40),
    st.floats(0, 1e6),
    st.integers(0, 50),
)
def test_no_released_counts_are_refused(odd: dict[int, float], noise: float, most: int) -> None:
    counts = np.zeros(FINE_BINS)
    counts[list(odd)] = list(odd.values())
    bins = recurring_bins(counts, noise, 2.0, most)
    assert len(bins) <= most
    assert list(bins) == sorted(set(bins))
    recurring_cells(bins)
