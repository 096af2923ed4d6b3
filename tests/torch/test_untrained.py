"""Examples leave no trace in what is not trained: buffers come back as they were, and other writing is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import discreet as dp  # noqa: E402
from discreet.errors import HypothesisViolated, InvalidInput  # noqa: E402


class Noting(nn.Module):
    """Keeps the last batch's mean, by assignment; and its largest entry, in a buffer that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("spread", None)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = x.detach().mean(0)
        self.spread = x.detach().std(0)
        self.register_buffer("largest", x.detach().amax(), persistent=True)
        return self.inner(x)[:, 0]


class Writing(nn.Module):
    """Moves a frozen parameter towards the examples."""

    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.inner, self.hidden = nn.Linear(3, 1), hidden
        self.centre = nn.Parameter(torch.zeros(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        (self.centre.data if self.hidden else self.centre).add_(0.1 * x.detach().sum(0))
        return self.inner(x)[:, 0]


class Renorming(nn.Module):
    """Looks codes up in a table by a function that shortens the rows it finds."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(100 * torch.ones(9, 3))

    def forward(self, codes: Tensor) -> Tensor:
        return functional.embedding(codes, self.table, max_norm=1.0).sum((1, 2))


def training(model: nn.Module, x: Tensor) -> dp.torch.Trainer:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return dp.torch.privatize(model, optimizer, (x, torch.zeros(len(x))), epsilon=1.0, epochs=1, expected_batch=20)


X = torch.arange(180.0).reshape(60, 3)


def clean(model: Noting) -> bool:
    return not model.mean.any() and model.spread is None and "largest" not in model.state_dict()


def test_buffers_that_are_assigned_come_back() -> None:
    model = Noting()
    trainer = training(model, X)
    assert clean(model)
    for batch in trainer:
        trainer.step(model(batch.x).square())
        assert clean(model)
    assert clean(model)
    assert trainer.steps_done == 3


def test_a_loop_that_broke_off_leaves_buffers_clean() -> None:
    model = Noting()
    trainer = training(model, X)
    for batch in trainer:
        model(batch.x)
        break
    assert clean(model)
    model(X)  # not within the training: the loop's own
    trainer.close()
    assert clean(model)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_forward_pass_that_writes_into_parameters_is_refused(hidden: bool) -> None:
    with pytest.raises(InvalidInput, match=r"centre: the forward pass writes into this parameter"):
        training(Writing(hidden), X)


def test_tables_that_are_shortened_where_they_are_looked_up_are_refused() -> None:
    codes = torch.arange(120).reshape(60, 2) % 9
    with pytest.raises(InvalidInput, match="max_norm=None"):
        training(nn.Sequential(nn.Embedding(9, 3, max_norm=1.0), nn.Flatten(), nn.Linear(6, 1)), codes)
    with pytest.raises(InvalidInput, match="table"):
        training(Renorming(), codes)


class Centred(nn.Module):
    """Subtracts the mean of the batch in training mode, as batch normalisation does, and a fixed one otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x - x.mean(0) if self.training else x - 1.0)[:, 0]


@pytest.mark.parametrize("fitted", [False, True])
def test_a_model_is_tested_in_every_mode_that_it_is_trained_in(fitted: bool) -> None:
    """Models come from libraries in evaluation mode, are privatised, and then put into training mode."""
    model = Centred().eval()
    trainer = training(model, X)
    model.train()
    before = model.inner.weight.clone()
    loop = None if fitted else iter(trainer)
    with pytest.raises(HypothesisViolated):  # noqa: PT012
        if loop is None:
            trainer.fit(lambda scores, y: (scores - y).square())
        else:
            trainer.step(model(next(loop).x).square())
    assert torch.equal(before, model.inner.weight)
    model.eval()
    for batch in trainer:
        trainer.step(model(batch.x).square())
    assert 1 <= trainer.steps_done <= trainer.plan.steps
    kept = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1), nn.Flatten(0)).eval()
    trainer = training(kept, X)
    kept.train()
    for batch in trainer:
        trainer.step(kept(batch.x).square())
    assert trainer.steps_done == trainer.plan.steps
