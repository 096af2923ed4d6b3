"""The Lasso by private Frank–Wolfe."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.accounting.classical import zcdp_epsilon_upper
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L1Ball
from discreet.ledger import Ledger
from discreet.noise.bits import Bits
from discreet.rows import RowSpec
from discreet.solvers.lasso import lasso
from discreet.solvers.planning import Guarantee
from discreet.solvers.rehearsal import rehearse
from discreet.units import Unit
from discreet.vault import Vault

UNIT = Unit("add-remove")


def test_a_sparse_model_is_found_at_epsilon_one() -> None:
    """n = 6000, d = 100, four true coefficients: R² above 0.8 of a possible 0.95, by the defaults."""
    rng = np.random.default_rng(0)
    n, d = 6000, 100
    X = rng.uniform(-1, 1, (n, d))
    truth = np.zeros(d)
    truth[:4] = [0.5, -0.4, 0.3, 0.3]
    y = np.clip(X @ truth + 0.1 * rng.normal(size=n), -1, 1)
    problem, solver = lasso(RowSpec(d, norm=math.sqrt(d)), n, Guarantee(1.0, 1 / n**2, UNIT))
    assert zcdp_epsilon_upper(compose(rehearse(solver, problem, UNIT)), 1 / n**2, UNIT) <= 1.0
    theta = Vault(in_memory(X, y, problem.rows), UNIT, Ledger(), Bits.seeded(0)).run(solver, problem)
    assert 1 - np.mean((X @ theta - y) ** 2) / np.var(y) > 0.8
    assert set(np.argsort(-np.abs(theta))[:4]) == {0, 1, 2, 3}


def test_scales_go_with_the_units_of_the_data() -> None:
    """Targets in cents instead of euros change units and nothing else."""
    guarantee = Guarantee(1.0, 1e-8, UNIT)
    euros, by_euros = lasso(RowSpec(5, norm=2.0), 5000, guarantee)
    cents, by_cents = lasso(RowSpec(5, norm=2.0), 5000, guarantee, target_bound=100.0)
    assert isinstance(euros.domain, L1Ball)
    assert isinstance(cents.domain, L1Ball)
    assert cents.domain.radius == 100 * euros.domain.radius
    assert (by_cents.clip, by_cents.iterations) == (100 * by_euros.clip, by_euros.iterations)


def test_choices_can_be_made() -> None:
    problem, solver = lasso(RowSpec(5, norm=2.0), 100, Guarantee(math.inf, 0.0, UNIT), radius=7.0, iterations=3)
    assert problem.domain == L1Ball(7.0)
    assert (solver.noise_multiplier, solver.iterations, solver.clip) == (0.0, 3, math.inf)


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="bounds must be positive"):
        lasso(RowSpec(5, norm=2.0), 100, Guarantee(1.0, 1e-6, UNIT), target_bound=0.0)
