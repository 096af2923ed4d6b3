"""MeanEstimator: certificates, attacks with power, the twin without noise, crossovers, memory, bad input."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreet as dp
from discreet.calibration import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.data.memory import in_memory
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.noise import Bits
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.sketch import Sketch
from discreet.recipes.sparse_mean import predicted_errors, recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.sparse_mean import RecoveredMean
from discreet.units import Unit

METHODS = ["gaussian", "laplace", "projection", "threshold", "l1-recovery", "auto"]


def zipf_rows(n: int, d: int, s: int, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    weights = np.cumsum(1 / np.arange(1, d + 1) ** 1.1)
    where = np.searchsorted(weights / weights[-1], rng.random((n, s)))
    X = sp.csr_array((np.ones(n * s), where.ravel(), np.arange(0, n * s + 1, s)), shape=(n, d))
    X.sum_duplicates()
    X.data[:] = 1 / math.sqrt(s)
    return X


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_certificate_keeps_the_guarantee(method: str, adjacency: str) -> None:
    X = zipf_rows(2000, 500, 10)
    ledger = Ledger()
    found = dp.MeanEstimator(
        0.7, 1e-6, method=method, adjacency=adjacency, row_norm=1.0, sparsity=10, ledger=ledger, random_state=1
    ).fit(X)
    assert found.mean_.shape == (500,)
    assert found.privacy_.epsilon <= 0.7
    assert found.privacy_.adjacency == adjacency
    assert not found.privacy_.private  # a seed protects nobody
    assert found.privacy_.recompute().upper <= 0.7 * (1 + 1e-9)
    (charge,) = ledger.history()  # a private n is part of it
    assert (charge.event if adjacency == "replace-one" else charge.ran) == found.privacy_.event
    truth = np.asarray(X.mean(axis=0)).ravel()
    assert np.linalg.norm(found.mean_ - truth) < {"gaussian": 0.5, "laplace": 0.8}.get(method, 0.25)


CLAIM = {"gaussian": (1.0, 0.05), "laplace": (1.0, 0.0), "l1-recovery": (1.0, 0.05), "gaussian sketch": (1.0, 0.05)}


def lower_bound(method: str, noise: float, trials: int = 6000) -> float:
    """A 99.9 % Clopper–Pearson lower bound on ε at the claimed δ, for a noise multiplier ``noise`` times the planned.

    The worlds are one row and its opposite, for a sketch the row that it stretches most; the attack looks at the answer
    along that row, which is all there is to see of Gaussian noise, and of Laplace noise along an axis.
    """
    rows, unit = RowSpec(8, 1.0), Unit("replace-one")
    epsilon, delta = CLAIM[method]
    guarantee = Guarantee(epsilon, delta, unit)
    X = np.eye(8)[:1]
    sketches = {
        "l1-recovery": lambda seed: Sketch(8, 4, 4, seed),
        "gaussian sketch": lambda seed: GaussianSketch(8, 16, seed, 1.1),
    }
    if method in (
        "l1-recovery",
        "gaussian sketch",
    ):  # a sketch unlucky enough to stretch some row up to the claim, and that row
        for seed in range(100):
            plan = RecoveredMean(noise * gaussian_multiplier(guarantee), 8, sketches[method](seed))
            query = plan.measurement(rows).query
            vectors, stretch, _ = np.linalg.svd([query.sketch.apply(column) for column in np.eye(8)])
            if stretch[0] >= query.bound * query.grid:
                break
        X = vectors.T[:1]
    else:
        plan = recipe(Problem(rows, Squared(), 1.0), guarantee, method=method, sparsity=1)
        plan = replace(plan, noise_multiplier=noise * plan.noise_multiplier)
    measurement = plan.measurement(rows)
    worlds = [in_memory(sign * X, np.zeros(1), rows) for sign in (1.0, -1.0)]
    towards = measurement.query.unrounded(worlds[0])
    length = float(np.linalg.norm(towards))
    bits = Bits.seeded(3)
    likely, rare = (
        sum(float(measurement.sample(data, unit, bits) @ towards) > length**2 for _ in range(trials)) for data in worlds
    )
    low = beta.ppf(0.0005, likely, trials - likely + 1)
    high = beta.ppf(0.9995, rare + 1, trials - rare)
    return math.log((low - delta) / high)


@pytest.mark.parametrize("method", CLAIM)
def test_attack_stays_below_the_claim_and_has_power(method: str) -> None:
    """Fails by chance with probability below 2e-3."""
    assert 0.5 < lower_bound(method, 1.0) <= 1.0
    assert lower_bound(method, 0.5) > 1.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_without_privacy_it_is_the_mean(method: str, layout: type) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 20)) * (rng.random((300, 20)) < 0.2)
    found = dp.MeanEstimator(math.inf, method=method).fit(layout(X))
    assert np.allclose(found.mean_, X.mean(axis=0), atol=1e-12)
    assert found.privacy_.epsilon == math.inf


def test_projection_beats_plain_noise_on_word_like_rows() -> None:
    """n = 10⁴, d = 10⁵: far less than the proved error, which itself is far less than σ√d."""
    X = zipf_rows(10_000, 100_000, 50)
    truth = np.asarray(X.mean(axis=0)).ravel()
    error = {
        method: float(
            np.linalg.norm(
                dp.MeanEstimator(1.0, 1e-6, method=method, row_norm=1.0, sparsity=50, random_state=0).fit(X).mean_
                - truth
            )
        )
        for method in METHODS
    }
    rows, guarantee = RowSpec(100_000, 1.0), Guarantee(1.0, 1e-6, Unit("replace-one"))
    proved = min(predicted_errors(rows, 50, 10_000, guarantee).values())
    assert error["projection"] < error["gaussian"] / 3
    assert error["projection"] < proved
    assert error["l1-recovery"] < 2 * proved
    assert error["auto"] <= 1.1 * min(error.values())


# cells that are no numbers are filled by a public rule: an exception must not depend on a row
@parametrize_with_checks(
    [dp.MeanEstimator(50.0, 1e-5, row_norm=10.0, random_state=0)],
    expected_failed_checks=lambda estimator: {"check_dtype_object": "no exception depends on a row's value"},
)
def test_scikit_learn_check(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def test_sparsity_is_enforced() -> None:
    """A row with more entries than declared counts with its largest ones only."""
    X = np.tile(np.linspace(1, 2, 50), (2000, 1))
    found = dp.MeanEstimator(50.0, 1e-6, row_norm=100.0, sparsity=5, random_state=0, method="gaussian").fit(X)
    assert np.abs(found.mean_[:45]).max() < 1.0
    assert found.mean_[45:].min() > 1.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_persons_with_several_rows(delta: float) -> None:
    X = zipf_rows(500, 50, 5)
    found = dp.MeanEstimator(1.0, delta, row_norm=1.0, sparsity=5, rows_per_unit=3, random_state=0).fit(X)
    assert found.privacy_.recompute().upper <= 1.0 + 1e-9
    assert found.privacy_.unit == Unit("replace-one", 3)


def test_the_ledger_refuses_before_anything_is_released() -> None:
    ledger = Ledger(epsilon=0.5, delta=1e-5, adjacency="replace-one")
    with pytest.raises(BudgetExceeded):
        dp.MeanEstimator(1.0, 1e-6, row_norm=1.0, ledger=ledger).fit(np.eye(3))


def test_sparse_output_and_seeds() -> None:
    X = zipf_rows(1000, 400, 5)
    make = dict(epsilon=1.0, delta=1e-6, row_norm=1.0, sparsity=5, random_state=7)  # noqa: C408
    dense = dp.MeanEstimator(**make).fit(X).mean_
    sparse = dp.MeanEstimator(**make, sparse_output=True).fit(X).mean_
    assert sparse.shape == (1, 400)
    assert sparse.nnz < 400
    assert (sparse.toarray()[0] == dense).all()


def test_memory_grows_with_entries_and_dimension_only() -> None:
    """d = 10⁶ and 10⁵ entries in 10⁴ rows: within a dozen vectors of length d."""
    X = zipf_rows(10_000, 1_000_000, 10)
    dp.MeanEstimator(1.0, 1e-6, row_norm=1.0, sparsity=10, method="gaussian").fit(X)  # compiled before measuring
    tracemalloc.start()
    dp.MeanEstimator(1.0, 1e-6, row_norm=1.0, sparsity=10).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 8 * 1_000_000


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"method": "magic"}, "method"),
        ({"row_norm": None}, "row_norm"),
        ({"row_norm": -1.0}, "row_norm"),
        ({"sparsity": 0}, "sparsity"),
        ({"sparsity": 2.5}, "sparsity"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0.0, "method": "gaussian"}, "pure DP"),
        ({"delta": None, "adjacency": "add-remove"}, "delta"),
        ({"adjacency": "sideways"}, "adjacency"),
    ],
)
def test_bad_input(wrong: dict[str, object], why: str) -> None:
    arguments = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.0} | wrong
    with pytest.raises(InvalidInput, match=why):
        dp.MeanEstimator(**arguments).fit(np.eye(3))
