"""Optimizers for private gradients take the steps of the update rules that they are named after."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.errors import InvalidInput

torch.set_num_threads(1)
STEPS = 6


@pytest.mark.parametrize("noise", [0.0, 0.4])
@pytest.mark.parametrize("shape", [(7,), (3, 4), (3, 2, 2)])
@pytest.mark.parametrize("lr", [None, 0.05])
def test_adafactor_takes_the_steps_of_the_update_rule(shape, lr, noise) -> None:
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=shape), rng.normal(size=(STEPS, *shape))
    parameter = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = dp.torch.Adafactor([parameter], lr=lr)
    optimizer.noise_std = noise
    matrix = (shape[0], int(np.prod(shape[1:]))) if len(shape) > 1 else None
    rule = dp.updates.Adafactor(step=lr, shape=matrix)
    theta, state = start.ravel(), rule.init(start.size)
    for gradient in gradients:
        parameter.grad = torch.from_numpy(gradient)
        optimizer.step()
        theta, state = rule(theta, gradient.ravel(), state, noise_std=noise)
        np.testing.assert_allclose(parameter.detach().numpy().ravel(), theta, rtol=1e-10)


def test_a_trainer_tells_adafactor_the_noise_and_state_is_small() -> None:
    model = torch.nn.Linear(30, 20)
    optimizer = dp.torch.Adafactor(model.parameters())
    x = torch.ones(50, 30) / 10
    trainer = dp.torch.privatize(
        model, optimizer, (x,), epsilon=1.0, delta=1e-5, epochs=2, expected_batch=25, random_state=0
    )
    for batch in trainer:
        trainer.step(model(batch.x).square().sum(1))
    assert optimizer.noise_std == trainer.noise_std > 0
    state = optimizer.state[model.weight]
    assert (len(state["rows"]), len(state["columns"])) == (20, 30)


def test_bad_settings_and_closures_are_refused() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    for bad in ({"lr": 0.0}, {"clip": 0.0}, {"eps": 0.0}, {"weight_decay": -1.0}):
        with pytest.raises(InvalidInput):
            dp.torch.Adafactor([parameter], **bad)
    with pytest.raises(InvalidInput, match="no closure"):
        dp.torch.Adafactor([parameter]).step(lambda: None)


def test_weight_decay_is_apart_from_the_gradient() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = dp.torch.Adafactor([parameter], lr=0.1, weight_decay=0.5)
    parameter.grad = torch.zeros(3)
    optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.full((3,), 0.95))
