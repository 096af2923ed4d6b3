"""Variance-reduced steps: differences are clipped as one vector an example, and both kinds of steps are charged."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.errors import InvalidInput
from discreet.events import Gaussian, Poisson, compose
from discreet.torch.engines import TrainingGradients

torch.set_num_threads(1)
N, PERIOD = 40, 3


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1), torch.nn.Flatten(0))


def losses(scores: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (scores - y).square()


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(N, 4, generator=generator), torch.randn(N, generator=generator)


def moved(model: torch.nn.Module) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [p.detach() + 0.3 * torch.randn(p.shape, generator=generator) for p in model.parameters()]


def reference(model, anchor, x, y, bound: float) -> torch.Tensor:
    """The sum of the clipped differences, example by example."""
    names = [name for name, _ in model.named_parameters()]

    def gradient(weights, i):
        weights = {name: w.detach().clone().requires_grad_() for name, w in zip(names, weights, strict=True)}
        loss = losses(torch.func.functional_call(model, weights, (x[i : i + 1],)), y[i : i + 1]).sum()
        return torch.cat([g.ravel() for g in torch.autograd.grad(loss, list(weights.values()))]).double()

    total = 0.0
    for i in range(len(x)):
        difference = gradient(list(model.parameters()), i) - gradient(anchor, i)
        total = total + difference * min(1.0, bound / float(difference.norm()))
    return total


@pytest.mark.parametrize("bound", [100.0, 0.5])
def test_differences_are_those_of_each_example_clipped_together(bound) -> None:
    model, (x, y) = network(), rows()
    anchor = moved(model)
    before = [p.detach().clone() for p in model.parameters()]
    engine = TrainingGradients(model, dp.torch.Clip(bound), slots=N, grid=2.0**26)
    sums = engine.clipped_difference(lambda: losses(model(x), y), anchor, torch.ones(N, dtype=torch.bool), bound)
    found = torch.cat([s.ravel() for s in sums]).double() * bound / 2.0**26
    expected = reference(model, anchor, x, y, bound)
    assert torch.linalg.norm(found - expected) < 5e-3 * torch.linalg.norm(expected)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize("other", [1e30, -3.0, math.nan, 0.0])
def test_one_row_moves_the_differences_by_no_more_than_the_bound(other) -> None:
    model, (x, y) = network(), rows()
    anchor = moved(model)
    engine = TrainingGradients(model, dp.torch.Clip(1.0), slots=N, grid=2.0**20)

    def integers(x: torch.Tensor, present: torch.Tensor) -> list[int]:
        sums = engine.clipped_difference(lambda: losses(model(x), y), anchor, present, 0.1)
        return [int(v) for s in sums for v in s.ravel()]

    neighbour, everyone, others = x.clone(), torch.ones(N, dtype=torch.bool), torch.arange(N) != 7
    neighbour[7] = other
    all_rows, replaced, removed = integers(x, everyone), integers(neighbour, everyone), integers(x, others)
    assert any(all_rows)
    assert sum((a - b) ** 2 for a, b in zip(all_rows, removed, strict=True)) <= 2**40
    assert sum((a - b) ** 2 for a, b in zip(replaced, removed, strict=True)) <= 2**40


def training(model=None, **settings):
    model = model or network()
    declared = {"epsilon": 2.0, "delta": 1e-5, "epochs": 2, "expected_batch": 10, "slots": 16}
    declared |= {"svrg": dp.torch.Svrg(PERIOD, 0.2), "random_state": 3} | settings
    return dp.torch.privatize(model, torch.optim.SGD(model.parameters(), 0.1), rows(), **declared)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_full_steps_and_differences_are_charged_in_their_order(relation) -> None:
    ledger = dp.Ledger()
    trainer = training(ledger=ledger, adjacency=relation, n_public=None if relation == "replace-one" else N)
    z = trainer.plan.noise_multiplier
    ratio = N / 10 * math.sqrt(0.2 / PERIOD)
    full, usual = Gaussian(z * trainer.plan.full_noise_ratio), Poisson(10 / N, Gaussian(z))
    assert trainer.plan.full_noise_ratio == pytest.approx(ratio)
    steps = [full, usual, usual, full, usual, usual, full, usual]
    assert trainer.plan.events[-8:] == steps
    assert trainer.privacy_.event == compose(trainer.plan.events)
    assert trainer.privacy_.recompute().upper <= 2.0
    trainer.fit(losses)
    assert trainer.steps_done == 8
    (charge,) = ledger.history()
    assert (charge.status, charge.event) == ("completed", trainer.privacy_.event)


def test_noise_is_shared_between_both_kinds_so_that_the_weights_have_the_least() -> None:
    svrg, n, m, clip = dp.torch.Svrg(20, 0.3), 1000.0, 50.0, 2.0

    def noise(ratio: float) -> float:
        cost = 1 / ratio**2 + (svrg.period - 1) * (m / n) ** 2
        return cost * ((svrg.period * ratio * clip / n) ** 2 + (svrg.period - 1) * (svrg.clip / m) ** 2)

    best = min(np.geomspace(0.1, 100, 4001), key=noise)
    assert svrg.noise_ratio(clip, n, m) == pytest.approx(best, rel=0.01)


def test_steps_without_noise_are_those_of_svrg() -> None:
    """Loss (w − x)²/2: every difference is w − w̃, so that the steps are known whoever is in the batch."""

    class Mean(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(1, 2, bias=False)
            torch.nn.init.zeros_(self.inner.weight)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.inner(torch.ones(len(x), 1)) - x[:, :2]).square().sum(1) / 2

    model, (x, _) = Mean(), rows()
    lr, weight, anchor, sizes = 0.25, torch.zeros(2), torch.zeros(2), []
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), lr), (x,), epsilon=math.inf, epochs=2, expected_batch=10, clip=100.0,
        svrg=dp.torch.Svrg(PERIOD, 50.0), slots=N, random_state=0, grid=2.0**26,
    )  # fmt: skip
    for number, batch in enumerate(trainer):
        trainer.step(lambda b=batch: model(b.x))
        if number % PERIOD == 0:
            anchor = weight.clone()
            assert batch.present.all()
            direction = weight - x[:, :2].mean(0)
        else:
            sizes.append(int(batch.present.sum()))
            direction = sizes[-1] / 10 * (weight - anchor) + (anchor - x[:, :2].mean(0))
        weight = weight - lr * direction
        torch.testing.assert_close(model.inner.weight.detach().ravel(), weight, atol=2e-3, rtol=0)
    assert len(set(sizes)) > 1


def test_a_training_goes_on_with_its_anchor(tmp_path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=3.0, delta=1e-3, adjacency="replace-one")
    trainer = training(ledger=ledger, random_state=None, slots=N)
    iterator = iter(trainer)
    for _ in range(4):
        batch = next(iterator)
        trainer.step(lambda b=batch: losses(trainer.model(b.x), b.y))
    trainer.save(tmp_path / "training")
    trainer.journal.close()
    model = network()
    again = dp.torch.resume(
        tmp_path / "training", model, torch.optim.SGD(model.parameters(), 0.1), rows(), ledger=ledger
    )
    kept, found = trainer.parts.round.query.anchor, again.parts.round.query.anchor
    for name in ("weights", "gradient"):
        assert len(getattr(found, name)) == 4
        assert all(torch.equal(a, b) for a, b in zip(getattr(kept, name), getattr(found, name), strict=True))
    assert again.plan == trainer.plan
    again.fit(losses)
    assert again.steps_done == 8


def test_what_svrg_cannot_do_is_refused() -> None:
    trainer = training()
    batch = next(iter(trainer))
    with pytest.raises(InvalidInput, match="give step"):
        trainer.step(losses(trainer.model(batch.x), batch.y))
    for settings in (
        {"clip": dp.torch.QuantileBound(1.0)}, {"clip": dp.torch.Clip(1.0, "automatic")}, {"sampling": "allocation"},
        {"bands": 2}, {"svrg": 3},
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            training(**settings)
    for bad in ((1, 1.0), (2.5, 1.0), (2, 0.0), (2, math.inf)):
        with pytest.raises(InvalidInput):
            dp.torch.Svrg(*bad)
