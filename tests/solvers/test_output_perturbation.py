"""Output perturbation: its events, λ is theory's, projections are what they say."""

import numpy as np
import pytest

from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry import L1Ball, SparseSet, WholeSpace
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.noise.bits import Bits
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.recipes.output_perturbation import recipe
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.output_perturbation import OutputPerturbation
from discreet.units import Unit
from discreet.vault import Vault

ROWS = RowSpec(3, norm=1.0)


def test_linf_projection():
    """On an ℓ1 ball the two projections differ, and each is the set's own."""
    data = in_memory(np.eye(3), np.array([1.0, -1.0, 1.0]), ROWS)
    unit = Unit("add-remove")
    guarantee = Guarantee(1.0, 1e-6, unit)
    free = Problem(ROWS, Logistic(), 3.0)

    def fit(problem, projection):
        solver = OutputPerturbation(recipe(free, guarantee).noise_multiplier, 1.0, projection=projection)
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
        recipe(asked, Guarantee(1.0, 1e-6, unit), constraint="before")


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
