"""Every leaf in every combinator, under both relations, for units of one, two and three rows.

Two kinds of test. *Attacks*: explicit mechanisms that keep what the leaves state (`small_mechanisms`), put together as
the event says, on all neighbours of a small dataset; no method may claim less than they attain. *Laws*: what must hold
between claims whatever they are: order, grouping and splitting change nothing, more rows or releases never cost less,
k rows cost no more than k neighbours in a row.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.accounting.small_mechanisms import MOST_ROWS, RIDGE, attained

from discreet import accounting
from discreet.accounting import delta, epsilon
from discreet.accounting.adaptive.filters import ApproxFilter, GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from discreet.accounting.reductions.last_iterate import last_iterate_mu
from discreet.accounting.upper.renyi import divergence
from discreet.errors import NotCertifiable
from discreet.events import (
    ZCDP,
    Allocation,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    NonPrivate,
    ObjectivePerturbation,
    Parallel,
    Poisson,
    PrivateSelection,
    Promise,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Repeat,
    Selection,
    WithReplacement,
)
from discreet.units import Unit

METHODS = ("auto", "renyi", "zcdp", "basic", "advanced")
UNITS = [Unit(relation, k) for relation in ("add-remove", "replace-one") for k in (1, 2, 3)]  # type: ignore[arg-type]
N = MOST_ROWS

LEAVES: list[Event] = [
    Gaussian(2.0),
    Laplace(2.0),
    DiscreteGaussian(2.0),
    DiscreteLaplace(2.0),
    ObjectivePerturbation(2.0, math.log1p(2 / RIDGE)),
    RandomizedResponse(0.7, 2),
    RandomizedResponse(0.7, 3),
    Selection(0.6),
    Selection(0.6, "permute-and-flip"),
    PureDP(0.5),
    ApproxDP(0.4, 0.01),
    Promise(0.6, 0.0, 6),
    Promise(0.5, 0.01, 3),
    ZCDP(0.08),
    RenyiDP(8.0, 0.5, 6),
]
COMBINATORS = {
    "alone": lambda e: e,
    "repeated": lambda e: Repeat(e, 2),
    "beside another": lambda e: Compose([e, Laplace(3.0)]),
    "in equal parts": lambda e: Parallel([e, e]),
    "in unequal parts": lambda e: Parallel([e, Repeat(PureDP(0.2), 2)]),
    "parts beside the whole": lambda e: Compose([Parallel([e, e]), e]),
    "poisson": lambda e: Poisson(0.5, e),
    "poisson, often": lambda e: Poisson(0.9, e),
    "poisson twice": lambda e: Poisson(0.5, Poisson(0.6, e)),
    "poisson of a repetition": lambda e: Poisson(0.4, Repeat(e, 2)),
    "poisson of parts": lambda e: Poisson(0.5, Parallel([e, e])),
    "all rows": lambda e: FixedSize(N, N, e),
    "all rows but one": lambda e: FixedSize(N - 1, N, e),
    "half of the rows": lambda e: FixedSize(N // 2, N, e),
    "one row": lambda e: FixedSize(1, N, e),
    "one row, repeated": lambda e: Repeat(FixedSize(1, N, e), 2),
    "batch of a repetition": lambda e: FixedSize(2, N, Repeat(e, 2)),
    "batch of a batch": lambda e: FixedSize(2, N, FixedSize(1, 2, e)),
    "poisson batch of a batch": lambda e: FixedSize(2, N, Poisson(0.5, e)),
    "batches of parts": lambda e: Parallel([FixedSize(1, 2, e)] * 2),
    "with replacement": lambda e: WithReplacement(2, N, e),
    "often with replacement": lambda e: WithReplacement(3, N, e),
    "allocated": lambda e: Allocation(2, e),
    "allocated rows of a batch": lambda e: FixedSize(3, N, Allocation(2, e)),
    "poisson batches of allocated rows": lambda e: Allocation(2, Poisson(0.5, e)),
    "the best": lambda e: PrivateSelection(e, 3.0),
    "the best of each part": lambda e: Parallel([PrivateSelection(e, 3.0)] * 2),
    "the best of a batch": lambda e: FixedSize(2, N, PrivateSelection(e, 3.0)),
    "a poisson sample's best": lambda e: Poisson(0.5, PrivateSelection(e, 3.0)),
}


def claims(event: Event, level: float, unit: Unit) -> dict[str, float]:
    """ε at δ by every method that speaks of the event; at δ = 0 by the closed form, which speaks of pure DP alone."""
    found = {}
    for method in METHODS if level else ("basic",):
        try:
            found[method] = epsilon(event, level, unit, method=method).upper  # type: ignore[arg-type]
        except NotCertifiable:
            continue
    return found


#: numerical profiles of profiles take seconds, so these meet one leaf of each kind
SLOW = (
    "batch of a batch",
    "poisson batch of a batch",
    "the best of each part",
    "the best of a batch",
    "allocated rows of a batch",
    "poisson batches of allocated rows",
)
FEW = (Laplace, PureDP, Promise, RandomizedResponse)
CASES = [(leaf, name) for leaf in LEAVES for name in COMBINATORS if name not in SLOW or isinstance(leaf, FEW)]


@pytest.mark.parametrize(("leaf", "name"), CASES, ids=str)
def test_no_mechanism_attains_more_than_is_claimed(leaf: Event, name: str) -> None:
    event = COMBINATORS[name](leaf)
    for unit in UNITS:
        found = {level: here for level in (0.0, 0.03) if (here := claims(event, level, unit))}
        for level, reached in zip(found, attained(event, unit, *found), strict=True):
            assert min(found[level].values()) >= reached, (str(unit), level, reached, found[level])


# --- cases that were claimed too low ----------------------------------------------------------------------------------

EXCHANGES = [
    # a batch of all rows, or of more than the smaller dataset has
    (FixedSize(N, N, Laplace(1.0)), Unit("add-remove", 3)),
    (FixedSize(N, N, DiscreteLaplace(1.0)), Unit("add-remove", 3)),
    (FixedSize(N, N, Selection(1.0)), Unit("add-remove", 3)),
    # a promise or a Rényi bound for two rows says nothing of an exchange of one
    (FixedSize(1, N, Promise(1.0, 0.0, 2)), Unit("add-remove")),
    (WithReplacement(2, N, Promise(1.0, 0.0, 4)), Unit("add-remove")),
    (FixedSize(1, N, RenyiDP(500.0, 1.0, 2)), Unit("add-remove")),
    # rows of one unit in different parts
    (Parallel([Promise(1.0, 0.0, 2)] * 2), Unit("add-remove", 2)),
    (Parallel([Promise(1.0, 0.0, 2)] * 2), Unit("replace-one", 2)),
    (Parallel([RenyiDP(500.0, 1.0, 2)] * 2), Unit("replace-one", 2)),
]


@pytest.mark.parametrize(("event", "unit"), EXCHANGES, ids=str)
@pytest.mark.parametrize("method", ["auto", "renyi", "basic"])
def test_known_violations_are_covered(event: Event, unit: Unit, method: str) -> None:
    level = 0.01 if "RenyiDP" in repr(event) else 0.0
    (reached,) = attained(event, unit, level)
    assert epsilon(event, level, unit, method=method).upper >= reached > 0  # type: ignore[arg-type]


def test_two_best_runs_may_cost_more_than_one_of_two_rows() -> None:
    """The best of K Laplace answers, ranked from 0 down and then from the top down: one row moves each of two parts."""
    edges = np.concatenate([[-np.inf], np.linspace(-20.0, 20.0, 801), [np.inf]])

    def best(centre: float) -> np.ndarray:
        tails = 0.5 * np.exp(-np.abs(edges - centre) / 2.0)
        law = np.diff(np.where(edges < centre, tails, 1 - tails))
        low = len(law) // 2
        below = np.concatenate([[0.0], np.cumsum(np.roll(law, -low))])  # the worst first
        return np.diff(below / 5 / (1 - 0.8 * below))

    found = float(np.max(np.abs(np.log(best(1.0) / best(0.0)))))
    event = Parallel([PrivateSelection(Laplace(2.0), 5.0)] * 2)
    claimed = epsilon(event, 0.0, Unit("add-remove", 2)).upper
    together = epsilon(PrivateSelection(Laplace(2.0), 5.0), 0.0, Unit("add-remove", 2)).upper
    assert together < 2 * found <= claimed


def test_an_exchange_costs_a_promise_twice() -> None:
    """ln(1 + (e² − 1)/2): the mechanism that tells signs reaches it, a promise of two rows or of one."""
    for rows in (1, 2, 5):
        found = epsilon(FixedSize(1, 2, Promise(1.0, 0.0, rows)), 0.0, "add-remove").upper
        assert found == pytest.approx(math.log1p(math.expm1(2.0) / 2), rel=1e-9)


def test_an_exchange_is_no_more_than_two_neighbours_in_a_row() -> None:
    """The weak triangle inequality, read on two Gaussians in a row."""
    mu, order = 0.3, 6.0
    stated = RenyiDP(2 * order, 2 * order * mu**2 / 2, 1)
    whole = divergence(FixedSize(2, 2, stated), order, "add-remove")
    assert order * (2 * mu) ** 2 / 2 <= whole < 1.2 * order * (2 * mu) ** 2 / 2


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("batch", [1, 3, 5])
def test_the_last_row_leaves_a_smaller_dataset(k: int, batch: int) -> None:
    """One row after the other: the last step is that of n − k + 1 rows, whose batch meets a row more often."""
    n = 8
    for leaf in (Laplace(1.0), PureDP(0.7)):
        several = epsilon(FixedSize(batch, n, leaf), 0.0, Unit("add-remove", k), method="fourier").upper
        last = epsilon(FixedSize(batch, n - k + 1, leaf), 0.0, "add-remove").upper
        assert several == pytest.approx(k * last)


def test_filters_charge_units_of_several_rows_in_parts() -> None:
    pair = Unit("add-remove", 2)
    parts = Parallel([Promise(1.0, 0.0, 2), Promise(0.5, 0.0, 2)])
    assert PureFilter(5.0, pair).cost(parts) == pytest.approx(1.5)
    assert RenyiFilter(4.0, 5.0, pair).cost(parts) == pytest.approx(
        divergence(Compose([PureDP(1.0), PureDP(0.5)]), 4.0, "add-remove")
    )
    assert ApproxFilter(3.0, 0.1, pair).cost(Parallel([Promise(0.1, 0.01, 2)] * 2)) == pytest.approx(2 * 0.1**2)
    assert GDPFilter(5.0, pair).cost(Parallel([Gaussian(2.0), Gaussian(4.0)])) == pytest.approx(1.0)
    assert ZCDPFilter(5.0, pair).cost(Parallel([ZCDP(0.1), PureDP(0.4)])) == pytest.approx(0.4)


# --- randomised response ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "fourier"])
@pytest.mark.parametrize(
    "event",
    [
        RandomizedResponse(1.0),
        Repeat(RandomizedResponse(1.0, 3), 2),
        Poisson(0.1, RandomizedResponse(1.0)),
        PrivateSelection(RandomizedResponse(1.0), 3.0),
        FixedSize(4, 4, RandomizedResponse(1.0)),
    ],
    ids=repr,
)
def test_an_absent_row_answers_nothing(event: Event, method: str) -> None:
    with pytest.raises(NotCertifiable, match="absent row sends no answer"):
        epsilon(event, 0.01, "add-remove", method=method)  # type: ignore[arg-type]


def test_a_batch_of_fixed_size_has_as_many_answers_with_the_row_as_without() -> None:
    event = FixedSize(1, 4, RandomizedResponse(1.0))
    found = epsilon(event, 0.0, "add-remove").upper
    assert found == pytest.approx(math.log1p(math.expm1(1.0) / 4))
    assert found >= attained(event, Unit("add-remove"), 0.0)[0]


# --- nestings without a theorem ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*METHODS, "fourier"])
@pytest.mark.parametrize("unit", UNITS[::3], ids=str)
@pytest.mark.parametrize(
    "event",
    [
        Poisson(0.5, FixedSize(1, 100, Laplace(1.0))),
        Poisson(0.5, Poisson(0.5, Repeat(WithReplacement(1, 100, Gaussian(1.0)), 2))),
        Poisson(0.5, PrivateSelection(FixedSize(1, 100, Laplace(1.0)), 2.0)),
        FixedSize(10, 100, FixedSize(5, 20, Laplace(1.0))),
        WithReplacement(10, 100, WithReplacement(2, 20, Gaussian(1.0))),
        Allocation(4, FixedSize(1, 25, Laplace(1.0))),
        Allocation(4, Repeat(WithReplacement(1, 25, Gaussian(1.0)), 2)),
        Poisson(0.5, Allocation(4, FixedSize(1, 25, Laplace(1.0)))),
        FixedSize(10, 100, Parallel([Laplace(1.0), Laplace(1.0)])),
        FixedSize(10, 100, Poisson(0.5, Parallel([Gaussian(1.0)] * 2))),
        WithReplacement(10, 100, Parallel([Gaussian(1.0), Gaussian(1.0)])),
    ],
    ids=repr,
)
def test_contradictory_or_uncovered_nestings_are_refused(event: Event, unit: Unit, method: str) -> None:
    with pytest.raises(NotCertifiable):
        epsilon(event, 0.01, unit, method=method)  # type: ignore[arg-type]


def test_a_poisson_batch_is_smaller_than_the_dataset() -> None:
    """Of 4 rows a Poisson batch may hold one, which a batch of one row then is: no claim may read n = 4."""
    wrong = Poisson(0.5, FixedSize(1, N, PureDP(1.0)))
    claimed_for_four = epsilon(FixedSize(1, N, PureDP(1.0)), 0.0, "add-remove").upper
    assert attained(wrong, Unit("add-remove"), 0.0)[0] > math.log1p(0.5 * math.expm1(claimed_for_four))


# --- last iterates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_batch_without_the_row_is_closer_and_its_domain_wider(relation: str, k: int) -> None:
    """In absolute numbers: a row moves a step by s₁, neighbours differ by k·s₁ or 2k·s₁, the diameter is d times that.

    The theorem bounds what one row that is present or absent does to the last iterate, with s₁ and that diameter.
    """
    unit = Unit(relation, k)  # type: ignore[arg-type]
    noise, steps, d, one_row = 3.0, 400, 8.0, 1.0
    mu = last_iterate_mu(steps, one_row, noise, 1.0, diameter=d * unit.sensitivity(one_row))
    sampled = Poisson(0.2, LastIterate(noise, steps, 1.0, diameter=d))
    proved = delta(Poisson(0.2, Gaussian(1 / mu)), 1.0, unit).lower
    assert delta(sampled, 1.0, unit).upper >= proved * (1 - 1e-6)


def test_a_unit_s_rows_in_two_parts_move_less_in_a_domain_as_wide() -> None:
    noise, steps, d = 3.0, 400, 8.0
    event = Parallel([LastIterate(noise, steps, 1.0, diameter=d)] * 2)
    one_each = last_iterate_mu(steps, 2.0, noise, 1.0, diameter=4 * d)  # s for one replaced row, D = d·(s for two)
    found = epsilon(event, 1e-5, Unit("replace-one", 2)).upper
    assert found >= epsilon(Repeat(Gaussian(1 / one_each), 2), 1e-5, "add-remove").lower * (1 - 1e-9)


# --- laws between claims ----------------------------------------------------------------------------------------------

STATED: list[Event] = [leaf for leaf in LEAVES if not isinstance(leaf, RandomizedResponse)]
PURE = [leaf for leaf in STATED if isinstance(leaf, Laplace | DiscreteLaplace | Selection | PureDP)]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("leaf", PURE, ids=repr)
def test_k_rows_cost_what_k_neighbours_in_a_row_cost(leaf: Event, unit: Unit) -> None:
    one = epsilon(leaf, 0.0, unit.relation).upper
    assert epsilon(leaf, 0.0, unit).upper == pytest.approx(unit.rows_per_unit * one)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_order_and_grouping_of_parts_do_not_matter(unit: Unit) -> None:
    a, b, c = Laplace(2.0), PureDP(0.3), Promise(0.4, 0.001, 3)
    claims = [
        epsilon(event, 0.01, unit).upper
        for event in (Parallel([a, b, c]), Parallel([c, a, b]), Parallel([Parallel([a, b]), c]))
    ]
    np.testing.assert_allclose(claims, claims[0], rtol=1e-6)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_parts_cost_no_less_than_the_worst_and_no_more_than_all(unit: Unit) -> None:
    other = PureDP(0.2)
    for leaf in STATED:
        if isinstance(leaf, ObjectivePerturbation):  # it has no Rényi divergence
            continue
        worst, parts, both = (
            epsilon(event, 0.03, unit, method="renyi").upper
            for event in (leaf, Parallel([leaf, other]), Compose([leaf, other]))
        )
        assert worst * (1 - 1e-9) <= parts <= both * (1 + 1e-9)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_repetitions_may_be_split(unit: Unit) -> None:
    for inner in (Laplace(4.0), FixedSize(2, 8, Laplace(4.0)), Parallel([PureDP(0.1), PureDP(0.1)])):
        whole = epsilon(Repeat(inner, 6), 0.01, unit)
        split = epsilon(Compose([Repeat(inner, 2), Repeat(Repeat(inner, 2), 2)]), 0.01, unit)
        assert split.upper == pytest.approx(whole.upper, rel=1e-3)


@pytest.mark.parametrize("unit", UNITS[::3], ids=str)
@pytest.mark.parametrize("name", [name for name in COMBINATORS if "best" not in name])
def test_more_rows_never_cost_less(name: str, unit: Unit) -> None:
    for leaf in (Laplace(2.0), PureDP(0.3), Promise(0.5, 0.001, 3)):
        event = COMBINATORS[name](leaf)
        found = [min(claims(event, 0.03, Unit(unit.relation, k)).values(), default=math.inf) for k in (1, 2, 3)]
        assert found[0] <= found[1] * (1 + 1e-9)
        assert found[1] <= found[2] * (1 + 1e-9)


def test_no_protection_is_none_in_any_part_or_batch() -> None:
    for event in (Parallel([NonPrivate(), PureDP(0.1)]), FixedSize(1, N, NonPrivate()), Poisson(0.1, NonPrivate())):
        for unit in UNITS:
            assert accounting.delta(event, 3.0, unit).upper == 1.0


def test_too_many_ways_to_place_rows_are_refused() -> None:
    parts = Parallel([PureDP(0.01 * i) for i in range(1, 41)])
    assert epsilon(parts, 0.0, Unit("add-remove", 2)).upper == pytest.approx(0.8)
    with pytest.raises(NotCertifiable, match="distinct histories"):
        epsilon(parts, 0.0, Unit("add-remove", 6))
