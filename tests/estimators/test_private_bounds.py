"""Bounds from private quantiles: charged as a whole before anything is drawn, then as good as declared."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import discreet as dp
from discreet.accounting import epsilon
from discreet.errors import BudgetExceeded, InvalidInput

RNG = np.random.default_rng(3)
INCOMES = np.exp(RNG.normal(10, 1, 20_000))
AGES = RNG.integers(18, 91, 20_000)
COLUMNS = {"income": INCOMES, "age": AGES, "job": ["clerk"] * 20_000}
WIDE = dp.Schema(
    {
        "income": dp.Numeric(0, 1e8, fill=0.0),
        "age": dp.Numeric(-1000, 1000, integer=True),
        "job": dp.Categorical(["clerk", "nurse"]),
    }
)


def narrow(data=COLUMNS, schema=WIDE, **changes):
    return dp.private_bounds(data, schema, **{"epsilon": 1.0, "adjacency": "replace-one", **changes})


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove", dp.Unit("add-remove", 2)], ids=str)
def test_the_charges_add_up_to_epsilon_and_nothing_is_left_out(adjacency):
    """Two draws a column, two columns: by basic composition, for the unit that was asked for."""
    ledger = dp.Ledger()
    narrow(adjacency=adjacency, epsilon=0.8, ledger=ledger)
    charges = ledger.history()
    assert [charge.note for charge in charges] == ["bounds of income", "bounds of age"]
    spent = sum(epsilon(charge.event, 0.0, adjacency).upper for charge in charges)
    assert spent == pytest.approx(0.8)
    assert spent <= 0.8 * (1 + 1e-12)


def test_bounds_are_near_the_quantiles_on_the_column_s_own_scale():
    """Each of four draws is within 200 ranks but for a probability of 2^20·e^(−200/8) < 2e-5; and seeded."""
    found = narrow(random_state=0, quantiles=(0.01, 0.99))
    for q, bound in ((0.01, found["income"].low), (0.99, found["income"].high)):
        assert np.mean(bound >= INCOMES) == pytest.approx(q, abs=0.01)
    assert (found["age"].low, found["age"].high) == pytest.approx((18, 90), abs=3)
    assert float(found["age"].low).is_integer()
    assert found["income"].fill == found["income"].low  # moved inside
    assert found["job"] == WIDE["job"]
    assert list(found) == list(WIDE)


@pytest.mark.parametrize(("n", "epsilon", "tail"), [(20_000, 1.0, 0.01), (2000, 1.0, 0.04), (2000, 0.2, 0.2)])
def test_few_rows_are_asked_for_quantiles_that_their_noise_can_tell(n, epsilon, tail):
    """Tails of 20b/n, at least 0.01: of 40 draws a case, none strays to the declared bound, but for 0.3 % a draw."""
    ages, wide = {"age": AGES[:n]}, dp.Schema({"age": dp.Numeric(0, 90_000)})
    for seed in range(20):
        found = narrow(ages, wide, epsilon=epsilon, random_state=seed)
        assert found["age"].high < 200
        assert np.mean(AGES[:n] > found["age"].high) == pytest.approx(tail, abs=tail)
    with pytest.raises(InvalidInput, match="fewer columns"):
        narrow({"age": AGES[:100]}, wide, epsilon=0.2)
    assert narrow(ages, wide, epsilon=epsilon, adjacency="add-remove", n_public=n)["age"].high < 200


def test_a_budget_covers_all_columns_or_none():
    ledger = dp.Ledger(epsilon=0.6, delta=1e-9, adjacency="replace-one")
    with pytest.raises(BudgetExceeded):
        narrow(ledger=ledger)
    assert ledger.history() == ()
    narrow(ledger=ledger, epsilon=0.5)
    assert len(ledger.history()) == 2


def test_a_fit_with_narrow_bounds_learns_what_wide_ones_hide():
    visits = np.clip(np.round(np.log(INCOMES)), 0, 20)
    table = {"income": INCOMES}
    wide = dp.Schema({"income": dp.Numeric(0, 1e9, scale="linear")})
    found = narrow(table, wide, random_state=1, epsilon=0.5)
    scores = [
        dp.LinearRegression(1.0, schema=schema, target_bounds=(0, 20), random_state=0)
        .fit(table, visits)
        .score(table, visits)
        for schema in (wide, found)
    ]
    assert scores[0] < 0.1
    assert scores[1] > 0.5


def test_tables_of_every_make_and_plain_matrices_give_the_same_bounds():
    frames = [pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), {k: [str(v) for v in c] for k, c in COLUMNS.items()}]
    expected = narrow(random_state=5)
    assert all(narrow(frame, random_state=5) == expected for frame in frames)
    numbers = dp.Schema({"income": WIDE["income"], "age": WIDE["age"]})
    matrix = np.column_stack([INCOMES, AGES])
    assert dict(narrow(matrix, numbers, random_state=5)) == {name: expected[name] for name in numbers}


@pytest.mark.parametrize("cell", [None, math.nan, math.inf, -math.inf, "word", 10**400, [1], -1e300])
@pytest.mark.filterwarnings("error")
def test_no_cell_raises_or_warns(cell):
    incomes = np.array([*INCOMES[:50], None], dtype=object)
    incomes[-1] = cell
    found = narrow({"income": incomes}, WIDE, columns=["income"], quantiles=(0.1, 0.9))
    assert 0 <= found["income"].low < found["income"].high <= 1e8


def test_a_constant_column_keeps_its_bounds_and_without_privacy_quantiles_are_exact():
    constant = dp.Schema({"age": dp.Numeric(0, 100)})
    assert narrow({"age": [50] * 100}, constant, epsilon=math.inf) == constant
    found = narrow({"age": np.arange(101)}, constant, epsilon=math.inf, quantiles=(0.25, 0.75))
    assert (found["age"].low, found["age"].high) == pytest.approx((25, 75), abs=0.6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"quantiles": (0.9, 0.1)}, "low < high"),
        ({"quantiles": 0.5}, "two numbers"),
        ({"adjacency": "add-remove", "n_public": 0}, "n_public"),
        ({"columns": ["job"]}, "not declared numeric"),
        ({"columns": ["wealth"]}, "no column 'wealth'"),
        ({"columns": "age"}, "list of names"),
        ({"columns": []}, "no numeric column"),
        ({"schema": {"age": dp.Numeric(0, 1)}}, "need a Schema"),
        ({"data": {"income": INCOMES}}, "no column 'age'"),
        ({"adjacency": "near"}, "adjacency"),
    ],
)
def test_refusals_come_before_any_charge(changes, message):
    ledger = dp.Ledger()
    with pytest.raises(InvalidInput, match=message):
        narrow(**changes, ledger=ledger)
    assert ledger.history() == ()
