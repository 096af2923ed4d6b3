"""The search spends what it says, once and beforehand, on parts that no row shares."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier

import discreet as dp
from discreet import events
from discreet.errors import BudgetExceeded, DiscreetError, InvalidInput
from discreet.estimators import search as search_module
from discreet.noise import Bits
from discreet.units import Unit

RNG = np.random.default_rng(3)
X = RNG.standard_normal((600, 3)) / 2
LABELS = np.where(X[:, 0] + 0.1 * RNG.standard_normal(600) > 0, "sick", "well")
MODEL = dp.LogisticRegression(
    row_norm=1.5, classes=["sick", "well"], solver="descent", solver_options={"iterations": 5}
)
GRID = {"alpha": [0.0, 0.5]}


def search(**changes):
    settings = {"epsilon": 3.0, "delta": 1e-6, "trials": 3, "random_state": 0}
    return dp.PrivateSearchCV(MODEL, GRID, **{**settings, **changes})


@pytest.mark.parametrize(("adjacency", "n_public"), [("replace-one", None), ("add-remove", 600)])
def test_the_whole_search_costs_what_was_asked_and_is_charged_once(adjacency, n_public):
    ledger = dp.Ledger()
    found = search(adjacency=adjacency, n_public=n_public, ledger=ledger).fit(X, LABELS)
    (charge,) = ledger.history()
    assert charge.event == found.privacy_.event
    fits, scores = charge.event.events  # what a row of the training part meets, and one of the validation part
    assert (fits.mean, scores.mean) == (3.0, 3.0)
    bound = dp.accounting.epsilon(charge.event, 1e-6, adjacency).upper
    assert 0.9 * 3.0 < bound <= 3.0
    assert found.privacy_.epsilon == pytest.approx(bound)
    assert isinstance(scores.event, events.Laplace)
    assert dp.accounting.epsilon(scores, 1e-6, adjacency).upper == pytest.approx(3.0, rel=1e-6)
    assert len(fits.event.events) == 1  # both candidates make the same releases
    assert found.best_params_ in [{"alpha": 0.0}, {"alpha": 0.5}]
    assert found.score(X, LABELS) > 0.6
    assert found.best_estimator_.privacy_ == found.privacy_


def test_candidates_of_different_cost_are_all_accounted():
    grid = {"solver_options": [{"iterations": 5}, {"iterations": 9}, {"iterations": 5, "rate": 0.5}]}
    found = dp.PrivateSearchCV(MODEL, grid, epsilon=3.0, delta=1e-6, trials=2, random_state=0).fit(X, LABELS)
    fits, _ = found.privacy_.event.events
    assert len(fits.event.events) == 3
    for part in fits.event.events:  # the fits are never cheaper than if every trial were this one
        alone = dp.accounting.epsilon(events.PrivateSelection(part, fits.mean), 1e-6, "replace-one").upper
        assert alone <= dp.accounting.epsilon(fits, 1e-6, "replace-one").upper * (1 + 1e-9)


def test_a_refused_search_fits_nothing(monkeypatch):
    ledger = dp.Ledger(epsilon=1.0, delta=1e-6, adjacency="replace-one")
    monkeypatch.setattr(search_module, "Vault", lambda *_: pytest.fail("rows were touched"))
    with pytest.raises(BudgetExceeded):
        search(ledger=ledger).fit(X, LABELS)
    assert ledger.history() == ()


def test_the_charge_comes_before_the_first_fit(monkeypatch):
    ledger = dp.Ledger()

    def dies(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(search_module, "Vault", dies)
    with pytest.raises(KeyboardInterrupt):
        search(ledger=ledger).fit(X, LABELS)
    assert len(ledger.history()) == 1


def test_a_durable_ledger_refuses_a_seeded_search(tmp_path):
    with pytest.raises(InvalidInput, match="seed"):
        search(ledger=f"sqlite:///{tmp_path / 'l.db'}").fit(X, LABELS)


def test_every_row_is_in_one_part_whatever_the_others_are():
    part = search_module._split(100, 80.0, Unit("replace-one"), 0.2, Bits.seeded(1))
    assert np.bincount(part).tolist() == [80, 20]
    # under add-remove a row's coin does not depend on how many rows follow it
    one, two = (search_module._split(n, 80.0, Unit("add-remove"), 0.2, Bits.seeded(1)) for n in (100, 99))
    assert (one[:99] == two).all()


def test_the_number_of_trials_is_geometric():
    bits = Bits.seeded(2)
    counts = np.array([len(list(search_module._draws(5, 3, bits))) for _ in range(4000)])
    # mean 5, variance 20: the mean of 4000 is within 4.5·√(20/4000) with probability 1 − 7e-6
    assert abs(counts.mean() - 5) < 4.5 * math.sqrt(20 / 4000)
    # P(K = 1) = 1/5
    assert abs((counts == 1).mean() - 0.2) < 4.5 * math.sqrt(0.16 / 4000)
    assert counts.min() == 1


def test_nothing_shown_depends_on_rows_or_under_add_remove_on_n():
    wild, labels = X.copy(), LABELS.astype(object)
    wild[0], wild[1, 0], wild[2], wild[3] = np.nan, np.inf, 1e308, 5e-324
    labels[:4] = ["unheard of", None, 10**5000, ["sick"]]
    for settings in ({}, {"adjacency": "add-remove", "n_public": 600, "delta": None}):
        facts = []
        for rows, y in ((X, LABELS), (wild, labels), (sp.csr_array(wild), labels)):
            found = search(**settings).fit(rows, y)
            facts.append((found.privacy_.to_json(), found.best_estimator_.coef_.shape))
        assert facts[0] == facts[1] == facts[2]
    few = search(adjacency="add-remove", n_public=600, delta=None).fit(X[:1], LABELS[:1])  # an empty part is no error
    assert few.privacy_.to_json() == facts[0][0]


@pytest.mark.parametrize("kind", [dp.LinearRegression, dp.PoissonRegression, dp.HuberRegression])
def test_regressors(kind):
    model = kind(row_norm=1.5, target_bounds=(0.0, 6.0), solver="descent", solver_options={"iterations": 5})
    found = dp.PrivateSearchCV(model, GRID, epsilon=8.0, delta=1e-6, trials=2, random_state=1).fit(X, 3 + X[:, 0])
    assert not is_classifier(found)
    assert found.predict(X).shape == (600,)
    assert 0.5 < found.best_score_ < 1.3


def test_scikit_learn_habits():
    original = search()
    copy = clone(original)
    assert copy.get_params()["trials"] == 3
    assert copy.get_params()["estimator__row_norm"] == 1.5
    assert is_classifier(copy)
    copy.set_params(validation=0.5, estimator__row_norm=2.0).fit(X, LABELS)
    assert copy.classes_.tolist() == ["sick", "well"]
    assert MODEL.get_params()["epsilon"] == 1.0  # the estimator that was passed is left as it was
    assert not hasattr(MODEL, "coef_")


def test_solvers_without_a_renyi_bound_can_be_searched():
    """A selection is proved from one run's profile alone, so auto may take objective perturbation."""
    model = dp.LogisticRegression(row_norm=1.5, classes=["sick", "well"])
    settings = {"epsilon": 3.0, "delta": 1e-6, "trials": 2, "random_state": 0}
    for grid in ({"alpha": [0.0]}, {"solver": ["objective_perturbation", "descent"]}):
        found = dp.PrivateSearchCV(model, grid, **settings).fit(X, LABELS)
        fits, _ = found.privacy_.event.events
        assert any(isinstance(event, events.ObjectivePerturbation) for event in fits.event.events)
        assert 0.9 * 3.0 < dp.accounting.epsilon(found.privacy_.event, 1e-6, "replace-one").upper <= 3.0
        assert found.score(X, LABELS) > 0.6


def test_the_score_shown_is_a_share_of_rows():
    """1200 rows that every model gets right, 240 of them aside: noise of a score is below 0.1 with near certainty."""
    found = search(epsilon=8.0).fit(
        np.repeat([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], 600, axis=0), np.repeat(["sick", "well"], 600)
    )
    assert abs(found.best_score_ - 1.0) < 0.1


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.0},
        {"epsilon": math.inf},
        {"delta": 1.0},
        {"delta": 0.0},
        {"adjacency": "neighbours"},
        {"adjacency": "add-remove"},
        {"adjacency": "add-remove", "delta": None},
        {"rows_per_unit": 2},
        {"validation": 0.0},
        {"validation": 1.0},
        {"validation": 3},
        {"trials": 0},
        {"trials": 2.5},
        {"n_public": 7},
        {"param_grid": {"epsilon": [1.0, 2.0]}},
        {"param_grid": {"solver_options": [{"magic": 1}]}},
        {"param_grid": {"solver": ["bias_reduced"]}},
        {"param_grid": {"solver": ["bias_reduced"]}, "epsilon": 500.0},
        {"estimator": dp.MeanEstimator(row_norm=1.0)},
        {"random_state": "seed"},
    ],
)
def test_bad_settings_are_refused_before_anything_is_charged(changes):
    ledger = dp.Ledger()
    with pytest.raises(DiscreetError):
        search(ledger=ledger).set_params(**changes).fit(X, LABELS)
    assert ledger.history() == ()


def test_no_warning_tells_of_a_trial_that_is_not_shown():
    # warnings are errors here; the long step overflows in every trial that draws it, and none of them is the best
    X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 100, axis=0)
    model = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent", alpha=100.0)
    grid = {"solver_options": [{"iterations": 8, "step": step} for step in (1e-2, 1e308)]}
    for seed in range(4):
        search = dp.PrivateSearchCV(model, grid, epsilon=20.0, delta=1e-5, trials=4, random_state=seed)
        search.fit(X, np.repeat([1, 0], 100))
        assert np.isfinite(search.best_score_)
