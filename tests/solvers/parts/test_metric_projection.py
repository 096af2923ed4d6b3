"""Projection on a set in the metric of a quadratic: optimal over convex sets, refitted over sparse vectors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.geometry import Box, L1Ball, L2Ball, Polytope, SparseSet
from discreet.solvers.parts.metric_projection import metric_projection


def quadratic(seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2 * d, d))
    return rng.normal(size=d) * 2, root.T @ root / d + 0.1 * np.eye(d)


@pytest.mark.parametrize("domain", [L1Ball(1.5), L2Ball(0.7), Box(-0.3, 0.4)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_no_point_of_a_convex_set_is_nearer(domain, seed):
    """The optimality condition: the gradient there has no descent direction into the set."""
    point, metric = quadratic(seed, 8)
    found = metric_projection(domain, point, metric)
    np.testing.assert_allclose(domain.project(found), found, atol=1e-9)
    gradient = metric @ (found - point)
    assert gradient @ (domain.linear_minimiser(gradient) - found) > -1e-6
    projected = domain.project(point)  # the Euclidean projection is another point, and further in the metric
    assert (found - point) @ metric @ (found - point) < (projected - point) @ metric @ (projected - point)


def test_a_point_of_the_set_stays():
    point, metric = quadratic(0, 5)
    np.testing.assert_array_equal(metric_projection(L2Ball(100.0), point, metric), point)


def test_sparse_vectors_are_refitted():
    """Never further than the largest entries as they are, and least squares on the columns it keeps."""
    gaps = []
    for seed in range(20):
        point, metric = quadratic(seed, 6)
        found = metric_projection(SparseSet(2), point, metric)
        kept = np.flatnonzero(found)
        assert len(kept) <= 2

        def distance(theta: np.ndarray, point: np.ndarray = point, metric: np.ndarray = metric) -> float:
            return float((theta - point) @ metric @ (theta - point))

        def fitted(pair: tuple[int, ...], point: np.ndarray = point, metric: np.ndarray = metric) -> np.ndarray:
            theta = np.zeros(6)
            theta[list(pair)] = np.linalg.solve(metric[np.ix_(pair, pair)], (metric @ point)[list(pair)])
            return theta

        np.testing.assert_allclose(found, fitted(tuple(kept)), atol=1e-6)
        assert distance(found) <= distance(SparseSet(2).project(point)) + 1e-9
        best = min(distance(fitted(pair)) for pair in itertools.combinations(range(6), 2))
        gaps.append(distance(found) / best - 1)
    assert np.median(gaps) < 1e-6


def test_a_set_without_projection_is_refused():
    class Corners(Polytope):
        project = None  # type: ignore[assignment]

    with pytest.raises(InvalidInput, match="Corners has no projection"):
        metric_projection(Corners(np.eye(2)), np.ones(2), np.eye(2))
