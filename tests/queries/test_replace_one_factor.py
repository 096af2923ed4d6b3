"""Queries that know how far two rows' contributions may be from each other: every two rows of a small domain, and an
attack on a release whose charge rests on it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.solvers.attacks import proved_epsilon

from discreet import events
from discreet.accounting import epsilon
from discreet.data.memory import in_memory
from discreet.losses import Logistic
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.queries.base import ACUTE_FACTOR, BoundedDifference, replace_one_factor
from discreet.queries.histograms.labelled_scores import LabelledScores
from discreet.queries.histograms.residual_histogram import ResidualHistogram
from discreet.queries.histograms.score_histogram import ScoreHistogram
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.moments import LeastEigenvalue, SecondMoment, TargetMoment
from discreet.rows import RowSpec
from discreet.units import Unit

PLAIN, CONSTANT = RowSpec(2, 1.0), RowSpec(2, 1.0, 0.5)
DOMAIN = [
    (np.array([a, b]), label)
    for a, b in itertools.product([-1.0, -0.6, 0.0, 0.6, 0.8, 1.0], repeat=2)
    for label in (-1.0, 0.0, 1.0)
]
REPLACE = Unit("replace-one")

NEAR: dict[str, Callable[[], Any]] = {
    "histogram": lambda: ScoreHistogram(CONSTANT, np.array([1.0, -0.5, 0.2]), np.linspace(-1, 1, 4)),
    "labelled": lambda: ScoreHistogram(PLAIN, np.array([1.0, 1.0]), np.linspace(-1, 1, 3), np.linspace(-2, 2, 3)),
    "residuals": lambda: ResidualHistogram(CONSTANT, np.array([1.0, -0.5, 0.2]), np.linspace(-1, 1, 5)),
    "label sums": lambda: LabelledScores(PLAIN, np.array([1.0, 1.0]), np.linspace(-1, 1, 17)),
    "label sums, few bins": lambda: LabelledScores(PLAIN, np.array([1.0, 1.0]), np.linspace(-1, 1, 3)),
    "energies": lambda: ColumnSecondMoment(PLAIN),
    "energies, cut": lambda: ColumnSecondMoment(PLAIN, 2.0),
    "second moment": lambda: SecondMoment(PLAIN),
    "target moment": lambda: TargetMoment(1.0),
}


def contribution(query: Any, x: NDArray[np.float64], y: float) -> list[int]:
    rows = getattr(query, "rows", PLAIN)
    return [int(v) for v in query.integers(in_memory(x[None], np.array([y]), rows)).ravel()]


def furthest(query: Any) -> Fraction:
    """The largest squared distance of two contributions over the squared bound, in exact arithmetic."""
    alone = {tuple(contribution(query, *row)) for row in DOMAIN}
    square = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in alone for v in alone)
    return Fraction(square, query.bound**2)


@pytest.mark.parametrize("make", NEAR.values(), ids=NEAR.keys())
def test_every_two_rows_are_as_near_as_claimed_and_some_no_nearer(make: Callable[[], Any]) -> None:
    query = make()
    assert isinstance(query, BoundedDifference)
    claim = Fraction(replace_one_factor(query)) ** 2
    assert claim * Fraction(99, 100) < furthest(query) <= claim


def test_a_claim_that_signs_break_is_found() -> None:
    query = GradientSum(PLAIN, Logistic(), np.zeros(2), 0.5)
    assert not isinstance(query, BoundedDifference)
    assert replace_one_factor(query) == 2.0
    assert furthest(query) > Fraction(ACUTE_FACTOR) ** 2 * Fraction(3, 2)


def test_second_moments_of_opposite_and_of_orthogonal_rows() -> None:
    """⟨xxᵀ, x'x'ᵀ⟩ is a square, so opposite rows are the same and orthogonal ones are furthest, in any dimension."""
    rng = np.random.default_rng(0)
    rows = RowSpec(6, 1.0)
    query = SecondMoment(rows)
    for _ in range(200):
        X = rng.standard_normal((2, 6)) * 10.0 ** rng.uniform(-2, 2, (2, 6))
        u, v = (np.array(contribution(query, x, 0.0), object) for x in X)
        assert u @ v >= 0
        assert (u - v) @ (u - v) <= 2 * query.bound**2
    assert contribution(query, X[0], 0.0) == contribution(query, -X[0], 0.0)


def test_the_least_eigenvalue_moves_by_no_more_when_a_row_is_replaced() -> None:
    """Both are between that without the row and that plus the row's squared length (Weyl 1912)."""
    query = LeastEigenvalue(PLAIN)
    largest = 0
    for (x, _), (other, _) in itertools.product(DOMAIN[::3], repeat=2):
        one, two = (
            int(query.integers(in_memory(np.array([[1.0, 0.0], [1.0, 0.0], row]), np.zeros(3), PLAIN))[0])
            for row in (x, other)
        )
        largest = max(largest, abs(one - two))
    assert 0.99 * query.bound < largest <= query.replace_one_factor * query.bound


def test_the_event_says_what_the_query_knows() -> None:
    histogram = Noisy(NEAR["histogram"](), Gaussian(3.0))
    gradient = Noisy(GradientSum(PLAIN, Logistic(), np.zeros(2), 0.5), Gaussian(3.0))
    for unit in (REPLACE, Unit("add-remove")):
        assert histogram.event(unit) == events.Gaussian(3.0, ACUTE_FACTOR)
        assert gradient.event(unit) == events.Gaussian(3.0)


@pytest.mark.parametrize("name", ["histogram", "energies", "second moment"])
def test_an_attack_on_half_the_noise_breaks_the_charge_and_on_all_of_it_does_not(name: str) -> None:
    """The exact likelihood ratio of the two rows furthest from each other; a proof is wrong with probability 1e-3."""
    query, delta, runs = NEAR[name](), 0.1, 800
    pairs = itertools.combinations(DOMAIN[::2], 2)

    def distance(pair: Any) -> float:
        return math.dist(contribution(query, *pair[0]), contribution(query, *pair[1]))

    worlds = [
        in_memory(np.array([x, [0.6, 0.0]]), np.array([y, 1.0]), getattr(query, "rows", PLAIN))
        for x, y in max(pairs, key=distance)
    ]
    one, other = (query.integers(world).ravel() * query.grid for world in worlds)
    claim = epsilon(Gaussian(1.0).event(query, REPLACE), delta, "replace-one").upper

    def proved(noise: float) -> float:
        measurement, bits = Noisy(query, Gaussian(noise)), Bits.seeded(3)
        scale = noise * query.bound * query.grid

        def ratio(world: Any) -> float:
            answer = measurement.sample(world, REPLACE, bits).ravel()
            return float(((answer - other) ** 2 - (answer - one) ** 2).sum() / (2 * scale**2))

        found = [[ratio(world) for _ in range(runs)] for world in worlds]
        return proved_epsilon(*found, delta, claim)

    assert proved(1.0) <= claim
    assert proved(0.5) > claim
