"""No exception, warning, log, progress line, shape or certificate depends on a row's content, or under add-remove on n.

Every estimator is found by looking through the package, so that a new one without a case here fails, and is run with
every solver that it takes.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import discreet as dp
from discreet.errors import DiscreetError
from discreet.estimators.privacy import PrivateEstimator
from discreet.recipes import RECIPES

N = 240
RNG = np.random.default_rng(11)
X = RNG.standard_normal((N, 3)) / 2
LABELS = np.where(X[:, 0] + 0.2 * RNG.standard_normal(N) > 0, "sick", "well")
THREE = np.where(X[:, 0] > 0.2, "high", np.where(X[:, 0] < -0.2, "low", "middle"))
NUMBERS = 3 + X @ [2.0, -1.0, 0.5]

COMMON = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.5, "random_state": 0}
BOUNDED = {**COMMON, "target_bounds": (0.0, 6.0)}
#: Among columns of a table interactions may be chosen; "auto" does so from about fifty times as many rows on.
TABLE = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "schema": dp.Schema({c: dp.Numeric(-2, 2) for c in "abc"})}
BRIEF = {"epochs": 0.5, "hidden": 4}
#: (settings, targets) for each estimator.
CASES: dict[str, list[tuple[dict[str, Any], Any]]] = {
    "LogisticRegression": [
        ({**COMMON, "classes": ["sick", "well"]}, LABELS),
        ({**COMMON, "classes": ["high", "low", "middle"]}, THREE),
        ({**TABLE, "classes": ["sick", "well"]}, LABELS),
    ],
    "LinearSVC": [({**COMMON, "classes": ["sick", "well"]}, LABELS)],
    "LinearRegression": [(BOUNDED, NUMBERS), ({**TABLE, "target_bounds": (0.0, 6.0)}, NUMBERS)],
    "HuberRegression": [(BOUNDED, NUMBERS)],
    "QuantileRegression": [(BOUNDED, NUMBERS)],
    "PoissonRegression": [(BOUNDED, NUMBERS)],
    "Lasso": [({**BOUNDED, "radius": 2.0}, NUMBERS)],
    "SparseLinearRegression": [({**BOUNDED, "sparsity": 2}, NUMBERS)],
    "MeanEstimator": [({**COMMON, "method": m, "sparsity": 2}, None) for m in ("auto", "laplace", "l1-recovery")],
    "TorchClassifier": [
        ({**COMMON, **BRIEF, "classes": ["sick", "well"]}, LABELS),
        ({**COMMON, **BRIEF, "classes": ["high", "low", "middle"]}, THREE),
        ({**TABLE, **BRIEF, "classes": ["sick", "well"]}, LABELS),
    ],
    "TorchRegressor": [({**BOUNDED, **BRIEF}, NUMBERS)],
}
WITHOUT_SOLVERS = ("MeanEstimator", "TorchClassifier", "TorchRegressor")
OPTIONS = {
    "exponential_mechanism": {"candidates": np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * 4)).reshape(4, -1).T},
    "hard_threshold": {"sparsity": 2},
    "heavy_tailed": {"sparsity": 2},
    "descent": {"iterations": 8},
    "sparse_descent": {"iterations": 8, "sparsity": 2},
    "scaled_descent": {"iterations": 8},
    **{f"scaled_descent-{scales}": {"iterations": 8, "scales": scales} for scales in ("full", "diagonal", "single")},
    "boosted": {"options": {"iterations": 4}, "runs": 1.5},
    "bias_reduced": {"iterations": 20},
}
SCALED = tuple(solver for solver in OPTIONS if solver.startswith("scaled_descent-"))


def test_no_estimator_is_forgotten() -> None:
    kinds = {name for name in dp.__all__ if isinstance(getattr(dp, name), type)}
    found = {name for name in kinds if issubclass(getattr(dp, name), PrivateEstimator)}
    assert found == {*CASES, "PrivateSearchCV"}  # the search is over the others; its own tests are in test_search.py


def test_every_solver_fits_in_some_case() -> None:
    fitting = {
        "frank_wolfe": "Lasso",
        "hard_threshold": "SparseLinearRegression",
        "weighted_perturbation": "LogisticRegression",
    }
    for solver in (*RECIPES, *SCALED):
        name = fitting.get(solver, "LinearRegression")
        parameters, y = CASES[name][solver == "interactions"]
        assert build(name, parameters, solver).fit(given(parameters, X), y).privacy_.solver == solver.split("-")[0]


def given(parameters: dict[str, Any], rows: Any) -> Any:
    """The rows, as a table where there is a schema."""
    return pd.DataFrame(rows, columns=list(parameters["schema"])) if "schema" in parameters else rows


def wild(y: Any) -> tuple[NDArray[np.float64], Any]:
    """The same number of rows and columns, as hostile as floats and labels can be."""
    rows = X.copy()
    rows[0], rows[1, 0], rows[2], rows[3], rows[4] = np.nan, np.inf, 1e308, 5e-324, -1e308
    rows[5], rows[6] = [1e308, -1e308, 1e-310], [-np.inf, np.nan, 0.0]
    if y is None:
        return rows, None
    if y.dtype.kind == "U":
        odd: list[Any] = ["unheard of", None, 3, np.nan, "", 10**5000, (1,), b"sick", {"sick"}, ["well"]]
        labels = y.astype(object)
        for i, label in enumerate(odd):
            labels[i] = label
        return rows, labels
    numbers = y.copy()
    numbers[:8] = np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0, 1e-310
    return rows, numbers


def solver_cases() -> list[Any]:
    cases = []
    for name, settings in CASES.items():
        for i, (parameters, y) in enumerate(settings):
            solvers: tuple[str, ...] = ("auto",) if name in WITHOUT_SOLVERS else ("auto", *RECIPES, *SCALED)
            if "schema" in parameters:  # all others see encoded rows, which are as any others
                solvers = tuple(solver for solver in solvers if solver in ("auto", "interactions"))
            cases += [pytest.param(name, parameters, y, s, id=f"{name}-{i}-{s}") for s in solvers]
    return cases


def build(name: str, parameters: dict[str, Any], solver: str, **changes: Any) -> Any:
    chosen = {} if name in WITHOUT_SOLVERS else {"solver": solver.split("-")[0], "solver_options": OPTIONS.get(solver)}
    return getattr(dp, name)(**{**parameters, **chosen, **changes})


def facts(model: Any) -> tuple[Any, ...]:
    """Everything that is shown of a fit besides the released numbers, and what was chosen where that is released."""
    shown = {k: v for k, v in vars(model).items() if k.endswith("_")}
    kept, certificate = set(shown), json.loads(model.privacy_.to_json())
    certificate["record"].pop("issued", None)  # the clock's, not the rows'
    if certificate["settings"].pop("chosen", None) is not None:
        shown.pop("coef_")  # one coefficient a column that was chosen
    arrays = {k: v if isinstance(v, list) else [v] for k, v in shown.items()}
    shapes = {
        k: [np.shape(a) for a in v] for k, v in arrays.items() if all(isinstance(a, np.ndarray | float) for a in v)
    }
    return (
        json.dumps(certificate),
        shapes,
        kept,
        getattr(model, "n_iter_", None),
        getattr(model, "n_features_in_", None),
    )


def observed(model: Any, rows: Any, y: Any, caplog: pytest.LogCaptureFixture) -> tuple[Any, ...]:
    """What an onlooker sees of a fit: facts or the refusal, standard output and error, log records."""
    out, err = io.StringIO(), io.StringIO()
    caplog.clear()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), caplog.at_level(logging.INFO):
        try:
            seen: Any = facts(model.fit(rows, y))
        except DiscreetError as refusal:
            seen = (type(refusal), str(refusal))
    return seen, out.getvalue(), err.getvalue(), [(r.name, r.getMessage()) for r in caplog.records]


@pytest.mark.parametrize(("name", "parameters", "y", "solver"), solver_cases())
def test_nothing_shown_depends_on_what_rows_contain(
    name: str, parameters: dict[str, Any], y: Any, solver: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Warnings are errors here, so none was given; a solver that refuses the problem refuses both alike.
    tame = observed(build(name, parameters, solver), given(parameters, X), y, caplog)
    rows, targets = wild(y)
    odd = observed(build(name, parameters, solver), given(parameters, rows), targets, caplog)
    assert odd == tame
    if "schema" in parameters:
        return
    sparse = observed(build(name, parameters, solver), sp.csr_array(wild(y)[0]), wild(y)[1], caplog)
    assert sparse == tame


@pytest.mark.parametrize(("name", "parameters", "y", "solver"), solver_cases())
def test_under_add_remove_nothing_shown_depends_on_n(
    name: str, parameters: dict[str, Any], y: Any, solver: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []
    for n in (N - 1, N, 1):
        model = build(name, parameters, solver, adjacency="add-remove", n_public=N, delta=None)
        seen.append(observed(model, given(parameters, X[:n]), None if y is None else y[:n], caplog))
    assert seen[0] == seen[1] == seen[2]


def test_the_same_observer_sees_n_under_replace_one(caplog: pytest.LogCaptureFixture) -> None:
    parameters, y = CASES["LogisticRegression"][0]
    one, two = (observed(build("LogisticRegression", {**parameters, "delta": None}, "auto"), X[:n], y[:n], caplog)
                for n in (N - 1, N))  # fmt: skip
    assert one != two


ODD_CELLS: list[Any] = [{"a": 1}, [1], 10**5000, None, "words", (1, 2), {1}, 1j, np.array([1.0]), pd.NA, b"1", object]


@pytest.mark.parametrize("cell", ODD_CELLS, ids=lambda cell: type(cell).__name__)
def test_cells_that_are_no_numbers_are_filled_and_never_raise(cell: Any, caplog: pytest.LogCaptureFixture) -> None:
    def with_cell(array: Any) -> Any:
        objects = array.astype(object)
        objects.ravel()[4:5] = np.fromiter([cell], dtype=object)
        return objects

    parameters, y = CASES["LinearRegression"][0]
    tame = observed(build("LinearRegression", parameters, "auto"), X, y, caplog)
    assert observed(build("LinearRegression", parameters, "auto"), with_cell(X), with_cell(y), caplog) == tame
    settings, labels = CASES["LogisticRegression"][0]
    tame = observed(build("LogisticRegression", settings, "auto"), X, labels, caplog)
    assert observed(build("LogisticRegression", settings, "auto"), with_cell(X), with_cell(labels), caplog) == tame
    dp.MeanEstimator(**COMMON).fit(with_cell(X))
    dp.quantile(with_cell(y), epsilon=1.0, bounds=(0, 6), adjacency="replace-one", random_state=0)


@pytest.mark.parametrize("cell", ODD_CELLS, ids=lambda cell: type(cell).__name__)
def test_cells_of_tables_never_raise(cell: Any, caplog: pytest.LogCaptureFixture) -> None:
    schema = dp.Schema({"age": dp.Numeric(0, 9), "job": dp.Categorical(["a", "b"]), "sick": dp.Boolean("no", "yes")})
    table = pd.DataFrame({"age": np.arange(N) % 10, "job": ["a", "b"] * (N // 2)}, dtype=object)
    sick = pd.Series(["yes", "no"] * (N // 2), name="sick", dtype=object)

    def fit(table: Any, sick: Any) -> Any:
        return observed(dp.LogisticRegression(1.0, 1e-6, schema=schema, random_state=0), table, sick, caplog)

    tame = fit(table, sick)
    for column in range(2):
        table.iat[7, column] = cell
    sick.iat[7] = cell
    assert fit(table, sick) == tame


def test_a_frame_of_numbers_needs_no_schema_and_keeps_its_names() -> None:
    frame = pd.DataFrame(X.astype(object), columns=["a", "b", "c"])
    frame.iat[3, 1] = "word"
    model = dp.LinearRegression(**BOUNDED).fit(frame, NUMBERS)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.predict(frame).shape == (N,)


def test_progress_shows_steps_and_epsilon_only(caplog: pytest.LogCaptureFixture) -> None:
    import re

    shown = []
    for rows, y in ((X, LABELS), wild(LABELS)):
        model = dp.LogisticRegression(
            **COMMON, classes=["sick", "well"], solver="descent", solver_options={"iterations": 8}, verbose=True
        )
        _, out, err, logs = observed(model, rows, y, caplog)
        assert (err, logs) == ("", [])
        shown.append(re.sub(r"\d+:\d\d:\d\d", "time", out))
    assert "ε = 1 " in shown[0]
    assert "8/8" in shown[0]
    assert shown[0].split("━")[0] == shown[1].split("━")[0]
    for text in shown:
        numbers = set(re.findall(r"\d+(?:\.\d+)?", text))
        noise = re.search(r"noise multiplier ([\d.]+)", text)
        assert noise is not None
        assert numbers <= {"1", "8", noise[1], *map(str, range(9))}


@pytest.mark.parametrize(
    "changes",
    [{"solver": "descent", "delta": 0.0}, {"solver": "frank_wolfe"}, {"solver": "descent", "solver_options": {"x": 1}}],
)
def test_what_cannot_be_planned_is_refused_before_the_rows_are_counted(changes: dict[str, Any]) -> None:
    ledger = dp.Ledger()
    model = dp.LogisticRegression(**{**COMMON, "classes": ["sick", "well"], "adjacency": "add-remove", **changes})
    with pytest.raises(DiscreetError):
        model.set_params(ledger=ledger).fit(X, LABELS)
    assert ledger.history() == ()
