"""The largest column sums by one public function: what it charges, names and refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dp
from discreet.errors import BudgetExceeded, InvalidInput

VISITS = (np.random.default_rng(0).random((4000, 60)) < np.where(np.arange(60) < 3, 0.5, 0.1)).astype(float)
CALL = {"epsilon": 1.0, "entry_bound": 1.0, "adjacency": "add-remove", "random_state": 1}


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_names_the_columns_and_charges_what_it_says(delta, kind):
    ledger = dp.Ledger()
    found = dp.largest_sums(kind(VISITS), 3, delta=delta, ledger=ledger, **CALL)
    assert np.flatnonzero(found).tolist() == [0, 1, 2]
    np.testing.assert_allclose(found[:3], VISITS[:, :3].sum(axis=0), atol=150)
    (charge,) = ledger.history()
    cost = dp.accounting.epsilon(charge.event, delta, "add-remove")
    assert 0.99 < cost.upper <= 1.0 + 1e-9
    assert not found.private  # a seed


def test_dense_and_sparse_rows_give_the_same_answer_and_entries_are_cut():
    wild = VISITS.copy()
    wild[0, 50], wild[1, 51] = 1e300, np.nan
    one, two = (dp.largest_sums(kind(wild), 3, delta=1e-6, **CALL) for kind in (np.array, sp.csr_array))
    np.testing.assert_array_equal(one, two)
    assert np.flatnonzero(one).tolist() == [0, 1, 2]


def test_without_privacy_the_sums_are_exact():
    found = dp.largest_sums(VISITS, 2, **CALL | {"epsilon": math.inf})
    order = np.argsort(-VISITS.sum(axis=0))[:2]
    np.testing.assert_allclose(found[order], VISITS.sum(axis=0)[order])


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": True},
        {"delta": 1.0},
        {"entry_bound": 0.0},
        {"entry_bound": math.inf},
        {"s": 0},
        {"X": VISITS[0]},
        {"X": np.array([["a"]])},
        {"adjacency": "both"},
    ],
)
def test_refusals_charge_nothing(change):
    ledger = dp.Ledger()
    arguments = {"X": VISITS, "s": 3, "ledger": ledger} | CALL | change
    with pytest.raises(InvalidInput):
        dp.largest_sums(arguments.pop("X"), arguments.pop("s"), **arguments)
    assert not ledger.history()


def test_a_spent_budget_is_refused():
    ledger = dp.Ledger(epsilon=0.5, delta=1e-9, adjacency="add-remove")
    with pytest.raises(BudgetExceeded):
        dp.largest_sums(VISITS, 3, ledger=ledger, **CALL)
