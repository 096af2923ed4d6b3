"""Rank scores: what they are, and how far a neighbour moves them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.histograms.ranks import RANK_BITS, Grid, Ranks
from discreet.rows import RowSpec

GRID = Grid.between(0, 4, 1)


def column(values: object) -> object:
    y = np.asarray(values, dtype=float)
    return in_memory(np.empty((len(y), 0)), y, RowSpec(0, 1.0, 1.0))


def listed(values: object, q: float, grid: Grid = GRID) -> np.ndarray:
    found = Ranks(grid, q).scores(column(values))
    assert found.lengths.sum() == grid.size
    return np.repeat(found.values, found.lengths)


def by_definition(values: list[float], q_steps: int) -> np.ndarray:
    known = [min(max(v, 0), 4) for v in values if v == v]
    one, scores = 2**RANK_BITS, []
    for t in range(5):
        over = sum(one * (v < t) - q_steps for v in known)
        short = sum(q_steps - one * (v <= t) for v in known)
        scores.append(-max(0, over, short))
    return np.array(scores)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.77, 1.0])
def test_scores_are_those_of_the_definition(q: float) -> None:
    for n in range(4):
        for values in itertools.product([-5.0, 0, 1, 3, 4, np.inf, np.nan], repeat=n):
            assert (listed(values, q) == by_definition(list(values), Ranks(GRID, q).q_steps)).all()


@pytest.mark.parametrize("q", [0.0, 0.1, 0.5, 0.77, 1.0])
def test_neighbours_move_no_score_further_than_claimed_and_the_claim_is_reached(q: float) -> None:
    """All neighbours of all columns of up to four rows on five positions, in integers."""
    ranks = Ranks(GRID, q)
    atoms = [0.0, 1.0, 2.0, 3.0, 4.0, np.nan]
    table = {
        rows: listed([atoms[i] for i in rows], q)
        for n in range(5)
        for rows in itertools.combinations_with_replacement(range(6), n)
    }
    added = replaced = 0
    for rows, scores in table.items():
        if len(rows) == 4:
            continue
        grown = [table[tuple(sorted((*rows, i)))] for i in range(6)]
        added = max(added, *(int(abs(other - scores).max()) for other in grown))
        replaced = max(replaced, *(int(abs(a - b).max()) for a, b in itertools.combinations(grown, 2)))
    assert added <= ranks.sensitivity("add-remove")
    assert replaced <= ranks.sensitivity("replace-one")
    assert added == ranks.sensitivity("add-remove")
    assert replaced == ranks.sensitivity("replace-one") or q in (0.0, 1.0)


def test_random_neighbours_on_a_fine_grid() -> None:
    """10⁴ random pairs, values tied and untied, both relations."""
    rng = np.random.default_rng(0)
    grid = Grid.between(-1, 1, 2 / 50)
    for trial in range(5000):
        n, q = int(rng.integers(1, 9)), float(rng.random())
        values = rng.choice([-1.0, 0.3, 1.0, rng.normal(), rng.normal(), np.nan], n)
        other = values.copy()
        other[0] = rng.choice([-1.0, 1.0, 0.3, np.nan, rng.normal()])
        here = listed(values, q, grid)
        assert abs(here - listed(other, q, grid)).max() <= Ranks(grid, q).sensitivity("replace-one"), trial
        assert abs(here - listed(values[1:], q, grid)).max() <= Ranks(grid, q).sensitivity("add-remove"), trial


def test_grid() -> None:
    grid = Grid.between(-1.0, 1.0)
    assert grid.size == 2**20 + 1
    assert grid.value(0) == -1.0
    assert grid.value(grid.size - 1) == 1.0
    assert Grid.between(0, 0.3, 0.1).size == 4
    assert grid.positions(np.array([-np.inf, np.nan, 0.0, 1e308])).tolist() == [0, 2**19, 2**20]


@pytest.mark.parametrize(
    ("low", "high", "step"), [(1, 1, None), (0, np.inf, None), (0, 1, 0.0), (0, 1, 1e-9), (0, 1, 2)]
)
def test_grids_that_are_refused(low: float, high: float, step: float | None) -> None:
    with pytest.raises(InvalidInput):
        Grid.between(low, high, step)


def test_quantiles_that_are_refused() -> None:
    with pytest.raises(InvalidInput):
        Ranks(GRID, 1.5)
