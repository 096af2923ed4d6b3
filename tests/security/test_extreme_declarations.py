"""Whatever is declared, fitting works or is refused in words: no other error, and no warning.

Warnings are errors here, so a fit that overflows on the way fails its test.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet.errors import DiscreetError, InvalidInput
from discreet.geometry import L1Ball
from discreet.recipes import RECIPES

OPTIONS: dict[str, Any] = {"hard_threshold": {"sparsity": 1}, "heavy_tailed": {"sparsity": 1}}
SCALES = ("full", "diagonal", "single")
TARGETS: dict[str, dict[str, Any]] = {
    "LinearRegression": {},
    "HuberRegression": {},
    "PoissonRegression": {},
    "QuantileRegression": {},
    "Lasso": {},
    "SparseLinearRegression": {"sparsity": 1},
}
CLASSES = ("LogisticRegression", "LinearSVC")
# what other files promise for every declaration, or what takes minutes in some
QUICK = [name for name in ("auto", *RECIPES) if name not in ("boosted", "frank_wolfe")]


@st.composite
def declared(draw: Any) -> tuple[str, dict[str, Any], int]:
    """An estimator's name, its parameters at the edges of what can be declared, and a number of columns."""
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731 - reads like the table that it is
    name = pick(*TARGETS, *CLASSES, "MeanEstimator")
    common: dict[str, Any] = {
        "epsilon": pick(1e-10, 1e-5, 1.0, 30.0, 710.0, 1e4),
        "delta": pick(0.0, 1e-300, 1e-6, 0.5, 1 - 1e-16),
        "row_norm": pick(1e-20, 1.0, 1e20),
        "adjacency": pick("replace-one", "add-remove"),
        "rows_per_unit": pick(1, 3),
    }
    if common["adjacency"] == "add-remove":
        common["n_public"] = pick(1, 10**6, 10**15)
    if name == "MeanEstimator":
        return name, common | {"method": pick("auto", "gaussian", "laplace", "projection", "threshold")}, 3
    common |= {"fit_intercept": pick(True, False), "alpha": pick(0.0, 1e-20, 1e20)}
    if name in CLASSES:
        common["classes"] = pick([0, 1], [0, 1, 2]) if name == "LogisticRegression" else [0, 1]
    else:
        common |= TARGETS[name] | {"target_bounds": pick((0, 1), (-1e20, 1e20), (0, 1e-20), (5e19, 1e20))}
    solver = pick(*QUICK) if name != "Lasso" else "scaled_descent"
    options = {"scales": pick(*SCALES)} if solver == "scaled_descent" else OPTIONS.get(solver)
    return name, common | {"solver": solver, "solver_options": options}, pick(1, 2, 5)


@settings(max_examples=60, deadline=None)
@given(declared(), st.integers(0, 3))
def test_every_declaration_is_fitted_or_refused_in_words(case: tuple[str, dict[str, Any], int], seed: int) -> None:
    name, parameters, d = case
    model = getattr(dp, name)(**parameters)
    X = np.random.default_rng(seed).normal(size=(20, d))
    with contextlib.suppress(DiscreetError):
        model.fit(X, (X[:, 0] > 0).astype(int))
        if hasattr(model, "predict"):
            assert len(model.predict(X)) == 20


X = np.random.default_rng(0).normal(size=(30, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"row_norm": 1e300}, r"row_norm must be between 1e-20 and 1e\+20, got 1e\+300: declare rows"),
        ({"row_norm": 1e-300}, "row_norm must be between"),
        ({"epsilon": 1e8}, r"epsilon must be between 1e-10 and 10000, got 1e\+08: .*float\('inf'\)"),
        ({"epsilon": 1e-300}, "epsilon must be between"),
        ({"adjacency": "add-remove", "n_public": 10**30}, "n_public must be between"),
        ({"alpha": 1e300}, "alpha must be between"),
        ({"target_bounds": (0, 1e300)}, "larger of target_bounds must be between"),
        ({"target_bounds": (0, 1e-300)}, "distance of target_bounds must be between"),
    ],
)
@pytest.mark.parametrize("solver", ["auto", *RECIPES])
def test_what_leaves_the_range_of_doubles_is_refused_by_name(
    solver: str, settings: dict[str, Any], message: str
) -> None:
    common: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.0, "target_bounds": (0, 1)}
    domain = L1Ball(1.0) if solver == "frank_wolfe" else None
    with pytest.raises(InvalidInput, match=message):
        dp.LinearRegression(**(common | settings), solver=solver, domain=domain).fit(X, Y)


def test_a_mean_of_rows_beyond_all_doubles_is_refused() -> None:
    for norm in (1e300, 1e-300):
        with pytest.raises(InvalidInput, match="row_norm must be between"):
            dp.MeanEstimator(1.0, 1e-6, row_norm=norm).fit(X)


def test_a_search_says_which_parameters_there_are() -> None:
    base = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent")
    with pytest.raises(InvalidInput, match=r"no parameter 'alhpa' to vary; it has .*alpha, .*solver"):
        dp.PrivateSearchCV(base, {"alhpa": [0.0, 0.1]}, epsilon=1.0, delta=1e-6).fit(X, Y)
