"""What a user fits is attacked as it is fitted: the very solver and problem that an estimator hands to the vault."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.solvers.attacks import proved_epsilon, quieter
from tests.solvers.claims import Case, check, rows
from tests.solvers.transcripts import log_law

import discreet as dp
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.estimators import privacy
from discreet.losses import Squared
from discreet.noise.bits import Bits
from discreet.recipes.sparse_mean import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
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

    with patch.object(privacy, "Vault", Watched):
        model.fit(X, y)
    ((problem, solver),) = seen
    return problem, solver


MODELS = {"lasso": (dp.Lasso, {"radius": 0.4}), "sparse": (dp.SparseLinearRegression, {"sparsity": 1})}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", MODELS)
def test_an_attack_on_what_is_fitted(name: str, relation: str) -> None:
    """Rows without features fill up n; one row has the largest target, or the least one, or is not there.

    At half the noise {log ratio > claim} has probabilities 0.648 and 0.072, which 600 runs prove to exceed the claim
    with probability above 0.9999; a false alarm has probability 1e-3 at most.
    """
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
    check(Case(name, "fitted", problem, worlds, unit, make=lambda *_: solver, runs=600))


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
    plan = recipe(Problem(RowSpec(1, 1.0), Squared(), 1.0), guarantee, method=method, sparsity=1)
    other = -np.ones((1, 1)) if relation == "replace-one" else np.empty((0, 1))
    data = [in_memory(X, np.zeros(len(X)), RowSpec(1, 1.0)) for X in (np.ones((1, 1)), other)]
    claim = epsilon(plan.measurement(RowSpec(1, 1.0)).event(unit), guarantee.delta, unit).upper
    assert claim <= 1.0 + 1e-9
    assert proved_of_mean(plan, data, unit, guarantee.delta, claim) <= claim
    assert proved_of_mean(quieter(plan), data, unit, guarantee.delta, claim) > claim


@dataclass(frozen=True)
class Settled:
    """A candidate's fit that asks nothing of its rows, so that only a row aside can tell."""

    theta: float

    def steps(self, problem: Any) -> Any:
        return np.array([self.theta])
        yield


def planned_search(relation: str, epsilon_: float, delta: float) -> Any:
    """A search between two candidates, as `PrivateSearchCV` plans it; their fits are then settled: θ = 1 or −1."""
    model = dp.LogisticRegression(
        row_norm=1.0, classes=[-1, 1], fit_intercept=False, solver="descent", solver_options={"iterations": 1}
    )
    search = dp.PrivateSearchCV(
        model, {"alpha": [0.0, 1.0]}, epsilon=epsilon_, delta=delta, adjacency=relation, n_public=2, trials=2
    )
    candidates = search._candidates()
    guarantee = Guarantee(epsilon_, delta, Unit(relation))  # type: ignore[arg-type]
    problems = []
    for candidate in candidates:
        features, data = candidate._prepare(np.zeros((2, 1)), np.ones(2), True)
        problems.append(candidate._problem(features, data.rows, False, 1.0, guarantee))
    plan = search._plan(candidates, problems, guarantee)
    fits = [replace(fit, solver=Settled(theta)) for fit, theta in zip(plan.fits, (1.0, -1.0), strict=True)]
    return replace(plan, fits=fits)


def best_law(score: float, up: bool, ups: float, downs: float, scale: float) -> float:
    """log-density of the best of K trials, K geometric of mean 2, whose scores lie around ``ups`` for one candidate and
    around ``downs`` for the other: p·f'(1 − v) with f'(1 − v) = 2/(1 + v)², v the probability of a better score.
    """

    def better(centre: float) -> float:
        z = (score - centre) / scale
        return math.exp(-z) / 2 if z > 0 else 1 - math.exp(z) / 2

    v = (better(ups) + better(downs)) / 2
    return -abs(score - (ups if up else downs)) / scale - 2 * math.log1p(v)


SCORES = {  # relation: labels of the rows aside in either world, and the centres of the two candidates' scores there
    "replace-one": (([1], [-1]), ((0.5, -0.5), (-0.5, 0.5))),
    "add-remove": (([-1, 1], [-1]), ((0.0, 0.0), (-0.5, 0.5))),
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_an_attack_on_a_search_through_the_row_that_scores(relation: str) -> None:
    """A row aside that one candidate gets right and the other wrong; the split is known, as in the claim.

    What is shown is the best trial: its model and its score, whose law is known. At half the noise {log ratio > claim}
    has probabilities 0.75 and 0.017 (replaced) or 0.72 and 0.015 (added), which 2700 runs prove to exceed the claim
    with probability above 0.999; a false alarm has probability 1e-3 at most.
    """
    labels, centres = SCORES[relation]
    delta, plan = 0.01, planned_search(relation, 2.857, 0.01)
    claim = epsilon(plan.event, delta, plan.unit).upper
    assert 2.8 < claim <= 2.857
    worlds = [in_memory(np.ones((len(y), 1)), np.array(y, float), RowSpec(1, 1.0)) for y in labels]

    def proved(searched: Any, runs: int) -> float:
        bits, scale = Bits.seeded(9), searched.score_noise / 2

        def ratio(data: Any) -> float:
            score, chosen, _ = searched.best([data, data], np.ones(len(data), np.int64), bits)
            here, there = (best_law(score, chosen == 0, *world, scale) for world in centres)
            return here - there

        return proved_epsilon(*([ratio(data) for _ in range(runs)] for data in worlds), delta, claim)

    assert proved(plan, 600) <= claim
    assert proved(replace(plan, score_noise=plan.score_noise / 2), 2700) > claim
