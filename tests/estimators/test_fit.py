"""What a user sees: declarations, guarantees, refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import discreet as dp
from discreet.errors import BudgetExceeded, InvalidInput

RNG = np.random.default_rng(7)
X = RNG.standard_normal((800, 3)) / 2
Z = X @ [2.0, -1.0, 0.5]
LABELS = np.where(Z + 0.3 * RNG.standard_normal(800) > 0, "sick", "well")
NUMBERS = 3 + Z
TABLE = pd.DataFrame({"age": RNG.integers(18, 90, 500), "job": RNG.choice(["nurse", "clerk", "other"], 500)})
TABLE["sick"] = np.where(TABLE["age"] > 50, "yes", "no")
SCHEMA = dp.Schema(
    {"age": dp.Numeric(18, 90), "job": dp.Categorical(["nurse", "clerk"]), "sick": dp.Boolean("no", "yes")}
)
CLASSIFIER = {"row_norm": 2.0, "classes": ["sick", "well"]}
REGRESSOR = {"row_norm": 2.0, "target_bounds": (0.0, 6.0)}


def logistic(**changes):
    return dp.LogisticRegression(**{"epsilon": 1.0, "random_state": 0, **CLASSIFIER, **changes})


ALL = [
    (dp.LogisticRegression, CLASSIFIER, LABELS),
    (dp.LinearSVC, CLASSIFIER, LABELS),
    (dp.LinearRegression, REGRESSOR, NUMBERS),
    (dp.HuberRegression, REGRESSOR, NUMBERS),
    (dp.QuantileRegression, REGRESSOR, NUMBERS),
    (dp.PoissonRegression, REGRESSOR, NUMBERS),
    (dp.Lasso, {**REGRESSOR, "radius": 2.0}, NUMBERS),
    (dp.SparseLinearRegression, {**REGRESSOR, "sparsity": 3}, NUMBERS),
]


@pytest.mark.parametrize(("kind", "settings", "y"), ALL)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_every_estimator_keeps_what_it_was_asked(kind, settings, y, adjacency):
    model = kind(2.0, 1e-6, adjacency=adjacency, **settings).fit(X, y)
    assert 1.9 < model.privacy_.epsilon <= 2.0
    assert model.privacy_.delta == 1e-6
    assert model.privacy_.adjacency == adjacency
    assert model.privacy_.private
    assert model.privacy_.recompute().upper <= 2.0
    assert model.score(X, y) > (0.75 if hasattr(model, "classes_") else 0.2)


@pytest.mark.parametrize(("kind", "settings", "y"), ALL)
def test_every_estimator_survives_a_round_trip_to_disk(kind, settings, y, tmp_path):
    model = kind(2.0, 1e-6, **settings).fit(X, y)
    model.save(tmp_path / "model.npz")
    again = dp.load(tmp_path / "model.npz")
    assert type(again) is kind
    assert (again.predict(X) == model.predict(X)).all()
    assert again.privacy_ == model.privacy_


def test_a_model_of_a_table_predicts_without_the_training_data(tmp_path):
    model = dp.LogisticRegression(1.0, schema=SCHEMA, random_state=1).fit(TABLE, TABLE["sick"])
    model.save(tmp_path / "m.npz")
    again = dp.load(tmp_path / "m.npz")
    new = TABLE.drop(columns="sick")
    assert (again.predict(new) == model.predict(new)).all()
    assert model.score(new, TABLE["sick"]) > 0.8


@pytest.mark.parametrize("text", [b"", b"nothing", b"PK\x03\x04broken"])
def test_a_file_that_is_no_model_is_refused(tmp_path, text):
    (tmp_path / "m.npz").write_bytes(text)
    with pytest.raises(InvalidInput, match="not a model"):
        dp.load(tmp_path / "m.npz")


def test_all_kinds_of_tables_give_the_same_model():
    target = TABLE["sick"]
    expected = dp.LogisticRegression(1.0, schema=SCHEMA, random_state=3).fit(TABLE, target).coef_
    for table in (pl.from_pandas(TABLE), pa.Table.from_pandas(TABLE), {k: TABLE[k].to_numpy() for k in TABLE}):
        assert (dp.LogisticRegression(1.0, schema=SCHEMA, random_state=3).fit(table, target).coef_ == expected).all()


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table, dict], ids=["pandas", "polars", "arrow", "dict"]
)
def test_names_of_columns_are_remembered_so_that_their_order_cannot_be_mistaken(make, tmp_path):
    columns = dict(zip("abc", X.T, strict=True))
    table, swapped = make(columns), make({name: columns[name] for name in "cba"})
    model = logistic().fit(table, LABELS)
    np.testing.assert_array_equal(model.coef_, logistic().fit(X, LABELS).coef_)
    assert model.feature_names_in_.tolist() == model.coef_names_.tolist() == ["a", "b", "c"]
    model.save(tmp_path / "model.npz")
    for fitted in (model, dp.load(tmp_path / "model.npz")):
        np.testing.assert_array_equal(fitted.predict(table), model.predict(pd.DataFrame(columns)))
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(swapped)
    mean = dp.MeanEstimator(row_norm=1.0).fit(table)
    assert mean.feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(model.fit(X, LABELS), "feature_names_in_")
    assert model.coef_names_.tolist() == ["x0", "x1", "x2"]


def test_every_coefficient_has_a_name():
    model = dp.LogisticRegression(schema=SCHEMA).fit(TABLE.drop(columns="sick"), TABLE["sick"])
    assert len(model.coef_names_) == model.coef_.shape[1]
    assert {name[:3] for name in model.coef_names_} == {"age", "job"}


def test_dense_and_sparse_rows_give_the_same_model():
    dense, sparse = logistic().fit(X, LABELS), logistic().fit(sp.csr_array(X), LABELS)
    assert (dense.coef_ == sparse.coef_).all()
    assert (dense.intercept_ == sparse.intercept_).all()


def test_many_classes():
    y = np.where(X[:, 0] > 0.3, "high", np.where(X[:, 0] < -0.3, "low", "middle"))
    model = dp.LogisticRegression(8.0, row_norm=2.0, classes=["low", "middle", "high"], random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 3)
    assert model.score(X, y) > 0.55
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)


# --- randomness and the ledger ------------------------------------------------------------------------------


def test_a_seed_is_reproducible_and_marked_not_private():
    one, two = logistic().fit(X, LABELS), logistic().fit(X, LABELS)
    assert (one.coef_ == two.coef_).all()
    assert not one.privacy_.private
    assert "NOT PRIVATE" in str(one.privacy_)
    assert json.loads(one.privacy_.to_json())["private"] is False


def test_without_a_seed_every_fit_differs_and_is_private():
    one, two = logistic(random_state=None).fit(X, LABELS), logistic(random_state=None).fit(X, LABELS)
    assert (one.coef_ != two.coef_).any()
    assert one.privacy_.private


def test_a_durable_ledger_refuses_a_seeded_run_and_an_overspent_one(tmp_path):
    ledger = dp.Ledger(f"sqlite:///{tmp_path / 'l.db'}", epsilon=1.0, delta=1e-6, adjacency="replace-one")
    with pytest.raises(InvalidInput, match="seed"):
        logistic(delta=1e-6, ledger=ledger).fit(X, LABELS)
    assert ledger.history() == ()
    logistic(delta=1e-6, ledger=ledger, random_state=None).fit(X, LABELS)
    with pytest.raises(BudgetExceeded, match="nothing was released"):
        logistic(delta=1e-6, ledger=ledger, random_state=None).fit(X, LABELS)
    assert len(ledger.history()) == 1


def test_a_ledger_may_be_given_by_url(tmp_path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    logistic(ledger=url, random_state=None).fit(X, LABELS)
    assert len(dp.Ledger(url).history()) == 1


# --- what is public and what is not -------------------------------------------------------------------------


def test_classes_taken_from_y_are_a_declared_leak():
    with pytest.warns(dp.PrivacyWarning, match="classes"):
        model = logistic(classes=None).fit(X, LABELS)
    assert any("classes" in item for item in model.privacy_.unprotected)
    assert not any("classes" in item for item in logistic().fit(X, LABELS).privacy_.unprotected)


def test_under_add_remove_nothing_visible_depends_on_n():
    settings = {"adjacency": "add-remove", "n_public": 800, "delta": None}
    models = [logistic(**settings).fit(X[:n], LABELS[:n]) for n in (799, 800)]
    facts = [
        (m.privacy_.event, m.privacy_.epsilon, m.privacy_.delta, m.n_iter_, m.privacy_.settings, m.coef_.shape)
        for m in models
    ]
    assert facts[0] == facts[1]


def test_under_add_remove_delta_does_not_follow_from_a_private_n():
    with pytest.raises(InvalidInput, match="delta"):
        logistic(adjacency="add-remove").fit(X, LABELS)


def test_a_private_count_is_charged():
    ledger = dp.Ledger()
    model = logistic(adjacency="add-remove", delta=1e-6, ledger=ledger).fit(X, LABELS)
    (charge,) = ledger.history()
    count, promise = charge.event.events
    assert count == dp.events.Laplace(50.0)
    assert promise == dp.events.Promise(promise.epsilon, 1e-6)
    assert 0.98 * (1 - 1e-8) < promise.epsilon < 0.98  # the margin for rounding is inside
    count, *run = charge.ran.events
    assert count == dp.events.Laplace(50.0)
    assert dp.accounting.epsilon(dp.events.compose(run), 1e-6, "add-remove").upper <= promise.epsilon
    assert model.privacy_.epsilon == 1.0


def test_n_is_public_under_replace_one():
    assert "number of rows" in logistic().fit(X, LABELS).privacy_.unprotected
    assert logistic().fit(X, LABELS).privacy_.delta == 1 / 800**2
    with pytest.raises(InvalidInput, match="n_public"):
        logistic(n_public=5).fit(X, LABELS)


def test_no_exception_depends_on_a_row():
    wild = X.copy()
    wild[0], wild[1, 0], wild[2], wild[3] = np.nan, np.inf, 1e308, 5e-324
    labels = LABELS.copy().astype(object)
    labels[4], labels[5] = "unheard of", None
    model = logistic().fit(wild, labels)
    assert np.isfinite(model.coef_).all()
    assert set(model.predict(wild)) <= {"sick", "well"}
    numbers = NUMBERS.copy()
    numbers[:3] = np.nan, np.inf, 1e308
    assert np.isfinite(dp.LinearRegression(1.0, **REGRESSOR, random_state=0).fit(wild, numbers).coef_).all()


# --- bad input: nothing released, nothing charged -----------------------------------------------------------

BAD = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"epsilon": math.nan}, "epsilon"),
    ({"epsilon": "1"}, "epsilon"),
    ({"delta": 1.0}, "delta"),
    ({"delta": -0.1}, "delta"),
    ({"adjacency": "neighbours"}, "adjacency"),
    ({"solver": "magic"}, "solver"),
    ({"solver": "descent", "solver_options": {"magic": 1}}, "magic"),
    ({"solver_options": {"iterations": 3}}, "named solver"),
    ({"row_norm": None}, "row_norm"),
    ({"row_norm": 0}, "row_norm"),
    ({"row_norm": math.inf}, "bounded"),
    ({"schema": SCHEMA}, "not both"),
    ({"rows_per_unit": 0}, "rows_per_unit"),
    ({"classes": ["sick"]}, "two classes"),
    ({"classes": ["sick", "sick"]}, "distinct"),
    ({"random_state": "seed"}, "random_state"),
    ({"alpha": -1.0}, "alpha"),
    ({"domain": "ball"}, "domain"),
    ({"n_public": 0}, "n_public"),
    ({"solver": "descent", "delta": 0.0}, "pure"),
]


@pytest.mark.parametrize(("changes", "message"), BAD)
def test_bad_settings_are_refused_before_anything_is_charged(changes, message):
    ledger = dp.Ledger()
    with pytest.raises(InvalidInput, match=message):
        logistic(ledger=ledger, **changes).fit(X, LABELS)
    assert ledger.history() == ()


@pytest.mark.parametrize(
    ("rows", "targets", "message"),
    [
        (X[:0], LABELS[:0], "0 sample"),
        (X, LABELS[:-1], "inconsistent"),
        (X.ravel(), LABELS, "2D"),
        (np.full((800, 2), "text"), LABELS, "could not convert|numbers"),
        (X, None, "y"),
        (X + 1j, LABELS, "Complex"),
    ],
)
def test_bad_data_is_refused(rows, targets, message):
    ledger = dp.Ledger()
    with pytest.raises(ValueError, match=message):
        logistic(ledger=ledger).fit(rows, targets)
    assert ledger.history() == ()


def test_a_table_without_a_schema_gets_a_template():
    with pytest.raises(InvalidInput, match=r"age: \{numeric"):
        dp.LogisticRegression(1.0).fit(TABLE, TABLE["sick"])


def test_columns_must_be_those_of_the_schema():
    with pytest.raises(InvalidInput, match="job"):
        dp.LogisticRegression(1.0, schema=SCHEMA).fit(TABLE.drop(columns="job"), TABLE["sick"])
    with pytest.raises(InvalidInput, match="income"):
        dp.LogisticRegression(1.0, schema=SCHEMA).fit(TABLE.assign(income=1), TABLE["sick"])


@pytest.mark.parametrize("bounds", [None, (1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (0.0,), "ab"])
def test_regression_needs_bounds(bounds):
    with pytest.raises(InvalidInput, match="target_bounds"):
        dp.LinearRegression(1.0, row_norm=1.0, target_bounds=bounds).fit(X, NUMBERS)


# --- scikit-learn habits ------------------------------------------------------------------------------------


def test_clone_pipeline_and_cross_validation():
    pipeline = make_pipeline(FunctionTransformer(lambda a: a / 2), logistic())
    assert clone(logistic()).get_params() == logistic().get_params()
    assert pipeline.fit(X, LABELS).score(X, LABELS) > 0.75
    assert cross_val_score(logistic(epsilon=5.0), X, LABELS, cv=3).mean() > 0.75


def test_the_html_representation_tells_the_privacy():
    assert "ε" in logistic()._repr_html_()
    assert "NOT PRIVATE" in logistic().fit(X, LABELS)._repr_html_()


def test_groups_of_rows_cost_more_noise():
    one = logistic().fit(X, LABELS).privacy_.settings["noise_multiplier"]
    five = logistic(rows_per_unit=5, solver="descent").fit(X, LABELS)
    assert five.privacy_.unit.rows_per_unit == 5
    assert five.privacy_.epsilon <= 1.0
    assert five.privacy_.settings["noise_multiplier"] > one


@pytest.mark.parametrize("options", [{"rate": 0.05}, {"batch_size": 40}, {"iterations": 5, "iterate": "last"}])
def test_descent_options(options):
    model = logistic(epsilon=4.0, solver="descent", solver_options={"iterations": 30, **options}).fit(X, LABELS)
    assert model.privacy_.epsilon <= 4.0
    assert model.score(X, LABELS) > 0.7


def test_without_privacy_the_certificate_says_so():
    model = dp.LogisticRegression(math.inf, row_norm=2.0, classes=["sick", "well"]).fit(X, LABELS)
    assert model.privacy_.epsilon == math.inf
    assert str(model.privacy_) == "no privacy (ε = ∞)"
    assert dp.Certificate.from_json(model.privacy_.to_json()) == model.privacy_


def test_targets_of_arrow_are_read():
    import pyarrow as pa

    rows = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 100, axis=0)
    labels = pa.array(["yes"] * 100 + ["no"] * 100)
    model = dp.LogisticRegression(1.0, row_norm=1.0, classes=["no", "yes"]).fit(rows, labels)
    assert model.predict(rows[:1]) == ["yes"]


@pytest.mark.parametrize(("classes", "labels"), [(["no", "yes"], (Z > 0).astype(int)), ([0, 1], LABELS)])
def test_classes_that_no_label_can_be_are_refused_by_their_type(classes, labels):
    ledger = dp.Ledger()
    with pytest.raises(InvalidInput, match="declare classes as they are in y"):
        logistic(classes=classes, ledger=ledger).fit(X, labels)
    assert not ledger.history()
    # a list or an array of objects declares no type: there a label decides about nothing but its own row
    logistic(classes=classes).fit(X, list(labels))
    logistic(classes=classes).fit(X, labels.astype(object))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (dp.LinearSVC(row_norm=1.0, classes=["sick", "well"], smoothing=0.0), "smoothing"),
        (dp.QuantileRegression(**REGRESSOR, quantile=2.0), "quantile"),
        (dp.QuantileRegression(**REGRESSOR, smoothing=-1.0), "smoothing"),
        (dp.SparseLinearRegression(**REGRESSOR, sparsity=0), "sparsity"),
    ],
)
def test_refusals_name_the_parameter_that_was_given(model, name):
    with pytest.raises(InvalidInput, match=f"^{name} must"):
        model.fit(X, LABELS if hasattr(model, "classes") else NUMBERS)


def test_settings_of_a_certificate_leave_out_what_was_not_set():
    model = dp.LinearRegression(**REGRESSOR, solver="hard_threshold", solver_options={"sparsity": 2}).fit(X, NUMBERS)
    assert "radius" not in model.privacy_.settings
    assert "None" not in model.privacy_.to_json()
