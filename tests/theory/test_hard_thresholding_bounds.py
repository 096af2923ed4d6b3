"""Iterative hard thresholding: the expansion factor by search, the error bound by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.errors import HypothesisViolated
from discreet.geometry import SparseSet
from discreet.theory import (
    contraction_factor,
    excess_risk,
    hard_thresholding,
    hard_thresholding_by_peeling,
    thresholding_expansion,
    top_exponential,
    top_gaussian,
)


@pytest.mark.parametrize(("s", "target", "d"), [(1, 1, 2), (2, 2, 6), (4, 2, 10), (5, 1, 6), (9, 1, 10), (3, 3, 3)])
def test_expansion_holds_and_is_attained(s: int, target: int, d: int) -> None:
    rng = np.random.default_rng(1)
    factor = thresholding_expansion(s, target, d)
    worst, domain = 0.0, SparseSet(s)
    for _ in range(3000):
        x = np.zeros(d)
        x[rng.permutation(d)[:target]] = rng.normal(size=target) * 3
        b = x + rng.normal(size=d)
        worst = max(worst, float(np.linalg.norm(domain.project(b) - x) / np.linalg.norm(b - x)))
    assert worst <= factor * (1 + 1e-12)
    # The worst case: m entries of the target, w apart from a level that s − s* + m decoys just reach.
    m = min(target, d - s)
    if m:
        r = m / (s - target + m)
        w = (math.sqrt(r) + math.sqrt(r + 4)) / 2
        x, b = np.zeros(d), np.zeros(d)
        decoys = s - target + m
        b[:decoys] = 1 / math.sqrt(decoys) * (1 + 1e-9)
        b[decoys : decoys + m] = 1 / math.sqrt(decoys)
        x[decoys : decoys + m] = w / math.sqrt(m)
        shared = slice(decoys + m, decoys + m + target - m)
        x[shared] = b[shared] = 100.0
        attained = np.linalg.norm(domain.project(b) - x) / np.linalg.norm(b - x)
        assert attained == pytest.approx(factor, rel=1e-6)
    else:
        assert factor == 1.0


@pytest.mark.parametrize(("k", "d"), [(1, 10), (5, 100), (30, 10_000), (7, 7)])
def test_top_entries_of_noise(k: int, d: int) -> None:
    rng = np.random.default_rng(2)
    runs = 400
    squares = np.sort(rng.standard_normal((runs, d)) ** 2, axis=1)[:, -k:].sum(axis=1)
    measured, slack = squares.mean(), 4 * squares.std() / math.sqrt(runs)
    assert measured <= top_gaussian(k, d) ** 2 + slack
    assert top_gaussian(k, d) ** 2 <= 1.15 * measured + slack
    exponentials = (np.sort(rng.exponential(size=(runs, d)), axis=1)[:, -k:] ** 2).sum(axis=1)
    assert top_exponential(k, d) ** 2 == pytest.approx(
        exponentials.mean(), abs=4.5 * exponentials.std() / math.sqrt(runs)
    )


PROBLEM = {"s": 12, "target_sparsity": 3, "d": 200, "strong_convexity": 1.0, "smoothness": 1.5, "step": 0.8}


def run_thresholding(
    release, T: int, gradient_at_target: np.ndarray | float = 0.0, runs: int = 60
) -> tuple[float, float]:
    """Root mean square distance and mean excess risk; a diagonal Hessian in [1, 1.5] makes all constants exact."""
    rng = np.random.default_rng(3)
    d = PROBLEM["d"]
    hessian = rng.uniform(1.0, 1.5, size=d)
    target = np.zeros(d)
    target[:3] = 1.0, -1.0, 0.5
    squares, excess = [], []
    for _ in range(runs):
        theta = np.zeros(d)
        for _ in range(T):
            theta = release(theta - PROBLEM["step"] * (hessian * (theta - target) + gradient_at_target), rng)
        squares.append(((theta - target) ** 2).sum())
        excess.append((gradient_at_target * (theta - target)).sum() + 0.5 * (hessian * (theta - target) ** 2).sum())
    return math.sqrt(np.mean(squares)), float(np.mean(excess))


@pytest.mark.parametrize("noise_std", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("T", [1, 25])
def test_noisy_hard_thresholding(noise_std: float, T: int) -> None:
    domain, step = SparseSet(12), PROBLEM["step"]
    drift = np.where(np.arange(200) % 7 == 0, 0.02, 0.0)
    at_target = 0.02 * math.sqrt(27)  # the norm of its 27 = 2s + s* largest entries
    measured, excess = run_thresholding(
        lambda v, rng: domain.project(v - step * noise_std * rng.standard_normal(200)), T, drift
    )
    bound = hard_thresholding(distance=1.5, iterations=T, noise_std=noise_std, gradient_at_target=at_target, **PROBLEM)
    assert measured <= bound.value
    assert measured >= bound.value / 15
    risk = excess_risk(bound, smoothness=1.5, gradient_at_target=at_target)
    assert excess <= risk.value


@pytest.mark.parametrize("law", ["gumbel", "laplace"])
def test_hard_thresholding_by_peeling(law: str) -> None:
    T, b, tau, s = 25, 0.01, 0.02, 12

    def peel(v: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = rng.gumbel(scale=b, size=200) if law == "gumbel" else rng.laplace(scale=b, size=200)
        kept = np.argsort(-(np.abs(v) + noise))[:s]
        out = np.zeros(200)
        out[kept] = v[kept] + tau * rng.standard_normal(s)
        return out

    measured, _ = run_thresholding(peel, T)
    bound = hard_thresholding_by_peeling(distance=1.5, iterations=T, selection_scale=b, value_noise_std=tau, **PROBLEM)
    assert measured <= bound.value
    assert measured >= bound.value / 40
    assert set(bound.parts) == {"start", "statistics", "selection", "values"}


def test_bound_without_noise_vanishes_geometrically() -> None:
    q = contraction_factor(**PROBLEM)
    assert q == pytest.approx(thresholding_expansion(12, 3, 200) * 0.2)
    bound = hard_thresholding(distance=1.5, iterations=30, noise_std=0.0, **PROBLEM)
    assert bound.value == pytest.approx(1.5 * q**30)


@pytest.mark.parametrize(
    "changes",
    [
        {"s": 2},  # denser target than s
        {"s": 300},
        {"strong_convexity": 0.05, "s": 3},  # thresholding expands more than a step shrinks
        {"strong_convexity": 2.0},
        {"step": 2.0},
        {"step": -0.1},
    ],
)
def test_hypotheses_are_checked(changes: dict) -> None:
    with pytest.raises(HypothesisViolated):
        hard_thresholding(distance=1.0, iterations=5, noise_std=0.1, **PROBLEM | changes)
    with pytest.raises(HypothesisViolated):
        hard_thresholding_by_peeling(
            distance=1.0, iterations=5, selection_scale=0.1, value_noise_std=0.1, **PROBLEM | changes
        )
