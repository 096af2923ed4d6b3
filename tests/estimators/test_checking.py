"""Checks of a table against its schema: what is counted, what it costs, and what its noise hides."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.solvers.attacks import proved_epsilon

import discreet as dp
from discreet.accounting import epsilon as accounted
from discreet.calibration import Guarantee
from discreet.calibration.one_release import laplace_multiplier
from discreet.data.memory import in_memory
from discreet.data.problems import problem_codes
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.noise.bits import Bits
from discreet.queries.sums.code_counts import CodeCounts, rows_of_codes
from discreet.units import Unit

SCHEMA = dp.Schema({
    "id": dp.Ignore(), "age": dp.Numeric(17, 90), "job": dp.Categorical(["clerk", "nurse"]), "smoker": dp.Boolean(),
    "sick": dp.Boolean("no", "yes"),
})  # fmt: skip
N = 20_000


def table(**changed: Any) -> dict[str, Any]:
    clean = {"id": range(N), "age": np.full(N, 40), "job": ["nurse"] * N, "smoker": [True] * N, "sick": ["no"] * N}
    return clean | changed


class Odd:
    def __str__(self) -> str:
        raise RuntimeError


CELLS = [
    (dp.Numeric(17, 90), [17, 90, "40", " 40.5 ", True], [0, 0, 0, 0, 3]),
    (dp.Numeric(0, 1), [None, "", "  ", math.nan, Odd(), Decimal("sNaN"), pd.Timestamp("2020-01-01")], [1] * 7),
    (dp.Numeric(0, 1), ["x", "1,5", "NA", "?", "1.5", -0.1, math.inf, "-inf", 10**400], [2, 2, 2, 2, 3, 3, 3, 3, 3]),
    (dp.Categorical(["a", 1]), ["a", " a", 1.0, "01", "b", "A", 2, None, ""], [0, 0, 0, 0, 4, 4, 4, 1, 1]),
    (dp.Categorical(["a"], fill="a"), ["a", "b", None], [0, 4, 1]),
    (dp.Boolean(), ["Yes", "n", 0, 1.0, False, "J", 2, None], [0, 0, 0, 0, 0, 4, 4, 1]),
    (dp.Boolean("no", "yes", fill=True), ["no", "yes", "true", ""], [0, 0, 4, 1]),
    (dp.Ignore(), ["x", None], [0, 0]),
]


@pytest.mark.parametrize(("column", "cells", "codes"), CELLS)
def test_what_is_wrong_with_a_cell(column: Any, cells: list[Any], codes: list[int]) -> None:
    assert problem_codes(cells, column).tolist() == codes
    assert [int(problem_codes([cell], column)[0]) for cell in cells] == codes  # no other cell has a part in it
    assert problem_codes(np.fromiter(cells, object, len(cells)), column).tolist() == codes


def test_columns_of_numbers_have_their_missing_cells() -> None:
    assert problem_codes(np.array([1.0, np.nan, 3.0]), dp.Numeric(0, 2)).tolist() == [0, 1, 3]
    assert problem_codes(np.array([1, 3]), dp.Numeric(0, 2)).tolist() == [0, 3]
    assert problem_codes(np.array([1.0, np.nan]), dp.Categorical([1, 2])).tolist() == [0, 1]


def test_without_noise_the_shares_are_those_of_the_table() -> None:
    ages = np.full(N, 40.0)
    ages[:1000], ages[1000:1500] = 400.0, np.nan
    jobs = ["nurse"] * N
    jobs[2000:6000] = ["pilot"] * 4000
    found = dp.check(table(age=ages, job=jobs), SCHEMA, epsilon=math.inf)
    assert found.shares == {
        "age": {"missing": 0.025, "unreadable": 0.0, "out of range": 0.05},
        "job": {"missing": 0.0, "unlisted": 0.2},
        "smoker": {"missing": 0.0, "unlisted": 0.0},
        "sick": {"missing": 0.0, "unlisted": 0.0},
    }
    assert (found.many, found.margin, found.private) == (0.0, 0.0, False)


def test_rows_with_many_problems_count_by_less_and_are_counted() -> None:
    both = table(job=["pilot"] * N, sick=["J"] * N)
    found = dp.check(both, SCHEMA, epsilon=math.inf)
    assert found.shares["job"]["unlisted"] == found.shares["sick"]["unlisted"] == 0.5
    assert found.many == 1.0
    whole = dp.check(both, SCHEMA, epsilon=math.inf, most_cells=2)
    assert whole.shares["job"]["unlisted"] == whole.shares["sick"]["unlisted"] == 1.0
    assert whole.many == 0.0


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_target_of_other_labels_is_found_for_a_hundredth(adjacency: Any) -> None:
    """A share of 100 % where noise hides 2 or 3 %: it is missed with a probability below e^-60."""
    found = dp.check(table(sick=["J"] * N), SCHEMA, epsilon=0.02, adjacency=adjacency)
    assert "sick" in found.suspects  # a clean column is named, too, in one check of twenty
    assert found.private
    assert found.rows == pytest.approx(N, rel=0.2)


def test_figures_are_within_their_margin_and_clean_tables_have_no_suspects() -> None:
    """150 seeded checks of 9 figures: 2.5 % lie above the margin (1350 draws: below 1 % or above 4.5 % with probability
    5e-5), and at most 5 % of the checks name a column (22 or more with probability 3e-6)."""
    few = {name: list(cells)[:500] for name, cells in table().items()}
    checks = [dp.check(few, SCHEMA, epsilon=0.5, random_state=seed) for seed in range(150)]
    beyond = [s > c.margin for c in checks for shares in c.shares.values() for s in shares.values()]
    assert 0.01 < np.mean(beyond) < 0.045  # one side alone is seen: no share is below 0
    assert 0 < sum(bool(c.suspects) for c in checks) < 22


@pytest.mark.parametrize("unit", [Unit("replace-one"), Unit("add-remove"), Unit("replace-one", 3)], ids=str)
@pytest.mark.parametrize("most", [1, 3])
def test_one_charge_of_exactly_epsilon(unit: Unit, most: int) -> None:
    ledger = dp.Ledger(epsilon=0.05, delta=1e-9, adjacency=unit)
    found = dp.check(table(), SCHEMA, epsilon=0.05, adjacency=unit, most_cells=most, ledger=ledger)
    assert 0.05 * (1 - 1e-6) <= accounted(found.event, 0.0, unit).upper <= 0.05
    with pytest.raises(BudgetExceeded):
        dp.check(table(), SCHEMA, epsilon=0.01, adjacency=unit, ledger=ledger)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_an_attack_on_what_is_released(relation: str) -> None:
    """A row with two problems: in place of one with another problem, or not there. Error: 1e-3 a proof.

    The statistic is the exact likelihood ratio. At half the noise it is up to 2 and proves more than the claim by the
    event that it exceeds 1.6.
    """
    unit, spec = Unit(relation), rows_of_codes(4, 4)  # type: ignore[arg-type]
    query = CodeCounts(spec, 4, 1, relation == "add-remove")
    noise = laplace_multiplier(Guarantee(1.0, 0.0, unit), query.replace_one_factor)
    one, other = (in_memory(np.array([codes], float), np.zeros(1), spec) for codes in ([2, 4, 0, 0], [0, 0, 0, 1]))
    if relation == "add-remove":
        other = one.take(np.array([], int))
    claim = accounted(Noisy(query, Laplace(noise)).event(unit), 0.0, unit).upper
    assert claim <= 1.0

    def proved(mechanism: Laplace, threshold: float) -> float:
        bits, scale = Bits.seeded(5), mechanism.noise_multiplier * query.bound * query.grid
        here, there = (query.grid * query.integers(world) for world in (one, other))

        def ratio(world: Any) -> float:
            answer = Noisy(query, mechanism).sample(world, unit, bits)
            return float((np.abs(answer - there) - np.abs(answer - here)).sum() / scale)

        return proved_epsilon(*([ratio(world) for _ in range(2000)] for world in (one, other)), 0.0, threshold)

    assert proved(Laplace(noise), 0.8 * claim) <= claim
    assert proved(replace(Laplace(noise), noise_multiplier=noise / 2), 1.6 * claim) > claim


def test_persons_are_protected_and_count_once_each() -> None:
    """One person with 5000 wrong rows is one of 2001; noise at ε = 5 is below a point."""
    who = [f"P{i}" for i in range(2000)] + ["Q"] * 5000
    people = {"patient": who, "age": [40] * 2000 + [400] * 5000}
    schema = dp.Schema({"patient": dp.Person(2), "age": dp.Numeric(0, 120)})
    found = dp.check(people, schema, epsilon=5.0)
    assert "2 rows a person, enforced" in found.privacy
    assert found.rows == 4002
    assert found.shares["age"]["out of range"] < 0.02
    assert set(found.shares) == {"age"}
    counted = dp.check(people, schema, epsilon=5.0, adjacency="add-remove")
    assert counted.rows == pytest.approx(4002, abs=100)
    with pytest.raises(InvalidInput, match="has no column 'patient'"):
        dp.check({"age": [1]}, schema, epsilon=1.0)


def test_what_is_refused_is_refused_before_a_charge() -> None:
    ledger = dp.Ledger()
    for arguments, words in (
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": 1e9}, "epsilon"),
        ({"most_cells": 0}, "most_cells"),
        ({"most_cells": 5}, "most_cells"),
        ({"columns": ["height"]}, "no column 'height'"),
        ({"columns": ["id"]}, "ignored"),
        ({"columns": []}, "no column to check"),
        ({"columns": "age"}, "list of names"),
    ):
        with pytest.raises(InvalidInput, match=words):
            dp.check(table(), SCHEMA, **({"epsilon": 0.1, "ledger": ledger} | arguments))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="the table has no column 'sick'"):
        dp.check({"age": [1], "job": ["a"], "smoker": [1]}, SCHEMA, epsilon=0.1, ledger=ledger)
    with pytest.raises(InvalidInput, match="Schema"):
        dp.check(table(), "schema.yaml", epsilon=0.1, ledger=ledger)  # type: ignore[arg-type]
    assert not ledger.history()


def test_bounds_that_were_read_off_the_rows_make_a_check_not_private() -> None:
    rows = {"a": np.arange(200.0)}
    high = dp.quantile(rows["a"], 0.9, epsilon=float("inf"), bounds=(0, 400), adjacency="replace-one")
    assert not dp.check(rows, dp.Schema({"a": dp.Numeric(-1, high)}), epsilon=1.0).private
    assert dp.check(rows, dp.Schema({"a": dp.Numeric(-1, 180)}), epsilon=1.0).private
