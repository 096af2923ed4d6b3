"""What the plan predicts of a solver holds for it: recipes as they come, run by a vault, against `predicted_bound`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated
from discreet.geometry import L1Ball, L2Ball, SparseSet, WholeSpace
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, Squared
from discreet.noise.bits import Bits
from discreet.planning.auto import choose
from discreet.planning.compare import compare
from discreet.planning.plan import make_plan
from discreet.planning.predicted import predicted_bound, predicted_risk
from discreet.recipes import RECIPES, recipe
from discreet.recipes.bias_reduced import level_costs
from discreet.recipes.exponential_mechanism import grid_radius
from discreet.rows import RowSpec
from discreet.solvers import Filtered, Problem
from discreet.solvers.hard_threshold import HardThreshold
from discreet.units import Unit
from discreet.vault import Vault

ADD = Unit("add-remove")
N, D = 4000, 8
X = np.tile(np.eye(D), (N // D, 1))
CENTRE = np.where(np.arange(D) % 2, 0.4, -0.4)


def labels() -> np.ndarray:
    """Labels whose logistic minimiser is ±ln(7/3) in each coordinate."""
    often = np.repeat(np.arange(N // D) % 10 < 7, D)
    return np.where(often, 1.0, -1.0) * np.tile(np.sign(CENTRE), N // D)


def measured(solver: Any, problem: Problem, y: np.ndarray, least: np.ndarray, cut: float = math.inf) -> float:
    """The mean excess of five runs; ``cut`` slopes make squared loss a Huber loss."""
    loss = Huber(cut) if math.isfinite(cut) else problem.loss
    data = in_memory(X, y, problem.rows)

    def risk(theta: np.ndarray) -> float:
        return float(loss.value(X @ theta, y).mean())

    def run(seed: int) -> np.ndarray:
        vault = Vault(data, ADD, Ledger(), Bits.seeded(seed))
        budget = solver.filter(ADD) if isinstance(solver, Filtered) else None
        return vault.run(solver, problem) if budget is None else vault.run_filtered(solver, problem, budget)

    runs = [run(seed) for seed in range(5)]
    return float(np.mean([risk(theta) for theta in runs])) - risk(least)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize("name", ["descent", "scaled_descent", "sufficient_statistics"])
def test_least_squares(name: str, epsilon: float) -> None:
    problem = Problem(RowSpec(D, 1.0), Squared(), float(N))
    solver = recipe(name)(problem, Guarantee(epsilon, 1e-6, ADD))
    found = measured(solver, problem, X @ CENTRE, CENTRE, getattr(solver, "clip", math.inf))
    assert 0 < found <= predicted_risk(solver, problem)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize(
    ("name", "delta"),
    [
        ("objective_perturbation", 1e-6),
        ("objective_perturbation", 0.0),
        ("output_perturbation", 1e-6),
        ("output_perturbation", 0.0),
        ("descent", 1e-6),
    ],
)
def test_classification(name: str, epsilon: float, delta: float) -> None:
    problem = Problem(RowSpec(D, 1.0), Logistic(), float(N))
    more = {} if name == "descent" else {"slope_bound": 1.0}
    solver = recipe(name)(problem, Guarantee(epsilon, delta, ADD), **more)
    found = measured(solver, problem, labels(), math.log(7 / 3) * np.sign(CENTRE))
    assert 0 < found <= predicted_risk(solver, problem)


def test_frank_wolfe_on_its_set() -> None:
    problem = Problem(RowSpec(D, 1.0), Squared(), float(N), L1Ball(1.0))
    y = X @ (np.eye(D)[2] * 0.9)
    solver = recipe("frank_wolfe")(problem, Guarantee(1.0, 1e-6, ADD))
    assert 0 < measured(solver, problem, y, np.eye(D)[2] * 0.9) <= predicted_risk(solver, problem)


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("objective_perturbation", {"slope_bound": 1.0}),
        ("descent", {}),
        ("bias_reduced", {}),
        ("sparse_descent", {"estimator": "projection", "sparsity": 1}),
    ],
)
def test_classification_in_a_ball_that_holds_the_minimiser_on_its_sphere(name, options, epsilon) -> None:
    """The mean of five runs; bounds are worst cases, a thousandfold at most of what is measured here."""
    least = math.log(7 / 3) * np.sign(CENTRE)
    problem = Problem(RowSpec(D, 1.0), Logistic(), float(N), L2Ball(float(np.linalg.norm(least))))
    solver = recipe(name)(problem, Guarantee(epsilon, 1e-6, ADD), **options)
    bound = predicted_risk(solver, problem, ADD)
    found = measured(solver, problem, labels(), least)
    assert 0 < found <= bound <= 1000 * found


def test_a_filtered_run_takes_as_many_steps_as_its_bound_counts() -> None:
    """At least T₀, and no more than the budget allows: what the bound is stated for, against a run."""
    problem = Problem(RowSpec(D, 1.0), Logistic(), float(N), L2Ball(1.0))
    solver = recipe("bias_reduced")(problem, Guarantee(1.0, 1e-6, ADD), noise_multiplier=8.0, smallest=256)
    costs = level_costs(solver, problem, ADD)
    assert min(costs) < max(costs)
    assert solver.iterations > solver.budget / max(costs)  # the filter ends it
    data, done = in_memory(X, labels(), problem.rows), []
    vault = Vault(data, ADD, Ledger(), Bits.seeded(1))
    vault.run_filtered(solver, problem, solver.filter(ADD), progress=lambda count, _: done.append(count))
    assert math.floor(solver.budget / max(costs)) <= done[-1] <= solver.budget / min(costs)
    assert 0 < predicted_risk(solver, problem, ADD) < math.inf
    with pytest.raises(HypothesisViolated, match="unit"):
        predicted_bound(solver, problem)


@pytest.mark.parametrize("domain", [WholeSpace(), L2Ball(2.0), SparseSet(1)], ids=repr)
def test_the_grid_of_the_exponential_mechanism_is_part_of_its_risk(domain) -> None:
    """With hardly any noise the grid is all: no point of the set in the cube is farther from a candidate."""
    rows = RowSpec(2, 1.0)
    problem = Problem(rows, Squared(), 1e6, domain)
    solver = recipe("exponential_mechanism")(problem, Guarantee(8.0, 0.0, ADD))
    radius = grid_radius(solver.candidates, problem)
    assert radius is not None
    points = np.random.default_rng(0).uniform(-5, 5, (2000, 2))
    points = np.array([domain.project(point) for point in points])
    farthest = max(float(np.linalg.norm(solver.candidates - point, axis=1).min()) for point in points)
    assert 0.5 * radius / (1 if domain.convex else 2) < farthest <= radius
    assert predicted_bound(solver, problem).parts["grid"] >= radius
    assert grid_radius(solver.candidates[1:], problem) is None


def test_the_exponential_mechanism_against_its_own_best_candidate() -> None:
    rows = RowSpec(1, 1.0)
    problem, y = Problem(rows, Squared(), 300.0), np.full(300, 0.25)
    candidates = np.linspace(-1, 1, 41)[:, None]
    solver = recipe("exponential_mechanism")(problem, Guarantee(0.5, 0.0, ADD), candidates=candidates)
    data = in_memory(np.ones((300, 1)), y, rows)
    found = [Vault(data, ADD, Ledger(), Bits.seeded(seed)).run(solver, problem)[0] for seed in range(40)]
    excess = np.mean(0.5 * (np.array(found) - 0.25) ** 2)
    assert 0 < excess <= predicted_risk(solver, problem)


def test_no_number_where_a_hypothesis_is_not_a_public_fact() -> None:
    """Restricted eigenvalues; a minimiser of the whole space that is projected; gradients projected together; an
    unbounded set; clipped scores; released weights; batches; a set that is not convex."""
    guarantee = Guarantee(1.0, 1e-6, ADD)
    free = Problem(RowSpec(D, 1.0), Logistic(), float(N))
    ball = Problem(RowSpec(D, 1.0), Logistic(), float(N), L1Ball(1.0))
    sparse = Problem(RowSpec(D, 1.0), Logistic(), float(N), SparseSet(2))
    refused = [
        (HardThreshold(1.0, 3, 1.0, 1.0, 2), sparse),
        (recipe("objective_perturbation")(ball, guarantee, constraint="after"), ball),
        (recipe("sparse_descent")(ball, guarantee), ball),
        (recipe("sparse_descent")(free, guarantee, estimator="projection"), free),
        (recipe("bias_reduced")(free, guarantee), free),
        (recipe("boosted")(free, guarantee), free),
        (recipe("weighted_perturbation")(free, guarantee), free),
        (recipe("output_perturbation")(ball, guarantee), ball),
        (recipe("descent")(free, guarantee, rate=0.1), free),
        (recipe("descent")(free, guarantee), sparse),
    ]
    for solver, problem in refused:
        assert math.isnan(predicted_risk(solver, problem, ADD))
        with pytest.raises(HypothesisViolated):
            predicted_bound(solver, problem, ADD)


PROVED = ("scaled_descent (full)", "objective_perturbation", "descent", "output_perturbation", "sufficient_statistics")


def test_options_for_least_squares_have_a_number_where_a_theorem_has_public_hypotheses() -> None:
    problem = Problem(RowSpec(30, 1.0), Squared(), 20_000.0)
    guarantee = Guarantee(1.0, 1e-9, Unit("replace-one"))
    found = compare(lambda *named: make_plan(problem, guarantee, *named), choose(problem, guarantee))
    assert {option.name for option in found} == set(RECIPES)
    for option in (option for option in found if option.label in PROVED):
        assert option.plan is not None
        assert 0 < option.predicted_risk < math.inf
        assert option.predicted_risk == predicted_bound(option.plan.solver, problem).value
