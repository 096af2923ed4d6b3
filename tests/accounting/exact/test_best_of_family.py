"""Lower bounds of repeated exponential mechanisms: by the best pair of losses that occurs, not the middle one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from discreet.accounting import delta, epsilon
from discreet.accounting.rules import Pairs, rule
from discreet.events import Repeat, Selection
from discreet.units import Unit


@pytest.mark.parametrize("eta", [0.1, 1.0, 4.0])
def test_one_exponential_mechanism_is_proved_from_both_sides(eta: float) -> None:
    for level in (1e-9, 1e-4, 0.02):
        found = epsilon(Selection(eta), level, "replace-one")
        assert found.lower == pytest.approx(found.upper, rel=1e-6, abs=1e-9)


def binomial_delta(share: float, eta: float, times: int, level: float) -> float:
    """δ of losses t and t − η, independently ``times`` times, by the binomial law."""
    t, hits = share * eta, np.arange(times + 1)
    hit = math.expm1(t - eta) / math.expm1(-eta)
    losses = t * times - eta * (times - hits)
    return float(binom.pmf(hits, times, hit) @ np.maximum(-np.expm1(np.minimum(level - losses, 0.0)), 0.0))


@pytest.mark.parametrize(("eta", "times", "level"), [(0.1, 10, 1e-6), (0.5, 20, 1e-6), (0.05, 400, 1e-5)])
def test_repetitions_reach_what_the_best_pair_reaches(eta: float, times: int, level: float) -> None:
    """The lower bound is that of some share; no other share of a grid exceeds it by more than the search misses."""
    run = Repeat(Selection(eta), times)
    found = epsilon(run, level, "replace-one", method="fourier")
    best = max(binomial_delta(share, eta, times, found.lower) for share in np.linspace(0.4, 0.999, 600))
    assert level * (1 - 1e-3) <= best <= level * 1.05
    chosen = epsilon(run, level, "replace-one")  # by an adversary who may choose another pair each time
    assert found.lower <= chosen.upper < found.upper
    assert chosen.upper - chosen.lower <= 0.01 * chosen.upper


def test_every_pair_of_the_family_is_that_of_a_mechanism() -> None:
    """Two groups of candidates, scores up by Δ in one and down in the other: the exponential mechanism's own losses."""
    eta = 0.8
    known = rule(Selection(eta), Unit("replace-one"))
    assert isinstance(known, Pairs)
    for share in (0.2, 0.5, 0.9):
        pair = known.remove.family(share)  # type: ignore[union-attr]
        log_odds = math.log(pair.probabilities[1] / pair.probabilities[0])
        with_scores = np.exp([0.0, log_odds]) / (1 + math.exp(log_odds))
        moved = np.exp([eta / 2, log_odds - eta / 2])  # each score moves by Δ, weighted by η/(2Δ)
        losses = np.log(with_scores / (moved / moved.sum()))
        np.testing.assert_allclose(losses, pair.losses, atol=1e-12)
        assert delta(Selection(eta), 0.3, "replace-one").upper >= pair.profile(np.array([0.3]))[0]
