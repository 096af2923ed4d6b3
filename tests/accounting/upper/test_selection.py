"""Private selection against the exact law of the best of K runs of a small mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import delta, epsilon
from discreet.accounting.run_count import log_inverse_gamma, mean_runs
from discreet.accounting.selection_profile import SelectionProfile
from discreet.accounting.upper.renyi import divergence, epsilon_upper
from discreet.accounting.upper.selection import selection_divergence, selection_pure_epsilon
from discreet.accounting.upper.stated import pure_epsilon
from discreet.errors import InvalidInput
from discreet.events import Compose, Gaussian, Laplace, Parallel, PrivateSelection, PureDP, Repeat


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


def hockey_stick(p, q, eps):
    return float(np.maximum(p - math.exp(eps) * q, 0.0).sum())


@settings(max_examples=150, deadline=None)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=6),
    tilts=st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    inner=st.floats(0.05, 2.0),
    mean=st.floats(1.05, 80),
    eps=st.floats(0.0, 4.0),
    how=DISTRIBUTIONS,
)
def test_the_profile_holds_for_the_exact_law_in_every_order(weights, tilts, inner, mean, eps, how):
    """Outcomes in the order drawn: every ranking of every pair of laws within e^{±ε} may come up."""
    p = np.array(weights) / np.sum(weights)
    q = p * np.exp(inner / 2 * np.array(tilts[: len(p)]))
    q /= q.sum()
    event = PrivateSelection(PureDP(inner), mean, how[0], how[1])
    best, other = law_of_the_best(p, event), law_of_the_best(q, event)
    bound = delta(event, eps, "add-remove").upper
    assert max(hockey_stick(best, other, eps), hockey_stick(other, best, eps)) <= bound + 1e-9
    pure = epsilon(event, 0.0, "add-remove").upper
    assert np.abs(np.log(best / other)).max() <= pure * (1 + 1e-9) + 1e-9
    if how[0] != "poisson":
        assert pure <= pure_epsilon(event, "add-remove") * (1 + 1e-9)


def worst_order(one, other, event, eps):
    """δ of laws on a line, of rising loss, when the low end is ranked first, the high end next, the middle last."""
    f = generating_function(event)
    low = [np.concatenate([[0.0], np.cumsum(law)]) for law in (one, other)]
    found = 0.0
    for a in range(0, len(one), 8):
        high = [np.cumsum(law[a:][::-1]) for law in (one, other)]
        best = [f(1 - cut[a]) - f(np.maximum(1 - cut[a] - up, 0.0)) for cut, up in zip(low, high, strict=True)]
        found = max(found, float(np.max(best[0] - math.exp(eps) * best[1])))
    return found


def on_a_line(density, shift):
    """Two laws in cells, one moved by ``shift``."""
    x = np.linspace(-9, 9 + shift, 1601)
    laws = [density(x - move) for move in (shift, 0.0)]
    return [law / law.sum() for law in laws]


NOISES = {
    "gaussian": (lambda x: np.exp(-(x**2) / 2), lambda shift: Gaussian(1 / shift)),
    "laplace": (lambda x: np.exp(-np.abs(x)), lambda shift: Laplace(1 / shift)),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("mean", "shift", "at"), [(2.0, 0.7, 1e-3), (3.0, 1.0, 1e-2), (20.0, 0.5, 1e-3)])
def test_the_profile_is_nearly_attained_by_ranking_the_ends_before_the_middle(noise, mean, shift, at):
    """At least 85 % of the bound on ε is found, and never more than all of it; Rényi's bound is above."""
    density, inner = NOISES[noise]
    one, other = on_a_line(density, shift)
    event = PrivateSelection(inner(shift), mean)
    bound = epsilon(event, at, "add-remove").upper
    assert worst_order(one, other, event, bound) <= at * (1 + 1e-3)
    assert worst_order(one, other, event, 0.85 * bound) > at
    assert epsilon_upper(event, at, "add-remove") > 1.05 * bound


def test_half_the_noise_breaks_the_claim_of_a_selection():
    one, other = on_a_line(NOISES["gaussian"][0], 2 * 0.7)
    event = PrivateSelection(Gaussian(1 / 0.7), 2.0)
    assert worst_order(one, other, event, epsilon(event, 0.05, "add-remove").upper) > 3 * 0.05


def test_parts_of_a_run_are_read_at_their_worst_and_a_composition_by_chords():
    parts = [Gaussian(2.0), Laplace(1.5)]
    whole = PrivateSelection(Parallel(parts), 4.0)
    for at in (0.1, 1e-3, 1e-8):
        alone = [epsilon(PrivateSelection(part, 4.0), at, "add-remove").upper for part in parts]
        assert epsilon(whole, at, "add-remove").upper >= max(alone) * (1 - 1e-9)
    best = SelectionProfile(PrivateSelection(Repeat(Gaussian(4.0), 2), 5.0), "replace-one")
    at = np.linspace(0.0, best.top, 1000)
    exact = np.array([float(best.profile(at[i : i + 1])[0]) for i in range(0, 1000, 37)])
    chords = best.profile(at)[::37]
    assert (exact <= chords * (1 + 1e-9)).all()
    assert (chords[:12] <= exact[:12] * 1.1).all()


def test_what_has_no_renyi_divergence_can_be_selected_from():
    from discreet.events import ApproxDP, NonPrivate, ObjectivePerturbation

    for inner in (ObjectivePerturbation(6.0, 0.1), ApproxDP(0.3, 1e-6)):
        once, best = (epsilon(e, 1e-5, "add-remove").upper for e in (inner, PrivateSelection(inner, 3.0)))
        assert once < best < 3.5 * once
    assert epsilon(PrivateSelection(NonPrivate(), 3.0), 0.1, "add-remove").upper == math.inf


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
