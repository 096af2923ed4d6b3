"""What must hold whatever the parameters: order, monotonicity, associativity, both engines agreeing."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting import curve, delta, epsilon
from discreet.events import (
    ZCDP,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
    WithReplacement,
)
from discreet.units import Unit

noises = st.floats(0.4, 50)
rates = st.floats(1e-4, 0.9)
counts = st.integers(20, 10**6)
deltas = st.floats(-12, -2).map(lambda x: 10.0**x)
relations = st.sampled_from(["add-remove", "replace-one"])


@settings(max_examples=25, deadline=None)
@given(noises, rates, counts, deltas, relations)
def test_lower_below_upper_and_tight(sigma, q, steps, d, relation) -> None:
    bounds = epsilon(Repeat(Poisson(q, Gaussian(sigma)), steps), d, relation)
    assert 0 <= bounds.lower <= bounds.upper < math.inf
    # Rarer participation leaves nearly atomic losses, which neither contour nor lattice resolves as finely: there the
    # upper bound holds all the same, but the lower one may lag behind.
    if q >= 2e-3 and steps * q > 1:
        assert bounds.upper - bounds.lower <= 1e-5 * bounds.upper + 1e-12


@settings(max_examples=8, deadline=None)
@given(noises, rates, counts, deltas, relations, st.floats(1.01, 3))
def test_monotone(sigma, q, steps, d, relation, factor) -> None:
    def upper_and_lower(s, r, t, dd):
        return epsilon(Repeat(Poisson(r, Gaussian(s)), t), dd, relation)

    here = upper_and_lower(sigma, q, steps, d)
    assert upper_and_lower(sigma * factor, q, steps, d).lower <= here.upper
    assert upper_and_lower(sigma, q / factor, steps, d).lower <= here.upper
    assert upper_and_lower(sigma, q, max(1, int(steps / factor)), d).lower <= here.upper
    assert upper_and_lower(sigma, q, steps, min(1.0, d * factor)).lower <= here.upper


@settings(max_examples=15, deadline=None)
@given(noises, rates, st.integers(30, 3000), st.floats(0.05, 3), relations)
def test_delta_inverts_epsilon(sigma, q, steps, e, relation) -> None:
    privacy = curve(Repeat(Poisson(q, Gaussian(sigma)), steps), relation)
    there = privacy.delta(e)
    if there.lower > 1e-250 and there.upper < 1:
        assert privacy.epsilon(there.upper).lower <= e * (1 + 1e-12)
        assert privacy.epsilon(there.lower).upper >= e * (1 - 1e-12)


leaves = st.sampled_from(
    [
        Gaussian(5.0),
        Laplace(10.0),
        DiscreteLaplace(10.0, 2),
        FixedSize(5, 50, RandomizedResponse(0.2, 3)),
        PureDP(0.1),
        ApproxDP(0.1, 1e-8),
        Selection(0.1),
        ZCDP(0.01),
        Poisson(0.1, Gaussian(2.0)),
    ]
)


@settings(max_examples=6, deadline=None)
@given(st.lists(leaves, min_size=2, max_size=4))
def test_composition_is_associative_and_commutative(parts) -> None:
    flat = epsilon(Compose(parts), 1e-6, "add-remove")
    nested = epsilon(Compose([parts[-1], Compose(parts[:-1])]), 1e-6, "add-remove")
    assert flat.lower <= nested.upper
    assert nested.lower <= flat.upper
    assert math.isclose(flat.upper, nested.upper, rel_tol=1e-4)


@settings(max_examples=8, deadline=None)
@given(st.lists(leaves, min_size=1, max_size=3), leaves)
def test_one_more_release_never_costs_less(parts, extra) -> None:
    before = epsilon(Compose(parts), 1e-6, "add-remove")
    after = epsilon(Compose([*parts, extra]), 1e-6, "add-remove")
    assert after.upper >= before.lower


CASES = [
    Repeat(Poisson(0.05, Gaussian(1.0)), 200),
    Compose([Gaussian(3.0), Repeat(Laplace(10.0), 20)]),
    Compose([Gaussian(3.0), Repeat(PureDP(0.2), 20)]),
    Compose([Gaussian(3.0), Repeat(DiscreteGaussian(8.0, 3), 5), Repeat(Poisson(0.1, Gaussian(2.0)), 50)]),
]


@pytest.mark.parametrize("event", CASES, ids=str)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_engines_agree(event, adjacency) -> None:
    contour = epsilon(event, 1e-6, adjacency, method="contour")
    fourier = epsilon(event, 1e-6, adjacency, method="fourier")
    assert contour.lower <= fourier.upper
    assert fourier.lower <= contour.upper
    assert contour.upper - contour.lower <= 1e-6 * contour.upper
    assert fourier.upper - fourier.lower <= 2e-3 * fourier.upper
    assert fourier.upper <= contour.upper * (1 + 1e-4)


def test_parallel_is_the_worst_part() -> None:
    parts = [Gaussian(2.0), Laplace(1.0), Repeat(PureDP(0.1), 3)]
    worst = max(epsilon(part, 1e-6, "add-remove").upper for part in parts)
    assert epsilon(Parallel(parts), 1e-6, "add-remove").upper == worst


def test_units_of_many_rows() -> None:
    assert epsilon(Gaussian(3.0), 1e-6, Unit("add-remove", 3)) == epsilon(Gaussian(1.0), 1e-6, "add-remove")
    sampled = Repeat(Poisson(0.01, Gaussian(4.0)), 1000)
    one, three = epsilon(sampled, 1e-6, "add-remove"), epsilon(sampled, 1e-6, Unit("add-remove", 3))
    assert three.upper - three.lower < 1e-6 * three.upper
    # No better than three rows that are always drawn together or not at all cost at a third of the rate; no worse
    # than group privacy.
    assert one.upper < three.lower
    always = epsilon(Repeat(Poisson(1.0, Gaussian(4.0)), 1000), 1e-6, Unit("add-remove", 3))
    assert three.upper < always.upper
    assert epsilon(Repeat(PureDP(0.1), 2), 0.0, Unit("replace-one", 5)).upper == pytest.approx(1.0)
    assert epsilon(RandomizedResponse(0.5), 0.0, Unit("replace-one", 2)).upper == pytest.approx(1.0)


def test_composition_of_sampled_rows_matches_one_unit_of_many() -> None:
    """k = 2 rows at rate 1 is a move by 2C; at a rate near 1 it must be near that."""
    nearly = epsilon(Repeat(Poisson(1 - 1e-9, Gaussian(4.0)), 10), 1e-6, Unit("add-remove", 2))
    whole = epsilon(Repeat(Gaussian(4.0), 10), 1e-6, Unit("add-remove", 2))
    assert math.isclose(nearly.upper, whole.upper, rel_tol=1e-6)


def test_sampling_amplifies() -> None:
    for inner in (Gaussian(1.0), Laplace(1.0), PureDP(1.0)):
        whole = epsilon(Repeat(inner, 5), 1e-5, "add-remove").upper
        assert epsilon(Repeat(Poisson(0.1, inner), 5), 1e-5, "add-remove").upper < 0.7 * whole
    exchanged = epsilon(Repeat(Laplace(1.0), 5), 1e-5, "replace-one").upper
    assert epsilon(Repeat(FixedSize(10, 100, Laplace(1.0)), 5), 1e-5, "replace-one").upper < 0.5 * exchanged


def test_generic_amplification_is_met_exactly() -> None:
    sampled = Poisson(0.1, PureDP(1.0))
    assert epsilon(sampled, 0.0, "add-remove").upper == pytest.approx(math.log1p(0.1 * math.expm1(1.0)))
    fixed = FixedSize(10, 100, PureDP(1.0))
    assert epsilon(fixed, 0.0, "replace-one").upper == pytest.approx(math.log1p(0.1 * math.expm1(1.0)))
    failing = ApproxDP(1.0, 1e-3)
    at = math.log1p(0.1 * math.expm1(1.0))
    assert delta(Poisson(0.1, failing), at, "add-remove").upper == pytest.approx(1e-4, rel=1e-6)


def test_an_exchanged_row_guarantee_is_not_amplified_by_absence() -> None:
    """PureDP under replace-one says nothing about a batch without the row, so Poisson sampling must not shrink its
    ε.
    """
    assert epsilon(Poisson(0.1, PureDP(1.0)), 1e-9, "replace-one").upper > 0.99


def test_with_replacement_lies_between() -> None:
    event = Repeat(WithReplacement(2, 1000, Gaussian(2.0)), 50)
    without = Repeat(FixedSize(2, 1000, Gaussian(2.0)), 50)
    assert epsilon(event, 1e-5, "replace-one").upper > epsilon(without, 1e-5, "replace-one").lower
    assert epsilon(event, 1e-5, "replace-one").upper < 2 * epsilon(without, 1e-5, "replace-one").upper


def test_exponential_mechanism_composes_by_bounded_range() -> None:
    many = Repeat(Selection(0.1), 200)
    ours = epsilon(many, 1e-6, "replace-one")
    generic = epsilon(Repeat(PureDP(0.1), 200), 1e-6, "replace-one")
    assert 0 < ours.lower <= ours.upper < 0.75 * generic.upper


def test_no_protection_is_infinite() -> None:
    assert epsilon(Compose([Gaussian(1.0), NonPrivate()]), 1e-6, "add-remove").lower == math.inf
    assert delta(NonPrivate(), 3.0, "add-remove").upper == 1.0
