"""One training, many canaries: what its releases tell about who took part stays below the claim, and comes close.

Each of the canaries has a gradient of the clipping bound's length in a coordinate of its own, and takes part by a coin
of its own (Steinke, Nasr and Jagielski 2023). Its score is what the training released in its coordinate. With every row
in every batch a score is normal with standard deviation s, and its mean moves by μ·s with the canary, where the claim
says what μ is at most (μ-GDP). The audit estimates μ from all scores with a 99.9 % lower confidence bound.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.events import Gaussian
from discreet.noise import Bits
from discreet.noise.coins import bernoulli

torch.set_num_threads(1)
CANARIES, STEPS = 6000, 4


class Coordinates(torch.nn.Module):
    """The weight of an example's own coordinate, times its length."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(CANARIES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x).squeeze(-1) * 100.0  # much longer than the bound: clipping decides


def lower_bound_of_epsilon(noise_left_out: float = 1.0, bands: int = 1) -> tuple[float, float]:
    """(an ε that the releases prove to be exceeded, the ε of the certificate) at δ = 1e-5 under add-remove."""
    joined = bernoulli(0.5, CANARIES, bits=Bits.seeded(3))
    rows = torch.from_numpy(np.flatnonzero(joined))
    model = Coordinates()
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 1.0), (rows, rows),
        epsilon=3.0, delta=1e-5, epochs=STEPS, expected_batch=len(rows) / bands, adjacency="add-remove",
        n_public=len(rows), bands=bands, random_state=5,
    )  # fmt: skip
    object.__setattr__(trainer.parts.round, "mechanism", _Weaker(trainer.parts.round.mechanism, noise_left_out))
    released = []
    for batch in trainer:
        trainer.step(trainer.model(batch.x))
        released.append(model.table.weight.grad.numpy().ravel().copy())
    assert trainer.steps_done == STEPS * bands
    scores = _scores(np.array(released), trainer, joined, bands)
    ins, outs = scores[joined], scores[~joined]
    pooled = math.sqrt((ins.var() + outs.var()) / 2)
    mu = (ins.mean() - outs.mean()) / pooled
    low = mu - 3.3 * math.sqrt(1 / len(ins) + 1 / len(outs) + mu**2 / (2 * CANARIES))
    claimed = trainer.privacy_.epsilon
    return float(dp.accounting.epsilon(Gaussian(1 / low), 1e-5, "add-remove").lower), claimed


def _scores(released: np.ndarray, trainer, joined: np.ndarray, bands: int) -> np.ndarray:
    """The best test of a canary's presence: what its turns would add, times what the noise was added to."""
    if bands == 1:
        return released.sum(axis=0)
    (drawn,) = trainer.plan.batches._drawn.values()
    group = np.arange(CANARIES) % bands  # who has not joined has no group, and any will do
    group[joined] = drawn
    coefficients = trainer.parts.round.banded.coefficients
    mixed = np.array(
        [sum(c * released[t - i] for i, c in enumerate(coefficients) if i <= t) for t in range(len(released))]
    )
    scores = np.zeros(CANARIES)
    for t in range(len(released)):
        for i, c in enumerate(coefficients):
            if t + i < len(released):
                scores += np.where(group == t % bands, c * mixed[t + i], 0.0)
    return scores


class _Weaker:
    """A mechanism that adds less noise than its event says: the mistake that an audit must find."""

    def __init__(self, inner, share: float) -> None:
        self.inner, self.noise_multiplier = inner, inner.noise_multiplier
        self.share = share

    def event(self, query, unit):
        return self.inner.event(query, unit)

    def perturb(self, integers, query, bits):
        return type(self.inner)(self.noise_multiplier * self.share).perturb(integers, query, bits)


@pytest.mark.parametrize("bands", [1, 3])
def test_an_audit_stays_below_the_claim_and_reaches_most_of_it(bands) -> None:
    found, claimed = lower_bound_of_epsilon(bands=bands)
    assert 0.7 * claimed <= found <= claimed


@pytest.mark.parametrize("bands", [1, 3])
def test_the_same_audit_finds_three_quarters_of_the_noise(bands) -> None:
    found, claimed = lower_bound_of_epsilon(noise_left_out=0.75, bands=bands)
    assert found > claimed


def test_adam_without_noise_is_the_adam_of_torch_and_with_noise_that_of_the_library() -> None:
    generator = np.random.default_rng(0)
    gradients = generator.normal(size=(6, 5))
    ours, theirs = torch.zeros(5, requires_grad=True), torch.zeros(5, requires_grad=True)
    one, two = dp.torch.Adam([ours], lr=0.1), torch.optim.Adam([theirs], lr=0.1)
    for gradient in gradients:
        ours.grad = theirs.grad = torch.from_numpy(gradient).float()
        one.step()
        two.step()
    torch.testing.assert_close(ours, theirs)
    update = dp.updates.Adam(0.1)
    theta, state = np.zeros(5), update.init(5)
    noisy = torch.zeros(5, requires_grad=True, dtype=torch.float64)
    optimizer = dp.torch.Adam([noisy], lr=0.1)
    optimizer.noise_std = 0.7
    for gradient in gradients:
        theta, state = update(theta, gradient, state, noise_std=0.7)
        noisy.grad = torch.from_numpy(gradient)
        optimizer.step()
    np.testing.assert_allclose(noisy.detach().numpy(), theta, rtol=1e-12)


def test_an_adaptive_bound_finds_the_quantile_it_is_asked_for() -> None:
    lengths = torch.exp(torch.linspace(-2, 2, 400))
    model = torch.nn.Linear(1, 1, bias=False)
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 0.0), (lengths[:, None], lengths),
        epsilon=8.0, epochs=60, expected_batch=200, clip=dp.torch.QuantileBound(0.1, 0.75), random_state=0,
    )  # fmt: skip
    plain = trainer.plan.noise_multiplier
    trainer.fit(lambda out, _: out.squeeze(1))
    assert trainer.clip_bound == pytest.approx(math.exp(1.0), rel=0.25)  # the 75 % point of the lengths
    # the count is charged inside the step: the event is the same as without it, and the noise is scaled to both
    assert trainer.privacy_.event.event.event == Gaussian(plain)
    query = trainer.parts.round.query
    assert query.bound >= math.hypot(query.engine.integer_bound, query.half_weight)
