"""Fits inside scikit-learn's pipelines and searches: what they learn from the rows, and what they cost together."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, PolynomialFeatures, StandardScaler

import discreet as dp

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = (X[:, 0] > 0).astype(int)


def model(**more: Any) -> dp.LogisticRegression:
    return dp.LogisticRegression(**{"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.0, "classes": [0, 1], **more})


LEARNING: dict[str, tuple[Any, str]] = {
    "scaler": (StandardScaler(), "standardscaler"),
    "components": (PCA(1), "pca"),
    "union": (FeatureUnion([("a", Normalizer()), ("b", StandardScaler())]), "featureunion"),
    "columns": (ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough"), "columntransformer"),
    "inner pipeline": (make_pipeline(Normalizer(), StandardScaler()), "pipeline"),
}
HARMLESS = {
    "of each row": Normalizer(),
    "function": FunctionTransformer(np.tanh),
    "polynomials": PolynomialFeatures(2),
    "public": FrozenEstimator(StandardScaler().fit(RNG.normal(size=(9, 2)))),
    "columns": ColumnTransformer([("a", Normalizer(), [0, 1])]),
    "union": FeatureUnion([("a", Normalizer()), ("b", "passthrough")]),
}


@pytest.mark.parametrize("kind", LEARNING)
def test_a_step_that_learns_from_the_rows_is_told_and_certified(kind: str) -> None:
    """One person moves the mean by which all rows are scaled, so no bound on a row holds for the original rows."""
    step, name = LEARNING[kind]
    ledger = dp.Ledger()
    with pytest.warns(dp.PrivacyWarning, match="NOT PRIVATE"):
        pipeline = make_pipeline(step, model(ledger=ledger)).fit(X, Y)
    certificate = pipeline[-1].privacy_
    assert not certificate.private
    assert any(name in item for item in certificate.unprotected)
    assert str(certificate).startswith("NOT PRIVATE: preprocessing")
    assert "NOT PRIVATE: preprocessing" in ledger.history()[0].note
    assert dp.Certificate.from_json(certificate.to_json()) == certificate


def test_a_pipeline_in_a_pipeline() -> None:
    with pytest.warns(dp.PrivacyWarning, match="'standardscaler'"):
        outer = make_pipeline(StandardScaler(), make_pipeline(Normalizer(), model())).fit(X, Y)
    assert not outer[-1][-1].privacy_.private


@pytest.mark.parametrize("kind", HARMLESS)
def test_steps_that_learn_nothing_from_the_rows_leave_the_fit_private(kind: str) -> None:
    pipeline = Pipeline([("step", HARMLESS[kind]), ("model", model())]).fit(X, Y)
    assert pipeline[-1].privacy_.private
    assert (
        pipeline.set_params(model__epsilon=float("inf"), step=StandardScaler()).fit(X, Y)[-1].privacy_.epsilon == np.inf
    )


def test_a_fit_after_a_pipeline_is_private_again() -> None:
    with pytest.warns(dp.PrivacyWarning):
        last = make_pipeline(StandardScaler(), model()).fit(X, Y)[-1]
    assert last.fit(X, Y).privacy_.private


def ledger(epsilon: float, **more: Any) -> dp.Ledger:
    return dp.Ledger(**{"epsilon": epsilon, "delta": 1e-4, "adjacency": "replace-one", **more})


SEARCHES: dict[str, tuple[int, Any]] = {
    "cross_val_score": (3, lambda one: cross_val_score(one, X, Y, cv=KFold(3), error_score="raise")),
    "cross_val_predict": (3, lambda one: cross_val_predict(one, X, Y, cv=KFold(3))),
    "GridSearchCV": (
        5,
        lambda one: GridSearchCV(one, {"alpha": [0.0, 0.1]}, cv=KFold(2), error_score="raise").fit(X, Y),
    ),
    "without refit": (
        4,
        lambda one: GridSearchCV(one, {"alpha": [0.0, 0.1]}, cv=KFold(2), refit=False, error_score="raise").fit(X, Y),
    ),
    "nested": (
        10,
        lambda one: cross_val_score(
            GridSearchCV(one, {"alpha": [0.0, 0.1]}, cv=KFold(2), error_score="raise"),
            X,
            Y,
            cv=KFold(2),
            error_score="raise",
        ),
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_says_what_all_its_fits_cost_or_is_refused_before_the_first(name: str) -> None:
    (fits, run), adjacency = SEARCHES[name], "replace-one"
    small = ledger(0.4 * fits, delta=1e-6, adjacency=adjacency)
    one = model(solver="objective_perturbation", adjacency=adjacency)
    with pytest.raises(dp.errors.BudgetExceeded, match=f"{fits} fits.*Nothing was charged"):
        run(one.set_params(ledger=small))
    assert small.history() == ()
    enough = ledger(fits + 0.5, adjacency=adjacency)
    with pytest.warns(dp.PrivacyWarning, match=f"makes {fits} fits") as told:
        run(one.set_params(ledger=enough))
    assert len([w for w in told if issubclass(w.category, dp.PrivacyWarning)]) == 1
    assert len(enough.history()) == fits
    said = float(str(told[0].message).split("ε = ")[1].split(",")[0])
    assert enough.spent().upper == pytest.approx(said, rel=0.06)  # fits of other settings have other noise


def test_scores_are_not_nan_after_a_part_of_the_budget_is_gone() -> None:
    """By default scikit-learn turns a refusal into NaN and goes on: then every fit must be refused, not the last."""
    small = ledger(2.05, delta=1e-6)
    one = model(solver="objective_perturbation", ledger=small)
    with pytest.raises(ValueError, match="All the 3 fits failed"):
        cross_val_score(one, X, Y, cv=KFold(3))
    assert small.history() == ()
    with pytest.warns(dp.PrivacyWarning, match="makes 2 fits"):
        assert np.isfinite(cross_val_score(one, X, Y, cv=KFold(2))).all()


def test_names_of_columns_and_output_of_frames() -> None:
    schema = dp.Schema({"a": dp.Numeric(-3, 3), "id": dp.Ignore(), "b": dp.Numeric(-3, 3), "y": dp.Boolean(0, 1)})
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "id": 1})
    fitted = dp.LogisticRegression(1.0, 1e-6, schema=schema).fit(frame, pd.Series(Y, name="y"))
    assert fitted.feature_names_in_.tolist() == ["a", "id", "b"]
    assert fitted.n_features_in_ == 3
    steps = (
        make_pipeline(FunctionTransformer(np.tanh), model()).set_output(transform="pandas").fit(frame[["a", "b"]], Y)
    )
    assert steps[-1].feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        steps[-1].predict(frame[["b", "a"]])


def test_names_of_columns_are_saved_with_the_model(tmp_path: Path) -> None:
    schema = dp.Schema({"a": dp.Numeric(-3, 3), "y": dp.Boolean(0, 1)})
    fitted = dp.LogisticRegression(1.0, 1e-6, schema=schema).fit({"a": X[:, 0]}, pd.Series(Y, name="y"))
    fitted.save(tmp_path / "model.npz")
    assert dp.load(tmp_path / "model.npz").feature_names_in_.tolist() == ["a"]


def test_a_ledger_may_be_named_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dp.Ledger("budget.db", epsilon=2.0, delta=1e-6, adjacency="replace-one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(ledger="budget.db").fit(X, Y)
    assert len(dp.Ledger("sqlite:///budget.db").history()) == len(dp.Ledger(tmp_path / "budget.db").history()) == 1
    for wrong in ("budget", "memory", "mysql://budget.db", ""):
        with pytest.raises(dp.errors.InvalidInput, match="a ledger lives in a file"):
            dp.Ledger(wrong)


def _scaled(model):
    return make_pipeline(StandardScaler(), model)


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
def test_what_stands_between_a_pipeline_and_the_model_hides_no_step():
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import BaggingClassifier
    from sklearn.model_selection import GridSearchCV
    from sklearn.multiclass import OneVsRestClassifier

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) / 4
    y = (X[:, 0] > 0).astype(int)
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1])
    search = dp.PrivateSearchCV(model, {"alpha": [0.0, 0.1]}, epsilon=2.0, delta=1e-6, trials=2)
    assert not _scaled(search).fit(X, y)[-1].privacy_.private
    grid = _scaled(GridSearchCV(model, {"alpha": [0.0]}, cv=2)).fit(X, y)[-1]
    assert not grid.best_estimator_.privacy_.private
    rest = _scaled(OneVsRestClassifier(model)).fit(X, y)[-1]
    assert not any(one.privacy_.private for one in rest.estimators_)
    bagged = BaggingClassifier(model, n_estimators=1).fit(X, y)
    assert not bagged.estimators_[0].privacy_.private
    line = dp.LinearRegression(1.0, 1e-6, row_norm=1.0, target_bounds=(-3, 3))
    target = TransformedTargetRegressor(line, transformer=StandardScaler()).fit(X, X[:, 0])
    assert not target.regressor_.privacy_.private
    assert OneVsRestClassifier(model).fit(X, y).estimators_[0].privacy_.private


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
def test_steps_that_take_a_setting_from_the_rows_have_learned():
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.random_projection import GaussianRandomProjection

    X = np.random.default_rng(0).normal(size=(200, 2)) / 4
    y = (X[:, 0] > 0).astype(int)
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1])
    for step, private in (
        (RBFSampler(gamma="scale", n_components=4), False),
        (RBFSampler(gamma=1.0, n_components=4), True),
        (GaussianRandomProjection(n_components=2), True),
        (GaussianRandomProjection(eps=0.9), False),
    ):
        wide = np.tile(X, (1, 80)) if isinstance(step, GaussianRandomProjection) else X
        assert make_pipeline(step, model).fit(wide, y)[-1].privacy_.private is private, step


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_folds_that_one_row_rearranges_are_refused_with_a_budget(adjacency: str) -> None:
    """A changed label moves other rows between stratified folds, and a further row moves all that follow it."""
    ledger = dp.Ledger(epsilon=50.0, delta=1e-3, adjacency=adjacency)
    one = dp.LogisticRegression(
        1.0, 1e-6, row_norm=1.0, classes=[0, 1], ledger=ledger, adjacency=adjacency, n_public=len(Y)
    )
    splitter = StratifiedKFold(3) if adjacency == "replace-one" else KFold(3)
    if adjacency == "replace-one":
        one.set_params(n_public=None)
    with pytest.raises(dp.errors.InvalidInput, match="moves others between folds"):
        cross_val_score(one, X, Y, cv=splitter, error_score="raise")
    assert not ledger.history()


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_workers_hide_no_step_either(backend: str) -> None:
    """A thread or process of scikit-learn does not show which pipeline it works for, so that none is ruled out."""
    from joblib import parallel_config
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.multiclass import OneVsRestClassifier

    with parallel_config(backend, n_jobs=2):
        rest = _scaled(OneVsRestClassifier(model(), n_jobs=2)).fit(X, Y + 2 * (X[:, 1] > 0))[-1]
        calibrated = CalibratedClassifierCV(model(), cv=2, n_jobs=2).fit(X, Y).calibrated_classifiers_
        plain = make_pipeline(Normalizer(), model()).fit(X, Y)[-1]
    for one in [*rest.estimators_, *(part.estimator for part in calibrated)]:
        assert not one.privacy_.private
    assert plain.privacy_.private


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_folds_that_workers_do_not_see_are_refused_with_a_budget(backend: str, tmp_path: Path) -> None:
    """Stratified folds, the usual ones of a classifier: one label moves others, for which nothing was charged."""
    from joblib import parallel_config

    ledger = dp.Ledger(tmp_path / "book.db", epsilon=9.0, delta=1e-5, adjacency="replace-one")
    with parallel_config(backend, n_jobs=2), pytest.raises(ValueError, match="n_jobs=1"):
        cross_val_score(model(ledger=ledger), X, Y, n_jobs=2, error_score="raise")
    assert not ledger.history()


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
def test_pipelines_of_other_libraries_are_seen() -> None:
    class Resampling(Pipeline):
        def fit(self, X: Any, y: Any) -> Any:
            for _, step in self.steps[:-1]:
                X = step.fit(X, y).transform(X)
            self.steps[-1][1].fit(X, y)
            return self

    assert not Resampling([("scaler", StandardScaler()), ("model", model())]).fit(X, Y)[-1].privacy_.private
    assert Resampling([("rows", Normalizer()), ("model", model())]).fit(X, Y)[-1].privacy_.private


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
def test_classes_that_inherit_from_scikit_learn_are_seen() -> None:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.multiclass import OneVsRestClassifier

    class Own(CalibratedClassifierCV):
        pass

    class Rest(OneVsRestClassifier):
        pass

    found = Own(model(), cv=2).fit(X, Y).calibrated_classifiers_
    assert not any(part.estimator.privacy_.private for part in found)
    assert all(one.privacy_.private for one in Rest(model()).fit(X, Y + 2 * (X[:, 1] > 0)).estimators_)
