"""Descent in private scales: what it releases with every scale model, and what each part is worth on scaled columns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.solvers.test_sparse_descent import words

import discreet as dp
from discreet import events
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Logistic, Softmax, Squared
from discreet.noise import Bits
from discreet.recipes.scaled_descent import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.private_scales import Diagonal, Full, Location, Single
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.units import Unit
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(5, 2.0, 1.0, outputs=3)
DIAGONAL = Diagonal(11.0, 0.01, 0.5, 25.0, centred=True, centre_multiplier=7.0, constant_weight=0.5)


def settings(scales: Any = DIAGONAL, **changes: Any) -> ScaledDescent:
    facts = {"noise_multiplier": 3.0, "iterations": 2, "clip": 0.5, "step": 1.0, "decay": 0.8, "iterate": "last"}
    return ScaledDescent(scales, **facts | changes)


def test_releases_on_scaled_columns_are_mean_second_moments_and_gradients() -> None:
    problem = Problem(ROWS, Softmax(3), 500.0)
    solver = settings()
    mean, moments, *gradients = rehearse(solver, problem, ADD)
    assert [mean, moments] == [events.Gaussian(7.0), events.Gaussian(11.0, math.sqrt(2))]
    assert gradients == [events.Gaussian(3.0)] * 2
    uncentred = settings(replace(DIAGONAL, centre_multiplier=0.0, centred=False))
    assert rehearse(uncentred, problem, ADD) == [events.Gaussian(11.0, math.sqrt(2)), *gradients]


def test_a_fit_of_scale_and_offset_costs_what_one_release_of_its_multiplier_costs() -> None:
    problem = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
    solver = settings(iterations=4, decay=0.0, recalibration_multiplier=5.0)
    plan = rehearse(solver, problem, ADD)
    assert plan[2:6] == [events.Gaussian(3.0)] * 4
    assert len(plan) == 2 + 4 + 2
    assert sum(event.noise_multiplier**-2 for event in plan[6:]) == pytest.approx(5.0**-2)  # type: ignore[attr-defined]
    assert len(rehearse(replace(solver, recalibration_multiplier=0.0), problem, ADD)) == 6


def test_releases_in_one_scale_are_signs_gradients_and_a_mean_residual() -> None:
    problem = Problem(RowSpec(30, 1.0, 0.5), Squared(), 500.0)
    solver = settings(Single(9.0, 1.0, 2.0, 1.0), decay=0.0, offset_multiplier=6.0)
    plan = rehearse(solver, problem, ADD)
    assert [event.noise_multiplier for event in plan] == [9.0] * 16 + [3.0] * 2 + [6.0]  # type: ignore[attr-defined]
    alone = rehearse(settings(Location(4.0, 0.1, 2.0), iterations=0), problem, ADD)
    assert [event.noise_multiplier for event in alone] == [4.0] * 16  # type: ignore[attr-defined]


@pytest.mark.parametrize(("iterate", "kept"), [("last", [4]), ("suffix", [2, 3, 4]), ("average", [0, 1, 2, 3, 4])])
def test_the_iterate_is_the_mean_of_those_named(iterate: Any, kept: list[int]) -> None:
    """Along one column of squared loss a step of half the way halves the distance: iterates 1 − 2^−(t + 1)."""
    rows = RowSpec(1, 1.0)
    solver = ScaledDescent(Full(0.0, 1.0), 0.0, 5, math.inf, step=0.5, iterate=iterate)
    data, problem = in_memory(np.ones((10, 1)), np.ones(10), rows), Problem(rows, Squared(), 10.0)
    theta = Vault(data, ADD, Ledger(), Bits.seeded(0)).run(solver, problem)
    assert theta[0] == pytest.approx(np.mean([1 - 2.0 ** -(t + 1) for t in kept]), rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iterations": 0}, "iterations"),
        ({"iterate": "first"}, "iterate"),
        ({"step": 0.0}, "step"),
        ({"decay": 1.0}, "decay"),
        ({"recalibration_multiplier": 1.0, "offset_multiplier": 1.0}, "one of the two"),
    ],
    ids=repr,
)
def test_settings_without_meaning_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        settings(**changes)


def test_batches_learn_what_all_rows_teach() -> None:
    """A path length that forgets the batch's size would be five times too short or too long."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((20_000, 20))
    y = (X @ rng.standard_normal((20, 4)) + rng.gumbel(size=(20_000, 4))).argmax(axis=1)

    def fitted(rate: float) -> Any:
        options = {"scales": "diagonal", "rate": rate, "iterations": 24}
        model = dp.LogisticRegression(
            1.0, delta=1e-9, row_norm=6.0, n_public=15_000, classes=[0, 1, 2, 3], solver="scaled_descent",
            solver_options=options, random_state=3,
        )  # fmt: skip
        return model.fit(X[:15_000], y[:15_000])

    some, all_rows = fitted(0.2), fitted(1.0)
    assert some.score(X[15_000:], y[15_000:]) >= all_rows.score(X[15_000:], y[15_000:]) - 0.02
    assert 0.8 < np.linalg.norm(some.coef_) / np.linalg.norm(all_rows.coef_) < 1.25


# --- fits ----------------------------------------------------------------------------------------------------------


def pictures(n: int, rng: np.random.Generator, apart: float = 0.015) -> tuple[Any, Any]:
    """Three classes that differ in small columns, all of large mean, beside two large columns without information."""
    y = rng.integers(3, size=n)
    small = 0.05 * rng.normal(size=(n, 120))
    small[:, :60] += apart * np.eye(3).repeat(20, axis=1)[y]
    return np.hstack([rng.normal(size=(n, 2)), small + 0.2 * (-1.0) ** np.arange(120)]), y


def accuracy(solver: str, seed: int, **options: Any) -> float:
    rng = np.random.default_rng(seed)
    X, y = pictures(4000, rng)
    facts: dict[str, Any] = {"row_norm": 3.5, "classes": [0, 1, 2], "random_state": seed, "adjacency": "add-remove"}
    model = dp.LogisticRegression(1.0, 1e-7, n_public=4000, solver=solver, solver_options=options, **facts)
    return float(model.fit(X, y).score(*pictures(4000, rng)))


def test_every_part_is_worth_its_budget() -> None:
    """Means of three runs; one run has a standard deviation of about 0.015, or 0.06 where it stops short."""
    diagonal: dict[str, Any] = {"scales": "diagonal"}
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "all": ("scaled_descent", diagonal),
        "uncentred": ("scaled_descent", diagonal | {"centre_share": 0.0}),
        "unweighted": ("scaled_descent", diagonal | {"power": 0.0}),
        "short": ("scaled_descent", diagonal | {"score_noise": 0.1}),
        "plain": ("descent", {}),
    }
    found = {name: np.mean([accuracy(s, seed, **o) for seed in range(3)]) for name, (s, o) in cases.items()}
    for name, least in (("uncentred", 0.05), ("unweighted", 0.01), ("short", 0.03), ("plain", 0.1)):
        assert found["all"] > found[name] + least, found


def test_without_privacy_it_comes_near_the_minimiser() -> None:
    X, y = pictures(1000, np.random.default_rng(5), 0.03)
    facts: dict[str, Any] = {"row_norm": 2.5, "classes": [0, 1, 2]}
    unpenalised: dict[str, Any] = {"regularisation": 0.0}  # by default classes have a small ridge without privacy, too
    found, exact = (
        dp.LogisticRegression(math.inf, solver=s, solver_options=options, **facts).fit(X, y)
        for s, options in (("scaled_descent", {"scales": "diagonal"}), ("objective_perturbation", unpenalised))
    )
    assert abs(found.score(X, y) - exact.score(X, y)) < 0.01
    away = np.abs(found.predict_proba(X) - exact.predict_proba(X))
    assert away.mean() < 0.02


def test_a_model_without_intercept_is_scaled_alone() -> None:
    X, y = pictures(2000, np.random.default_rng(6), 0.05)
    facts: dict[str, Any] = {"row_norm": 2.5, "classes": [0, 1, 2], "random_state": 0, "fit_intercept": False}
    model = dp.LogisticRegression(2.0, 1e-7, **facts).fit(X - X.mean(axis=0), y)
    assert model.privacy_.solver == "scaled_descent"
    assert model.privacy_.settings["scales"]["kind"] == "diagonal"
    assert not np.any(model.intercept_)
    assert model.score(X - X.mean(axis=0), y) > 0.7


# --- words ----------------------------------------------------------------------------------------------------------


def test_weights_and_recalibration_on_word_like_rows() -> None:
    """4000 rows, 20 000 words, ε = 2: the majority is 70 %. Each part of the solver earns its share."""
    X, y = words(8000, 20_000, 30)
    test, truth, X, y = X[4000:], y[4000:], X[:4000], y[:4000]
    scores = {}
    for name, options in [("all", {}), ("no recalibration", {"recalibration_share": 0.0})]:
        model = dp.LogisticRegression(
            2.0, 1e-7, adjacency="add-remove", n_public=4000, row_norm=1.0, classes=[-1, 1], random_state=0,
            solver="scaled_descent", solver_options={"scales": "diagonal", "iterations": 60} | options,
        ).fit(X, y)  # fmt: skip
        scores[name] = model.score(test, truth)
    assert scores["all"] > 0.75
    assert scores["all"] > scores["no recalibration"]


def test_memory_grows_with_entries_and_dimension_only() -> None:
    """d = 300 000: a few vectors of length d and a few copies of the entries, never rows × d."""
    import tracemalloc

    X, y = words(500, 300_000, 20)
    data = in_memory(X, y, RowSpec(300_000, 1.0, 0.5))
    problem = Problem(data.rows, Logistic(), 500.0)
    tracemalloc.start()
    solver = settings(decay=0.0, recalibration_multiplier=5.0)
    theta = Vault(data, ADD, Ledger(), Bits.seeded(0)).run(solver, problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert theta.shape == (300_001,)
    assert peak < 25 * 8 * 300_000


def test_a_ridge_on_scaled_columns_is_one_on_the_users_coefficients() -> None:
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(300, 3)) * [1.0, 0.3, 0.1] + 0.2, np.where(rng.random(300) < 0.4, 1.0, -1.0)
    y[X[:, 1] > 0.3] = 1.0
    rows = RowSpec(3, 6.0, 1.0)
    found = []
    for scales in ("full", "diagonal"):
        problem = Problem(rows, Logistic(), 300.0, ridge=0.05)
        solver = recipe(problem, Guarantee(math.inf, 0.0, ADD), scales=scales)
        found.append(Vault(in_memory(X, y, rows), ADD, Ledger(), Bits.seeded(0)).run(solver, problem))
    np.testing.assert_allclose(*found, atol=1e-5)
