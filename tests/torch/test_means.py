"""A mean loss counts each slot for itself, whatever the labels of others are, or it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import discreet as dp  # noqa: E402
from discreet.errors import HypothesisViolated, InvalidInput  # noqa: E402
from discreet.torch.cuda.compiled import CompiledGradients  # noqa: E402
from discreet.torch.engine import Clip, ExampleGradients  # noqa: E402

SLOTS, CLASSES = 4, 3
WEIGHTS = torch.tensor([1.0, 3.0, 7.0])
LABELS = torch.tensor([0, 1, 2, 2])
Loss = Callable[[Tensor, Tensor], Tensor]


def sum_of(loss: Loss, labels: Tensor, slot: int, kind: type[ExampleGradients] = ExampleGradients) -> Tensor:
    """The integers that one slot adds, with the labels of all."""
    torch.manual_seed(0)
    model, x, present = nn.Linear(5, CLASSES), torch.randn(SLOTS, 5), torch.arange(SLOTS) == slot

    def forward(fields: tuple[Tensor, Tensor]) -> Tensor:
        return loss(model(fields[0]), fields[1])

    if kind is CompiledGradients:
        engine = CompiledGradients(model, Clip(5.0), forward, (x, LABELS), slots=SLOTS, grid=2.0**20)
    else:
        engine = ExampleGradients(model, Clip(5.0), slots=SLOTS, grid=2.0**20)
    return torch.cat([total.reshape(-1) for total in engine.sums_of(forward, (x, labels), present)])


def entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels)


def weighted(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores, labels, weight=WEIGHTS)


def refined(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.nll_loss(scores.log_softmax(1), labels, ignore_index=1)


def over_time(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores[:, :, None].repeat(1, 1, 3), labels[:, None].repeat(1, 3))


def over_tokens(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores.repeat(3, 1), labels.repeat(3))


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (entropy, ExampleGradients),
        (weighted, ExampleGradients),
        (refined, ExampleGradients),
        (over_time, ExampleGradients),
        (over_tokens, ExampleGradients),
        (over_tokens, CompiledGradients),
        (entropy, CompiledGradients),
        (refined, CompiledGradients),
    ],
)
def test_labels_of_others_do_not_scale_a_mean_cross_entropy(loss: Loss, kind: type[ExampleGradients]) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        usual = sum_of(loss, LABELS, 0, kind)
        assert usual.any()
        for other in (torch.tensor([0, 1, -100 if loss is not refined else 1, 2]), torch.tensor([0, 0, 1, 1])):
            assert torch.equal(usual, sum_of(loss, other, 0, kind))
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("loss", [entropy, weighted, over_time, over_tokens])
def test_a_mean_cross_entropy_is_that_of_the_slots_losses(loss: Loss) -> None:
    """Also over several labels a slot; ignored ones count as a loss of 0."""

    def each(scores: Tensor, labels: Tensor) -> Tensor:
        weight = WEIGHTS if loss is weighted else None
        return functional.cross_entropy(scores, labels, weight=weight, reduction="none")

    for slot in range(SLOTS):
        assert torch.equal(sum_of(loss, LABELS, slot), sum_of(each, LABELS, slot))


@pytest.mark.parametrize(
    "loss",
    [
        lambda scores, labels: functional.cross_entropy(scores, labels, label_smoothing=0.1),
        lambda scores, labels: 2 * functional.cross_entropy(scores, labels) + scores.square().mean(),
        lambda scores, labels: scores.square().sum(1)[labels > 0].mean(),
    ],
)  # fmt: skip
def test_means_that_divide_by_what_depends_on_examples_are_refused(loss: Loss) -> None:
    with pytest.raises(HypothesisViolated, match="no mean over slots"):
        sum_of(loss, LABELS, 0)


MIXING = [
    lambda scores, labels: (scores.square().sum(1) - scores.mean()).square(),
    lambda scores, labels: functional.cross_entropy(scores @ scores.T, torch.arange(len(scores)), reduction="none"),
]


@pytest.mark.parametrize("loss", MIXING)
def test_a_loop_whose_losses_mix_examples_is_refused(loss: Loss) -> None:
    torch.manual_seed(0)
    model = nn.Linear(5, CLASSES)
    x, y = torch.randn(40, 5), torch.arange(40) % CLASSES
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 0.1), (x, y), epsilon=1.0, epochs=1, expected_batch=10
    )
    loop = iter(trainer)
    batch = next(loop)
    mixed = loss(model(batch.x), batch.y)
    with pytest.raises(HypothesisViolated, match="depends on other slots"):
        trainer.step(mixed)
    assert trainer.steps_done == 0


@pytest.mark.parametrize("wild", [1e38, float("inf"), float("nan"), 0.0])
@pytest.mark.parametrize("svrg", [None, dp.torch.Svrg(2, 0.1)])
def test_a_loop_that_keeps_examples_apart_is_not_refused_whatever_they_are(wild: float, svrg: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, CLASSES))
    x, y = torch.randn(40, 5), torch.arange(40) % CLASSES
    x[::2] = wild
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 0.1), (x, y), epsilon=1.0, epochs=1, expected_batch=10, svrg=svrg
    )
    for reduction in ("none", "mean"):

        def loss(given: Any = None, how: str = reduction) -> Tensor:
            return functional.cross_entropy(model(given.x).square(), given.y, reduction=how)

        for batch in trainer:
            trainer.step((lambda given=batch: loss(given)) if svrg else loss(batch))
            if trainer.steps_done == 2 and reduction == "none":
                break
    assert trainer.steps_done == trainer.plan.steps


@pytest.mark.parametrize(
    "loss",
    [
        *MIXING,
        lambda scores, labels: (scores.square().sum(1) - scores.detach().square().mean()).square(),
        lambda scores, labels: scores.square().sum(1) / (1 + labels.sum()),
    ],
)  # fmt: skip
def test_fit_refuses_losses_that_mix_examples(loss: Loss) -> None:
    torch.manual_seed(0)
    model = nn.Linear(5, CLASSES)
    x, y = torch.randn(40, 5), torch.arange(40) % CLASSES
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 0.1), (x, y), epsilon=1.0, epochs=1, expected_batch=10
    )
    before = model.weight.clone()
    with pytest.raises(HypothesisViolated):
        trainer.fit(loss)
    assert torch.equal(before, model.weight)
    assert trainer.rounds_begun == 0
    trainer.fit(nn.CrossEntropyLoss(weight=WEIGHTS))  # what was charged is still there
    assert trainer.steps_done == trainer.plan.steps


def test_fit_refuses_losses_that_end_with_an_error_on_some_examples() -> None:
    """Probabilities that are not finite are refused by PyTorch, in the middle of a training and because of one row."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 1), nn.Sigmoid(), nn.Flatten(0))
    x, y = torch.randn(40, 5), torch.ones(40)
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 0.1), (x, y), epsilon=1.0, epochs=1, expected_batch=10
    )
    with pytest.raises(InvalidInput, match="defined everywhere"):
        trainer.fit(nn.BCELoss(reduction="none"))
    assert trainer.rounds_begun == 0
    trainer.fit(nn.BCEWithLogitsLoss())
    assert trainer.steps_done == trainer.plan.steps
