"""Sparse gradients: upper bounds by simulation, lower bounds by counting, and the two against each other."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet.accounting import calibrate
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import Gaussian
from discreet.geometry import L1Ball
from discreet.theory import (
    gaussian_noise_std,
    log_packing,
    sparse_descent_gaussian,
    sparse_descent_pure,
    sparse_erm_gaussian,
    sparse_erm_lower_bound,
    sparse_mean_gaussian,
    sparse_mean_laplace,
    sparse_mean_lower_bound,
    sparse_stationarity,
    zcdp_budget,
)
from discreet.theory.bound import harmonic
from discreet.theory.fingerprinting import fingerprinted
from discreet.units import Unit


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("n", [100, 100_000])
def test_projection_mechanism(law: str, n: int) -> None:
    """Means at the centre, at a sparse point of the boundary, and spread out: none above the bound, one near it."""
    rng = np.random.default_rng(1)
    d, s, epsilon, runs = 500, 4, 1.0, 100
    ball = L1Ball(math.sqrt(s))
    if law == "laplace":
        scale = 2 * math.sqrt(s) / (n * epsilon)
        bound = sparse_mean_laplace(n=n, d=d, s=s, bound=1.0, epsilon=epsilon, adjacency="replace-one").value
    else:
        scale = gaussian_noise_std(1.0, n, 0.05, "replace-one")
        bound = sparse_mean_gaussian(d=d, s=s, bound=1.0, noise_std=scale).value
    worst = 0.0
    for mean in (np.zeros(d), np.r_[np.full(s, 0.5), np.zeros(d - s)], np.r_[np.full(d, 2 / d)]):
        draws = rng.laplace(scale=scale, size=(runs, d)) if law == "laplace" else scale * rng.standard_normal((runs, d))
        errors = [((ball.project(mean + xi) - mean) ** 2).sum() for xi in draws]
        # Four standard errors: far from the boundary the bound is the noise's own length, which is attained.
        assert np.mean(errors) <= bound**2 + 4 * np.std(errors) / math.sqrt(runs)
        worst = max(worst, math.sqrt(np.mean(errors)))
    assert worst >= bound / 4


@pytest.mark.parametrize(("d", "s"), [(6, 1), (7, 2), (8, 3), (9, 4), (4, 4)])
def test_packing_exists(d: int, s: int) -> None:
    """A greedy family of s-subsets, pairwise at Hamming distance ≥ s, is at least as large as claimed."""
    family: list[set[int]] = []
    for subset in map(set, itertools.combinations(range(d), s)):
        if all(len(subset ^ other) >= s for other in family):
            family.append(subset)
    assert math.exp(log_packing(d, s)) <= len(family) * (1 + 1e-9)
    if s == 1:
        assert math.exp(log_packing(d, s)) == pytest.approx(d)


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(("d", "s"), [(50, 50), (1000, 1), (1000, 10), (10**6, 20)])
def test_lower_bounds_stay_below_upper_bounds(adjacency: str, epsilon: float, d: int, s: int) -> None:
    for n in (10, 1000, 100_000):
        common = {"n": n, "d": d, "s": s, "bound": 2.0, "epsilon": epsilon, "adjacency": adjacency}
        lower = sparse_mean_lower_bound(**common)
        upper = min(sparse_mean_laplace(**common).value, 2.0)  # answering 0 is always possible
        assert 0 < lower.value <= upper
        # The two agree up to a logarithm and a constant in the regime n·ε ≫ s·ln d.
        if n * epsilon > 100 * s * math.log(d) and d >= 1000:
            assert upper / lower.value < 60
        excess = sparse_erm_lower_bound(**common, radius=3.0).value
        assert 0 < excess <= 2.0 * 3.0


def test_lower_bound_stays_below_a_mechanism_that_knows_the_hard_family() -> None:
    """For s = 1: K blocks, each with k copies of e_i, i uniform among the d/K coordinates of the block.

    Guessing each block's i by the exponential mechanism (disjoint rows, so ε-DP altogether) is right with probability
    e^{kε}/(e^{kε} + d/K − 1), and a wrong guess is √2·k/n away. The bound comes from one such family, so it cannot
    exceed the largest of these errors; the construction gives away a factor of √8 and little more.
    """
    n, d, epsilon = 300, 4096, 0.5
    claimed = sparse_mean_lower_bound(n=n, d=d, s=1, bound=1.0, epsilon=epsilon, adjacency="replace-one").value
    best = 0.0
    for blocks in range(1, n + 1):
        k = np.arange(1, n // blocks + 1)
        hit = 1 / (1 + (d // blocks - 1) * np.exp(-k * epsilon))
        best = max(best, float(np.sqrt(blocks * (1 - hit) * 2 * (k / n) ** 2).max()))
    assert claimed <= best
    assert claimed >= best / 5


def test_lower_bounds_move_the_right_way() -> None:
    base = {"n": 10_000, "d": 10_000, "s": 8, "bound": 1.0, "epsilon": 0.5, "adjacency": "replace-one"}
    value = sparse_mean_lower_bound(**base).value
    assert sparse_mean_lower_bound(**base | {"n": 40_000}).value < value
    assert sparse_mean_lower_bound(**base | {"epsilon": 1.0}).value < value
    assert sparse_mean_lower_bound(**base | {"s": 16}).value > value
    assert sparse_mean_lower_bound(**base | {"adjacency": "add-remove"}).value < value
    assert sparse_mean_lower_bound(**base, delta=1e-6).value < value
    assert sparse_mean_lower_bound(**base, delta=1e-12).value > sparse_mean_lower_bound(**base, delta=1e-6).value
    assert sparse_mean_lower_bound(**base | {"bound": 2.0}).value == pytest.approx(2 * value)
    # Few dimensions: √(sd)/(εn), so four times the rows quarter the error; many: √(s ln d/(εn)), so they halve it.
    assert value / sparse_mean_lower_bound(**base | {"n": 40_000}).value == pytest.approx(4, rel=0.1)
    many = [sparse_mean_lower_bound(**base | {"d": 10**9, "n": n}).value for n in (10_000, 40_000)]
    assert many[0] / many[1] == pytest.approx(2, rel=0.1)


def test_approximate_lower_bound_stays_below_the_gaussian_upper_bound() -> None:
    for n in (100, 10_000, 1_000_000):
        epsilon, delta, d, s = 1.0, 1e-8, 100_000, 16
        lower = sparse_mean_lower_bound(
            n=n, d=d, s=s, bound=1.0, epsilon=epsilon, delta=delta, adjacency="replace-one"
        ).value
        noise_std = gaussian_noise_std(1.0, n, zcdp_budget(epsilon, delta), "replace-one")
        upper = sparse_mean_gaussian(d=d, s=s, bound=1.0, noise_std=noise_std).value
        assert 0 < lower < upper


def test_pure_descent_on_a_sparse_problem() -> None:
    """𝓛 = mean_i |θ_i − c_i|: rows with 1-sparse gradients, run with the projected Laplace gradients themselves."""
    rng = np.random.default_rng(2)
    d, n, epsilon, T, diameter = 50, 200_000, 1.0, 20, 2.0
    centre = np.zeros(d)
    centre[:5] = 0.4
    ball = L1Ball(1.0)
    bound = sparse_descent_pure(
        n=n, d=d, s=1, bound=1.0, epsilon=epsilon, adjacency="replace-one", diameter=diameter, iterations=T
    )
    error = sparse_mean_laplace(n=n, d=d, s=1, bound=1.0, epsilon=epsilon / T, adjacency="replace-one").value
    step = diameter / ((1 + error) * math.sqrt(T))
    excess = []
    for _ in range(50):
        theta, total = np.zeros(d), np.zeros(d)
        for _ in range(T):
            total += theta
            noisy = np.sign(theta - centre) / d + rng.laplace(scale=2 * T / (n * epsilon), size=d)
            theta = theta - step * ball.project(noisy)
            theta /= max(1.0, np.linalg.norm(theta))
        excess.append(np.abs(total / T - centre).mean())
    assert np.mean(excess) <= bound.value
    assert bound.value < 1.0


def test_gaussian_descent_on_a_sparse_problem() -> None:
    """The same problem with projected Gaussian gradients, ρ/T a step."""
    rng = np.random.default_rng(4)
    d, n, rho, T, diameter = 50, 20_000, 0.05, 20, 2.0
    centre = np.zeros(d)
    centre[:5] = 0.4
    common = {"n": n, "d": d, "s": 1, "bound": 1.0, "adjacency": "replace-one"}
    bound = sparse_descent_gaussian(**common, rho=rho, diameter=diameter, iterations=T)
    noise_std = gaussian_noise_std(1.0, n, rho, "replace-one", T)
    error = sparse_mean_gaussian(d=d, s=1, bound=1.0, noise_std=noise_std).value
    assert dict(bound.parts) == {"optimisation": diameter * (1 + error) / math.sqrt(T), "bias": diameter * error}
    step = diameter / ((1 + error) * math.sqrt(T))
    excess = []
    for _ in range(50):
        theta, total = np.zeros(d), np.zeros(d)
        for _ in range(T):
            total += theta
            noisy = np.sign(theta - centre) / d + noise_std * rng.standard_normal(d)
            theta = theta - step * L1Ball(1.0).project(noisy)
            theta /= max(1.0, np.linalg.norm(theta))
        excess.append(np.abs(total / T - centre).mean())
    assert np.mean(excess) <= bound.value


def test_stationarity() -> None:
    """A non-convex sum of 1 − cos: the mean squared gradient over the run is below its bound."""
    rng = np.random.default_rng(3)
    d, n, rho, T = 200, 50_000, 0.5, 40
    start = np.linspace(0.5, 2.5, d)
    noise_std = gaussian_noise_std(1.0, n, rho, "add-remove", T)
    ball = L1Ball(1.0)
    smoothness = 1 / d
    squares = []
    for _ in range(30):
        theta = start.copy()
        for _ in range(T):
            gradient = np.sin(theta) / d
            squares.append(float(gradient @ gradient))
            theta -= ball.project(gradient + noise_std * rng.standard_normal(d)) / smoothness
    bound = sparse_stationarity(
        n=n,
        d=d,
        s=1,
        bound=1.0,
        rho=rho,
        adjacency="add-remove",
        smoothness=smoothness,
        initial_gap=float(np.mean(1 - np.cos(start))),
        iterations=T,
    )
    assert np.mean(squares) <= bound.value
    assert np.mean(squares) >= bound.value / 40


def test_budget_arithmetic() -> None:
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-9), (50.0, 1e-3), (1e-9, 1e-5)):
        rho = zcdp_budget(epsilon, delta)
        assert rho + 2 * math.sqrt(rho * math.log(1 / delta)) == pytest.approx(epsilon, rel=1e-12)
    assert gaussian_noise_std(1.5, 10, 0.5, "replace-one", 4) == pytest.approx(2 * 1.5 / 10 * 2)
    assert gaussian_noise_std(1.5, 10, 0.5, Unit("add-remove", rows_per_unit=3)) == pytest.approx(4.5 / 10)
    for bad in ((0.0, 1e-6), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1)):
        with pytest.raises(InvalidInput):
            zcdp_budget(*bad)


@pytest.mark.parametrize(
    "changes",
    [{"n": 0}, {"s": 0}, {"bound": 0.0}, {"epsilon": 0.0}, {"delta": 1.0}, {"adjacency": Unit("add-remove", 2)}],
)
def test_hypotheses_are_checked(changes: dict) -> None:
    base = {"n": 100, "d": 50, "s": 2, "bound": 1.0, "epsilon": 1.0, "delta": 0.0, "adjacency": "add-remove"}
    with pytest.raises(HypothesisViolated):
        sparse_mean_lower_bound(**base | changes)


def test_the_approximate_lower_bound_grows_like_the_fourth_root_of_s() -> None:
    """Where blocks are plenty: 2^8 times the entries, 4 times the error; below the mechanism's upper bound."""
    n, d, delta = 10**8, 10**14, 1e-8
    args = {"n": n, "d": d, "bound": 1.0, "epsilon": 1.0, "delta": delta, "adjacency": "replace-one"}
    means = [sparse_mean_lower_bound(s=s, **args).value for s in (2**10, 2**18)]
    risks = [sparse_erm_lower_bound(s=s, radius=1.0, **args).value for s in (2**10, 2**18)]
    for low, high in (means, risks):
        assert 3.3 < high / low < 4.3
    rho = zcdp_budget(1.0, delta)
    noise_std = gaussian_noise_std(1.0, n, rho, "replace-one")
    for s, mean, risk in zip((2**10, 2**18), means, risks, strict=True):
        assert mean < sparse_mean_gaussian(d=d, s=s, bound=1.0, noise_std=noise_std).value
        upper = sparse_erm_gaussian(n=n, d=d, s=s, bound=1.0, rho=rho, adjacency="replace-one", radius=1.0).value
        assert risk < upper


def test_fingerprinting_holds_for_the_gaussian_mechanism_in_one_block() -> None:
    """m rows of ±1 in s coordinates, projected on the cube, under the noise of (1, 1e-3)-DP: the error is above."""
    rng, m, s, delta = np.random.default_rng(0), 6, 400, 1e-3
    noise = calibrate(Gaussian, 1.0, delta, "replace-one") * math.sqrt(s)
    errors = []
    for _ in range(300):
        p = rng.uniform(-1, 1, s)
        rows = np.where(rng.random((m, s)) < (1 + p) / 2, 1.0, -1.0)
        answer = np.clip(rows.mean(axis=0) + noise / m * rng.normal(size=s), -1, 1)
        errors.append(np.sum((answer - rows.mean(axis=0)) ** 2))
    proved, _ = fingerprinted(n=m, d=s, s=s, bound=math.sqrt(s), epsilon=1.0, delta=delta, adjacency="replace-one")
    assert 0.2 * s < proved <= np.mean(errors)


def test_a_harmonic_number_of_a_hundred_million_terms_is_a_closed_form() -> None:
    exact = math.fsum(1.0 / k for k in range(1, 5001))
    assert exact <= harmonic(5000) < exact + 1 / (8 * 5000**2)
    assert harmonic(10**8) == pytest.approx(18.99789641385390, rel=1e-12)


def test_bounds_are_capped_at_the_trivial_one() -> None:
    hopeless = {"n": 10, "d": 10**6, "s": 100, "bound": 2.0, "adjacency": "replace-one"}
    assert sparse_mean_laplace(epsilon=1e-3, **hopeless).value == 4.0
    assert sparse_mean_gaussian(d=10**6, s=100, bound=2.0, noise_std=50.0).value == 4.0
    for bound in (
        sparse_descent_pure(epsilon=1e-3, diameter=3.0, iterations=10, **hopeless),
        sparse_descent_gaussian(rho=1e-6, diameter=3.0, iterations=10, **hopeless),
        sparse_erm_gaussian(rho=1e-6, radius=1.5, **hopeless),
    ):
        assert bound.value == 6.0
        assert dict(bound.parts) == {"trivial": 6.0}
    fine = sparse_erm_gaussian(n=10**9, d=100, s=2, bound=1.0, rho=1.0, adjacency="replace-one", radius=1.0)
    assert set(fine.parts) == {"regularisation", "privacy"}


def test_one_release_of_the_minimiser_falls_like_the_root_of_n_where_descent_falls_like_the_cube_root() -> None:
    args = {"d": 10**15, "s": 50, "bound": 1.0, "rho": 0.01, "adjacency": "replace-one"}
    sizes = (10**8, 10**11)

    def descent(n: int) -> float:
        return min(sparse_descent_gaussian(n=n, diameter=2.0, iterations=2**j, **args).value for j in range(40))

    exponents = [
        math.log(of(sizes[1]) / of(sizes[0])) / math.log(sizes[1] / sizes[0])
        for of in (lambda n: sparse_erm_gaussian(n=n, radius=1.0, **args).value, descent)
    ]
    assert exponents == pytest.approx([-1 / 2, -1 / 3], abs=0.03)
