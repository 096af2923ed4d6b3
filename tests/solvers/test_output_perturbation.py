"""Output perturbation: its events, λ is theory's, projections are what they say."""

import math

import numpy as np
import pytest

from discreet.accounting import epsilon
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import Gaussian, NonPrivate, PureDP
from discreet.geometry import L1Ball, SparseSet, WholeSpace
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.noise.bits import Bits
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.output_perturbation import OutputPerturbation, default, theory_regularisation
from discreet.units import Unit
from discreet.vault import Vault

ROWS = RowSpec(3, norm=1.0)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_events(relation):
    unit = Unit(relation)
    asked = Problem(ROWS, Logistic(), 1000.0)
    (event,) = rehearse(default(asked, Guarantee(1.0, 1e-6, unit)), asked, unit)
    assert isinstance(event, Gaussian)
    assert epsilon(event, 1e-6, relation).upper <= 1.0
    assert epsilon(event, 1e-6, relation).upper > 0.999
    assert rehearse(default(asked, Guarantee(2.0, 0.0, unit)), asked, unit) == [PureDP(2.0)]
    assert rehearse(default(asked, Guarantee(math.inf, 0.0, unit)), asked, unit) == [NonPrivate()]


def test_theory_regularisation_minimises_the_bound():
    asked = Problem(RowSpec(20, 2.0), Logistic(), 5000.0)
    best = theory_regularisation(asked, 3.0)

    def risk(ridge):
        length, bound, radius = math.sqrt(20) / 2, 2.0, 2.0
        return ridge * length**2 / (2 * 5000) + 0.5 * 0.25 * radius**2 * (3.0 * bound / ridge) ** 2

    assert risk(best) < min(risk(0.9 * best), risk(1.1 * best))


def test_linf_projection():
    """On an ℓ1 ball the two projections differ, and each is the set's own."""
    data = in_memory(np.eye(3), np.array([1.0, -1.0, 1.0]), ROWS)
    unit = Unit("add-remove")
    guarantee = Guarantee(1.0, 1e-6, unit)
    free = Problem(ROWS, Logistic(), 3.0)

    def fit(problem, projection):
        solver = OutputPerturbation(default(free, guarantee).noise_multiplier, 1.0, projection=projection)
        return Vault(data, unit, Ledger(), Bits.seeded(8)).run(solver, problem)

    raw = fit(free, "l2")
    ball = L1Ball(0.9 * float(np.abs(raw).sum()))
    asked = Problem(ROWS, Logistic(), 3.0, domain=ball)
    assert np.array_equal(fit(asked, "l2"), ball.project(raw))
    assert np.array_equal(fit(asked, "linf"), ball.project_inf(raw))
    assert ball.contains(fit(asked, "linf"))


def test_minimising_within_ends_near_the_constrained_minimiser():
    """The same event as projecting alone, and the noisy point moves by at most its noise: θ̂ itself lies in the set."""
    rng = np.random.default_rng(1)
    X, unit = rng.normal(size=(2000, 3)) * [1.0, 0.2, 1.0], Unit("add-remove")
    y = np.where(X @ [2.0, 20.0, 0.0] + rng.logistic(size=2000) > 0, 1.0, -1.0)
    ball, data = L1Ball(0.8), in_memory(X, y, ROWS)
    asked = Problem(ROWS, Logistic(), 2000.0, domain=ball)
    within, after = (OutputPerturbation(0.3, 20.0, constraint=constraint) for constraint in ("within", "after"))
    assert rehearse(within, asked, unit) == rehearse(after, asked, unit)
    nearest = RidgeMinimiser(ROWS, Logistic(), 20.0, domain=ball).minimise(data, np.zeros(3), 1e-6)
    thetas = [Vault(data, unit, Ledger(), Bits.seeded(1)).run(solver, asked) for solver in (within, after)]
    # noise of standard deviation 0.3/20 in three dimensions is longer than 0.09 with probability below 1e-6
    assert np.linalg.norm(thetas[0] - nearest) < 0.09 < np.linalg.norm(thetas[1] - nearest)
    with pytest.raises(InvalidInput, match="constraint"):
        default(asked, Guarantee(1.0, 1e-6, unit), constraint="before")


def test_excess_risk_is_below_the_bound_behind_lambda():
    """Mean excess loss over 20 runs stays below λB²/2n + ½·smoothness·R²·s²."""
    rng = np.random.default_rng(0)
    n, d = 5000, 3
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = np.array([1.0, -1.0, 0.5])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)
    asked, unit = Problem(ROWS, Logistic(), float(n)), Unit("replace-one")
    solver = default(asked, Guarantee(1.0, 1e-8, unit))
    data = in_memory(X, y, ROWS)
    best = RidgeMinimiser(ROWS, Logistic(), 1e-6).unrounded(data)
    loss = lambda theta: float(np.mean(np.logaddexp(0, -y * (X @ theta))))  # noqa: E731
    fits = [Vault(data, unit, Ledger(), Bits.seeded(k)).run(solver, asked) for k in range(20)]
    excess = np.mean([loss(theta) for theta in fits]) - loss(best)
    noise = solver.noise_multiplier / solver.regularisation
    bound = solver.regularisation * float(best @ best) / (2 * n) + 0.125 * noise**2
    assert 0 < excess < 1.5 * bound  # the average of 20 runs is within 50 % of its mean
    assert excess > 0.01 * bound


def test_refusals():
    with pytest.raises(InvalidInput, match="projection"):
        OutputPerturbation(1.0, 1.0, projection="l3")
    with pytest.raises(HypothesisViolated):
        NoisyMinimum(RidgeMinimiser(ROWS, Logistic(), 0.0), 1.0, 1e-6)
    with pytest.raises(InvalidInput, match="tolerance"):
        NoisyMinimum(RidgeMinimiser(ROWS, Logistic(), 1.0), 1.0, 0.0)
    asked = Problem(ROWS, Logistic(), 10.0, domain=SparseSet(1))
    if not hasattr(SparseSet, "project_inf"):
        with pytest.raises(InvalidInput, match="linf"):
            rehearse(OutputPerturbation(1.0, 1.0, projection="linf"), asked, Unit("add-remove"))
    assert isinstance(Problem(ROWS, Logistic(), 10.0).domain, WholeSpace)
