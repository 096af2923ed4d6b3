"""Sensitivity of banded strategies against every participation pattern and every sign, on small cases."""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.reductions.matrix import (
    _error_and_gradient,
    matrix_sensitivity,
    optimised_bands,
    prefix_error,
    sampled_bands,
    square_root_bands,
)
from discreet.accounting.upper.renyi import divergence
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import BandedMatrix, Gaussian, from_json


def sensitivity_of(event: BandedMatrix) -> float:
    return matrix_sensitivity(event.coefficients, event.steps, event.participations, event.separation)


def brute_force(coefficients, steps, participations, separation):
    """Largest norm over all patterns and all signs of scalar contributions."""
    C = np.zeros((steps, steps))
    for t in range(steps):
        column = np.array(coefficients)[: steps - t]
        C[t : t + len(column), t] = column
    worst = 0.0
    for count in range(1, participations + 1):
        for pattern in combinations(range(steps), count):
            if all(b - a >= separation for a, b in pairwise(pattern)):
                for signs in product([1, -1], repeat=count):
                    worst = max(worst, float(np.linalg.norm(C[:, pattern] @ np.array(signs))))
    return worst


@settings(max_examples=60, deadline=None)
@given(
    tail=st.lists(st.floats(0, 1), min_size=0, max_size=5),
    steps=st.integers(1, 8),
    participations=st.integers(1, 4),
    separation=st.integers(1, 4),
)
def test_exact_for_decreasing_strategies(tail, steps, participations, separation):
    c = [1.0, *sorted(tail, reverse=True)]
    truth = brute_force(c, steps, participations, separation)
    assert matrix_sensitivity(c, steps, participations, separation) == pytest.approx(truth, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    tail=st.lists(st.floats(-1, 1), min_size=0, max_size=5),
    steps=st.integers(1, 8),
    participations=st.integers(1, 4),
    separation=st.integers(1, 4),
)
def test_an_upper_bound_for_all_and_exact_where_columns_cannot_overlap(tail, steps, participations, separation):
    c = [1.0, *tail]
    truth = brute_force(c, steps, participations, separation)
    bound = matrix_sensitivity(c, steps, participations, separation)
    assert bound >= truth * (1 - 1e-12)
    if len(c) <= separation:
        assert bound == pytest.approx(truth, rel=1e-9)


def test_vector_contributions_are_no_worse_than_aligned_ones():
    """Random gradients of norm 1 in ten dimensions, decreasing coefficients."""
    rng = np.random.default_rng(5)
    c, steps = np.array(square_root_bands(6)), 12
    bound = matrix_sensitivity(c, steps, 4, 3)
    for _ in range(200):
        g = rng.normal(size=(4, 10))
        g /= np.linalg.norm(g, axis=1)[:, None]
        total = np.zeros((steps, 10))
        for j, t in enumerate((0, 3, 6, 9)):
            column = c[: steps - t]
            total[t : t + len(column)] += column[:, None] * g[j]
        assert np.linalg.norm(total) <= bound


def test_square_root_bands_square_to_prefix_sums():
    c = np.array(square_root_bands(50))
    assert np.convolve(c, c)[:50] == pytest.approx(np.ones(50))


@pytest.mark.parametrize("objective", ["mean", "max"])
def test_error_is_that_of_the_matrices_and_its_gradient_that_of_differences(objective):
    c, steps = np.array([1.0, 0.6, 0.2, 0.3]), 9
    C = sum(np.diag(np.full(steps - i, x), -i) for i, x in enumerate(c))
    B = np.tril(np.ones((steps, steps))) @ np.linalg.inv(C)
    rows = (B**2).sum(axis=1)
    expected = (rows.mean() if objective == "mean" else rows.max()) * (c**2).sum()
    value, gradient = _error_and_gradient(c, steps, objective)
    assert value == pytest.approx(expected)
    assert prefix_error(c, steps, objective) == pytest.approx(math.sqrt(expected))
    for i in range(len(c)):
        moved = c.copy()
        moved[i] += 1e-6
        slope = (_error_and_gradient(moved, steps, objective)[0] - value) / 1e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("bands", [1, 2, 16, 256])
def test_optimised_strategies_beat_independent_noise_and_the_square_root(bands):
    steps = 256
    c = optimised_bands(steps, bands)
    assert len(c) == bands
    assert prefix_error(c, steps) <= prefix_error(square_root_bands(bands), steps) * (1 + 1e-12)
    independent = prefix_error((1.0,), steps)
    assert independent == pytest.approx(math.sqrt((steps + 1) / 2))
    if bands > 1:
        assert prefix_error(c, steps) < independent
    if bands == 256:
        assert prefix_error(c, steps) < 0.35 * independent


def test_the_event_is_one_gaussian():
    event = BandedMatrix(4.0, square_root_bands(8), steps=100, participations=3, separation=30)
    assert from_json(event.to_json()) == event
    alone = Gaussian(4.0 / sensitivity_of(event))
    for relation in ("add-remove", "replace-one"):
        assert divergence(event, 3.0, relation) == divergence(alone, 3.0, relation)
    independent = BandedMatrix(4.0, (1.0,), steps=100, participations=9, separation=10)
    assert sensitivity_of(independent) == pytest.approx(3.0)


def test_sampled_bands_reduce_to_sampled_gaussians():
    c = square_root_bands(4)
    full = sampled_bands(3.0, c, steps=40, parts=10, rate=1.0)
    alone = BandedMatrix(3.0, c, steps=40, participations=4, separation=10)
    for relation in ("add-remove", "replace-one"):
        assert divergence(full, 2.0, relation) == pytest.approx(divergence(alone, 2.0, relation))
        assert divergence(sampled_bands(3.0, c, 40, 10, 0.1), 2.0, relation) < 0.1 * divergence(full, 2.0, relation)
    with pytest.raises(HypothesisViolated, match="bands=4"):
        sampled_bands(3.0, c, steps=40, parts=3, rate=0.1)


def test_sampled_bands_bound_a_small_run_computed_exactly():
    """Two steps a part, two bands, scalar rows: the law of CG + Z is a mixture of Gaussians in four dimensions."""
    c, rate, sigma, order = np.array([1.0, 0.5]), 0.4, 1.5, 2
    columns = [np.array([1.0, 0.5, 0, 0]), np.array([0, 0, 1.0, 0.5])]  # the row is in the first of two parts
    parts = [
        (
            rate ** sum(inside) * (1 - rate) ** (2 - sum(inside)),
            sum(i * col for i, col in zip(inside, columns, strict=True)),
        )
        for inside in product([0, 1], repeat=2)
    ]
    # At order 2, E_Q (P/Q)² against Q = N(0, σ²I) is the sum of w·w'·exp(⟨m, m'⟩/σ²).
    moment = sum(w * v * math.exp(np.dot(m, n) / sigma**2) for (w, m), (v, n) in product(parts, parts))
    bound = divergence(sampled_bands(sigma, c, steps=4, parts=2, rate=rate), order, "add-remove")
    assert bound == pytest.approx(math.log(moment), rel=1e-8)


def test_bad_input():
    with pytest.raises(HypothesisViolated, match="separation"):
        BandedMatrix(1.0, (1.0, 0.5), 10, participations=2)
    with pytest.raises(InvalidInput, match="positive"):
        BandedMatrix(1.0, (0.0, 0.5), 10)
    with pytest.raises(InvalidInput, match="coefficients"):
        BandedMatrix(1.0, 3, 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="band"):
        square_root_bands(0)
