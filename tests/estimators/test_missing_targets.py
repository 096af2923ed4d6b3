"""A row whose target is missing, unreadable or unlisted contributes nothing to a fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dp
from discreet.data.memory import in_memory
from discreet.queries.sums.moments import SecondMoment
from discreet.rows import RowSpec

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3)) / 3
AWAY = np.abs(RNG.normal(size=(200, 3))) / 3  # rows that would turn the model if their targets were filled in
SCORES = X @ [1.0, -2.0, 0.5]
NUMBERS = np.clip(SCORES + RNG.normal(size=600) * 0.3, -3, 3)
COUNTS = np.rint(np.exp(NUMBERS)).clip(0, 10)

CONVERGE = ("auto", "objective_perturbation", "scaled_descent")
"""Solvers that reach the minimiser whatever n says; scaled descent to within its last step."""


@pytest.mark.parametrize(
    ("model", "targets", "solvers"),
    [
        (dp.LinearRegression(math.inf, row_norm=2.0, target_bounds=(-3, 3)), NUMBERS,
         (*CONVERGE, "sufficient_statistics", "descent", "output_perturbation")),
        (dp.HuberRegression(math.inf, row_norm=2.0, target_bounds=(-3, 3)), NUMBERS, CONVERGE),
        (dp.QuantileRegression(math.inf, row_norm=2.0, target_bounds=(-3, 3)), NUMBERS, CONVERGE),
        (dp.PoissonRegression(math.inf, row_norm=2.0, target_bounds=(0, 10)), COUNTS, CONVERGE),
        (dp.Lasso(math.inf, row_norm=2.0, target_bounds=(-3, 3), radius=2.0), NUMBERS, ("auto", "frank_wolfe")),
        (dp.SparseLinearRegression(math.inf, row_norm=2.0, target_bounds=(-3, 3), sparsity=4), NUMBERS, ("auto",)),
    ],
    ids=lambda item: type(item).__name__,
)  # fmt: skip
def test_numbers_that_are_missing_do_not_turn_the_model(model: Any, targets: Any, solvers: tuple[str, ...]) -> None:
    missing = [None, "three", math.nan, ""] * 50
    everybody = np.vstack([X, AWAY]), np.array([*targets, *missing], dtype=object)
    for solver in solvers:
        model.set_params(solver=solver)
        known = model.fit(X, targets)
        expected = np.append(known.coef_, known.intercept_)
        found = model.fit(*everybody)
        np.testing.assert_allclose(np.append(found.coef_, found.intercept_), expected, atol=0.02)


@pytest.mark.parametrize("column", [dp.Boolean("no", "yes"), dp.Categorical(["no", "yes"])], ids=["boolean", "listed"])
def test_labels_that_are_unlisted_do_not_turn_the_model(column: Any) -> None:
    schema = dp.Schema({"a": dp.Numeric(-2, 2), "b": dp.Numeric(-2, 2), "sick": column})
    labels = np.where(SCORES > 0, "yes", "no").astype(object)

    def fitted(rows: Any, targets: Any) -> Any:
        import pandas as pd

        frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "sick": pd.Series(list(targets), dtype=object)})
        model = dp.LogisticRegression(math.inf, schema=schema, alpha=0.01)
        model.set_params(alpha=0.01 * len(X) / len(rows))  # a mean over all rows: the ridge of as many people
        return model.fit(frame.drop(columns="sick"), frame["sick"])

    found = fitted(np.vstack([X, AWAY]), [*labels, *(["unknown", None] * 100)])
    expected = fitted(X, labels)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-6)


@pytest.mark.parametrize("made", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_moments_leave_out_rows_of_unknown_targets(made: Any) -> None:
    spec = RowSpec(3, 2.0, 1.0)
    rows, y = np.vstack([X, AWAY]), np.append(NUMBERS, np.full(200, np.nan))
    order = RNG.permutation(len(y))
    query, known = SecondMoment(spec), in_memory(made(X), NUMBERS, spec)
    data = in_memory(made(rows[order]), y[order], spec)
    assert (query.integers(data) == query.integers(known)).all()
    np.testing.assert_allclose(query.unrounded(data), query.unrounded(known), rtol=1e-12)
