"""Heavy-tailed regression: heavy tails are cut, and one bad row costs one row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dp
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import SparseSet
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.mechanisms import Peeling
from discreet.noise.bits import Bits
from discreet.recipes.heavy_tailed import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.heavy_tailed import HeavyTailed
from discreet.units import Unit
from discreet.vault import Vault

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(1, 1.0)


def heavy(n, d, s, seed=0):
    """Student-t features with 5 degrees of freedom (infinite sixth moment), unit variance, and heavy noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, (n, d)) / math.sqrt(5 / 3)
    theta = np.zeros(d)
    theta[:s] = rng.choice([-1.0, 1.0], s) * 0.5
    return X, X @ theta + 0.3 * rng.standard_t(5, n), theta


def run(solver, X, y, *, unit=ADD_REMOVE, seed=0):
    rows = RowSpec(X.shape[1], math.inf)
    problem = Problem(rows, Squared(), float(len(y)))
    return Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(seed)).run(solver, problem)


def test_the_twin_without_noise_takes_one_gradient_step_on_each_part():
    X, y, truth = heavy(3000, 10, 2)
    solver = HeavyTailed(Peeling(2, 0.0, 0.0), 12, math.inf, 0.5, 5.0)
    theta = run(solver, X, y, unit=REPLACE_ONE)
    assert np.flatnonzero(theta).tolist() == [0, 1]
    np.testing.assert_allclose(theta[:2], truth[:2], atol=0.15)
    # with one part it is one step of hard thresholding on all rows, in closed form
    once = run(HeavyTailed(Peeling(2, 0.0, 0.0), 1, math.inf, 0.5, 5.0), X, y)
    gradient = -0.5 * (X.T @ -y) / len(y)
    expected = np.where(np.abs(gradient) >= np.sort(np.abs(gradient))[-2], gradient, 0.0)
    np.testing.assert_allclose(once, expected, atol=1e-6)


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE], ids=str)
def test_private_regression_finds_the_support_under_heavy_tails(unit):
    X, y, truth = heavy(60_000, 50, 2)
    X[0], y[1] = 1e300, -1e300  # rows that would move any unbounded sum
    problem = Problem(RowSpec(50, math.inf), Squared(), 60_000.0)
    solver = recipe(problem, Guarantee(2.0, 1e-6, unit), sparsity=2, radius=3.0, step=0.5, entry_bound=4.0)
    theta = run(solver, X, y, unit=unit)
    assert np.flatnonzero(theta).tolist() == [0, 1]
    assert np.linalg.norm(theta - truth) < 0.3 * np.linalg.norm(truth)


@pytest.mark.parametrize("unit_of_rows", [1.0, 1e-3])
@pytest.mark.parametrize("tails", [5.0, 2.1])
def test_defaults_fit_the_scale_of_rows_and_targets(tails, unit_of_rows):
    """Whatever units rows and targets are in; before, one K in the units of the rows left most of θ unlearnt."""
    rng = np.random.default_rng(1)
    n, d = 60_000, 40
    X, theta = rng.standard_t(tails, (n, d)), np.where(np.arange(d) < 2, 0.5, 0.0)
    y = 3.0 + X @ theta + 0.5 * rng.standard_t(tails, n)
    model = dp.SparseLinearRegression(
        2.0,
        1e-8,
        row_norm=12.0 * unit_of_rows,
        target_bounds=(-20.0, 30.0),
        sparsity=4,
        solver="heavy_tailed",
        random_state=0,
    ).fit(X * unit_of_rows, y)
    assert np.sum((model.coef_ * unit_of_rows - theta) ** 2) < 0.02
    assert abs(model.intercept_ - 3.0) < 0.2


def test_bad_input():
    with pytest.raises(InvalidInput, match="squared loss"):
        rehearse(HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 1.0, 1.0), Problem(ROWS, Logistic(), 10.0), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="step"):
        HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 0.0, 1.0)
    for given in ({"slope_bound": 1.0}, {"slope_bound": 1.0, "scale_multiplier": 1.0}, {"centre_multiplier": 1.0}):
        with pytest.raises(InvalidInput, match="or none of them"):
            HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 1.0, 1.0, **given)


@pytest.mark.parametrize("far", [1.0, 1e3])
def test_declared_bounds_a_thousand_times_too_wide_hardly_matter(far):
    """Largest values of heavy tails are no guide to their scale: with 16 releases a scale was found to within 1/100."""
    X, y, truth = heavy(20_000, 20, 2)
    rows = RowSpec(20, far * 10.0)
    problem = Problem(rows, Squared(), 20_000.0, SparseSet(2))
    solver = recipe(problem, Guarantee(4.0, 1e-6, Unit("replace-one")))
    data = in_memory(X, y / (far * 20.0), rows)  # targets are coded to ±1 by their bound
    theta = Vault(data, Unit("replace-one"), Ledger(), Bits.seeded(1)).run(solver, problem)
    assert float(np.sum((theta * far * 20.0 - truth) ** 2)) < 0.05 * float(truth @ truth)


@pytest.mark.parametrize("held", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("means", ["all at 3", "both sides, 30", "a quarter at 10"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_columns_far_from_zero_are_learnt_as_well_as_others(means, fit_intercept, held):
    """Without a centre their second moment has one eigenvalue that makes the steps diverge, to distances above 5."""
    rng = np.random.default_rng(3)
    n, d = 30_000, 20
    shift = {
        "all at 3": np.full(d, 3.0),
        "both sides, 30": 30.0 * (-1.0) ** (np.arange(d) // 2),
        "a quarter at 10": np.where(np.arange(d) < d // 4, 10.0, 0.0),
    }[means]
    theta = np.where(np.arange(d) < 2, 0.5, 0.0)
    X = rng.standard_t(5, (n, d))
    noise = 0.5 * rng.standard_t(5, n)
    squared = []
    for moved in (0.0, shift):
        at = X + moved
        model = dp.SparseLinearRegression(
            2.0,
            1e-8,
            row_norm=1.5 * float(np.sqrt(np.sum(shift**2) + 2 * d)),
            target_bounds=(-60.0, 60.0),
            sparsity=4,
            solver="heavy_tailed",
            fit_intercept=fit_intercept,
            random_state=0,
        ).fit(held(at), at @ theta + 1.0 * fit_intercept + noise)
        squared.append(float(np.sum((model.coef_ - theta) ** 2)))
        assert np.count_nonzero(model.coef_) + bool(model.intercept_) <= 4
    assert max(squared) < 0.02
    if fit_intercept:
        middle = float(model.predict(held(shift[None]))[0])
        assert middle == pytest.approx(float(shift @ theta) + 1.0, abs=0.2)


def test_a_model_of_centred_rows_predicts_the_same_from_the_rows_and_stays_in_its_set():
    """At most s coefficients with the intercept, and no longer than the radius."""
    problem = Problem(RowSpec(4, 3.0, 2.0), Squared(), 100.0, SparseSet(3))
    centre = np.array([1.0, -2.0, 0.5, 0.0])
    solver = HeavyTailed(Peeling(3, 1.0, 1.0), 2, 1.0, 1.0, None, 1.0, 1.0, 1.0)
    of_rows = solver._of_rows(problem, np.array([0.5, 0.0, -0.25, 0.0, 0.3]), 1.5, centre)
    row = np.array([0.7, 0.1, -0.4, 2.0])
    centred = (row - centre) @ [0.5, 0.0, -0.25, 0.0] + 1.5 * 0.3
    assert np.append(row, 2.0) @ of_rows == pytest.approx(centred)
    fewer = solver._of_rows(problem, np.array([0.5, 0.1, -0.25, 0.0, 0.0]), 1.5, centre)
    assert fewer[:4].tolist() == [0.5, 0.0, -0.25, 0.0]
    assert fewer[4] == pytest.approx(-(0.5 - 0.125) / 2.0)
    short = replace(solver, radius=0.4)._of_rows(problem, np.array([0.5, 0.0, -0.25, 0.0, 0.3]), 1.5, centre)
    assert np.linalg.norm(short) == pytest.approx(0.4)
