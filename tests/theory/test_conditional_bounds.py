"""The parts of the newer theorems by simulation: noise of moments, whitened descent, biased steps, shrunken gradients.

Fixed seeds; where a probability or a mean is compared, four standard errors are left.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.errors import HypothesisViolated
from discreet.theory import (
    biased_descent,
    biased_descent_stationarity,
    exponential_mechanism_tail,
    gamma_noise_std,
    heavy_tailed,
    moment_noise_norm,
    preconditioned,
    shrunken_gradient_error,
    smooth_average_iterate,
    sufficient_statistics,
    symmetric_noise_norm,
)


def symmetric_noise(rng: np.random.Generator, d: int, diagonal: float, off: float) -> np.ndarray:
    noise = off * np.triu(rng.standard_normal((d, d)), 1)
    return noise + noise.T + np.diag(diagonal * rng.standard_normal(d))


@pytest.mark.parametrize("d", [2, 5, 40])
def test_norm_of_symmetric_noise(d: int) -> None:
    """Exceeded less often than said, and not far from the mean; 1000 draws."""
    rng = np.random.default_rng(1)
    norms = [np.linalg.norm(symmetric_noise(rng, d, 1.0, 5 / 7), 2) for _ in range(1000)]
    failure = 0.05
    bound = moment_noise_norm(d, 1.0, failure)
    assert bound == symmetric_noise_norm(d, 5 / 7, failure)
    assert np.mean(np.array(norms) > bound) <= failure + 4 * math.sqrt(failure / 1000)
    assert bound <= 5 * np.mean(norms)


def test_coordinates_of_gamma_norm_noise() -> None:
    rng = np.random.default_rng(2)
    d, scale = 7, 0.3
    directions = rng.standard_normal((20_000, d))
    noise = rng.gamma(d, scale, 20_000)[:, None] * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert np.sqrt((noise**2).mean()) == pytest.approx(gamma_noise_std(d, scale), rel=0.02)


@pytest.mark.parametrize("curvature", [0.002, 0.02, 0.2, 2.0])
def test_whitened_descent_on_a_quadratic(curvature: float) -> None:
    """A Hessian known up to noise, from curvature far below the damping to far above it."""
    rng = np.random.default_rng(3)
    d, steps, damping, sigma = 6, 40, 0.1, 0.01
    hessian = curvature * np.diag(np.linspace(1, 3, d))
    target = np.ones(d) / math.sqrt(d)
    excess, largest = [], 0.0
    for _ in range(60):
        noise = symmetric_noise(rng, d, 0.01, 0.007)
        largest = max(largest, np.linalg.norm(noise, 2))
        values, vectors = np.linalg.eigh(hessian + noise)
        inverse = (vectors / (np.maximum(values, 0) + damping)) @ vectors.T
        theta, kept = np.zeros(d), []
        for t in range(steps):
            theta = theta - inverse @ (hessian @ (theta - target) + sigma * rng.standard_normal(d))
            if t >= steps // 2:
                kept.append(theta)
        off = np.mean(kept, axis=0) - target
        excess.append(0.5 * off @ hessian @ off)
    common = {
        "eigenvalues": np.diag(hessian),
        "damping": damping,
        "moment_error": largest,
        "target_norm": 1.0,
        "noise_std": sigma,
        "iterations": steps,
    }
    quadratic, convex = preconditioned(**common).value, preconditioned(**common, quadratic=False).value
    assert np.mean(excess) <= quadratic <= convex
    assert quadratic <= 12 * np.mean(excess)


def test_unconstrained_steps_of_the_inverse_smoothness() -> None:
    """η = 1/β, where the bound for projected steps has nothing to say; the weak direction carries the noise."""
    rng = np.random.default_rng(4)
    T, sigma, d = 50, 0.05, 5
    hessian = np.array([1.0] + [1 / T] * (d - 1))
    target = np.full(d, 0.2)
    excess = []
    for _ in range(200):
        theta, mean = np.zeros(d), np.zeros(d)
        for _ in range(T):
            theta = theta - (hessian * (theta - target) + sigma * rng.standard_normal(d))
            mean += theta / T
        excess.append(0.5 * (hessian * (mean - target) ** 2).sum())
    args = {"distance": 0.2 * math.sqrt(d), "smoothness": 1.0, "d": d, "noise_std": sigma, "iterations": T, "step": 1.0}
    bound = smooth_average_iterate(constrained=False, **args).value
    assert np.mean(excess) <= bound <= 12 * np.mean(excess)
    assert smooth_average_iterate(**args).value == pytest.approx(bound)  # 1 + ηβ = 2 at η = 1/β
    with pytest.raises(HypothesisViolated):
        smooth_average_iterate(**args | {"step": 1.001})


def test_sufficient_statistics_in_the_shrunken_regime() -> None:
    """XᵀX far below the noise: λ alone keeps the system positive, and θ shrinks toward 0."""
    rng = np.random.default_rng(5)
    d, n, s, failure = 30, 1000, 10.0, 0.05
    gram, target = np.diag(np.linspace(0, 40, d)), np.ones(d) / math.sqrt(d)
    cross = gram @ target
    needed, slack = s * math.sqrt(d * math.log(2 * d * d / failure)), s * math.sqrt(2 * math.log(3 / failure))
    excess = []
    for _ in range(300):
        sure = max(0.0, gram[0, 0] + s * rng.standard_normal() - slack)
        system = gram + symmetric_noise(rng, d, s, 5 / 7 * s) + max(0.0, needed - sure) * np.eye(d)
        off = np.linalg.solve(system, cross + s * rng.standard_normal(d)) - target
        excess.append(0.5 * off @ gram @ off / n)
    bound = sufficient_statistics(
        n=n, eigenvalues=np.diag(gram), moment_std=s, cross_std=s, target_norm=1.0, failure=failure
    )
    assert np.mean(excess) <= bound.value
    assert bound.value == pytest.approx(sum(bound.parts.values()))


@pytest.mark.parametrize("filtered", [False, True])
def test_biased_descent(filtered: bool) -> None:
    """f(θ) = |θ| on [−1, 1], estimates of bias B; with a filter, dear steps of larger variance end the run."""
    rng = np.random.default_rng(6)
    bias, eta, T = 0.1, 0.1, 100
    excess, taken = [], []
    for _ in range(400):
        theta, total, count, budget = 1.0, 0.0, 0, 1.5 * T if filtered else math.inf
        while count < T:
            dear = rng.random() < 0.5
            budget -= 2.0 if dear else 1.0
            if budget < 0:
                break
            total, count = total + theta, count + 1
            noise = (1.5 if dear else 0.5) * rng.choice([-1.0, 1.0])
            theta = min(1.0, max(-1.0, theta - eta * (np.sign(theta) - bias + noise)))
        excess.append(abs(total / count))
        taken.append(count)
    bound = biased_descent(
        distance=1.0,
        diameter=2.0,
        second_moment=(1 + bias) ** 2 + (1.5**2 + 0.5**2) / 2,
        bias=bias,
        step=eta,
        iterations=T,
        least_iterations=math.floor(1.5 * T / 2) if filtered else None,
    )
    assert min(taken) >= 1.5 * T / 2 if filtered else min(taken) == T
    assert np.mean(excess) <= bound.value <= 8 * np.mean(excess)


def test_biased_descent_finds_stationary_points() -> None:
    """f(θ) = −cos θ from its maximum at π: not convex, 1-smooth."""
    rng = np.random.default_rng(7)
    bias, eta, T, spread = 0.05, 0.1, 200, 0.5
    squares = []
    for _ in range(100):
        theta = math.pi
        for _ in range(T):
            squares.append(math.sin(theta) ** 2)
            theta -= eta * (math.sin(theta) + bias + spread * rng.standard_normal())
    bound = biased_descent_stationarity(
        initial_gap=2.0, smoothness=1.0, second_moment=(1 + bias) ** 2 + spread**2, bias=bias, step=eta, iterations=T
    )
    assert np.mean(squares) <= bound.value <= 8 * np.mean(squares)


def test_error_of_shrunken_gradients() -> None:
    """Student's t with five degrees of freedom, K inside the bulk so that shrinkage bites."""
    rng = np.random.default_rng(8)
    d, m, K, theta = 10, 2000, 2.0, np.array([0.6, -0.3] + [0.0] * 8)
    squares = []
    for _ in range(60):
        X = rng.standard_t(5, (m, d)) * math.sqrt(3 / 5)
        y = X[:, 0] * 0.9
        shrunken, targets = np.clip(X, -K, K), np.clip(y, -K, K)
        gradient = shrunken.T @ (shrunken @ theta - targets) / m
        exact = theta - 0.9 * np.eye(d)[0]
        squares.append(np.abs(gradient - exact).max() ** 2)
    bound = shrunken_gradient_error(d=d, rows=m, moment=9.0, entry_bound=K, l1_bound=1 + np.abs(theta).sum())
    assert math.sqrt(np.mean(squares)) <= bound
    bias_alone = 2 * 9.0 * 1.9 / K**2
    assert bound < 1.2 * bias_alone  # at this K shrinkage is nearly all of it


def test_tail_of_the_exponential_mechanism() -> None:
    rng = np.random.default_rng(9)
    m, a, failure = 50, 10.0, 0.1
    risk = np.where(np.arange(m) == 0, 0.0, np.linspace(0.3, 0.6, m))
    bound = exponential_mechanism_tail(candidates=m, inverse_temperature=a, failure=failure).value
    weights = np.exp(-a * risk)
    assert weights[risk > bound].sum() / weights.sum() <= failure
    flips = np.argmax(-a * risk + rng.exponential(size=(20_000, m)), axis=1)  # permute-and-flip
    assert np.mean(risk[flips] > bound) <= failure


TAILS = {"moment": 3.0, "entry_bound": 10.0, "radius": 1.0, "selection_multiplier": 1.0, "value_multiplier": 1.0}
DESIGN = {"s": 2, "target_sparsity": 2, "d": 50, "strong_convexity": 1.0, "smoothness": 1.0, "step": 1.0}


@pytest.mark.parametrize(
    "refused",
    [
        lambda: symmetric_noise_norm(3, 1.0, 1.0),
        lambda: sufficient_statistics(n=10, eigenvalues=[0.0] * 3, moment_std=1.0, cross_std=1.0, target_norm=1.0),
        lambda: sufficient_statistics(n=10, eigenvalues=[-1.0] * 30, moment_std=1.0, cross_std=1.0, target_norm=1.0),
        lambda: preconditioned(
            eigenvalues=[1.0], damping=0.1, moment_error=0.2, target_norm=1.0, noise_std=0.1, iterations=5
        ),
        lambda: preconditioned(
            eigenvalues=[0.0], damping=0.1, moment_error=0.1, target_norm=1.0, noise_std=0.1, iterations=5
        ),
        lambda: preconditioned(
            eigenvalues=[1.0], damping=0.1, moment_error=0.0, target_norm=1.0, noise_std=0.1, iterations=5, suffix=6
        ),
        lambda: biased_descent(distance=1.0, diameter=math.inf, second_moment=1.0, bias=0.0, step=0.1, iterations=5),
        lambda: biased_descent(
            distance=1.0, diameter=1.0, second_moment=1.0, bias=0.0, step=0.1, iterations=5, least_iterations=6
        ),
        lambda: biased_descent(
            distance=1.0, diameter=1.0, second_moment=1.0, bias=0.0, step=0.1, iterations=5, convex=False
        ),
        lambda: heavy_tailed(distance=1.0, parts=3, rows=100.0, **TAILS, **DESIGN | {"step": 0.3}),
        lambda: heavy_tailed(distance=1.0, parts=3, rows=100.0, **TAILS | {"moment": 0.0}, **DESIGN),
        lambda: exponential_mechanism_tail(candidates=5, inverse_temperature=1.0, failure=0.0),
    ],
)
def test_hypotheses_are_checked(refused) -> None:
    with pytest.raises(HypothesisViolated):
        refused()
