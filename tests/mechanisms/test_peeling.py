"""Peeling: what it releases, what it claims, and attacks that its claim must survive."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from discreet import events
from discreet.accounting import epsilon
from discreet.accounting.upper.classical import zcdp_rho
from discreet.errors import InvalidInput
from discreet.measurements import Noisy
from discreet.mechanisms import LaplacePeeling, Peeling
from discreet.noise.bits import Bits
from discreet.units import Unit

_spec = importlib.util.spec_from_file_location("attacks", Path(__file__).parents[1] / "solvers" / "attacks.py")
attacks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(attacks)

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")


@dataclass(frozen=True)
class Fixed:
    """A query whose sum is given: ‖row‖∞ ≤ bound."""

    sum: tuple[int, ...]
    bound: int = 100
    grid: float = 0.5
    norm: str = "linf"

    @property
    def shape(self):
        return (len(self.sum),)

    def integers(self, data):
        return np.array(self.sum, dtype=np.int64)

    def unrounded(self, data):
        return self.grid * np.array(self.sum, dtype=np.float64)


def release(query, mechanism, seed=0):
    return mechanism.perturb(query.integers(None), query, Bits.seeded(seed))


def test_little_noise_keeps_the_largest_in_absolute_value():
    query = Fixed((5, -9000, 20, 8000, 0, -7000), bound=1)
    answer = release(query, Peeling(3, 1.0, 1.0))
    assert np.flatnonzero(answer).tolist() == [1, 3, 5]
    assert np.abs(answer[[1, 3, 5]] - [-4500, 4000, -3500]).max() < 20
    assert Noisy(query, Peeling(3, 0.0, 0.0)).sample(None, ADD_REMOVE, Bits.seeded(0)).tolist() == [
        0, -4500, 0, 4000, 0, -3500,
    ]  # fmt: skip


def test_laplace_peeling_keeps_the_largest_in_absolute_value():
    sums = tuple(10**6 * (-1) ** j if j < 10 else j for j in range(30))
    answer = release(Fixed(sums, bound=1), LaplacePeeling(10, 60.0))
    assert np.flatnonzero(answer).tolist() == list(range(10))
    assert np.abs(2 * answer[:10] - sums[:10]).max() < 5000


def test_values_have_the_claimed_noise():
    # 4000 values of one place: the variance estimate is within 5 % with probability 1 − 1e-5
    query, mechanism, bits = Fixed((10**9, -(10**9), 0), bound=100), Peeling(2, 1.0, 3.0), Bits.seeded(1)
    draws = np.array([mechanism.perturb(query.integers(None), query, bits)[0] for _ in range(4000)])
    claimed = query.grid * 3.0 * math.sqrt(2) * 100
    assert abs(np.std(draws) / claimed - 1) < 0.05


def test_events_count_every_selection_and_the_relation():
    query, mechanism = Fixed((1, 2, 3, 4, 5)), Peeling(3, 8.0, 2.0)
    assert mechanism.event(query, ADD_REMOVE) == events.Compose(
        [events.Repeat(events.Selection(2 / 8), 3), events.Gaussian(2.0)]
    )
    assert mechanism.event(query, REPLACE_ONE) == events.Compose(
        [events.Repeat(events.Selection(4 / 8), 3), events.Gaussian(2.0)]
    )
    # s·ε₀²/8 + μ²/2 with μ = Δ/σ; the unit's relation doubles Δ in both
    for unit, delta in ((ADD_REMOVE, 1), (REPLACE_ONE, 2)):
        expected = 3 * (2 * delta / 8) ** 2 / 8 + (delta / 2) ** 2 / 2
        assert math.isclose(zcdp_rho(mechanism.event(query, unit), unit), expected)
    assert Peeling(9, 8.0, 2.0).event(query, ADD_REMOVE).events[0].times == 5
    assert Peeling(3, 0.0, 0.0).event(query, ADD_REMOVE) == events.NonPrivate()


def test_balanced_halves_cost_the_same():
    first, second = Peeling.balanced(7, 5.0).event(Fixed(tuple(range(20))), REPLACE_ONE).events
    assert math.isclose(zcdp_rho(first, REPLACE_ONE), zcdp_rho(second, REPLACE_ONE))


def test_laplace_peeling_counts_every_round_and_every_value():
    query = Fixed(tuple(range(40)))
    for unit, delta in ((ADD_REMOVE, 100), (REPLACE_ONE, 200)):  # in grid steps, of which one is added to 2Δ
        place, value = LaplacePeeling(12, 50.0).event(query, unit).events
        assert place == events.Repeat(events.Selection((2 * delta + 1) / 5000, "noisy-max"), 12)
        assert value == events.Repeat(events.Laplace(50.0), 12)
        pure = epsilon(events.Compose([place, value]), 0.0, unit).upper
        assert math.isclose(pure, 12 * (3 * delta + 1) / 5000)
    assert LaplacePeeling(50, 9.0).event(query, ADD_REMOVE).events[0].times == 40
    assert len(np.flatnonzero(release(query, LaplacePeeling(50, 9.0)))) == 40
    assert LaplacePeeling(3, 0.0).event(query, ADD_REMOVE) == events.NonPrivate()


def test_the_accountant_asks_for_less_noise_than_is_printed():
    """Of the printed 2Δ·√(3s·ln(1/δ))/ε, at the ends of the hypotheses under which it was proved."""
    from discreet.accounting.textbook import peeling_laplace

    query = Fixed(tuple(range(40)), bound=2**31)
    for s, eps, delta, most in ((10, 0.5, 0.011, 0.47), (10, 0.5, 1e-6, 0.64), (30, 0.1, 1e-6, 0.66)):
        printed = peeling_laplace(eps, delta, s).noise
        assert epsilon(LaplacePeeling(s, most * printed).event(query, ADD_REMOVE), delta, ADD_REMOVE).upper < eps


def test_bad_input():
    for s in (0, -1, 2.0, True):
        with pytest.raises(InvalidInput, match="positive whole number"):
            Peeling(s, 1.0, 1.0)
        with pytest.raises(InvalidInput, match="positive whole number"):
            LaplacePeeling(s, 1.0)
    with pytest.raises(InvalidInput, match="non-negative"):
        LaplacePeeling(2, -1.0)
    with pytest.raises(InvalidInput, match="both"):
        Peeling(2, 1.0, 0.0)
    with pytest.raises(InvalidInput, match="non-negative"):
        Peeling(2, 1.0, -1.0)
    wrong = Fixed((1, 2, 3), norm="l2")
    with pytest.raises(InvalidInput, match="l2 norm"):
        Peeling(2, 1.0, 1.0).event(wrong, ADD_REMOVE)
    with pytest.raises(InvalidInput, match="l2 norm"):
        release(wrong, Peeling(2, 1.0, 1.0))


def _attack(noise, runs=4000, delta=0.01):
    """Neighbours under replace-one: one row moves place 0 up and place 1 down by 2C; the statistic is the exact LLR."""
    base, query = 10**6, Fixed((0, 0))
    mechanism, bits = Peeling.balanced(1, noise), Bits.seeded(7)
    scale = noise * query.bound

    def statistic(sign):
        integers = np.array([base + sign * 100, base - sign * 100])
        answer = mechanism.perturb(integers, query, bits)
        place = int(answer[0] == 0)
        shift = (answer[place] / query.grid - base) / scale
        return (1 if place == 0 else -1) * 200 / scale * (1 + shift)

    found = [[statistic(sign) for _ in range(runs)] for sign in (1, -1)]
    claimed = epsilon(Peeling.balanced(1, 4.0).event(query, REPLACE_ONE), delta, "replace-one").upper
    return attacks.proved_epsilon(*found, delta), claimed


def test_the_claim_survives_an_attack_that_halved_noise_does_not():
    """The upper assertion fails with probability at most 1e-3 if the claim holds."""
    proved, claimed = _attack(4.0)
    assert 0.3 * claimed < proved <= claimed
    too_little, _ = _attack(2.0)
    assert too_little > claimed


def test_s_may_be_numpy_s_whole_number():
    assert Peeling(np.int64(3), 1.0, 1.0) == Peeling(3, 1.0, 1.0)
    assert LaplacePeeling(np.int64(3), 1.0) == LaplacePeeling(3, 1.0)
