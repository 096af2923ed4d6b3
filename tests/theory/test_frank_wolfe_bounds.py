"""Frank–Wolfe and selection bounds against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry import L1Ball
from discreet.theory import (
    best_frank_wolfe_iterations,
    exponential_mechanism,
    exponential_mechanism_continuous,
    frank_wolfe,
    frank_wolfe_rate,
    glm_curvature,
    selection_gap,
)


@pytest.mark.parametrize("m", [2, 10, 1000])
def test_exponential_mechanism_gap_holds_exactly_and_is_nearly_attained(m: int) -> None:
    """The expectation is a sum, so it is computed, not sampled; one good score among equal ones is the worst case."""
    rng = np.random.default_rng(1)
    scale, worst = 0.3, 0.0
    distances = np.linspace(0, 5, 501)
    candidates = [np.r_[0.0, np.full(m - 1, x)] for x in distances] + list(rng.exponential(size=(200, m)))
    for scores in candidates:
        weights = np.exp(-(scores - scores.min()) / scale)
        worst = max(worst, float(weights @ (scores - scores.min()) / weights.sum()))
    bound = selection_gap(atoms=m, scale=scale)
    assert worst <= bound
    assert worst >= bound * 0.38  # 0.278/ln 2 at m = 2, and towards 1 as m grows
    assert exponential_mechanism(candidates=m, inverse_temperature=1 / scale).value == pytest.approx(bound)


@pytest.mark.parametrize("m", [2, 10, 1000])
def test_laplace_gap(m: int) -> None:
    rng = np.random.default_rng(2)
    scale = 0.3
    means = []
    for x in np.linspace(0, 3, 16):
        scores = np.r_[0.0, np.full(m - 1, x)]
        chosen = (scores + rng.laplace(scale=scale, size=(4000, m))).argmin(axis=1)
        means.append(scores[chosen].mean())
    bound = selection_gap(atoms=m, scale=scale, noise="laplace")
    assert max(means) <= bound
    assert max(means) >= bound / 4


def test_selection_gap_edges() -> None:
    assert selection_gap(atoms=1, scale=5.0) == 0.0
    with pytest.raises(InvalidInput, match="gumbel"):
        selection_gap(atoms=3, scale=1.0, noise="cauchy")  # type: ignore[arg-type]
    with pytest.raises(HypothesisViolated):
        selection_gap(atoms=0, scale=1.0)
    with pytest.raises(HypothesisViolated):
        selection_gap(atoms=3, scale=-1.0)


@pytest.mark.parametrize("scale", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("T", [1, 10, 100])
def test_frank_wolfe_on_the_l1_ball(scale: float, T: int) -> None:
    """Least squares with a target inside the ball, so that the least risk is 0; 60 runs of Gumbel-noisy selection."""
    rng = np.random.default_rng(3)
    n, d, runs = 50, 20, 60
    ball = L1Ball(1.0)
    rows = rng.choice([-1.0, 1.0], size=(n, d))
    target = np.zeros(d)
    target[:2] = 0.6, -0.4
    y = rows @ target
    curvature = glm_curvature(1.0, 1.0, ball.diameter(d, order=1))
    excess = []
    for _ in range(runs):
        theta = np.zeros(d)
        for t in range(T):
            gradient = rows.T @ (rows @ theta - y) / n
            noisy = ball.scores(gradient) + (rng.gumbel(scale=scale, size=2 * d) * -1 if scale else 0.0)
            theta += 2 / (t + 2) * (ball.atom(int(noisy.argmin()), d) - theta)
        excess.append(0.5 * np.mean((rows @ theta - y) ** 2))
    bound = frank_wolfe(curvature=curvature, iterations=T, gap=selection_gap(atoms=2 * d, scale=scale))
    assert np.mean(excess) <= bound.value
    if scale and T > 1:  # without noise an interior target is reached faster than any bound for the class
        assert np.mean(excess) >= bound.value / 60


def test_curvature_constant_is_attained() -> None:
    """Rows of signs and opposite vertices: the loss moves by exactly γ²β(‖x‖∞·diam₁)²/2 beyond its linear part."""
    row, theta, vertex = np.asarray([1.0, -1.0]), np.asarray([1.0, 0.0]), np.asarray([-1.0, 0.0])
    beyond = 0.5 * (row @ (vertex - theta)) ** 2
    assert 2 * beyond == pytest.approx(glm_curvature(1.0, 1.0, 2.0))


def test_rate_balances_optimisation_and_privacy() -> None:
    common = {"atoms": 2000, "curvature": 4.0, "score_bound": 1.0, "rho": 0.01, "adjacency": "replace-one"}
    best = frank_wolfe_rate(n=10_000, **common)
    for T in (1, 3, 30, 300, 3000):
        assert frank_wolfe_rate(n=10_000, iterations=T, **common).value >= best.value - 1e-15
    # A thousand times the rows: the error falls by about 1000^{2/3} = 100.
    assert best.value / frank_wolfe_rate(n=10_000_000, **common).value == pytest.approx(100, rel=0.2)
    halved = frank_wolfe_rate(n=10_000, iterations=30, **common | {"adjacency": "add-remove"})
    assert halved.parts["privacy"] == pytest.approx(
        frank_wolfe_rate(n=10_000, iterations=30, **common).parts["privacy"] / 2
    )


@pytest.mark.parametrize(("curvature", "gap"), [(1.0, 10.0), (4.0, 1e-3), (1.0, 1e-12), (2.0, 0.3)])
def test_best_iterations(curvature: float, gap: float) -> None:
    T = best_frank_wolfe_iterations(curvature, gap)

    def excess(t: int) -> float:
        return 2 * curvature / (t + 2) + gap * math.sqrt(t)

    assert 1 <= T <= 10**6
    others = np.unique(np.geomspace(1, 10**6, 2000).astype(int)).tolist() + [T - 1, T + 1]
    assert excess(T) <= min(excess(t) for t in others if 1 <= t <= 10**6) * (1 + 1e-12)
    assert best_frank_wolfe_iterations(curvature, 0.0) == 10**6


@pytest.mark.parametrize("d", [1, 2, 5])
def test_continuous_exponential_mechanism_is_attained_by_a_cone(d: int) -> None:
    """f = ‖θ‖ on all of ℝ^d gives E f = d/a exactly (a Gamma variable), on a ball less; a quadratic gives half."""
    a = 3.0
    r = np.linspace(1e-9, 30, 400_001)
    for power, radius, ratio in ((1, 30.0, 1.0), (1, 0.5, None), (2, 30.0, 0.5)):
        inside = r[r <= radius]
        density = inside ** (d - 1) * np.exp(-a * inside**power)
        mean = float(np.trapezoid(density * inside**power, inside) / np.trapezoid(density, inside))
        bound = exponential_mechanism_continuous(d=d, inverse_temperature=a).value
        assert mean <= bound * (1 + 1e-6)
        if ratio is not None:
            assert mean == pytest.approx(ratio * bound, rel=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        lambda: frank_wolfe(curvature=1.0, iterations=5, gap=0.1, convex=False),
        lambda: frank_wolfe(curvature=0.0, iterations=5, gap=0.1),
        lambda: frank_wolfe(curvature=1.0, iterations=0, gap=0.1),
        lambda: frank_wolfe(curvature=1.0, iterations=5, gap=-0.1),
        lambda: exponential_mechanism(candidates=0, inverse_temperature=1.0),
        lambda: exponential_mechanism(candidates=3, inverse_temperature=0.0),
        lambda: exponential_mechanism_continuous(d=3, inverse_temperature=1.0, convex=False),
        lambda: glm_curvature(1.0, 0.0, 1.0),
    ],
)
def test_hypotheses_are_checked(make) -> None:
    with pytest.raises(HypothesisViolated):
        make()
