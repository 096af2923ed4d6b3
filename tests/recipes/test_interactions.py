"""Settings of the choice of interactions."""

from __future__ import annotations

import math

import pytest

from discreet.calibration import Guarantee
from discreet.losses import Squared
from discreet.recipes.interactions import NUMBERS, recipe
from discreet.refinement import ColumnBlock
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit


@pytest.mark.parametrize("n", [800.0, 1500.0, 4000.0, 8000.0, 20_000.0])
def test_few_rows_have_few_cells_to_estimate(n: float) -> None:
    """Without any noise too: sampling alone makes cells of few rows uncertain."""
    columns = tuple(ColumnBlock(f"v{j}", j, j + 1, "value", 0.5) for j in range(3))
    problem = Problem(RowSpec(3, 1.0, 0.5), Squared(), n, columns=columns)
    found = recipe(problem, Guarantee(math.inf, 0.0, Unit("add-remove")))
    usual = min(found.most, NUMBERS.most)
    assert usual * found.pair_knots**2 <= n / NUMBERS.rows_per_cell


@pytest.mark.parametrize(("n", "moved"), [(2000.0, False), (20_000.0, True)])
def test_all_knots_move_where_rows_are_many(n: float, moved: bool) -> None:
    columns = tuple(ColumnBlock(f"v{j}", j, j + 1, "value", 0.5) for j in range(3))
    problem = Problem(RowSpec(3, 1.0, 0.5), Squared(), n, columns=columns)
    found = recipe(problem, Guarantee(8.0, 1e-7, Unit("add-remove")))
    assert found.well_used == (1.0 if moved else NUMBERS.well_used)
