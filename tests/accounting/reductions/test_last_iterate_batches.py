"""Last iterates of cyclic and sampled batches: published tables, least shifts by another way, chains on a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from discreet import accounting
from discreet.accounting.reductions.last_iterate import absorbed_distance, last_iterate_mu
from discreet.errors import HypothesisViolated
from discreet.events import Gaussian, LastIterate, Poisson, Repeat
from discreet.measurements import PoissonSampling
from discreet.measurements.hidden_batches import SampledBatches
from discreet.units import Unit


def least_shifts(drifts, c, distance=0.0):
    """min Σ a_t² with z ← c·z + drift − a ≥ 0 from ``distance`` to 0: slopes of a greatest convex minorant, by pooling.

    In x_t = c^−t·a_t the cost is Σ c^2t·x_t², prefix sums of x stay below those of c^−t·drift, and meet at the end.
    """
    m = len(drifts)
    weights = c ** (-2.0 * np.arange(1, m + 1))
    arrived = c ** -np.arange(1.0, m + 1) * np.asarray(drifts, float)
    arrived[0] += distance
    pools: list[list[float]] = []
    for x, u in zip(arrived, weights, strict=True):  # what arrives at a step may be absorbed there or later
        pools.append([x, u])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            x1, u1 = pools.pop()
            pools[-1] = [pools[-1][0] + x1, pools[-1][1] + u1]
    return math.sqrt(sum(x * x / u for x, u in pools))


@pytest.mark.parametrize("contraction", [0.6, 0.97, 1.0])
@pytest.mark.parametrize(("steps", "batches"), [(1, 3), (7, 3), (12, 3), (40, 2), (60, 7), (60, 60), (50, 80)])
def test_cyclic_shifts_are_the_least_and_cover_every_batch(contraction, steps, batches):
    found = last_iterate_mu(steps, 0.3, 2.0, contraction, batches=batches)
    phases = [
        least_shifts([0.3 * ((t - j) % batches == 0) for t in range(1, steps + 1)], contraction) / 2.0
        for j in range(1, min(batches, steps) + 1)
    ]
    assert found == pytest.approx(max(phases), rel=1e-9)
    rounded = last_iterate_mu(steps, 0.3, 2.0, contraction, batches=batches, rounding=0.05)
    drifts = [0.3 * ((t - steps) % batches == 0) + 0.1 for t in range(1, steps + 1)]
    assert found <= least_shifts(drifts, contraction) / 2.0 <= rounded
    bounded = last_iterate_mu(steps, 0.3, 2.0, contraction, batches=batches, diameter=0.4)
    windows = [
        least_shifts(
            [0.3 * ((t - j) % batches == 0) for t in range(steps - m + 1, steps + 1)], contraction, distance=0.4
        )
        for m in range(1, steps + 1)
        for j in [steps]
    ]
    assert min([*windows, found * 2.0]) / 2.0 <= bounded * (1 + 1e-9)  # a window of one's own choice is no less
    assert bounded <= found


def paper_cyclic(c, batches, epochs):
    """Theorem of §4.2 for strongly convex losses, in units of L/(bσ)."""
    power = c ** (batches * (epochs - 1))
    return math.sqrt(1 + c ** (2 * batches - 2) * (1 - c * c) / (1 - c**batches) ** 2 * (1 - power) / (1 + power))


@pytest.mark.parametrize("batches", [10, 20, 40])
@pytest.mark.parametrize("c", [0.98, 0.99, 0.995, 0.9998, 0.9999])
def test_the_paper_s_table_of_cyclic_batches(c, batches):
    """The GDP parameters of Bok, Su and Altschuler's tables 3 and 9: E epochs, L/(bσ) = 0.2 and 2/3."""
    for epochs in (5, 50, 100, 200, 500):
        for mu in (0.2, 2 / 3):
            found = last_iterate_mu(epochs * batches, mu, 1.0, c, batches=batches)
            assert found == pytest.approx(mu * paper_cyclic(c, batches, epochs), rel=1e-9)
            assert found < mu * math.sqrt(epochs)


@pytest.mark.parametrize(("epochs", "c"), [(e, c) for e in (50, 100, 200) for c in (0.9999, 0.9998)])
def test_the_paper_s_table_of_epsilon(epochs, c):
    """Table 1: regularised logistic regression, 40 batches, μ = 2/3, δ = 1e-5. The event gives the table's ε."""
    event = LastIterate(1.5, 40 * epochs, c, batches=40)
    gaussian = Gaussian(1.5 / paper_cyclic(c, 40, epochs))
    assert accounting.epsilon(event, 1e-5, "add-remove").upper == pytest.approx(
        accounting.epsilon(gaussian, 1e-5, "add-remove").upper, rel=1e-9
    )
    shown = accounting.epsilon(Repeat(Gaussian(1.5), epochs), 1e-5, "add-remove").upper
    assert accounting.epsilon(event, 1e-5, "add-remove").upper < 0.4 * shown


@pytest.mark.parametrize("shift", [0.25, 0.5, 1.0])
def test_the_paper_s_tables_of_bounded_sets(shift):
    """Tables 8 and 10 to 12, diameter 1: the paper's choice of a window is one of those searched here."""
    for eta in (0.2, 0.1, 0.05):
        printed = math.sqrt(3 * shift / eta + shift**2 * math.ceil(1 / (shift * eta))) / 8
        found = last_iterate_mu(10**6, shift, 8.0, 1.0, diameter=1 / eta)
        assert 0.98 * printed <= found <= printed * (1 + 1e-9)
    for batches in (10, 20, 40):
        for eta in (0.04, 0.02, 0.01):
            window = math.ceil(1 / (shift * eta))
            printed = math.sqrt(3 * shift / (eta * batches) + shift**2 + shift**2 / batches * window) / 3
            found = last_iterate_mu(10**6 * batches, shift, 3.0, 1.0, diameter=1 / eta, batches=batches)
            assert 0.98 * printed <= found <= printed * (1 + 1e-9)


def delta_of(mu, epsilon):
    return ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)


CELLS, WIDTH = 240, 3.0
CENTRES = (np.arange(CELLS) + 0.5) * WIDTH / CELLS
EDGES = np.linspace(0, WIDTH, CELLS + 1)
EDGES[0], EDGES[-1] = -np.inf, np.inf  # projection gathers what falls outside


def moves(drift, noise, c):
    """Transition matrix of θ ← Π(middle + c·(θ − middle) + drift + noise) on [0, WIDTH], in cells."""
    seen = WIDTH / 2 + c * (CENTRES - WIDTH / 2)
    return np.diff(ndtr((EDGES[None, :] - seen[:, None] - drift) / noise), axis=1)


def last(*steps):
    state = np.zeros(CELLS)
    state[CELLS // 2] = 1.0
    for step in steps:
        state = state @ step
    return state


@pytest.mark.parametrize("c", [0.8, 1.0])
def test_cyclic_bound_of_a_projected_chain(c):
    """Two walks that drift apart in every fourth step, the last among them; cells round by half a cell."""
    shift, noise, steps, batches = 0.4, 0.5, 36, 4
    ends = []
    for sign in (1, -1):
        still, moved = moves(0.0, noise, c), moves(sign * shift / 2, noise, c)
        ends.append(last(*(moved if (t + 1) % batches == 0 else still for t in range(steps))))
    lengths = {"diameter": WIDTH, "rounding": WIDTH / CELLS / 2}
    mu = last_iterate_mu(steps, shift, noise, c, batches=batches, **lengths)
    for epsilon in (0.0, 0.2):
        found = float(np.maximum(0, ends[0] - math.exp(epsilon) * ends[1]).sum())
        assert 0.5 * delta_of(mu, epsilon) <= found <= delta_of(mu, epsilon)
        assert found > delta_of(last_iterate_mu(steps, shift, 2 * noise, c, batches=batches, **lengths), epsilon)


@pytest.mark.parametrize(("c", "window", "share"), [(0.5, 3, 0.9), (0.8, 10, 0.75), (1.0, 12, 0.5)])
def test_sampled_bound_of_a_projected_chain(c, window, share):
    """A row that moves a step with probability 0.2, to one side or the other: the law of the last of 30 iterates."""
    shift, noise, steps, rate = 0.3, 0.5, 30, 0.2
    ends = []
    for sign in (1, -1):
        mixed = rate * moves(sign * shift / 2, noise, c) + (1 - rate) * moves(0.0, noise, c)
        ends.append(last(*[mixed] * steps))
    run = LastIterate(2 * noise / shift, steps, c, diameter=WIDTH / shift, rounding=WIDTH / CELLS / 2 / shift)
    event = SampledBatches(PoissonSampling(rate), window, share).event(run, Unit("replace-one"))
    for epsilon in (0.0, 0.2):
        found = float(np.maximum(0, ends[0] - math.exp(epsilon) * ends[1]).sum())
        assert 0.001 < found <= accounting.delta(event, epsilon, "replace-one").upper
    shown = Repeat(Poisson(rate, Gaussian(2 * noise / shift)), steps)
    assert found <= accounting.delta(shown, epsilon, "replace-one").upper


def test_the_distance_before_the_window_is_a_geometric_sum_or_the_diameter():
    c, drift = 0.9, 1 + 2 * 0.01
    apart = drift * sum(c**k for k in range(40))
    arrives = c**10 * apart + 0.02 * sum(c**k for k in range(10))
    least = arrives / math.sqrt(sum(c ** (2 * k) for k in range(10)))
    assert absorbed_distance(50, 10, c, rounding=0.01) == pytest.approx(least, rel=1e-8)
    assert absorbed_distance(50, 10, 1.0, diameter=2.0) == pytest.approx(2.0 / math.sqrt(10), rel=1e-8)
    assert absorbed_distance(50, 10, 1.0) == pytest.approx(40 / math.sqrt(10), rel=1e-8)
    with pytest.raises(HypothesisViolated, match="window"):
        absorbed_distance(5, 6, 0.5)
    with pytest.raises(HypothesisViolated, match="batches"):
        last_iterate_mu(10, 1.0, 1.0, 0.9, batches=0)
