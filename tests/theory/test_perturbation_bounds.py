"""Objective and output perturbation bounds against simulation (fixed seeds, four standard errors where attained)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.errors import HypothesisViolated
from discreet.geometry import L1Ball, L2Ball, Polytope, WholeSpace
from discreet.theory import (
    best_output_regularisation,
    objective_perturbation,
    objective_perturbation_constrained,
    output_perturbation,
    output_perturbation_inf,
)

RUNS = 2000


@pytest.mark.parametrize("domain", [L1Ball(1.0), L2Ball(1.0), Polytope(np.eye(8))], ids=lambda s: type(s).__name__)
def test_constrained_objective_perturbation_through_the_width(domain) -> None:
    """Linear loss −⟨m, θ⟩: the perturbed minimiser is a linear oracle's, and the excess comes near the bound."""
    rng = np.random.default_rng(1)
    n, d, sigma = 100, 8, 2.0
    worst = 0.0
    for size in (0.01, 0.03, 0.1):
        m = size * np.eye(d)[0]
        best = domain.dual_norm(m)
        excess = [best - m @ domain.linear_minimiser(sigma * rng.standard_normal(d) / n - m) for _ in range(RUNS)]
        worst = max(worst, float(np.mean(excess)))
    bound = objective_perturbation_constrained(
        n=n, d=d, domain=domain, regularisation=0.0, noise_std=sigma, target_norm=1.0
    )
    assert worst <= bound.value
    assert worst >= bound.value / 5


@pytest.mark.parametrize("regularisation", [1.0, 5.0, 50.0])
def test_unconstrained_objective_perturbation(regularisation: float) -> None:
    """Σ = (n/2)‖θ − c‖²·h has its perturbed minimiser in closed form."""
    rng = np.random.default_rng(2)
    n, d, sigma = 20, 10, 3.0
    centre = np.ones(d) / math.sqrt(d)
    worst = 0.0
    for curvature in (0.01, 0.1, 1.0):
        weight = n * curvature
        noise = sigma * rng.standard_normal((RUNS, d))
        theta = (weight * centre - noise) / (weight + regularisation)
        worst = max(worst, float(0.5 * curvature * ((theta - centre) ** 2).sum(axis=1).mean()))
    bound = objective_perturbation(n=n, rank=d, regularisation=regularisation, noise_std=sigma, target_norm=1.0)
    assert worst <= bound.value
    assert worst >= bound.value / 8


def test_unconstrained_objective_perturbation_sees_the_rank_only() -> None:
    """Least squares on rows of rank 2 in 50 dimensions: the noise outside their span costs nothing."""
    rng = np.random.default_rng(3)
    n, d, sigma, regularisation = 30, 50, 1.0, 1.0
    rows = np.zeros((n, d))
    rows[:, :2] = rng.normal(size=(n, 2)) / 2
    target = np.zeros(d)
    target[:2] = 0.6, 0.8
    y = rows @ target
    inverse = np.linalg.inv(rows.T @ rows + regularisation * np.eye(d))
    excess = []
    for _ in range(300):
        theta = inverse @ (rows.T @ y - sigma * rng.standard_normal(d))
        excess.append(0.5 * np.mean((rows @ theta - y) ** 2))
    bound = objective_perturbation(n=n, rank=2, regularisation=regularisation, noise_std=sigma, target_norm=1.0)
    assert np.mean(excess) <= bound.value
    assert (
        bound.value
        < objective_perturbation(n=n, rank=d, regularisation=regularisation, noise_std=sigma, target_norm=1.0).value
        / 10
    )


def test_solver_tolerance_is_paid_for() -> None:
    exact, rough = (
        objective_perturbation(
            n=10, rank=3, regularisation=2.0, noise_std=1.0, target_norm=1.0, gradient_tolerance=tolerance
        ).value
        for tolerance in (0.0, 0.4)
    )
    assert rough - exact == pytest.approx(0.4**2 / (2 * 2.0 * 10))


def ridge_problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(60, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = rng.normal(size=12)
    target /= np.linalg.norm(target)
    return rows, rows @ target, target


@pytest.mark.parametrize("noise_std", [0.01, 0.1, 1.0])
def test_output_perturbation_of_a_smooth_linear_model(noise_std: float) -> None:
    """Least squares with unit rows, β = 1: the cost of the noise is βσ²/2 exactly, since E⟨x, ξ⟩² = σ²."""
    rng = np.random.default_rng(5)
    rows, y, _ = ridge_problem()
    n, d = rows.shape
    regularisation = 0.01
    minimiser = np.linalg.solve(rows.T @ rows / n + regularisation * np.eye(d), rows.T @ y / n)
    theta = minimiser + noise_std * rng.standard_normal((RUNS, d))
    excess = 0.5 * ((theta @ rows.T - y) ** 2).mean(axis=1)
    glm = output_perturbation(
        d=d,
        regularisation=regularisation,
        noise_std=noise_std,
        target_norm=1.0,
        smoothness=1.0,
        generalised_linear=True,
    )
    slack = 4 * excess.std() / math.sqrt(RUNS)
    assert excess.mean() <= glm.value + slack
    at_minimum = 0.5 * np.mean((rows @ minimiser - y) ** 2)
    assert excess.mean() - at_minimum == pytest.approx(glm.parts["privacy"], abs=slack)
    any_loss = output_perturbation(
        d=d, regularisation=regularisation, noise_std=noise_std, target_norm=1.0, smoothness=1.0
    )
    assert any_loss.parts["privacy"] == pytest.approx(d * glm.parts["privacy"])


def test_output_perturbation_of_a_lipschitz_linear_model() -> None:
    """Absolute loss at an exact fit: the cost is Gσ√(2/π), attained."""
    rng = np.random.default_rng(6)
    rows, y, target = ridge_problem()
    theta = target + 0.2 * rng.standard_normal((RUNS, 12))
    excess = np.abs(theta @ rows.T - y).mean(axis=1)
    bound = output_perturbation(
        d=12, regularisation=1e-9, noise_std=0.2, target_norm=1.0, lipschitz=1.0, generalised_linear=True
    )
    assert excess.mean() == pytest.approx(bound.value, abs=4 * excess.std() / math.sqrt(RUNS))
    general = output_perturbation(d=12, regularisation=1e-9, noise_std=0.2, target_norm=1.0, lipschitz=1.0)
    distance = np.linalg.norm(theta - target, axis=1)  # a loss that is the distance itself comes near the general bound
    assert 0.9 * general.value <= distance.mean() <= general.value


def test_projected_output_perturbation_keeps_only_the_general_bound() -> None:
    common = {"d": 9, "regularisation": 0.1, "noise_std": 0.2, "target_norm": 1.0, "projected": True}
    bound = output_perturbation(**common, lipschitz=1.0, smoothness=1e-9, generalised_linear=True)
    assert bound.parts["privacy"] == pytest.approx(0.2 * 3)
    with pytest.raises(HypothesisViolated):
        output_perturbation(**common, smoothness=1.0)


def test_output_perturbation_with_inf_projection() -> None:
    """𝓛 = mean_i |θ_i − c_i| has 1-sparse gradients of norm 1; its regularised minimiser is known by coordinate."""
    rng = np.random.default_rng(7)
    d, regularisation, noise_std = 400, 0.002, 0.03
    ball = L2Ball(2.0)
    centre = np.sin(np.arange(d)) / 15
    assert np.linalg.norm(centre) < 2.0
    minimiser = np.clip(centre, -1 / (d * regularisation), 1 / (d * regularisation))
    excess = [
        np.abs(ball.project_inf(minimiser + noise_std * rng.standard_normal(d)) - centre).mean() for _ in range(200)
    ]
    common = {"d": d, "regularisation": regularisation, "noise_std": noise_std}
    norm = float(np.linalg.norm(centre))
    bound = output_perturbation_inf(**common, sparsity=1, lipschitz=1.0, target_norm=norm)
    assert np.mean(excess) <= bound.value
    assert np.mean(excess) >= bound.value / 15
    dense = output_perturbation(**common, lipschitz=1.0, target_norm=norm, projected=True)
    assert bound.value < dense.value / 2


@pytest.mark.parametrize("power", [1, 2])
def test_best_regularisation(power: int) -> None:
    R, cost, A = 2.0, 0.7, 0.05

    def risk(regularisation: float) -> float:
        return regularisation * R**2 / 2 + cost * (A / regularisation) ** power

    best = best_output_regularisation(target_norm=R, cost_per_std=cost, std_times_regularisation=A, power=power)
    assert all(risk(best) < risk(best * factor) for factor in (0.5, 0.95, 1.05, 2.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: objective_perturbation_constrained(
            n=5, d=3, domain=WholeSpace(), regularisation=1.0, noise_std=1.0, target_norm=1.0
        ),
        lambda: objective_perturbation(n=5, rank=3, regularisation=0.0, noise_std=1.0, target_norm=1.0),
        lambda: objective_perturbation(n=0, rank=3, regularisation=1.0, noise_std=1.0, target_norm=1.0),
        lambda: output_perturbation(d=3, regularisation=1.0, noise_std=1.0, target_norm=1.0),
        lambda: output_perturbation(d=3, regularisation=1.0, noise_std=1.0, target_norm=1.0, lipschitz=-1.0),
        lambda: output_perturbation_inf(
            d=3, sparsity=0, lipschitz=1.0, regularisation=1.0, noise_std=1.0, target_norm=1.0
        ),
        lambda: best_output_regularisation(target_norm=1.0, cost_per_std=1.0, std_times_regularisation=1.0, power=3),
    ],
)
def test_hypotheses_are_checked(make) -> None:
    with pytest.raises(HypothesisViolated):
        make()
