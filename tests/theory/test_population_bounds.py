"""Population risk with sparse gradients: lower bounds below exact risks and below upper bounds, of the right order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from discreet.errors import HypothesisViolated
from discreet.theory import (
    best_output_regularisation,
    output_perturbation_inf,
    output_perturbation_inf_population,
    sparse_erm_lower_bound,
    sparse_population_lower_bound,
    zcdp_budget,
)
from discreet.theory.bound import expected_max_abs_normal

FACTS = {"d": 10**5, "s": 8, "bound": 1.0, "radius": 1.0}


@pytest.mark.parametrize("n", [1, 2, 5, 20, 200])
def test_without_privacy_no_bound_exceeds_the_exact_risk_of_the_best_rule(n: int) -> None:
    """The excess of guessing the sign by the majority, averaged over both signs, is 2γ·P(error): the least there is."""
    exact = 0.0
    for gamma in np.linspace(0.001, 0.999, 999):
        wins = binom.pmf(np.arange(n + 1), n, (1 + gamma) / 2)
        error = wins[: (n + 1) // 2].sum() + (wins[n // 2] / 2 if n % 2 == 0 else 0.0)
        exact = max(exact, 2 * gamma * error)
    lower = sparse_population_lower_bound(n=n, epsilon=1e3, adjacency="replace-one", **FACTS)
    assert "statistics" in lower.parts
    assert exact / 4 < lower.value <= exact


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("delta", [0.0, 1e-8])
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_lower_bound_exceeds_an_upper_bound(epsilon: float, delta: float, adjacency: str) -> None:
    for n in (10**2, 10**4, 10**6):
        lower = sparse_population_lower_bound(n=n, epsilon=epsilon, delta=delta, adjacency=adjacency, **FACTS)
        assert 0 < lower.value < 1  # θ = 0 has an excess of at most LR
        if delta:
            noise = (2.0 if adjacency == "replace-one" else 1.0) / (n * math.sqrt(2 * zcdp_budget(epsilon, delta)))
            cost = 2 * math.sqrt(FACTS["s"]) * expected_max_abs_normal(FACTS["d"])
            ridge = best_output_regularisation(target_norm=1.0, cost_per_std=cost, std_times_regularisation=noise)
            upper = output_perturbation_inf_population(
                n=n, d=FACTS["d"], sparsity=FACTS["s"], lipschitz=1.0, regularisation=ridge, noise_std=noise / ridge,
                target_norm=1.0,
            )  # fmt: skip
            assert lower.value < upper.value


def test_under_pure_privacy_the_order_is_that_of_the_theorem() -> None:
    """√(s·ln(d/s)/(εn)) up to a constant, in so many dimensions, and within a factor of the empirical bound."""
    many = {**FACTS, "d": 10**8}
    for n in (10**4, 10**5, 10**6):
        for epsilon in (0.01, 0.1):
            rate = math.sqrt(8 * math.log(10**8 / 8) / (n * epsilon))
            if rate > 0.5:
                continue
            lower = sparse_population_lower_bound(n=n, epsilon=epsilon, adjacency="replace-one", **many)
            empirical = sparse_erm_lower_bound(n=n, epsilon=epsilon, adjacency="replace-one", **many)
            assert rate / 40 < lower.value < rate
            assert empirical.value / 2 < lower.value < 2 * empirical.value


def test_new_rows_cost_what_stability_says() -> None:
    facts = {"d": 100, "sparsity": 4, "lipschitz": 2.0, "regularisation": 0.5, "noise_std": 0.01, "target_norm": 1.0}
    population, empirical = output_perturbation_inf_population(n=400, **facts), output_perturbation_inf(**facts)
    assert population.value == pytest.approx(empirical.value + 2 * 4.0 / (0.5 * 400))


@pytest.mark.parametrize(
    "wrong", [{"n": 0}, {"s": 0}, {"epsilon": 0.0}, {"delta": 1.0}, {"delta": -0.1}, {"bound": "L"}]
)
def test_hypotheses_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(HypothesisViolated, match=r"theorem needs"):
        sparse_population_lower_bound(**{"n": 100, "epsilon": 1.0, "adjacency": "add-remove", **FACTS, **wrong})
