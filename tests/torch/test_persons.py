"""Persons with several rows are one example each: what a person moves, what is charged, and what is said."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch

import discreet as dp
from discreet.errors import InvalidInput
from discreet.noise import Bits
from discreet.torch.persons import person_examples
from discreet.torch.rows import TorchRows
from discreet.units import Unit

torch.set_num_threads(1)
PEOPLE, ROWS, K = 12, 40, 3
IDS = np.concatenate([np.arange(PEOPLE), np.random.default_rng(0).integers(0, PEOPLE, ROWS - PEOPLE)])
TABLES = {"replace-one": {}, "add-remove": {"n_public": PEOPLE}}


def mixed() -> torch.nn.Module:
    """Convolution, normalisation and dense layers: all must take k rows a slot."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv1d(1, 3, 2), torch.nn.GroupNorm(1, 3), torch.nn.Flatten(), torch.nn.Linear(9, 2), torch.nn.Tanh(),
        torch.nn.LayerNorm(2), torch.nn.Linear(2, 1), torch.nn.Flatten(0),
    )  # fmt: skip


def rows(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(ROWS, 1, 4, generator=generator), torch.randn(ROWS, generator=generator)


def losses(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (scores - y).square()


def training(model=None, data=None, **settings):
    model = model or mixed()
    declared = {"epsilon": 1.0, "delta": 1e-5, "epochs": 2, "expected_batch": 6, "adjacency": Unit("replace-one", K)}
    declared |= {"groups": IDS, "random_state": 0} | settings
    return dp.torch.privatize(model, torch.optim.SGD(model.parameters(), 0.1), data or rows(), **declared)


def integers(trainer, data) -> list[int]:
    """The sum over all persons, of the rows that fixed bits draw."""
    bits, query, slots = Bits.seeded(3), trainer.parts.round.query, trainer.plan.places.slots
    examples = person_examples(IDS, Unit("replace-one", K), ROWS).bounded(TorchRows(data), bits)
    assert len(examples) == PEOPLE
    total = query.zero()
    for which, places in trainer.plan.places.physical_batches(PEOPLE, bits):
        batch = examples.batch(which, places, slots, "cpu")
        assert len(batch.x) == K * slots
        with query.engine.watch():
            loss = losses(trainer.model(batch.x), batch.y)
        for one, part in zip(total, query.integers(loss, batch.present), strict=True):
            one += part
    return [int(v) for one in total for v in one.ravel()]


@pytest.mark.parametrize("other", [1e30, -5.0, math.nan])
def test_all_rows_of_a_person_together_move_the_sum_by_no_more_than_one_example(other) -> None:
    """Fails where rows of a person are clipped one by one: they would add up to three times the bound."""
    trainer = training(clip=0.1, slots=5)
    data = rows()
    changed = data[0].clone(), data[1].clone()
    for part in changed:
        part[IDS == 4] = other
    bound = trainer.parts.round.query.bound
    difference = [a - b for a, b in zip(integers(trainer, data), integers(trainer, changed), strict=True)]
    assert any(difference)
    assert sum(v * v for v in difference) <= (2 * bound) ** 2


def test_the_gradient_of_a_person_is_the_clipped_mean_over_the_rows_that_take_part() -> None:
    model, (x, y), bound = mixed(), rows(), 0.5
    trainer = training(model, clip=bound, grid=2.0**26, slots=PEOPLE)
    found = torch.tensor(integers(trainer, (x, y)), dtype=torch.float64) * bound / 2.0**26
    drawn = person_examples(IDS, Unit("replace-one", K), ROWS).persons.slots(Bits.seeded(3)).reshape(-1, K)
    expected = 0.0
    for members in drawn:
        assert len({int(IDS[i]) for i in members}) == 1
        members = torch.from_numpy(members)
        gradients = torch.autograd.grad(losses(model(x[members]), y[members]).mean(), list(model.parameters()))
        gradient = torch.cat([g.ravel() for g in gradients]).double()
        expected = expected + gradient * min(1.0, bound / float(gradient.norm()))
    assert torch.linalg.norm(found - expected) < 5e-3 * torch.linalg.norm(expected)


@pytest.mark.parametrize("relation", TABLES)
def test_a_person_is_charged_as_one_example_whatever_the_number_of_rows(relation) -> None:
    many = training(adjacency=Unit(relation, K), **TABLES[relation])
    one = training(data=tuple(part[:PEOPLE] for part in rows()), groups=np.arange(PEOPLE), adjacency=relation,
                   **TABLES[relation])  # fmt: skip
    assert many.privacy_.event == one.privacy_.event
    assert many.privacy_.unit == Unit(relation, 1)
    assert many.privacy_.unit.enforced
    assert many.privacy_.settings["rows_in_an_example"] == K
    assert many.privacy_.recompute().upper <= 1.0
    many.fit(losses)
    assert many.steps_done == many.plan.steps == 4
    assert ("number of people" in many.privacy_.unprotected) == (relation == "replace-one")


def test_a_mean_loss_is_that_of_its_rows() -> None:
    vector, scalar = training(), training()
    vector.fit(losses)
    scalar.fit(lambda scores, y: losses(scores, y).mean())
    for a, b in zip(vector.model.parameters(), scalar.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


def test_a_training_goes_on_with_the_same_persons(tmp_path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=2.0, delta=1e-3, adjacency="replace-one")
    trainer = training(ledger=ledger, random_state=None)
    batch = next(iterator := iter(trainer))
    trainer.step(losses(trainer.model(batch.x), batch.y))
    trainer.save(tmp_path / "training")
    iterator.close()
    trainer.journal.close()
    model = mixed()
    parts = tmp_path / "training", model, torch.optim.SGD(model.parameters(), 0.1), rows()
    for wrong in (None, np.arange(ROWS)):
        with pytest.raises(InvalidInput):
            dp.torch.resume(*parts, ledger=ledger, groups=wrong)
    again = dp.torch.resume(*parts, ledger=ledger, groups=IDS)
    again.fit(losses)
    assert again.privacy_ == trainer.privacy_
    assert again.privacy_.unit.enforced


def test_ids_that_do_not_fit_are_refused_where_that_is_public() -> None:
    with pytest.raises(InvalidInput, match="one id a row"):
        training(groups=IDS[1:])
    with pytest.raises(InvalidInput, match="no row says"):
        training(groups=[None] * ROWS)

    nobody = training(groups=[None] * ROWS, adjacency=Unit("add-remove", K), n_public=PEOPLE).fit(losses)
    assert nobody.steps_done == 4  # that nobody is there is private, and the steps are noise

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, 0] @ self.weight

    with pytest.raises(InvalidInput):  # a module without a rule is given one slot at a time, not one row
        training(Own())


@pytest.mark.parametrize("relation", TABLES)
def test_networks_for_tables_protect_persons(relation) -> None:
    x = np.tile([[0.6, 0.8], [-0.6, -0.8]], (120, 1))
    y, who = np.tile([1, 0], 120), np.arange(240) // 4
    declared = {"row_norm": 1.0, "classes": [0, 1], "epochs": 3, "random_state": 0, "adjacency": relation}
    declared |= {} if relation == "replace-one" else {"n_public": 60}
    found = dp.TorchClassifier(4.0, 1e-5, rows_per_unit=4, **declared).fit(x, y, groups=who)
    assert "a person, enforced" in str(found.privacy_)
    assert found.privacy_.settings["rows_in_an_example"] == 4
    assert (found.predict(x) == y).all()
    table = pd.DataFrame({"a": x[:, 0], "who": who})
    schema = dp.Schema({"a": dp.Numeric(-1, 1), "who": dp.Person(4)})
    del declared["row_norm"]
    by_schema = dp.TorchClassifier(4.0, 1e-5, schema=schema, **declared).fit(table, y)
    assert by_schema.privacy_.event == found.privacy_.event
    rowwise = dp.Schema({"a": dp.Numeric(-1, 1), "who": dp.Person(4, "rows")})
    with pytest.raises(InvalidInput, match="weights"):
        dp.TorchClassifier(4.0, 1e-5, schema=rowwise, **declared).fit(table, y)


def test_a_budget_for_k_rows_says_which_one_a_network_needs() -> None:
    """It said to give persons up to k rows, which they had."""
    budget = {"epsilon": 5.0, "delta": 1e-4}
    with pytest.raises(InvalidInput, match=r"one example of all rows of a person.*\(rows_per_unit=1\).*Nothing was ch"):
        training(ledger=dp.Ledger("memory:", adjacency=Unit("replace-one", K), **budget))
    ledger = dp.Ledger("memory:", adjacency="replace-one", **budget)
    training(ledger=ledger)
    assert len(ledger.history()) == 1
