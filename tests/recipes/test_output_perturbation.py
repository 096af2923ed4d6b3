"""Settings of output perturbation: its events, and λ is theory's."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.accounting import epsilon
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import Gaussian, NonPrivate, PureDP
from discreet.geometry import Box, WholeSpace
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.noise.bits import Bits
from discreet.planning.predicted import predicted_bound
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.recipes.output_perturbation import recipe, theory_regularisation
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.units import Unit
from discreet.vault import Vault

ROWS = RowSpec(3, norm=1.0)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_events(relation):
    unit = Unit(relation)
    asked = Problem(ROWS, Logistic(), 1000.0)
    (event,) = rehearse(recipe(asked, Guarantee(1.0, 1e-6, unit)), asked, unit)
    assert isinstance(event, Gaussian)
    assert epsilon(event, 1e-6, relation).upper <= 1.0
    assert epsilon(event, 1e-6, relation).upper > 0.999
    assert rehearse(recipe(asked, Guarantee(2.0, 0.0, unit)), asked, unit) == [PureDP(2.0)]
    assert rehearse(recipe(asked, Guarantee(math.inf, 0.0, unit)), asked, unit) == [NonPrivate()]


def test_theory_regularisation_minimises_the_bound():
    asked = Problem(RowSpec(20, 2.0), Logistic(), 5000.0)
    best = theory_regularisation(asked, 3.0)

    def risk(ridge):
        length, bound, radius = math.sqrt(20) / 2, 2.0, 2.0
        return ridge * length**2 / (2 * 5000) + 0.5 * 0.25 * radius**2 * (3.0 * bound / ridge) ** 2

    assert risk(best) < min(risk(0.9 * best), risk(1.1 * best))


def test_excess_risk_is_below_the_bound_behind_lambda():
    """Mean excess loss over 20 runs stays below λB²/2n + ½·smoothness·R²·s²."""
    rng = np.random.default_rng(0)
    n, d = 5000, 3
    X = rng.normal(size=(n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    truth = np.array([1.0, -1.0, 0.5])
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)
    asked, unit = Problem(ROWS, Logistic(), float(n)), Unit("replace-one")
    solver = recipe(asked, Guarantee(1.0, 1e-8, unit))
    data = in_memory(X, y, ROWS)
    best = RidgeMinimiser(ROWS, Logistic(), 1e-6).unrounded(data)
    loss = lambda theta: float(np.mean(np.logaddexp(0, -y * (X @ theta))))  # noqa: E731
    fits = [Vault(data, unit, Ledger(), Bits.seeded(k)).run(solver, asked) for k in range(20)]
    excess = np.mean([loss(theta) for theta in fits]) - loss(best)
    noise = solver.noise_multiplier / solver.regularisation
    bound = solver.regularisation * float(best @ best) / (2 * n) + 0.125 * noise**2
    assert 0 < excess < 1.5 * bound  # the average of 20 runs is within 50 % of its mean
    assert excess > 0.01 * bound


def test_pure_epsilon_on_sparse_rows_takes_laplace_noise_and_its_bound_hardly_grows_with_the_dimension():
    """n = 10⁵, d = 10⁶, ten entries a row, a set of radius 1: noise of Gamma length has 1.11 at its best λ."""
    guarantee, rows = Guarantee(1.0, 0.0, Unit("replace-one")), RowSpec(10**6, 1.0)
    box = Problem(rows, Logistic(), 1e5, Box(-1e-3, 1e-3))
    solver = recipe(box, guarantee, projection="linf", sparsity=10)
    assert (solver.noise, solver.constraint) == ("laplace", "within")
    assert predicted_bound(solver, box).value < 0.2
    free = Problem(rows, Logistic(), 1e5)
    assert predicted_bound(recipe(free, guarantee, sparsity=10), free).value < 0.05
    assert predicted_bound(recipe(free, guarantee), free).value > 1.0


def test_few_columns_take_noise_of_gamma_length_whatever_the_sparsity():
    guarantee, problem = Guarantee(1.0, 0.0, Unit("replace-one")), Problem(ROWS, Logistic(), 1000.0)
    assert recipe(problem, guarantee, sparsity=3).noise == "gamma"
    with pytest.raises(InvalidInput, match="sparsity"):
        recipe(problem, Guarantee(1.0, 1e-6, Unit("replace-one")), sparsity=3)


@pytest.mark.parametrize("domain", [WholeSpace(), Box(-1.0, 1.0)], ids=lambda domain: type(domain).__name__)
def test_the_bound_of_laplace_noise_holds(domain):
    """The mean excess of five runs on rows of two entries; bounds are worst cases."""
    rng = np.random.default_rng(4)
    n, d = 20_000, 1000
    hot = rng.integers(0, d, (n, 2))
    X = sp.csr_array((np.full(2 * n, 0.5**0.5), hot.ravel(), 2 * np.arange(n + 1)), shape=(n, d))
    truth = np.where(np.arange(d) < 40, 0.9, 0.0)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * (X @ truth))), 1.0, -1.0)
    rows, unit = RowSpec(d, 1.0), Unit("replace-one")
    problem = Problem(rows, Logistic(), float(n), domain, sparse=True)
    options = {"projection": "linf"} if isinstance(domain, Box) else {}
    solver = recipe(problem, Guarantee(2.0, 0.0, unit), sparsity=2, **options)
    assert solver.noise == "laplace"
    data = in_memory(X, y, rows)
    loss = lambda theta: float(np.mean(np.logaddexp(0, -y * (X @ theta))))  # noqa: E731
    fits = [Vault(data, unit, Ledger(), Bits.seeded(k)).run(solver, problem) for k in range(5)]
    excess = np.mean([loss(theta) for theta in fits]) - loss(truth)
    assert excess < predicted_bound(solver, problem).value < math.inf
