"""What a user fits is attacked as it is fitted: the very solver and problem that an estimator hands to the vault."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.solvers.attacks import proved_epsilon, quieter
from tests.solvers.claims import Case, check, rows
from tests.solvers.transcripts import log_law

import discreet as dp
from discreet.accounting import epsilon
from discreet.data.memory import in_memory
from discreet.estimators import base
from discreet.noise.bits import Bits
from discreet.rows import RowSpec
from discreet.solvers import Guarantee
from discreet.units import Unit
from discreet.vault import Vault

RELATIONS = ["add-remove", "replace-one"]


def as_fitted(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """The problem and the solver that ``model.fit`` runs."""
    seen: list[Any] = []

    class Watched(Vault):
        def run(self, solver: Any, problem: Any, **options: Any) -> Any:
            seen.append((problem, solver))
            return super().run(solver, problem, **options)

    with patch.object(base, "Vault", Watched):
        model.fit(X, y)
    ((problem, solver),) = seen
    return problem, solver


MODELS = {"lasso": (dp.Lasso, {"radius": 0.4}), "sparse": (dp.SparseLinearRegression, {"sparsity": 1})}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", MODELS)
def test_an_attack_on_what_is_fitted(name: str, relation: str) -> None:
    """Rows without features fill up n; one row has the largest target, or the least one, or is not there."""
    kind, options = MODELS[name]
    rest = [(1, -1)] + [(0, 0)] * 10
    one, other = rows(*rest, (1, 1)), rows(*rest, *[(1, -1)] * (relation == "replace-one"))
    model = kind(
        epsilon=1.0, delta=0.1, adjacency=relation, n_public=12, row_norm=1.0, target_bounds=(-1, 1),
        fit_intercept=False, random_state=0, **options,
    )  # fmt: skip
    problem, solver = as_fitted(model, *one)
    assert model.privacy_.epsilon <= 1.0
    worlds, unit = (one, other), Unit(relation)  # type: ignore[arg-type]
    check(Case(name, "fitted", problem, worlds, unit, make=lambda *_: solver, runs=3000 if name == "lasso" else 600))


def proved_of_mean(plan: Any, data: list[Any], unit: Unit, delta: float, claim: float) -> float:
    """From the mean that is shown, by its likelihood ratio as if it were the noisy sum.

    A threshold forgets most of so small a sum: there the attacker sees the noisy sum itself, which is what is claimed.
    """
    spec, bits = RowSpec(1, 1.0), Bits.seeded(5)
    measurement = plan.measurement(spec)

    def ratio(world: Any) -> float:
        noisy = measurement.sample(world, unit, bits)
        shown = noisy if plan.finish_by == "threshold" else plan.finish(noisy, spec, 1.0)
        return log_law(measurement, shown, data[0]) - log_law(measurement, shown, data[1])

    return proved_epsilon(*([ratio(world) for _ in range(600)] for world in data), delta, claim)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("method", ["gaussian", "laplace", "projection", "threshold", "auto"])
def test_an_attack_on_the_mean_that_is_shown(method: str, relation: str) -> None:
    """One row of length 1: there or not, or turned round. Pure DP where noise is Laplace. Error: 1e-3 a proof."""
    unit = Unit(relation)  # type: ignore[arg-type]
    guarantee = Guarantee(1.0, 0.0 if method == "laplace" else 0.1, unit)
    plan = dp.MeanEstimator(method=method)._plan(RowSpec(1, 1.0), 1, 1.0, guarantee)
    other = -np.ones((1, 1)) if relation == "replace-one" else np.empty((0, 1))
    data = [in_memory(X, np.zeros(len(X)), RowSpec(1, 1.0)) for X in (np.ones((1, 1)), other)]
    claim = epsilon(plan.measurement(RowSpec(1, 1.0)).event(unit), guarantee.delta, unit).upper
    assert claim <= 1.0 + 1e-9
    assert proved_of_mean(plan, data, unit, guarantee.delta, claim) <= claim
    assert proved_of_mean(quieter(plan), data, unit, guarantee.delta, claim) > claim
