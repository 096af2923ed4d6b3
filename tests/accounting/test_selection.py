"""Private selection against the exact law of the best of K runs of a small mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.classical import pure_epsilon
from discreet.accounting.renyi import divergence, epsilon_upper
from discreet.accounting.selection import log_inverse_gamma, mean_runs, selection_divergence, selection_pure_epsilon
from discreet.errors import InvalidInput
from discreet.events import Compose, Gaussian, PrivateSelection, PureDP, Repeat


def generating_function(event):
    """E[x^K] of the number of runs."""
    if event.distribution == "poisson":
        return lambda x: np.exp(event.mean * (x - 1))
    gamma = math.exp(-log_inverse_gamma(event.mean, event.eta))
    if event.eta == 0:
        return lambda x: np.log1p(-(1 - gamma) * x) / math.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -event.eta - 1) / (gamma**-event.eta - 1)


def law_of_the_best(masses, event):
    """Outcomes are ranked; the best of K runs is at most y with probability f(F(y)). K = 0 shows nothing."""
    f = generating_function(event)
    below = f(np.concatenate([[0.0], np.cumsum(masses)]).clip(0, 1))
    law = np.diff(below)
    return np.concatenate([[below[0]], law]) if event.distribution == "poisson" else law


DISTRIBUTIONS = st.one_of(
    st.tuples(st.just("geometric"), st.just(1.0)),
    st.tuples(st.just("poisson"), st.just(1.0)),
    st.tuples(st.just("negative-binomial"), st.sampled_from([0.0, 0.5, -0.5, 2.0])),
)


@settings(max_examples=120, deadline=None)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=6),
    tilts=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    epsilon=st.floats(0.05, 1.5),
    mean=st.floats(1.5, 80),
    order=st.floats(1.2, 30),
    how=DISTRIBUTIONS,
)
def test_the_bound_holds_for_the_exact_law(weights, tilts, epsilon, mean, order, how):
    p = np.array(weights) / np.sum(weights)
    q = p * np.exp(epsilon / 2 * np.array(tilts[: len(p)]))
    q /= q.sum()  # ratios stay within e^{±ε}
    event = PrivateSelection(PureDP(epsilon), mean, how[0], how[1])
    best, other = law_of_the_best(p, event), law_of_the_best(q, event)
    found = math.log(np.sum(other * (best / other) ** order)) / (order - 1)
    assert found <= selection_divergence(event, order, "add-remove") + 1e-7
    if how[0] != "poisson":
        ratio = np.abs(np.log(best / other)).max()
        assert ratio <= selection_pure_epsilon(epsilon, how[1]) + 1e-7
        assert pure_epsilon(event, "add-remove") == pytest.approx((2 + how[1]) * epsilon)


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("mean", [1.01, 2.0, 100.0, 1e6])
def test_gamma_inverts_the_mean(eta, mean):
    assert mean_runs(math.exp(-log_inverse_gamma(mean, eta)), eta) == pytest.approx(mean, rel=1e-8)
    # The mean by its law: derivative of the generating function at 1.
    event = PrivateSelection(PureDP(0.1), mean, "negative-binomial", eta)
    if mean < 1e3:
        f, step = generating_function(event), 1e-7
        assert (f(1.0) - f(1.0 - step)) / step == pytest.approx(mean, rel=1e-3)


def test_selection_composes_and_costs_between_one_run_and_all():
    inner = Gaussian(5.0)
    best = PrivateSelection(inner, 20.0)
    one = epsilon_upper(inner, 1e-6, "replace-one")
    chosen = epsilon_upper(best, 1e-6, "replace-one")
    assert one < chosen < epsilon_upper(Repeat(inner, 20), 1e-6, "replace-one")
    both = divergence(Compose([best, inner]), 8.0, "replace-one")
    assert both == pytest.approx(divergence(best, 8.0, "replace-one") + divergence(inner, 8.0, "replace-one"))


def test_one_certain_run_is_the_run_itself_up_to_the_tilt():
    assert log_inverse_gamma(1.0, 1.0) == 0
    event = PrivateSelection(Gaussian(2.0), 1.0)
    assert selection_divergence(event, 6.0, "add-remove") == pytest.approx(divergence(Gaussian(2.0), 6.0, "add-remove"))


def test_bad_input():
    with pytest.raises(InvalidInput, match="mean"):
        log_inverse_gamma(0.5, 1.0)
    with pytest.raises(InvalidInput, match="gamma"):
        mean_runs(1.5, 1.0)
    with pytest.raises(InvalidInput, match="eta"):
        selection_pure_epsilon(1.0, -2.0)
