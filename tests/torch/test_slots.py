"""Hypothesis (H) is tested on the model: planted violations are all refused, and usual models are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from discreet.errors import HypothesisViolated  # noqa: E402
from discreet.torch.engine import Clip, ExampleGradients, check_slots  # noqa: E402

SLOTS, SIZE = 4, 6


class Between(nn.Module):
    """A function between two linear layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.function = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, 3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


def mean_loss(model: nn.Module, examples: Any) -> Tensor:
    return functional.cross_entropy(model(examples[0]), examples[1])


def checked(model: nn.Module, loss: Callable[..., Tensor] = mean_loss) -> None:
    torch.manual_seed(3)
    examples = torch.randn(SLOTS, SIZE), torch.randint(0, 3, (SLOTS,))
    engine = ExampleGradients(model, Clip(0.1), slots=SLOTS, grid=2.0**30)
    check_slots(engine, lambda given: loss(model, given), examples)


def batch_statistics(x: Tensor) -> Tensor:
    return x - x.mean(0)


def standardised(x: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, training=True)


def attention_across_examples(x: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x[None], x[None], x[None])[0]


def shared_dropout(x: Tensor) -> Tensor:
    return x * (torch.rand(1, SIZE) < 0.5)


def dropout_that_others_shift(x: Tensor) -> Tensor:
    torch.rand(int((x > 0).sum()))
    return functional.dropout(x, 0.5)


def not_repeatable(x: Tensor) -> Tensor:
    generator = torch.Generator()
    generator.seed()
    return x + 1e-5 * torch.rand(x.shape, generator=generator)


def largest_of_all(x: Tensor) -> Tensor:
    return x / x.abs().max()


def neighbour(x: Tensor) -> Tensor:
    return x + 1e-6 * x.roll(1, 0)


VIOLATIONS = [
    batch_statistics,
    standardised,
    attention_across_examples,
    shared_dropout,
    dropout_that_others_shift,
    not_repeatable,
    largest_of_all,
    neighbour,
]


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda f: f.__name__)
def test_planted_violations_are_refused(violation: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(HypothesisViolated, match="cannot be certified"):
        checked(Between(violation))


def divided_by_what_all_have(model: nn.Module, examples: Any) -> Tensor:
    return functional.cross_entropy(model(examples[0]), examples[1], reduction="sum") / (examples[0] > 0).sum()


def weighted_by_rank(model: nn.Module, examples: Any) -> Tensor:
    losses = functional.cross_entropy(model(examples[0]), examples[1], reduction="none")
    return losses.sort().values.cumsum(0) / len(losses)


@pytest.mark.parametrize("loss", [divided_by_what_all_have, weighted_by_rank], ids=lambda f: f.__name__)
def test_losses_that_mix_examples_are_refused(loss: Callable[..., Tensor]) -> None:
    with pytest.raises(HypothesisViolated, match="cannot be certified"):
        checked(Between(torch.tanh), loss)


@pytest.mark.parametrize("function", [torch.tanh, nn.Dropout(0.5), nn.LayerNorm(SIZE), nn.Sequential(nn.PReLU())])
def test_models_that_keep_examples_apart_pass(function: Callable[[Tensor], Tensor]) -> None:
    checked(Between(function))
    checked(Between(function), lambda m, e: functional.cross_entropy(m(e[0]), e[1], reduction="none"))


def test_dropout_inside_attention_and_inside_modules_without_a_rule_passes() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(SIZE))

        def forward(self, x: Tensor) -> Tensor:
            return functional.dropout(x * self.scale, 0.5)

    layer = nn.TransformerEncoderLayer(SIZE, 2, 8, batch_first=True)
    checked(nn.Sequential(nn.Unflatten(1, (1, SIZE)), layer, Own(), nn.Flatten(), nn.Linear(SIZE, 3)))


def test_a_batch_of_one_slot_is_only_repeated() -> None:
    model = Between(batch_statistics)
    engine = ExampleGradients(model, Clip(0.1), slots=1, grid=2.0**30)
    check_slots(engine, lambda given: model(given).sum(), torch.randn(1, SIZE))
