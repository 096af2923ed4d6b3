"""A training under add-remove that counts its rows first: one charge, and no assumption about their number."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.events import ApproxDP, Laplace, Poisson
from discreet.torch.batches import log_tail

torch.set_num_threads(1)
N, DELTA = 300, 1e-5


def training(n: int = N, model=None, **settings):
    model = model or torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    x = torch.ones(n, 3)
    declared = {"epsilon": 2.0, "delta": DELTA, "epochs": 1, "expected_batch": 0.25, "adjacency": "add-remove"}
    declared |= {"random_state": 0} | settings
    return dp.torch.privatize(model, torch.optim.SGD(model.parameters(), 0.1), (x, torch.zeros(n)), **declared)


def test_count_and_training_are_one_charge_that_keeps_the_guarantee() -> None:
    ledger = dp.Ledger(epsilon=2.0, delta=DELTA, adjacency="add-remove")  # no room for more than was asked for
    trainer = training(ledger=ledger, random_state=None)
    assert len(ledger.history()) == 1
    count, overflow, rounds = trainer.privacy_.event.events
    assert isinstance(count, Laplace)
    assert isinstance(overflow, ApproxDP)
    assert isinstance(rounds.event, Poisson)
    assert [asked["query"] for asked in trainer.privacy_.record["queries"]] == ["RowCount", "ClippedGradientSum"]
    assert trainer.privacy_.epsilon == 2.0
    assert trainer.privacy_.recompute().upper <= 2.0
    assert 1 / count.noise_multiplier == pytest.approx(trainer.plan.count.epsilon, rel=1e-3)
    assert trainer.plan.count.epsilon <= trainer.spent() <= 2.0
    trainer.fit(lambda scores, y: (scores - y).square())
    assert trainer.steps_done == trainer.plan.steps
    assert [charge.status for charge in ledger.history()] == ["completed"]
    with pytest.raises(BudgetExceeded):
        training(ledger=ledger, random_state=None)
    assert len(ledger.history()) == 1


def test_the_bound_on_the_number_of_rows_fails_with_no_more_than_its_charged_probability() -> None:
    """Fails where the margin forgets the rounding of the noise, the neighbour's row, or the factor in the logarithm."""
    found = set()
    for seed in range(3):
        trainer = training(random_state=seed, epochs=0.25)
        plan, scale = trainer.plan, trainer.privacy_.event.events[0].noise_multiplier
        # noise that leaves more rows than the bound covers, for a dataset and its neighbour; n is the released number
        shortfall = plan.count.most - 1 - plan.n
        assert 0.5 * math.exp(-(shortfall - 0.5) / scale) <= plan.count.tail
        tau = math.exp(log_tail(plan.count.most, plan.batches.rate(plan.n), plan.places.total))
        assert plan.count.tail + plan.steps * tau * (1 - 1e-9) <= plan.overflow <= 3e-4 * DELTA
        assert plan.expected_batch == pytest.approx(0.25 * plan.n)
        assert "most_rows" not in trainer.privacy_.settings
        found.add(plan.n)
    assert len(found) > 1


def test_what_cannot_be_trained_is_refused_before_rows_are_counted() -> None:
    ledger = dp.Ledger()
    mixing = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(1), torch.nn.Flatten(0))
    for settings in ({"model": mixing}, {"sampling": "shuffle"}, {"epochs": -1}, {"delta": None}):
        with pytest.raises(InvalidInput):
            training(ledger=ledger, **settings)
    assert ledger.history() == ()
    with pytest.raises(InvalidInput, match="after the number of rows had been released"):
        training(n=20, expected_batch=4000, ledger=ledger)
    assert len(ledger.history()) == 1


def test_a_counted_training_is_resumed_within_its_promise(tmp_path) -> None:
    """The number of rows is not released again: rates, steps and certificate are those of the first process."""
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=2.0, delta=DELTA, adjacency="add-remove")
    trainer = training(ledger=ledger, random_state=None)
    for batch in trainer:
        trainer.step((trainer.model(batch.x) - batch.y).square())
        if trainer.steps_done == 1:
            trainer.save(tmp_path / "training")
            break
    trainer.journal.close()

    def resumed(ledger, n: int = N):
        model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        return dp.torch.resume(
            tmp_path / "training", model, optimizer, (torch.ones(n, 3), torch.zeros(n)), ledger=ledger
        )

    again = resumed(ledger, n=N - 1)  # a row that is gone since is not noticed, and nothing depends on it but sums
    assert again.plan == trainer.plan
    assert again.privacy_ == trainer.privacy_
    assert again.spent() == trainer.spent()
    again.fit(lambda scores, y: (scores - y).square())
    assert again.steps_done == trainer.plan.steps
    (charge,) = ledger.history()
    assert charge.status == "completed"
    assert charge.ran == again.privacy_.event
    with pytest.raises(InvalidInput, match="not an open charge"):
        resumed(ledger)


def test_a_counted_training_in_memory_is_charged_anew_with_its_count(tmp_path) -> None:
    trainer = training()
    trainer.save(tmp_path / "training")
    trainer.journal.close()
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    ledger = dp.Ledger(epsilon=3.0, delta=2 * DELTA, adjacency="add-remove")
    data = torch.ones(N, 3), torch.zeros(N)
    again = dp.torch.resume(tmp_path / "training", model, torch.optim.SGD(model.parameters(), 0.1), data, ledger=ledger)
    (charge,) = ledger.history()
    assert charge.event == again.privacy_.event == trainer.privacy_.event
    assert again.privacy_.record["queries"] == trainer.privacy_.record["queries"]


def test_networks_for_tables_count_their_rows_and_persons() -> None:
    x = np.tile([[0.6, 0.8], [-0.6, -0.8]], (200, 1))
    y = np.tile([1, 0], 200)
    declared = {"row_norm": 1.0, "classes": [0, 1], "epochs": 2, "random_state": 0, "adjacency": "add-remove"}
    rows = dp.TorchClassifier(4.0, 1e-5, **declared).fit(x, y)
    people = dp.TorchClassifier(4.0, 1e-5, rows_per_unit=2, **declared).fit(x, y, groups=np.arange(400) // 2)
    for found in (rows, people):
        assert isinstance(found.privacy_.event.events[0], Laplace)
        assert found.privacy_.epsilon == 4.0
        assert (found.predict(x) == y).all()
    assert people.privacy_.unit.enforced
