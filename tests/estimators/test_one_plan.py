"""A fit plans once: what it rehearses, and what it hands to the vault."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import discreet as dp
from discreet.calibration import rehearse as rehearsals
from discreet.planning import plan as planning

X = np.random.default_rng(0).normal(size=(3000, 40)) / 7
Y = (X[:, 0] > 0).astype(int)
MODELS = [
    dp.LogisticRegression(row_norm=1.0, classes=[0, 1]),
    dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent"),
    dp.LogisticRegression(row_norm=1.0, classes=[0, 1, 2]),
    dp.LinearRegression(row_norm=1.0, target_bounds=(0, 1)),
    dp.LinearSVC(row_norm=1.0, classes=[0, 1]),
    dp.Lasso(row_norm=1.0, target_bounds=(0, 1), feature_bound=0.1),
    dp.SparseLinearRegression(row_norm=1.0, target_bounds=(0, 1), sparsity=3),
    dp.MeanEstimator(row_norm=1.0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__ + str(getattr(model, "solver", "")))
def test_a_plan_is_made_once_and_rehearsed_at_most_twice(model: Any) -> None:
    """Once to calibrate, once in the vault. A rehearsal is a run of the solver on blank answers."""
    counts = {"rehearsals": 0, "plans": 0}
    real_rehearse, real_plan = rehearsals.rehearse, planning.make_plan

    def rehearse(*arguments: Any) -> Any:
        counts["rehearsals"] += 1
        return real_rehearse(*arguments)

    def make_plan(*arguments: Any) -> Any:
        counts["plans"] += 1
        return real_plan(*arguments)

    with (
        patch("discreet.calibration.rehearse.rehearse", rehearse),
        patch("discreet.vault.rehearse", rehearse),
        patch("discreet.estimators.base.make_plan", make_plan),
        patch("discreet.estimators.mean.make_plan", make_plan),
    ):
        model.fit(X, Y)
    assert counts["plans"] == 1
    assert 1 <= counts["rehearsals"] <= 2
