"""Claims that need no sampling: on a small domain every pair of neighbours is tried, with exact probabilities.

What is attacked is the law that the mechanism's definition gives to the sums that a query really makes. That the laws
themselves are right is checked in rational arithmetic, and that the samplers follow them by χ² on a few thousand draws.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare
from tests.solvers.transcripts import noisy_maxima_law, places_law, selection_law

from discreet.accounting import delta
from discreet.accounting.upper.stated import pure_epsilon
from discreet.data.memory import in_memory
from discreet.events import PureDP, Selection
from discreet.geometry import L1Ball
from discreet.losses import Squared
from discreet.mechanisms import Choice, LaplacePeeling, Peeling
from discreet.noise.bits import Bits
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.rows import RowSpec
from discreet.units import Unit

RELATIONS = ["add-remove", "replace-one"]
TWO = math.log(2)  # with gaps in whole multiples of ln 2 all weights are rational


# The laws, in rational arithmetic


def by_permutations(scores: tuple[int, ...]) -> list[Fraction]:
    """Permute-and-flip by its definition: go through all orders, take i with probability 2^(score − largest)."""
    chance = [Fraction(1, 2 ** (max(scores) - score)) for score in scores]
    found = [Fraction(0)] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = Fraction(1, len(orders))
        for i in order:
            found[i] += reached * chance[i]
            reached *= 1 - chance[i]
    assert sum(found) == 1
    return found


def by_peeling(sizes: tuple[int, ...], places: tuple[int, ...]) -> Fraction:
    """P that these places are drawn, in any order, with weights 2^size among those left."""
    total = Fraction(0)
    for order in itertools.permutations(places):
        left, probability = Fraction(sum(2**size for size in sizes)), Fraction(1)
        for place in order:
            probability *= 2 ** sizes[place] / left
            left -= 2 ** sizes[place]
        total += probability
    return total


@pytest.mark.parametrize("scores", [(0, 0, 0), (3, 1, 0), (5, 5, 2, 0), (0, 9)])
def test_the_laws_that_attacks_use_are_exact(scores: tuple[int, ...]) -> None:
    weights = [Fraction(2) ** score for score in scores]
    for mechanism, exact in (
        ("exponential", [weight / sum(weights) for weight in weights]),
        ("permute-and-flip", by_permutations(scores)),
    ):
        np.testing.assert_allclose(
            np.exp(selection_law(scores, 1 / TWO, mechanism)), np.array(exact, float), rtol=1e-12
        )
    for places in itertools.combinations(range(len(scores)), 2):
        found = math.exp(places_law(places, np.array(scores) * TWO))
        assert found == pytest.approx(float(by_peeling(scores, places)), rel=1e-12)


# Frank–Wolfe's choice


def neighbours(datasets: dict[Any, Any], relation: str) -> Any:
    """All pairs of multisets of rows that differ in one row."""
    for rows, here in datasets.items():
        for i in range(len(rows)):
            rest = rows[:i] + rows[i + 1 :]
            if relation == "add-remove":
                yield here, datasets[rest]
            else:
                for atom in ATOMS:
                    yield here, datasets[tuple(sorted((*rest, atom)))]


ATOMS = [(x1, x2, y) for x1, x2 in ((0, 1), (1, 0), (0.6, 0.8), (0.6, -0.8)) for y in (-9.0, 9.0)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mechanism", ["exponential", "permute-and-flip"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_no_attack_on_any_neighbours_beats_a_choice_of_vertex(relation: str, mechanism: str, sparse: bool) -> None:
    """Up to three rows of eight kinds, four vertices, after a first step: every probability moves by at most e^ε."""
    spec, unit, choice = RowSpec(2, 1.0), Unit(relation), Choice(4.0, mechanism)  # type: ignore[arg-type]
    chosen = ChosenVertices()
    chosen.append(1)
    query = VertexScores(spec, Squared(), whole_vertices(L1Ball(1.0), 2), chosen, 1.0)
    claim = pure_epsilon(choice.event(query, unit), unit)
    laws = {}
    for n in range(4):
        for rows in itertools.combinations_with_replacement(sorted(ATOMS), n):
            table = np.array(rows, float).reshape(n, 3)
            X = sp.csr_array(table[:, :2]) if sparse else table[:, :2]
            scores = query.integers(in_memory(X, table[:, 2], spec))
            laws[rows] = selection_law(tuple(scores.tolist()), choice.noise_multiplier * query.bound, mechanism)
    losses = [here - there for here, there in neighbours(laws, relation)]
    worst = max(float(np.abs(loss).max()) for loss in losses)
    assert 0.6 * claim < worst <= claim * (1 + 1e-12)  # with half the noise it would be beyond the claim
    if mechanism == "exponential":  # bounded range, which zCDP at ε²/8 rests on, is reached
        assert 0.99 * claim < max(float(np.ptp(loss)) for loss in losses) <= claim * (1 + 1e-12)


# Peeling of three coordinates


@dataclass(frozen=True)
class Sums:
    """A query whose sum is given: ‖row‖∞ ≤ bound."""

    bound: int = 1
    grid: float = 1.0
    norm: str = "linf"
    shape: tuple[int, ...] = (3,)


def peeled(vector: tuple[int, ...], s: int, scale: float) -> Any:
    """P of each set of s places."""
    sizes = np.abs(vector) / scale
    return np.array([math.exp(places_law(places, sizes)) for places in itertools.combinations(range(3), s)])


@pytest.mark.parametrize("s", [1, 2])
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_attack_on_any_neighbours_beats_the_peeled_places(s: int, relation: str) -> None:
    """All vectors in {−2 … 2}³ and all that one row makes of them: Rényi divergence ≤ α·s·ε²/8, ratio ≤ e^(sε)."""
    unit, mechanism = Unit(relation), Peeling(s, 3.0, 1.0)  # type: ignore[arg-type]
    claim = mechanism.event(Sums(), unit).events[0].event.epsilon
    moves = range(-2, 3) if relation == "replace-one" else range(-1, 2)
    laws = {vector: peeled(vector, s, 3.0) for vector in itertools.product(range(-4, 5), repeat=3)}
    worst = 0.0
    for vector in itertools.product(range(-2, 3), repeat=3):
        for move in itertools.product(moves, repeat=3):
            here, there = laws[vector], laws[tuple(v + m for v, m in zip(vector, move, strict=True))]
            assert np.abs(np.log(here / there)).max() <= s * claim * (1 + 1e-12)
            for order in (1.5, 2.0, 4.0, 16.0):
                divergence = math.log(float(np.sum(here**order * there ** (1 - order)))) / (order - 1)
                worst = max(worst, divergence / (order * s * claim**2 / 8))
    assert 0.3 < worst <= 1 + 1e-9


def test_peeling_draws_the_law_that_attacks_use() -> None:
    """χ² at p = 1e-6; half the scale would be told apart with near certainty."""
    mechanism, query, bits = Peeling(2, 1.5, 1e3), Sums(), Bits.seeded(1)
    vector = np.array([3, -1, 0])
    sets = list(itertools.combinations(range(3), 2))
    counts = np.zeros(len(sets))
    for _ in range(4000):
        places = tuple(np.flatnonzero(mechanism.perturb(vector, query, bits)).tolist())
        if places in sets:  # a value of exactly 0, one in 3000, hides its place
            counts[sets.index(places)] += 1
    expected = counts.sum() * peeled((3, -1, 0), 2, 1.5)
    assert chisquare(counts, expected).pvalue > 1e-6
    assert chisquare(counts, counts.sum() * peeled((3, -1, 0), 2, 0.75)).pvalue < 1e-6


# One round of the printed peeling: the largest of |v_j| plus rounded Laplace noise


def noisy_max(vector: tuple[int, ...], scale: float, reach: int = 60) -> Any:
    """P of each place, summed over all whole values that its noise can bring it to; of equal ones the first wins."""
    whole = np.arange(-reach, reach + 1)

    def below(k: Any) -> Any:  # P(round(Laplace) ≤ k)
        edge = (k + 0.5) / scale
        return np.where(edge < 0, np.exp(np.minimum(edge, 0)) / 2, 1 - np.exp(-np.maximum(edge, 0)) / 2)

    sizes = np.abs(vector)
    found = []
    for i, size in enumerate(sizes):
        at = below(whole - size) - below(whole - size - 1)
        for j, other in enumerate(sizes):
            if j != i:
                at = at * below(whole - other - (j < i))
        found.append(at.sum())
    return np.array(found)


@pytest.mark.parametrize("move", [1, 2])
def test_no_attack_on_any_neighbours_beats_a_round_of_noisy_max(move: int) -> None:
    """Rounding to the grid keeps report-noisy-max at e^(2Δ/b): all vectors in {0 … 3}³ and all moves by up to Δ."""
    scale = 2.0
    laws = {vector: noisy_max(vector, scale) for vector in itertools.product(range(-2, 6), repeat=3)}
    worst = 0.0
    for vector in itertools.product(range(4), repeat=3):
        for by in itertools.product(range(-move, move + 1), repeat=3):
            here, there = laws[vector], laws[tuple(v + m for v, m in zip(vector, by, strict=True))]
            worst = max(worst, float(np.abs(np.log(here / there)).max()))
    assert 0.6 * 2 * move / scale < worst <= 2 * move / scale * (1 + 1e-9)


@pytest.mark.parametrize("move", [1, 2])
def test_a_round_of_noisy_max_is_no_worse_than_laplace_noise(move: int) -> None:
    """δ at several ε, for all vectors in {0 … 3}³ and moves by up to Δ: below that of Laplace noise on a number that
    moves by 2Δ + 1 steps, which is itself below what pure DP allows; and above it for 2.5 times the noise.
    """
    scale = 1.5
    laws = {vector: noisy_max(vector, scale) for vector in itertools.product(range(-2, 6), repeat=3)}
    claim = Selection((2 * move + 1) / scale, "noisy-max")
    for at in (0.0, 0.3, 0.7, 1.2):
        worst = 0.0
        for vector in itertools.product(range(4), repeat=3):
            for by in itertools.product(range(-move, move + 1), repeat=3):
                here, there = laws[vector], laws[tuple(v + m for v, m in zip(vector, by, strict=True))]
                worst = max(worst, float(np.maximum(here - math.exp(at) * there, 0).sum()))
        assert worst <= delta(claim, at, "add-remove").upper < delta(PureDP(claim.epsilon), at, "add-remove").upper
        assert worst > delta(Selection(claim.epsilon / 2.5, "noisy-max"), at, "add-remove").upper


def test_the_law_of_noisy_maxima_that_attacks_use_is_that_of_fine_steps() -> None:
    for vector in ((4, 0, -3), (1, 1, 1), (7, 2, 2)):
        exact = noisy_max(tuple(20 * v for v in vector), 40.0, reach=1600)
        found = [noisy_maxima_law((i,), tuple(abs(v) / 2 for v in vector)) for i in range(3)]
        np.testing.assert_allclose(np.exp(found), exact, atol=0.01)
        assert math.isclose(sum(np.exp(found)), 1.0, rel_tol=1e-9)
        pairs = [
            math.exp(noisy_maxima_law(pair, tuple(abs(v) / 2 for v in vector))) for pair in ((0, 1), (0, 2), (1, 2))
        ]
        assert math.isclose(sum(pairs), 1.0, rel_tol=1e-9)


def test_a_round_of_noisy_max_draws_the_law_that_attacks_use() -> None:
    """χ² at p = 1e-6; half the scale would be told apart with near certainty."""
    vector, query, bits, counts = np.array([4, 0, -3]), Sums(), Bits.seeded(2), np.zeros(3)
    mechanism = LaplacePeeling(1, 2.0)
    for _ in range(6000):
        counts[np.flatnonzero(mechanism.perturb(vector, query, bits))] += 1
    # the value shown has noise of its own, and where it is 0 it hides its place
    hidden = np.array([(1 - math.exp(-0.25) if v == 0 else math.exp(-abs(v) / 2) * math.sinh(0.25)) for v in vector])
    for scale, alike in ((2.0, True), (1.0, False)):
        shown = noisy_max((4, 0, -3), scale) * (1 - hidden)
        assert bool(chisquare(counts, counts.sum() * shown / shown.sum()).pvalue > 1e-6) is alike
