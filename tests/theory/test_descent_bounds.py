"""Bounds of noisy descent against runs of noisy descent: measured excess risk never above, and not far below.

Every comparison averages independent runs with a fixed seed; four standard errors of slack make a false alarm less
likely than 1e-4 where a bound is attained exactly, and far less elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from discreet.errors import HypothesisViolated
from discreet.geometry import L2Ball, WholeSpace
from discreet.theory import (
    average_iterate,
    best_step,
    gradient_descent_rate,
    last_iterate,
    last_iterate_decaying,
    rank_bound,
    sampled_gradient_bound,
    smooth_average_iterate,
    strongly_convex_last_iterate,
    suffix_average,
    zcdp_budget,
)

RUNS = 300
COMMON = {"distance": 1.0, "lipschitz": 1.0, "d": 10, "noise_std": 0.1, "iterations": 50}


def descend(
    gradient: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
    steps: list[float],
    noise_std: float,
    seed: int,
    radius: float = math.inf,
) -> np.ndarray:
    """All iterates θ_0 … θ_T of RUNS independent noisy descents, of shape (T + 1, RUNS, d)."""
    rng = np.random.default_rng(seed)
    theta = np.tile(start, (RUNS, 1))
    path = [theta]
    for step in steps:
        theta = theta - step * (gradient(theta) + noise_std * rng.standard_normal(theta.shape))
        if math.isfinite(radius):
            theta = theta / np.maximum(1.0, np.linalg.norm(theta, axis=1, keepdims=True) / radius)
        path.append(theta)
    return np.asarray(path)


def assert_holds(excess: np.ndarray, bound: float, within: float) -> None:
    """The mean excess is at most the bound, and at least the bound/within: neither wrong nor vacuous."""
    slack = 4 * excess.std() / math.sqrt(len(excess))
    assert excess.mean() <= bound + slack
    assert excess.mean() * within >= bound


def cone(target: np.ndarray) -> tuple[Callable, Callable]:
    """𝓛(θ) = ‖θ − target‖₂: convex, 1-Lipschitz, not smooth, least value 0."""

    def gradient(theta: np.ndarray) -> np.ndarray:
        residual = theta - target
        return residual / np.maximum(np.linalg.norm(residual, axis=-1, keepdims=True), 1e-300)

    return (lambda theta: np.linalg.norm(theta - target, axis=-1)), gradient


@pytest.mark.parametrize("noise_std", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("radius", [1.0, math.inf])
def test_average_iterate(noise_std: float, radius: float) -> None:
    d, T = 10, 200
    target = np.zeros(d)
    target[0] = 0.9
    value, gradient = cone(target)
    problem = {"distance": 0.9, "lipschitz": 1.0, "d": d, "noise_std": noise_std, "iterations": T}
    step = best_step(**problem)
    path = descend(gradient, np.zeros(d), [step] * T, noise_std, 1, radius)
    bound = average_iterate(**problem, step=step).value
    assert bound == pytest.approx(0.9 * math.sqrt((1 + d * noise_std**2) / T))
    assert_holds(value(path[:-1].mean(axis=0)), bound, within=6)


def test_privacy_part_is_the_energy_of_the_noise() -> None:
    d, T, noise_std, step = 30, 100, 0.3, 0.05
    path = descend(lambda theta: np.zeros_like(theta), np.zeros(d), [step] * T, noise_std, 2)
    # With a zero gradient the distance moved is all noise: E‖θ_T‖² = η²dσ²T, twice the privacy part times ηT.
    moved = (path[-1] ** 2).sum(axis=1)
    part = average_iterate(distance=1.0, lipschitz=1.0, d=d, noise_std=noise_std, iterations=T, step=step).parts[
        "privacy"
    ]
    assert moved.mean() == pytest.approx(2 * step * T * part, abs=4 * moved.std() / math.sqrt(RUNS))


def test_best_step_is_best() -> None:
    step = best_step(**COMMON)
    best = average_iterate(**COMMON, step=step).value
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert average_iterate(**COMMON, step=factor * step).value > best


@pytest.mark.parametrize("noise_std", [0.05, 0.5])
def test_last_iterate_constant_step(noise_std: float) -> None:
    d, T, step = 10, 200, 0.02
    target = np.zeros(d)
    target[0] = 0.9
    value, gradient = cone(target)
    path = descend(gradient, np.zeros(d), [step] * T, noise_std, 3)
    bound = last_iterate(distance=0.9, lipschitz=1.0, d=d, noise_std=noise_std, iterations=T, step=step)
    assert_holds(value(path[-1]), bound.value, within=20)
    average = average_iterate(distance=0.9, lipschitz=1.0, d=d, noise_std=noise_std, iterations=T, step=step)
    assert bound.parts["privacy"] / average.parts["privacy"] == pytest.approx(1 + math.log(T) + 0.5772, rel=1e-3)


@pytest.mark.parametrize("suffix", [1, 20, 101, 201])
def test_suffix_average(suffix: int) -> None:
    d, T, step, noise_std = 10, 200, 0.02, 0.5
    target = np.zeros(d)
    target[0] = 0.9
    value, gradient = cone(target)
    path = descend(gradient, np.zeros(d), [step] * T, noise_std, 12)
    problem = {"distance": 0.9, "lipschitz": 1.0, "d": d, "noise_std": noise_std, "step": step}
    bound = suffix_average(**problem, iterations=T, suffix=suffix)
    assert_holds(value(path[-suffix:].mean(axis=0)), bound.value, within=40)
    if suffix == 201:  # every point: the average iterate of one more step
        assert bound.value == pytest.approx(average_iterate(**problem, iterations=T + 1).value)
    if suffix == 101:
        average = average_iterate(**problem, iterations=T).parts["privacy"]
        assert bound.parts["privacy"] / average == pytest.approx(1 + math.log(2), rel=0.01)


def test_last_iterate_decaying_step() -> None:
    d, T, noise_std = 10, 200, 0.3
    target = np.zeros(d)
    target[0] = 0.9
    value, gradient = cone(target)
    steps = [0.8 / math.sqrt(t) for t in range(1, T + 1)]
    path = descend(gradient, np.zeros(d), steps, noise_std, 4, radius=1.0)
    problem = {"diameter": 2.0, "lipschitz": 1.0, "d": d, "noise_std": noise_std}
    bound = last_iterate_decaying(**problem, steps=steps)
    assert_holds(value(path[-1]), bound.value, within=30)
    closed_form = (4 / 0.8 + 0.8 * (1 + d * noise_std**2)) * (2 + math.log(T + 1)) / math.sqrt(T + 1)
    assert bound.value <= closed_form
    flat = last_iterate_decaying(**problem, steps=[0.1] * T)
    constant = last_iterate(distance=2.0, lipschitz=1.0, d=d, noise_std=noise_std, iterations=T, step=0.1)
    assert flat.parts == pytest.approx(dict(constant.parts))


@pytest.mark.parametrize("noise_std", [0.0, 0.2])
def test_smooth_average_iterate(noise_std: float) -> None:
    d, T, step = 20, 100, 0.3
    curvatures = np.geomspace(0.01, 2.0, d)
    target = np.ones(d) / math.sqrt(d)
    path = descend(lambda theta: curvatures * (theta - target), np.zeros(d), [step] * T, noise_std, 5)
    excess = 0.5 * (curvatures * (path[1:].mean(axis=0) - target) ** 2).sum(axis=1)
    bound = smooth_average_iterate(distance=1.0, smoothness=2.0, d=d, noise_std=noise_std, iterations=T, step=step)
    assert_holds(excess, bound.value, within=40)


@pytest.mark.parametrize("step", [0.4, 0.5])
def test_smooth_average_iterate_under_an_active_constraint(step: float) -> None:
    """Up to a step of 1/β, where no slack is left in the smoothness: the noise costs twice ηdσ²/2 at most."""
    d, T, noise_std = 20, 30, 0.1
    curvatures = np.geomspace(0.2, 2.0, d)
    target = np.zeros(d)
    target[-1] = 1.5  # outside the unit ball, so the constrained minimiser is e_d
    path = descend(lambda theta: curvatures * (theta - target), np.zeros(d), [step] * T, noise_std, 5, radius=1.0)
    excess = 0.5 * (curvatures * (path[1:].mean(axis=0) - target) ** 2).sum(axis=1) - 0.5 * 2.0 * 0.25
    bound = smooth_average_iterate(distance=1.0, smoothness=2.0, d=d, noise_std=noise_std, iterations=T, step=step)
    assert bound.parts["privacy"] == pytest.approx(step * d * noise_std**2)
    assert_holds(excess, bound.value, within=40)


def test_strongly_convex_last_iterate_is_attained_by_an_isotropic_quadratic() -> None:
    d, T, step, noise_std, curvature = 15, 12, 0.3, 0.4, 1.5
    target = np.ones(d) / math.sqrt(d)
    path = descend(lambda theta: curvature * (theta - target), np.zeros(d), [step] * T, noise_std, 6)
    excess = 0.5 * curvature * ((path[-1] - target) ** 2).sum(axis=1)
    problem = {"distance": 1.0, "d": d, "noise_std": noise_std, "iterations": T, "step": step}
    bound = strongly_convex_last_iterate(strong_convexity=curvature, smoothness=curvature, **problem)
    assert excess.mean() == pytest.approx(bound.value, abs=4 * excess.std() / math.sqrt(RUNS))
    weaker = strongly_convex_last_iterate(strong_convexity=0.5, smoothness=2.0, **problem)
    assert weaker.value > bound.value


def test_strongly_convex_last_iterate_under_an_active_constraint() -> None:
    d, T, step, noise_std = 5, 40, 0.5, 0.2
    target = np.zeros(d)
    target[0] = 1.5  # outside the unit ball, so the constrained minimiser is e_0
    path = descend(lambda theta: theta - target, np.zeros(d), [step] * T, noise_std, 7, radius=1.0)
    excess = 0.5 * ((path[-1] - target) ** 2).sum(axis=1) - 0.5 * 0.25
    bound = strongly_convex_last_iterate(
        distance=1.0,
        strong_convexity=1.0,
        smoothness=1.0,
        d=d,
        noise_std=noise_std,
        iterations=T,
        step=step,
        lipschitz=2.5,
    )
    assert_holds(excess, bound.value, within=60)


@pytest.mark.parametrize("d", [5, 400])
def test_rank_bound_does_not_grow_with_the_dimension(d: int) -> None:
    rank, n, T, noise_std = 3, 60, 100, 0.3
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(n, rank)) @ np.linalg.qr(rng.normal(size=(d, rank)))[0].T
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = rows.T @ rng.normal(size=n)
    target /= np.linalg.norm(target)
    scores = rows @ target

    def value(theta: np.ndarray) -> np.ndarray:
        return np.abs(theta @ rows.T - scores).mean(axis=1)

    def gradient(theta: np.ndarray) -> np.ndarray:
        return np.sign(theta @ rows.T - scores) @ rows / n

    step = best_step(distance=1.0, lipschitz=1.0, d=rank, noise_std=noise_std, iterations=T)
    path = descend(gradient, np.zeros(d), [step] * T, noise_std, 9)
    problem = {"distance": 1.0, "lipschitz": 1.0, "noise_std": noise_std, "iterations": T, "step": step}
    bound = rank_bound(rank=rank, domain=WholeSpace(), **problem)
    assert_holds(value(path[:-1].mean(axis=0)), bound.value, within=8)
    assert average_iterate(d=400, **problem).value > 3 * bound.value


def test_sampled_gradients() -> None:
    """Poisson sampling: the second moment of the sampled gradient is below its bound, and near it for equal rows."""
    rng = np.random.default_rng(10)
    n, rate = 50, 0.1
    rows = np.tile(np.asarray([0.6, 0.8]), (n, 1))
    kept = rng.random((40_000, n)) < rate
    squares = ((kept @ rows / (rate * n)) ** 2).sum(axis=1)
    bound = sampled_gradient_bound(1.0, n, rate) ** 2
    assert squares.mean() == pytest.approx(bound, abs=4 * squares.std() / math.sqrt(len(squares)))
    assert sampled_gradient_bound(2.0, n, 1.0) == 2.0


def test_rate_has_the_textbook_shape() -> None:
    """R·Δ√(d/(2ρ))/n as T grows: for small ε that is √2·Δ·R√(d ln(1/δ))/(εn) up to a vanishing share of ε."""
    n, d, epsilon, delta = 10_000, 20, 0.1, 1e-6
    rho = zcdp_budget(epsilon, delta)
    for adjacency, sensitivity in (("replace-one", 2.0), ("add-remove", 1.0)):
        bound = gradient_descent_rate(
            n=n, d=d, distance=1.0, lipschitz=1.0, rho=rho, adjacency=adjacency, iterations=10**9
        )
        textbook = math.sqrt(d * math.log(1 / delta)) / (epsilon * n)
        assert bound.value == pytest.approx(math.sqrt(2) * sensitivity * textbook, rel=0.01)
    few = gradient_descent_rate(n=n, d=d, distance=1, lipschitz=1, rho=rho, adjacency="add-remove", iterations=10)
    assert few.value > 1 / math.sqrt(10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: average_iterate(**COMMON, step=0.1, convex=False),
        lambda: average_iterate(**COMMON, step=0.0),
        lambda: average_iterate(**COMMON | {"noise_std": -1.0}, step=0.1),
        lambda: average_iterate(**COMMON | {"d": 0}, step=0.1),
        lambda: average_iterate(**COMMON | {"iterations": 2.5}, step=0.1),
        lambda: average_iterate(**COMMON | {"distance": math.inf}, step=0.1),
        lambda: last_iterate(**COMMON, step=0.1, convex=False),
        lambda: suffix_average(**COMMON, step=0.1, suffix=52),
        lambda: suffix_average(**COMMON, step=0.1, suffix=0),
        lambda: last_iterate_decaying(diameter=1, lipschitz=1, d=2, noise_std=0, steps=[]),
        lambda: last_iterate_decaying(diameter=1, lipschitz=1, d=2, noise_std=0, steps=[1.0, 2.0]),
        lambda: last_iterate_decaying(diameter=1, lipschitz=1, d=2, noise_std=0, steps=[1.0, 0.0]),
        lambda: last_iterate_decaying(diameter=math.inf, lipschitz=1, d=2, noise_std=0, steps=[1.0]),
        lambda: smooth_average_iterate(distance=1, smoothness=2.0, d=2, noise_std=0, iterations=9, step=0.51),
        lambda: strongly_convex_last_iterate(
            distance=1, strong_convexity=3.0, smoothness=2.0, d=2, noise_std=0, iterations=9, step=0.5
        ),
        lambda: strongly_convex_last_iterate(
            distance=1, strong_convexity=1.0, smoothness=2.0, d=2, noise_std=0, iterations=9, step=1.0
        ),
        lambda: rank_bound(distance=1, lipschitz=1, rank=2, noise_std=0, iterations=9, step=0.5, domain=L2Ball(1.0)),
        lambda: sampled_gradient_bound(1.0, 10, 0.0),
    ],
)
def test_hypotheses_are_checked(make) -> None:
    with pytest.raises(HypothesisViolated):
        make()
