"""Refined rows: each from one row alone, none longer than 1, and the same before and after saving."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.base import DenseBlock
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.measurements.mapped import Mapped
from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.queries.refined_rows import RefinedRows
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.row_sum import RowSum
from discreet.refinement import Cells, ColumnBlock, Groups, Knots, RefinedBlock, Refinement, Value
from discreet.rows import RowSpec
from discreet.units import Unit

COLUMNS = (
    ColumnBlock("u", 0, 3, "number", 0.5),
    ColumnBlock("l", 3, 6, "levels", 0.5),
    ColumnBlock("v", 6, 7, "value", 0.5),
)
BLOCKS = (
    RefinedBlock((0,), (Knots((0.0, 0.2, 0.7, 1.0)),)),
    RefinedBlock((1,), (Groups((0, 1, 1)),)),
    RefinedBlock((2,), (Value(),)),
    RefinedBlock((0,), (Cells((0.1, 0.9)),), 0.7),
    RefinedBlock((0, 1), (Knots((0.0, 0.5, 1.0)), Groups((0, 1, 2))), 1.5),
    RefinedBlock((1, 2), (Groups((0, 0, 1)), Knots((0.0, 1.0))), 2.0),
)
REFINED = Refinement(COLUMNS, BLOCKS)
ROWS, MADE = RowSpec(7, 1.0, 0.5), RowSpec(REFINED.n_features, 1.0, 0.5)


def wild_rows(n: int, rng: Any) -> Any:
    X = rng.standard_normal((n, 7)) * 10.0 ** rng.uniform(-9, 9, (n, 1))
    odd = rng.random(n) < 0.5
    X[odd] = rng.choice([0.0, -1.0, 1e308, -1e308, np.nan, np.inf, -np.inf, 5e-324, 0.3], (int(odd.sum()), 7))
    return X


def test_features_are_those_that_are_written_down() -> None:
    row = np.array([[0.0, 0.25, 0.25, 0.0, 0.0, 0.5, -0.5]])  # u = ¾, the third level, v = −1
    made = REFINED.apply(row).toarray()[0] / REFINED.scale
    knots = [0, 0, 5 / 6, 1 / 6]
    assert made[:4] == pytest.approx(knots)
    assert made[4:7] == pytest.approx([0, 1, -1])
    assert made[7:10] == pytest.approx([0, 0.7, 0])
    assert made[10:19] == pytest.approx(1.5 * np.outer([0, 0.5, 0.5], [0, 0, 1]).ravel())
    assert made[19:] == pytest.approx(2 * np.outer([0, 1], [1, 0]).ravel())


def test_no_row_is_longer_than_one_and_none_depends_on_another() -> None:
    rng = np.random.default_rng(0)
    X = wild_rows(400, rng)
    made = REFINED.apply(X).toarray()
    assert np.isfinite(made).all()
    assert np.linalg.norm(made, axis=1).max() <= 1
    assert np.linalg.norm(made, axis=1).max() > 0.9
    order = rng.permutation(400)
    assert (REFINED.apply(X[order]).toarray() == made[order]).all()
    assert (REFINED.apply(sp.csr_array(X)).toarray() == made).all()
    for i in range(0, 400, 9):
        assert (REFINED.apply(X[[i]]).toarray() == made[[i]]).all()


def test_a_mapped_measurement_is_that_of_the_rows_made() -> None:
    rng = np.random.default_rng(1)
    X, y = wild_rows(200, rng), rng.choice([-1.0, 1.0, np.nan], 200)
    through, data = RefinedRows(MADE, REFINED), in_memory(X, y, ROWS)
    inner = Noisy(GradientSum(MADE, Squared(), rng.standard_normal(MADE.shape), 0.5), Gaussian(0.0))
    mapped = Mapped(ROWS, inner, through)
    unit, made = Unit("add-remove"), in_memory(REFINED.apply(X), y, MADE)
    assert mapped.sample(data, unit, Bits.seeded(0)) == pytest.approx(inner.sample(made, unit, Bits.seeded(0)))
    assert mapped.event(unit) == inner.event(unit)
    noisy = Noisy(RowSum(MADE), Gaussian(2.0))
    assert Mapped(ROWS, noisy, through).event(unit) == noisy.event(unit)
    with pytest.raises(InvalidInput, match="Nothing was released"):
        mapped.sample(made, unit, Bits.seeded(0))


def test_one_row_moves_a_mapped_sum_by_no_more_than_its_bound() -> None:
    rng = np.random.default_rng(2)
    through, query = RefinedRows(MADE, REFINED), RowSum(MADE)
    X, y = wild_rows(150, rng), np.zeros(150)
    block = in_memory(X, y, ROWS).parts()[1][0]
    assert isinstance(block, DenseBlock)
    from discreet.queries.mapped import MappedRows

    whole = query.integers(MappedRows(in_memory(X, y, ROWS), through, True))
    for i in range(0, 150, 7):
        keep = np.delete(np.arange(150), i)
        fewer = query.integers(MappedRows(in_memory(X[keep], y[keep], ROWS), through, True))
        assert (int(v) for v in whole - fewer)
        assert sum(int(v) ** 2 for v in whole - fewer) <= query.bound**2


def test_a_refinement_is_written_and_read() -> None:
    written = json.loads(json.dumps(REFINED.to_list()))
    assert Refinement.from_list(COLUMNS, written) == REFINED


@pytest.mark.parametrize(
    "broken",
    [
        None, [], [{}], [1], {"a": 1},
        [{"columns": ["q"], "views": [{"value": []}], "weight": 1}],
        [{"columns": ["u"], "views": [{"groups": [0]}], "weight": 1}],
        [{"columns": ["l"], "views": [{"groups": [0, 1]}], "weight": 1}],
        [{"columns": ["l"], "views": [{"groups": [0, 1, 10**9]}], "weight": 1}],
        [{"columns": ["u"], "views": [{"knots": [0, "nan", 1]}], "weight": 1}],
        [{"columns": ["u"], "views": [{"knots": [0, 1]}], "weight": 0}],
        [{"columns": ["u"], "views": [{"knots": [0, 1]}], "weight": "inf"}],
        [{"columns": ["u", "u"], "views": [{"knots": [0, 1]}, {"knots": [0, 1]}], "weight": 1}],
        [{"columns": ["u"], "views": [{"cells": [0.5, 0.5]}], "weight": 1}],
        [{"columns": ["u"], "views": [{"knots": [0, 1], "cells": []}], "weight": 1}],
    ],
)  # fmt: skip
def test_what_is_no_refinement_is_refused(broken: Any) -> None:
    with pytest.raises(InvalidInput):
        Refinement.from_list(COLUMNS, broken)
