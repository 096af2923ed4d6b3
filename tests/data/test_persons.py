"""Persons, not rows: whose rows are whose, and that no person takes part with more rows than were declared.

Neighbours are compared with the same coins for everybody else, which is what the claim of `discreet.data.persons` is
about: the coins of a row are looked up by the row itself, so that they stay with it whatever other rows there are.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.security.test_every_query import CASES, Make, _length, _rows_of, awkward

from discreet.data.columns import Person
from discreet.data.memory import in_memory
from discreet.data.persons import Persons, id_column, person_codes
from discreet.errors import InvalidInput, PlanViolation
from discreet.ledger import Ledger
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.noise.bits import Bits
from discreet.queries.base import replace_one_factor
from discreet.queries.sums.count import RowCount
from discreet.rows import RowSpec
from discreet.units import Unit
from discreet.vault import Vault

# --- whose a row is ---------------------------------------------------------------------------------------------------


def test_ids_are_the_same_whatever_holds_them() -> None:
    expected = [0, 1, 0, 2, -1]
    for ids in (
        [7, 8, 7, 9, None],
        ["7", " 8", "7 ", "9", "  "],
        [7, "8", 7.0, 9.0, math.nan],
        np.array([7.0, 8.0, 7.0, 9.0, np.nan]),
        pd.Series([7, 8, 7, 9, None], dtype="Int64"),
        pd.Series([7, 8, 7, 9, None], dtype="category"),
        pl.Series([7, 8, 7, 9, None]),
        pa.array(["7", "8", "7", "9", None]).dictionary_encode(),
        np.ma.masked_array([7, 8, 7, 9, 9], mask=[0, 0, 0, 0, 1]),
    ):
        assert person_codes(ids).tolist() == expected, ids
    first, second = uuid.uuid4(), uuid.uuid4()
    assert person_codes([first, second, first]).tolist() == [0, 1, 0]
    assert person_codes(["03", "3", "1e2", "100"]).tolist() == [0, 1, 2, 3]  # text is not read as a number


@pytest.mark.parametrize("gap", [[], [None], [0.5], ["x"]])
def test_nobodys_row_makes_long_numbers_of_others_equal(gap: list[Any]) -> None:
    """Where a cell is missing or a fraction, libraries hold whole numbers as floats: 2^60 and 2^60 + 1 become equal."""
    ids = [2**60, 2**60 + 1, *gap]
    holders: list[Callable[[Any], Any]] = [list, tuple, lambda cells: np.array(cells, dtype=object)]
    if gap in ([], [None]):
        masked = np.ma.masked_array([cell or 0 for cell in ids], mask=[cell is None for cell in ids])
        assert len(set(person_codes(masked)[:2].tolist())) == 2
        holders += [pl.Series, pa.array, lambda cells: pa.chunked_array([cells]), lambda c: pd.Series(c, dtype="Int64")]
    for hold in holders:
        assert len(set(person_codes(hold(ids))[:2].tolist())) == 2, hold
    if gap in ([], [None]):
        for frame in (pl.DataFrame({"id": ids}), pa.table({"id": ids}), {"id": ids}):
            assert len(set(person_codes(id_column(frame, "id", []))[:2].tolist())) == 2


def test_columns_are_found_by_name_alone() -> None:
    assert id_column({"id": [1, 2]}, "who", []) is None
    assert id_column(pd.DataFrame({3: [1, 2]}), "3", []).tolist() == [1, 2]
    assert id_column(np.array([[5, 6], [7, 8]]), "who", ["x", "who"]).tolist() == [6, 8]
    with pytest.raises(InvalidInput, match="one column"):
        person_codes(np.zeros((2, 2)))


def test_no_id_raises() -> None:
    class Odd(str):
        def strip(self, *_: Any) -> str:
            raise RuntimeError

    cells = [Odd("a"), b"\xff", [1], {}, object(), 10**5000, -0.0, 0, math.inf, np.datetime64("2020-01-01")]
    assert person_codes(cells).tolist() == [0, -1, -1, -1, -1, -1, 1, 1, 2, -1]


# --- which rows take part ---------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(-1, 6), max_size=60), st.integers(1, 7), st.integers(0, 99))
def test_every_person_has_the_same_number_of_rows(ids: list[int], most: int, seed: int) -> None:
    codes = person_codes([None if one < 0 else one for one in ids])
    for weights in ("persons", "rows"):
        slots = Persons(codes, Person(most, weights)).slots(Bits.seeded(seed))  # type: ignore[arg-type]
        assert (codes[slots] >= 0).all()
        times, owned = Counter(slots.tolist()), Counter(codes[codes >= 0].tolist())
        drawn = Counter(codes[slots].tolist())
        if weights == "rows":
            assert max(times.values(), default=1) == 1
            assert drawn == {who: min(rows, most) for who, rows in owned.items()}
            continue
        assert drawn == dict.fromkeys(owned, most)
        assert all(len(set(codes[part])) == 1 for part in slots.reshape(-1, most))
        for who, rows in owned.items():
            each = [times[row] for row in np.flatnonzero(codes == who).tolist() if times[row]]
            assert len(each) == min(rows, most)
            assert max(each) - min(each) <= 1


def test_rows_are_chosen_uniformly() -> None:
    """4000 persons of 4 rows, 2 or 3 of which take part: each row equally often, six standard errors each way."""
    codes = np.repeat(np.arange(4000), 4)
    for most, weights in ((2, "persons"), (3, "rows"), (6, "persons")):
        slots = Persons(codes, Person(most, weights)).slots(Bits.seeded(3))  # type: ignore[arg-type]
        share = np.bincount(slots % 4, minlength=4) / len(slots)
        assert np.abs(share - 0.25).max() < 6 * math.sqrt(0.25 * 0.75 / len(slots))
    places = Persons(codes, Person(1)).slots(Bits.seeded(4)) // 4
    assert abs(np.corrcoef(places, np.arange(4000))[0, 1]) < 6 / math.sqrt(4000)  # and persons in a random order


# --- neighbours -------------------------------------------------------------------------------------------------------


class _Coins:
    """Random words by row: a row of the table has the same ones whatever other rows there are."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self.words = lambda count: (np.arange(1, 4001, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))[rows][:count]
        self.reader = Bits.seeded(0).reader  # for the order of persons, in which answers do not depend


def _drawn(rows: NDArray[np.int64], owner: NDArray[np.int64], person: Person) -> NDArray[np.int64]:
    """The rows of the world that take part, where the table holds ``rows`` of it."""
    persons = Persons(person_codes(owner[rows]), person)
    return rows[persons.slots(_Coins(rows))]  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 1000), st.integers(1, 5), st.randoms())
def test_a_person_more_or_less_changes_at_most_their_own_rows(
    others: list[int], rows: int, most: int, random: Any
) -> None:
    owner = np.repeat(np.arange(len(others) + 1), [*others, rows])
    order = np.array(random.sample(range(len(owner)), len(owner)))
    with_them, without = order, order[owner[order] < len(others)]
    for weights in ("persons", "rows"):
        person = Person(most, weights)  # type: ignore[arg-type]
        one, two = (Counter(_drawn(table, owner, person).tolist()) for table in (with_them, without))
        assert not two - one
        assert (one - two).total() == (most if weights == "persons" else min(most, rows))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12),
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.integers(1, 5),
    st.randoms(),
)
def test_a_person_exchanged_changes_k_rows_of_as_many(
    others: list[int], before: int, after: int, most: int, random: Any
) -> None:
    """The other person may have another id and another number of rows, at any places of the table."""
    p = len(others)
    owner = np.repeat(np.arange(p + 2), [*others, before, after])
    order = np.array(random.sample(range(len(owner)), len(owner)))
    first, second = order[owner[order] != p + 1], order[owner[order] != p]
    one, two = (Counter(_drawn(table, owner, Person(most)).tolist()) for table in (first, second))
    assert one.total() == two.total() == most * (p + 1)
    assert (one - two).total() == (two - one).total() == most


@settings(max_examples=10, deadline=None)
@given(st.permutations(range(9)), st.integers(1, 5))
def test_names_of_persons_decide_nothing(names: list[int], most: int) -> None:
    owner = np.random.default_rng(5).integers(0, 9, 60)
    plain, renamed = (Persons(person_codes(ids), Person(most)) for ids in (owner, np.array(names)[owner]))
    coins: Any = _Coins(np.arange(60))
    assert Counter(plain.slots(coins).tolist()) == Counter(renamed.slots(coins).tolist())


@pytest.mark.parametrize("make", CASES)
def test_no_persons_rows_move_a_query_further_than_k_rows(make: Make) -> None:
    rng = np.random.default_rng(11)
    query, most = make(rng), 3
    X, y = awkward(40 + 1000, rng)
    alone = [query.integers(in_memory(X[[i]], y[[i]], _rows_of(query))).ravel().tolist() for i in range(40)]
    longest = max(range(40), key=lambda i: _length(alone[i], query.norm))
    X[40:], y[40:] = X[longest], y[longest]  # a thousand times the same row: nothing cancels
    owner = np.concatenate([rng.integers(0, 8, 40), np.full(1000, 8)])
    tables = [rng.permutation(1040), np.flatnonzero(owner != 8)]

    def distance(ids: NDArray[np.int64]) -> int:
        answers = []
        for rows in tables:
            persons, coins = Persons(person_codes(ids[rows]), Person(most)), _Coins(rows)
            for held in (X[rows], sp.csr_array(X[rows])):
                data = in_memory(held, y[rows], _rows_of(query))
                answers.append(query.integers(persons.bounded(data, coins)).ravel())  # type: ignore[arg-type]
        assert (answers[0] == answers[1]).all()
        assert (answers[2] == answers[3]).all()
        return _length([int(a) - int(b) for a, b in zip(*answers[::2], strict=True)], query.norm)

    square = 2 if query.norm == "l2" else 1
    assert distance(owner) <= math.floor((Fraction(replace_one_factor(query)) * most * query.bound) ** square)
    assert distance(owner) <= (most * query.bound) ** square
    assert distance(np.arange(1040)) > (most * query.bound) ** square  # were ids ignored, it would show


# --- the vault --------------------------------------------------------------------------------------------------------


def _vault(unit: Unit, persons: Persons | None) -> Vault:
    data = in_memory(np.zeros((5000, 1)), np.zeros(5000), RowSpec(1, 1.0))
    return Vault(data, unit, Ledger(), Bits.seeded(0), persons)


def test_five_people_with_a_thousand_rows_each_take_part_with_three() -> None:
    persons = Persons(np.repeat(np.arange(5), 1000), Person(3))
    vault = _vault(Unit("add-remove", 3, enforced=True), persons)
    assert vault.release(Noisy(RowCount(), Laplace(1e-3))) == pytest.approx(15, abs=0.5)
    believed = _vault(Unit("add-remove", 3), None)  # what is declared is believed
    assert believed.release(Noisy(RowCount(), Laplace(1e-3))) == pytest.approx(5000, abs=0.5)


def test_a_vault_refuses_persons_that_the_unit_does_not_speak_of() -> None:
    persons = Persons(np.repeat(np.arange(5), 1000), Person(3))
    for unit, who in (
        (Unit("add-remove", 3, enforced=True), None),
        (Unit("add-remove", 2, enforced=True), persons),
        (Unit("add-remove", 3), persons),
    ):
        with pytest.raises(PlanViolation, match="not bounded"):
            _vault(unit, who)
    with pytest.raises(InvalidInput, match="as many"):
        _vault(Unit("add-remove", 3, enforced=True), Persons(np.zeros(4999, np.int64), Person(3)))
    crowd = Persons(np.full(5000, 2**27 // 1024), Person(1024))
    with pytest.raises(InvalidInput, match="rows of persons can take part"):
        _vault(Unit("add-remove", 1024, enforced=True), crowd)
