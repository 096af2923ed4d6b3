"""Weighted perturbation: what it releases, that the rest is post-processing, and what each part is worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet import events
from discreet.accounting import epsilon
from discreet.accounting.composed import ComposedLoss
from discreet.accounting.exact.pairs import GaussianPair
from discreet.accounting.rules import rule
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.losses import Logistic
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.histograms.labelled_scores import LabelledScores
from discreet.queries.histograms.score_histogram import ScoreHistogram
from discreet.queries.mapped import ColumnWeights
from discreet.queries.sums.row_sum import RowSum
from discreet.rows import ROW_BITS, RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.private_scales import Diagonal
from discreet.solvers.weighted_perturbation import WeightedPerturbation
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")


def test_releases_are_mean_second_moments_a_minimiser_a_histogram_and_sums_of_labels() -> None:
    problem = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
    scales = Diagonal(7.0, 0.01, 0.25, 25.0, centred=True, centre_multiplier=9.0)
    solver = WeightedPerturbation(scales, 3.0, 11.0, 5.0, 50.0, slope_bound=0.5)
    mean, moments, minimum, place, line = rehearse(solver, problem, ADD)
    assert mean == events.Gaussian(9.0)
    assert [moments, place] == [events.Gaussian(m, math.sqrt(2)) for m in (7.0, 11.0)]
    furthest = LabelledScores(problem.rows, np.zeros(31), np.arange(17.0)).replace_one_factor
    assert line == events.Gaussian(5.0, furthest)
    assert isinstance(minimum, events.ObjectivePerturbation)
    assert minimum.noise_multiplier == 3.0
    # a row's curvature is L(R − L) at most, whatever weights it gets: rows are clipped anew
    assert minimum.log_det == pytest.approx(math.log1p(0.5 * (math.sqrt(1.25) - 0.5) / 50.0))


@pytest.mark.parametrize("unit", [ADD, REPLACE, Unit("replace-one", 2)], ids=str)
@pytest.mark.parametrize("log_det", [0.0, 0.05])
def test_a_minimiser_beside_gaussians_by_its_closed_form(unit: Unit, log_det: float) -> None:
    """Never below what convolving the two privacy losses finds, less that one's own error; exact without log det."""
    other, delta = events.Gaussian(9.0), 1e-5
    minimum = events.ObjectivePerturbation(4.0, max(log_det, 1e-12), 1, 0.0, 0.0)
    closed = epsilon(compose([minimum, other]), delta, unit).upper
    alone = rule(minimum, unit)
    mu = unit.sensitivity(1.0) / 9.0
    numerical = ComposedLoss([(GaussianPair(mu), 1), (alone.remove, 1)]).epsilon(delta).upper  # type: ignore[union-attr]
    assert closed <= numerical * (1 + 1e-6)
    both = math.hypot(unit.sensitivity(0.25), mu)
    exact = epsilon(events.Gaussian(unit.sensitivity(1.0) / both), delta, unit)
    assert closed >= exact.lower + unit.rows_per_unit * log_det * (1 - 1e-9)
    if unit == ADD:
        assert closed == pytest.approx(exact.upper + log_det, rel=1e-6)


rows_of_any_kind = st.lists(st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 3), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(rows_of_any_kind, st.booleans(), st.integers(0, 5), st.sampled_from([-1.0, 1.0, 0.3, math.nan]))
def test_one_row_moves_sums_by_no_more_than_their_bounds(X, sparse: bool, which: int, label: float) -> None:
    """Whatever rows hold: one bin of a histogram, and a mean row of the bound's length."""
    X = np.array(X)
    y = np.resize([1.0, -1.0, label], len(X))
    spec = RowSpec(3, 1.0, 0.5)
    keep = np.arange(len(X)) != which % len(X)
    worlds = [in_memory(sp.csr_array(X[part]) if sparse else X[part], y[part], spec) for part in (slice(None), keep)]
    theta = np.array([0.3, -2.0, 1.0, 0.1])
    for targets in (None, np.linspace(-2, 2, 3), np.linspace(-1, 1, 9)):
        query = ScoreHistogram(spec, theta, np.linspace(-1, 1, 8), targets)
        more, less = (query.integers(world) for world in worlds)
        assert np.abs(more - less).sum() <= 1 == query.bound
    query = RowSum(spec)
    more, less = (query.integers(world) for world in worlds)
    assert (np.abs(more - less).astype(object) ** 2).sum() <= query.bound**2 <= 4**ROW_BITS


def test_histograms_and_sums_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    X, spec = rng.uniform(-0.4, 0.4, size=(300, 4)), RowSpec(4, 1.0, 0.5)
    y = np.where(rng.random(300) < 0.3, 1.0, -1.0)
    theta = rng.normal(size=5)
    edges = np.array([-0.5, -0.1, 0.0, 0.3, 0.4])
    scores = X @ theta[:4] + 0.5 * theta[4]
    clipped = np.clip(scores, -0.499, 0.399)
    for matrix in (X, sp.csr_array(X)):
        data = in_memory(matrix, y, spec)
        found = ScoreHistogram(spec, theta, edges, np.linspace(-2, 2, 3)).integers(data)
        expected = [np.histogram(clipped[y == label], edges)[0] for label in (-1, 1)]
        assert np.abs(found - expected).sum() <= 2  # scores are on a grid of 4e-6
        np.testing.assert_allclose(RowSum(spec).integers(data) * spec.grid, X.sum(axis=0), atol=300 * spec.grid)


def test_centred_rows_are_what_they_should_be() -> None:
    rng = np.random.default_rng(1)
    X, spec = rng.uniform(-0.3, 0.3, size=(50, 4)), RowSpec(4, 1.0, 0.5)
    centre, weights = X.mean(axis=0), np.array([0.5, 1.0, 2.0, 1.5])
    made = [
        ColumnWeights(spec, weights, centre).block(block, rounded=True)
        for matrix in (X, sp.csr_array(X))
        for block in in_memory(matrix, np.ones(50), spec).map_blocks(lambda block: block)
    ]
    for block in made:
        np.testing.assert_allclose(block.X * (block.scale * spec.unit)[:, None], (X - centre) * weights, atol=1e-5)
        assert (block.squared_length <= 4**ROW_BITS).all()


def test_without_privacy_it_is_the_minimiser() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(2)
    X = rng.uniform(-0.3, 0.3, size=(2000, 5))
    y = (X @ rng.normal(size=5) * 8 + rng.logistic(size=2000) > 0).astype(int)
    found = dp.LogisticRegression(math.inf, solver="weighted_perturbation", row_norm=4.0, classes=[0, 1]).fit(X, y)
    expected = LogisticRegression(C=1e9, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-5)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-5)


def profiled(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows that have most of their length in common; three in ten are of the rarer class."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], size=80) * (np.arange(80) < 40)
    y = np.where(rng.random(n) < 0.3, 1, -1)
    noise = rng.normal(size=(n, 80)) * 0.02
    return 0.1 + 0.003 * y[:, None] * signs + noise, y


def test_what_centre_and_line_are_worth() -> None:
    """3000 rows, 80 columns, ε = 1: the majority is 70 %. Each part of the solver earns its share."""
    X, y = profiled(6000)
    scores = {}
    for name, options in [
        ("all", {"centre_share": 0.05}),
        ("uncentred", {"centre_share": 0.0}),
        ("no recalibration", {"centre_share": 0.05, "recalibration_share": 1e-7}),
    ]:
        runs = [
            dp.LogisticRegression(
                1.0, 1e-7, adjacency="add-remove", n_public=3000, row_norm=1.0, classes=[-1, 1], random_state=seed,
                solver="weighted_perturbation", solver_options=options,
            ).fit(X[:3000], y[:3000])
            for seed in range(5)
        ]  # fmt: skip
        scores[name] = np.mean([run.score(X[3000:], y[3000:]) for run in runs])
        if name == "all":
            predicted = np.mean([run.predict_proba(X[3000:])[:, 1].mean() for run in runs])
            assert predicted == pytest.approx(0.3, abs=0.03)  # probabilities are calibrated
    assert scores["all"] > 0.8
    assert scores["all"] > scores["uncentred"] + 0.03
    assert scores["all"] > scores["no recalibration"] + 0.03


def test_queries_refuse_what_has_no_bound() -> None:
    spec = RowSpec(2, math.inf)
    data = in_memory(np.ones((3, 2)), np.ones(3), spec)
    for query in (RowSum(spec), ScoreHistogram(spec, np.ones(2), np.array([0.0, 1.0]))):
        with pytest.raises(InvalidInput, match="row_norm"):
            query.integers(data)
    with pytest.raises(InvalidInput, match="edges"):
        ScoreHistogram(RowSpec(2, 1.0), np.ones(2), np.array([1.0, 0.0]))
    with pytest.raises(InvalidInput, match="theta"):
        ScoreHistogram(RowSpec(2, 1.0), np.ones(3), np.array([0.0, 1.0]))


def test_a_minimiser_of_made_rows_claims_for_those_rows() -> None:
    from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser

    spec, other = RowSpec(2, 1.0, 0.5), RowSpec(2, 2.0, 0.5)
    with pytest.raises(InvalidInput, match="other rows"):
        RidgeMinimiser(spec, Logistic(), 1.0, through=ColumnWeights(other, np.ones(2)))
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-0.5, 0.5, size=(200, 2)), np.where(rng.random(200) < 0.5, 1.0, -1.0)
    weights = np.array([0.7, 1.2])
    through = RidgeMinimiser(spec, Logistic(), 3.0, through=ColumnWeights(spec, weights))
    direct = RidgeMinimiser(spec, Logistic(), 3.0)
    found = [
        PerturbedMinimum(query, 0.0, 1e-3, 0.0).sample(in_memory(matrix, y, spec), ADD, None)  # type: ignore[arg-type]
        for query, matrix in ((through, X), (direct, X * weights))
    ]
    np.testing.assert_allclose(*found, atol=1e-9)
