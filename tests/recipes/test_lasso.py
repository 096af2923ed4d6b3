"""The Lasso: its radius and clip, which solver its bounds choose, what it finds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet import accounting
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L1Ball
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.noise.bits import Bits
from discreet.planning.auto import prefers_vertices
from discreet.recipes.frank_wolfe import NUMBERS, recipe
from discreet.recipes.lasso import default_radius
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.units import Unit
from discreet.vault import Vault

UNIT = Unit("add-remove")


def settled(rows: RowSpec, n: float, guarantee: Guarantee) -> tuple[Problem, FrankWolfe]:
    """The problem and the solver of a Lasso with entries and targets within ±1, as `discreet.Lasso` sets it up."""
    problem = Problem(rows, Squared(), n, L1Ball(default_radius(rows, n, guarantee, 1.0)), entry_bound=1.0)
    return problem, recipe(problem, guarantee)


def test_a_sparse_model_is_found_at_epsilon_one() -> None:
    """n = 6000, d = 100, four true coefficients: R² above 0.8 of a possible 0.95, by the defaults."""
    rng = np.random.default_rng(0)
    n, d = 6000, 100
    X = rng.uniform(-1, 1, (n, d))
    truth = np.zeros(d)
    truth[:4] = [0.5, -0.4, 0.3, 0.3]
    y = np.clip(X @ truth + 0.1 * rng.normal(size=n), -1, 1)
    problem, solver = settled(RowSpec(d, norm=math.sqrt(d)), n, Guarantee(1.0, 1 / n**2, UNIT))
    assert accounting.epsilon(compose(rehearse(solver, problem, UNIT)), 1 / n**2, UNIT).upper <= 1.0 + 1e-9
    theta = Vault(in_memory(X, y, problem.rows), UNIT, Ledger(), Bits.seeded(0)).run(solver, problem)
    assert 1 - np.mean((X @ theta - y) ** 2) / np.var(y) > 0.8
    assert set(np.argsort(-np.abs(theta))[:4]) == {0, 1, 2, 3}


def test_scales_go_with_the_units_of_the_features() -> None:
    """Features in cents instead of euros, and a set to match, change units and nothing else."""
    guarantee = Guarantee(1.0, 1e-8, UNIT)
    euros = Problem(RowSpec(5, norm=2.0), Squared(), 5000, L1Ball(2.0), entry_bound=1.0)
    cents = Problem(RowSpec(5, norm=200.0), Squared(), 5000, L1Ball(0.02), entry_bound=100.0)
    by_euros, by_cents = recipe(euros, guarantee), recipe(cents, guarantee)
    assert (by_cents.clip, by_cents.iterations) == (100 * by_euros.clip, by_euros.iterations)
    assert by_euros.clip == NUMBERS.entry_clip


def test_choices_can_be_made() -> None:
    problem = Problem(RowSpec(5, norm=2.0), Squared(), 100, L1Ball(7.0), entry_bound=1.0)
    free = recipe(problem, Guarantee(math.inf, 0.0, UNIT), iterations=3)
    assert (free.noise_multiplier, free.iterations, free.clip) == (0.0, 3, math.inf)
    private = recipe(problem, Guarantee(1.0, 1e-6, UNIT), iterations=3, clip=0.2)
    assert (private.iterations, private.clip) == (3, 0.2)


def sparse_rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.clip(0.3 + X[:, :3] @ [0.4, -0.3, 0.2] + 0.05 * rng.normal(size=n), -1, 1)


def test_scales_go_with_the_units_of_the_targets() -> None:
    """Targets in cents instead of euros, and bounds to match, change units and nothing else."""
    X, y = sparse_rows(500, 60)
    euros, cents = (
        dp.Lasso(1.0, 1e-6, row_norm=math.sqrt(60), feature_bound=1.0, target_bounds=(-unit, unit), random_state=0).fit(
            X, unit * y
        )
        for unit in (1.0, 100.0)
    )
    assert euros.privacy_.settings == cents.privacy_.settings
    np.testing.assert_allclose(cents.coef_, 100 * euros.coef_, rtol=1e-12)


@pytest.mark.parametrize(("d", "epsilon"), [(40, 1.0), (300, 2.0)])
def test_the_estimator_finds_a_sparse_model(d: int, epsilon: float) -> None:
    """With an intercept, no larger than an entry: R² above 0.85; half the row norm would bring it below 0.5."""
    X, y = sparse_rows(5000, d)
    model = dp.Lasso(epsilon, row_norm=math.sqrt(d), feature_bound=1.0, target_bounds=(-1, 1), random_state=0)
    assert model.fit(X, y).score(X, y) > 0.85
    assert model.n_iter_ > 1


def test_the_choice_follows_from_declared_bounds() -> None:
    """Rows hardly longer than an entry: gradients. Much longer, too many columns, or pure privacy: vertices."""
    X, y = sparse_rows(500, 60)

    def settings(**facts: float) -> dict[str, object]:
        facts = {"delta": 1e-6, "row_norm": math.sqrt(60)} | facts
        return dict(dp.Lasso(1.0, target_bounds=(-1, 1), random_state=0, **facts).fit(X, y).privacy_.settings)  # type: ignore[arg-type]

    assert "scales" in settings(feature_bound=1.2)
    assert "scales" in settings()
    assert "selection" in settings(feature_bound=1.0)
    assert "selection" in settings(delta=0.0)
    assert "scales" in settings(feature_bound=1.0, alpha=0.1)  # Frank–Wolfe takes no ridge
    assert prefers_vertices(RowSpec(1001, 1.0), 1.0, pure=False)


def test_the_constant_column_is_no_larger_than_an_entry() -> None:
    X, y = sparse_rows(500, 100)
    model = dp.Lasso(math.inf, row_norm=10.0, feature_bound=1.0, target_bounds=(-1, 1))
    for epsilon, constant in ((1.0, 1.0), (math.inf, 5.0)):
        model.set_params(epsilon=epsilon)
        _, data = model._prepare(X, y, math.isfinite(epsilon))
        assert data.rows.intercept == constant


def test_the_radius_falls_with_the_noise() -> None:
    """Like 1/√q once a radius of 5 costs too much: a quarter of n halves it."""
    rows = RowSpec(100, 10.0)
    radii = [default_radius(rows, n, Guarantee(1.0, 1e-8, UNIT), 1.0) for n in (1e7, 4e3, 1e3)]
    assert radii[0] == 5.0
    assert radii[1] == pytest.approx(2 * radii[2], rel=1e-9)
    assert radii[1] < 2.0
    assert default_radius(rows, 1e3, Guarantee(1.0, 1e-8, UNIT), 2.0) == radii[2] / 2
    assert default_radius(rows, 1e3, Guarantee(1.0, 1e-8, UNIT), None, vertices=False) == 5.0


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf])
def test_bad_input(bound: float) -> None:
    X, y = sparse_rows(20, 5)
    with pytest.raises(InvalidInput, match="feature_bound must be positive and finite"):
        dp.Lasso(1.0, 1e-6, row_norm=2.0, feature_bound=bound, target_bounds=(-1, 1)).fit(X, y)
