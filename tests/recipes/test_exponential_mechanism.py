"""Settings of the exponential mechanism: its noise, its grid, its name in estimators, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.noise import Bits
from discreet.recipes.exponential_mechanism import product_grid, recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit
from discreet.vault import Vault

ROWS = RowSpec(2, norm=1.0, intercept=0.5)


def test_the_noise_is_that_of_the_relation() -> None:
    problem = Problem(ROWS, Logistic(), 100)
    noise = {
        (relation, k): recipe(problem, Guarantee(1.0, 0.0, Unit(relation, k))).noise_multiplier  # type: ignore[arg-type]
        for relation in ("add-remove", "replace-one")
        for k in (1, 3)
    }
    assert noise["add-remove", 1] == pytest.approx(2.0)
    assert noise["replace-one", 1] == pytest.approx(4.0)
    assert noise["add-remove", 3] == pytest.approx(6.0)


def test_estimators_take_it_by_name() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (2000, 2))
    model = dp.LogisticRegression(2.0, solver="exponential_mechanism", row_norm=1.5, classes=[0, 1], random_state=0)
    assert model.fit(X, (X[:, 0] > 0).astype(int)).score(X, (X[:, 0] > 0).astype(int)) > 0.85
    assert model.privacy_.recompute().upper <= 2.0 + 1e-9


def test_bad_input() -> None:
    problem, guarantee = Problem(ROWS, Logistic(), 10), Guarantee(1.0, 0.0, Unit("replace-one"))
    with pytest.raises(InvalidInput, match="dimensions"):
        recipe(Problem(RowSpec(9, 1.0), Logistic(), 10), guarantee)
    with pytest.raises(InvalidInput, match="candidates"):
        Vault(in_memory(np.zeros((1, 2)), np.ones(1), ROWS), Unit("replace-one"), Ledger(), Bits.secure()).run(
            recipe(problem, guarantee, candidates=[[1.0, 2.0]]), problem
        )
    with pytest.raises(InvalidInput, match="more than"):
        product_grid(np.zeros(9), np.ones(9), 10)
    with pytest.raises(InvalidInput, match="bounded length"):
        recipe(Problem(RowSpec(2, math.inf), Logistic(), 10), guarantee)
