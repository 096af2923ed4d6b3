"""Frank–Wolfe over sets without vertices, and the high-probability form of its theorem."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import Box, GroupL1Ball, L1Ball, L2Ball, WholeSpace
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.noise.bits import Bits
from discreet.recipes.frank_wolfe import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.theory import frank_wolfe_tail, selection_gap
from discreet.units import Unit
from discreet.vault import Vault

ADD = Unit("add-remove")
FREE = Guarantee(math.inf, 0.0, ADD)
ROWS = RowSpec(3, 2.0)
RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (300, 3))
Y = X @ [0.9, -0.6, 0.3]


@pytest.mark.parametrize(
    "domain", [L2Ball(0.5), Box(-0.4, 0.2), GroupL1Ball([0, 0, 1], 0.6)], ids=lambda domain: type(domain).__name__
)
def test_without_privacy_a_linear_minimiser_takes_the_place_of_vertices(domain):
    """2000 steps are within 2Γ/(T + 2) of the least loss over the set, which projected descent finds."""
    problem = Problem(ROWS, Squared(), 300.0, domain)
    solver = recipe(problem, FREE)
    found = Vault(in_memory(X, Y, ROWS), ADD, Ledger(), Bits.seeded(0)).run(solver, problem)
    theta = problem.start
    for _ in range(3000):
        theta = domain.project(theta - X.T @ (X @ theta - Y) / 300)
    loss = lambda point: float(np.mean((X @ point - Y) ** 2) / 2)  # noqa: E731
    curvature = domain.diameter(3) ** 2 * 3
    assert domain.contains(found, 1e-6)
    assert loss(theta) - 1e-9 <= loss(found) <= loss(theta) + 2 * curvature / (solver.iterations + 2)


def test_with_privacy_vertices_are_needed():
    problem = Problem(ROWS, Squared(), 300.0, L2Ball(0.5))
    with pytest.raises(InvalidInput, match="vertices"):
        recipe(problem, Guarantee(1.0, 1e-6, ADD))
    with pytest.raises(InvalidInput, match="linear minimiser"):
        recipe(Problem(ROWS, Squared(), 300.0, WholeSpace()), FREE)


@pytest.mark.parametrize("noise", ["gumbel", "laplace"])
def test_the_largest_gap_of_many_choices_exceeds_its_bound_as_rarely_as_stated(noise):
    """3000 walks of 20 choices among 50 equal-but-one vertices; p = 0.2 is exceeded in less than a fifth of them."""
    rng, steps, atoms, scale, p = np.random.default_rng(0), 20, 50, 0.1, 0.2
    scores = np.append(0.0, np.linspace(0.05, 1.5, atoms - 1))
    draw = rng.gumbel if noise == "gumbel" else rng.laplace
    chosen = np.argmin(scores - draw(0, scale, (3000, steps, atoms)), axis=2)
    largest = scores[chosen].max(axis=1)
    tail = frank_wolfe_tail(curvature=1.0, iterations=steps, atoms=atoms, scale=scale, failure=p, noise=noise)
    assert (largest > tail.parts["privacy"]).mean() < p
    with pytest.raises(InvalidInput):
        frank_wolfe_tail(curvature=1.0, iterations=2, atoms=3, scale=1.0, failure=0.1, noise="normal")
    assert selection_gap(atoms=atoms, scale=scale) < tail.parts["privacy"]


def test_runs_of_the_private_solver_stay_below_the_tail_bound():
    """None of 20 runs exceeds the bound for p = 0.05, whose constants are worst cases."""
    domain, d = L1Ball(1.0), 20
    rows = RowSpec(d, 1.0)
    rows_of, y = np.tile(np.eye(d), (200, 1)), np.tile(np.eye(d)[2] * 0.9, 200)
    problem = Problem(rows, Squared(), float(len(y)), domain)
    solver = recipe(problem, Guarantee(1.0, 1e-6, ADD), clip=2.0)
    scale = solver.noise_multiplier * domain.max_abs_inner(solver.clip) / problem.n
    tail = frank_wolfe_tail(curvature=4.0, iterations=solver.iterations, atoms=2 * d, scale=scale, failure=0.05)
    data, best = in_memory(rows_of, y, rows), np.eye(d)[2] * 0.9
    loss = lambda theta: float(np.mean((rows_of @ theta - y) ** 2) / 2)  # noqa: E731
    found = [Vault(data, ADD, Ledger(), Bits.seeded(seed)).run(solver, problem) for seed in range(20)]
    assert max(loss(theta) for theta in found) - loss(best) <= tail.value
