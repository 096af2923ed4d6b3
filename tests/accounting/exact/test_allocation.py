"""Random allocation: certified intervals against quadrature, simulation and adaptive attacks, and its finite laws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from discreet.accounting import calibrate, delta, epsilon
from discreet.accounting.exact.allocation import allocation_pairs
from discreet.accounting.exact.pairs import DiscretePair
from discreet.accounting.exact.positive_sums import FiniteLaw, Resolution, merge, spread
from discreet.errors import NotCertifiable
from discreet.events import Allocation, Compose, Gaussian, Laplace, NonPrivate, Poisson, PureDP, Repeat
from discreet.units import Unit

Array = NDArray[Any]
ADD = "add-remove"
TIMES = np.linspace(-10.0, 10.0, 801)
WEIGHTS = np.exp(-(TIMES**2) / 2) * (TIMES[1] - TIMES[0]) / math.sqrt(2 * math.pi)  # the trapezoid rule, to 1e-8 here


def lognormal(z: Array, nu: float | Array) -> Array:
    return np.exp(nu * z - np.square(nu) / 2)


def call(strike: Array, nu: float | Array) -> Array:
    """E(X − strike)₊ for a log-normal X of mean 1."""
    nu = np.maximum(np.asarray(nu, dtype=float), 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (nu * nu / 2 - np.log(np.maximum(strike, 1e-300))) / nu
    return np.where(strike <= 0, 1 - strike, ndtr(d) - strike * ndtr(d - nu))


def put(strike: Array, nu: float | Array) -> Array:
    """E(strike − X)₊."""
    nu = np.maximum(np.asarray(nu, dtype=float), 1e-12)
    with np.errstate(divide="ignore", invalid="ignore"):
        d = (np.log(np.maximum(strike, 1e-300)) + nu * nu / 2) / nu
    return np.where(strike <= 0, 0.0, strike * ndtr(d) - ndtr(d - nu))


def by_quadrature(nu: float, batches: int, level: float) -> tuple[float, float]:
    """δ of two or three batches when the row is removed and added: all terms but the last are integrated over."""
    others = lognormal(TIMES, nu)
    weights = WEIGHTS
    for _ in range(batches - 2):
        others = np.add.outer(others, lognormal(TIMES, nu)).ravel()
        weights = np.multiply.outer(weights, WEIGHTS).ravel()
    alpha = math.exp(level)
    removed = weights @ call(batches * alpha - others, nu) / batches
    added = weights @ put(batches / alpha - others, nu) * alpha / batches
    return float(removed), float(added)


@pytest.mark.parametrize(("sigma", "batches"), [(1.0, 2), (0.5, 2), (4.0, 2), (1.0, 3), (0.6, 3)])
def test_few_batches_agree_with_quadrature(sigma: float, batches: int) -> None:
    for level in (0.0, 0.3 / sigma, 1 / sigma, 2.5 / sigma):
        removed, added = by_quadrature(1 / sigma, batches, level)
        for pair, truth in zip(allocation_pairs(1 / sigma, batches), (removed, added), strict=True):
            upper, lower = pair.profile(np.array([level]))[0], pair.attained.profile(np.array([level]))[0]  # type: ignore[union-attr]
            assert lower <= truth * (1 + 1e-7)
            assert upper >= truth * (1 - 1e-7)
            assert upper - lower <= 5e-3 * truth + 1e-12
        found = delta(Allocation(batches, Gaussian(sigma)), level, ADD)
        assert found.lower <= max(removed, added) * (1 + 1e-7)
        assert found.upper >= max(removed, added) * (1 - 1e-7)


@pytest.mark.parametrize(("sigma", "batches", "level", "move"), [(1.0, 100, 0.6, 4.5), (0.6, 1000, 1.5, 5.7)])
def test_many_batches_agree_with_simulation(sigma: float, batches: int, level: float, move: float) -> None:
    """δ = E_Q(M − e^ε)₊, one coordinate at random moved by ``move`` deviations; an interval that errs once in 1e9."""
    nu, rng = 1 / sigma, np.random.default_rng(5)
    values = []
    for _ in range(8000 // batches):
        z = rng.standard_normal((2000, batches))
        z[np.arange(2000), rng.integers(batches, size=2000)] += move
        weight = lognormal(z, move).mean(axis=1)
        values.append(np.maximum(lognormal(z, nu).mean(axis=1) - math.exp(level), 0.0) / weight)
    found = np.concatenate(values)
    error = -ndtri(5e-10) * found.std() / math.sqrt(len(found))
    pair = allocation_pairs(nu, batches)[0]
    assert pair.profile(np.array([level]))[0] >= found.mean() - error
    assert pair.attained.profile(np.array([level]))[0] <= found.mean() + error  # type: ignore[union-attr]
    assert 0 < error < 0.15 * found.mean()


@pytest.mark.parametrize(
    ("sigma", "batches", "epochs", "low", "high"),
    [(1.0, 100, 1, 0.848, 0.868), (0.8, 100, 10, 3.33, 3.54), (0.6, 1000, 1, 2.06, 2.09)],
)
def test_intervals_lie_within_those_of_rounding_up_and_down(
    sigma: float, batches: int, epochs: int, low: float, high: float
) -> None:
    """Every sum of the same log-normal terms rounded up or down on one geometric grid, of spacing 0.002."""
    found = epsilon(Repeat(Allocation(batches, Gaussian(sigma)), epochs), 1e-6, ADD)
    assert low < found.lower <= found.upper < high
    assert found.upper - found.lower < 5e-3 * found.upper
    assert found.upper < epsilon(Repeat(Poisson(1 / batches, Gaussian(sigma)), batches * epochs), 1e-6, ADD).lower


@pytest.mark.parametrize("unit", [Unit(ADD), Unit(ADD, 3), Unit("replace-one"), Unit("replace-one", 2)], ids=str)
def test_one_batch_is_the_event_itself_and_more_batches_never_cost_more(unit: Unit) -> None:
    alone = epsilon(Gaussian(1.5), 1e-5, unit)
    assert epsilon(Allocation(1, Gaussian(1.5)), 1e-5, unit) == alone
    before = alone.upper
    for batches in (2, 9):
        found = epsilon(Allocation(batches, Gaussian(1.5)), 1e-5, unit)
        assert found.lower <= found.upper <= before
        before = found.upper


def test_epochs_beside_other_releases_compose() -> None:
    parts = [
        Repeat(Allocation(50, Gaussian(2.0)), 4),
        Gaussian(5.0),
        Laplace(10.0),
        Repeat(Poisson(0.02, Gaussian(3.0)), 50),
    ]
    together = epsilon(Compose(parts), 1e-6, ADD)
    assert together.upper - together.lower < 1e-2 * together.upper
    assert max(epsilon(part, 1e-6, ADD).lower for part in parts) < together.lower
    assert together.upper < sum(epsilon(part, 0.25e-6, ADD).upper for part in parts)


def test_a_batch_of_several_releases_is_one_of_their_total() -> None:
    several = epsilon(Allocation(40, Repeat(Gaussian(2.0), 4)), 1e-6, ADD)
    assert several == epsilon(Allocation(40, Gaussian(1.0)), 1e-6, ADD)


def replaced_by_quadrature(nu: float, level: float) -> float:
    """δ of two batches when a row is replaced by its opposite: E(W₁ + W₂)₊/2, W₂ in closed form given W₁."""
    alpha = math.exp(level)
    first = (lognormal(TIMES, nu) - alpha * lognormal(-TIMES, nu)) * math.exp(nu * nu / 2)
    root = np.sqrt(first**2 + 4 * alpha)
    positive = np.where(first > 0, 2 * alpha / (first + root), (root - first) / 2)  # e^{νz} where W₁ + W₂ = 0
    z = np.log(positive) / nu
    inner = ndtr(nu - z) - alpha * ndtr(-nu - z) + first * math.exp(-nu * nu / 2) * ndtr(-z)
    return float(WEIGHTS @ inner) / 2


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_two_batches_of_a_replaced_row_agree_with_quadrature(sigma: float) -> None:
    for level in (0.0, 0.7 / sigma, 2 / sigma, 5 / sigma):
        truth = replaced_by_quadrature(1 / sigma, level)
        found = delta(Allocation(2, Gaussian(sigma)), level, "replace-one")
        assert found.lower <= truth * (1 + 1e-7)
        assert found.upper >= truth * (1 - 1e-7)
        assert found.upper - found.lower < 0.01 * truth


def test_one_epoch_of_a_replaced_row_is_known_closely_and_noise_is_found_for_it() -> None:
    found = epsilon(Allocation(100, Gaussian(1.0)), 1e-6, "replace-one")
    assert found.upper - found.lower < 0.002 * found.upper
    noise = calibrate(lambda sigma: Allocation(100, Gaussian(sigma)), found.upper, 1e-6, "replace-one")
    assert epsilon(Allocation(100, Gaussian(noise)), 1e-6, "replace-one").upper <= found.upper
    assert 0.999 < noise < 1.001


def test_many_batches_of_a_replaced_row_agree_with_simulation() -> None:
    """δ = E_Q(P/Q − e^ε)₊ on 40 000 draws of P by its coordinate; an interval that errs once in 1e9."""
    nu, batches, level, rng = 1.0, 24, 0.8, np.random.default_rng(6)
    values = []
    for _ in range(40):
        z = rng.standard_normal((1000, batches))
        z[:, 0] += nu
        ratio = lognormal(z, nu).mean(axis=1) / lognormal(-z, nu).mean(axis=1)
        values.append(np.maximum(1 - math.exp(level) / ratio, 0.0))
    found = np.concatenate(values)
    error = -ndtri(5e-10) * found.std() / math.sqrt(len(found))
    claimed = delta(Allocation(batches, Gaussian(1 / nu)), level, "replace-one")
    assert claimed.upper >= found.mean() - error
    assert claimed.lower <= found.mean() + error
    assert 0 < error < 0.4 * found.mean()


def test_epochs_of_replaced_rows_are_proved_from_both_sides() -> None:
    found = epsilon(Repeat(Allocation(8, Gaussian(2.0)), 5), 1e-5, "replace-one")
    assert found.upper - found.lower < 0.01 * found.upper
    assert epsilon(Repeat(Allocation(8, Gaussian(2.0)), 5), 1e-5, ADD).upper < found.lower
    # two rows nearer to each other than opposite ones are charged as those, and nothing is said from below
    nearer = epsilon(Allocation(8, Gaussian(2.0, 1.5)), 1e-5, "replace-one")
    assert nearer == (0.0, epsilon(Allocation(8, Gaussian(2.0)), 1e-5, "replace-one").upper)


SECONDS: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "opposite": lambda z: (np.ones_like(z), -np.ones_like(z)),
    "turned round after a low answer": lambda z: (np.sign(z), -np.sign(z)),
    "only the first row after a high answer": lambda z: ((z > 0) * 1.0, (z <= 0) * -1.0),
    "less as answers grow": lambda z: (1 / (1 + np.exp(z)), -1 / (1 + np.exp(-z))),
    "alike after a low answer": lambda z: (np.ones_like(z), np.where(z > 0, -1.0, 1.0)),
}


@pytest.mark.parametrize("name", SECONDS)
def test_no_adaptive_choice_of_two_rows_costs_more_than_opposite_ones(name: str) -> None:
    """Two batches; what either row contributes to the second depends on the first answer. The sum over a grid of both
    answers errs by less than 1e-3, as the kink of the positive part is met at all places of a cell.
    """
    nu, z = 1.0, TIMES[::2]
    weights = np.multiply.outer(WEIGHTS[::2], WEIGHTS[::2]) * 4
    one, other = SECONDS[name](z)
    for level in (0.2, 1.0, 2.0):
        alpha = math.exp(level)
        with_one = lognormal(z, nu)[:, None] + lognormal(z[None, :], nu * one[:, None])
        with_other = lognormal(-z, nu)[:, None] + lognormal(z[None, :], nu * other[:, None])
        reached = float((weights * np.maximum(with_one - alpha * with_other, 0.0)).sum()) / 2
        assert reached <= delta(Allocation(2, Gaussian(1 / nu)), level, "replace-one").upper * (1 + 1e-3)
        if name == "opposite":
            assert reached > delta(Allocation(2, Gaussian(1.05 / nu)), level, "replace-one").upper


NORMS: dict[str, Callable[[Array], Array]] = {
    "always whole": np.ones_like,
    "only after a high answer": lambda z: (z > 0.5) * 1.0,
    "only after a low answer": lambda z: (z < 0.0) * 1.0,
    "smaller as answers grow": lambda z: 1 / (1 + np.exp(z)),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("first", [1.0, 0.4])
def test_no_adaptive_choice_of_the_second_contribution_costs_more(name: str, first: float) -> None:
    """Two batches; what the row contributes to the second depends on the first answer, as gradients do."""
    nu = 1.25
    for level in (0.1, 0.7, 1.5):
        alpha, second = math.exp(level), nu * NORMS[name](TIMES)
        start = lognormal(TIMES, first * nu)
        removed = float(WEIGHTS @ call(2 * alpha - start, second)) / 2
        added = float(WEIGHTS @ put(2 / alpha - start, second)) * alpha / 2
        claimed = delta(Allocation(2, Gaussian(1 / nu)), level, ADD).upper
        assert max(removed, added) <= claimed * (1 + 1e-9)
        if name == "always whole" and first == 1.0:
            assert max(removed, added) > delta(Allocation(2, Gaussian(1.05 / nu)), level, ADD).upper


def test_upper_laws_hold_at_least_all_probability_and_lower_ones_at_most() -> None:
    for nu, batches in ((1.0, 100), (0.2, 7), (3.0, 33), (1e-3, 12)):
        for pair in allocation_pairs(nu, batches):
            upper, lower = pair.pair, pair.attained.pair  # type: ignore[union-attr]
            assert isinstance(upper, DiscretePair)
            assert isinstance(lower, DiscretePair)
            assert 1 <= upper.probabilities.sum() + upper.infinite <= 1 + 1e-8
            assert 1 - 1e-8 <= lower.probabilities.sum() <= 1
            edges = np.linspace(-2.0, 4.0, 61) * nu
            np.testing.assert_allclose(upper.profile(edges), DiscretePair.profile(upper, edges), rtol=1e-11)
            assert (lower.profile(edges) <= upper.profile(edges)).all()


def test_spreading_increases_sums_in_convex_order_and_merging_decreases_them() -> None:
    rng = np.random.default_rng(3)
    resolution = Resolution(0.5, 1.0, 1e-3)
    laws = [FiniteLaw(np.sort(rng.gamma(1.0, 1.0, 40)), rng.dirichlet(np.ones(40)), 1, 0.0, 0.0) for _ in range(2)]
    for a, b in ((laws[0], laws[1]), (laws[0], laws[0])):
        sums, masses = np.add.outer(a.points, b.points).ravel(), np.multiply.outer(a.masses, b.masses).ravel()
        above, below = spread(a, b, resolution), merge(a, b, resolution)
        for law in (above, below):
            assert law.masses.sum() == pytest.approx(1.0, abs=1e-12)
            assert law.masses @ law.points == pytest.approx(masses @ sums, rel=1e-12)
            assert len(law.points) < 300
        for kink in np.linspace(0.2, 12.0, 30):
            exact = float(masses @ np.maximum(sums - kink, 0.0))
            assert float(below.masses @ np.maximum(below.points - kink, 0.0)) <= exact + 1e-12
            assert float(above.masses @ np.maximum(above.points - kink, 0.0)) >= exact - 1e-12
        assert float(above.masses @ above.points**2) > float(masses @ sums**2) > float(below.masses @ below.points**2)


def test_what_has_no_theorem_is_charged_in_full_or_refused() -> None:
    assert epsilon(Allocation(50, PureDP(0.5)), 0.0, ADD).upper == 0.5
    assert epsilon(Allocation(50, NonPrivate()), 0.1, ADD).lower == math.inf
    for sigma in (0.08, 1e8):  # beyond the laws that are computed: as if all rows were in one batch
        found = epsilon(Allocation(50, Gaussian(sigma)), 1e-6, ADD)
        assert found.upper == pytest.approx(epsilon(Gaussian(sigma), 1e-6, ADD).upper, rel=1e-6)
    with pytest.raises(NotCertifiable, match="not all Gaussian"):
        epsilon(Allocation(50, Compose([Laplace(1.0), Gaussian(1.0)])), 1e-6, ADD, method="fourier")
