"""What else a user's own loop does between a batch and its step: the sums are those of the loss that is given."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from discreet.errors import InvalidInput  # noqa: E402
from discreet.torch import privatize  # noqa: E402
from discreet.torch.engine import Clip, ExampleGradients  # noqa: E402

GRID = 2.0**30


def flat(sums: list[Tensor]) -> Tensor:
    return torch.cat([one.reshape(-1) for one in sums])


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_other_backward_passes_of_a_loop_leave_the_sum_as_it_is(reduction: str) -> None:
    """A loop may ask for gradients of its inputs, as adversarial training does, also of a loss that mixes examples."""
    torch.manual_seed(3)
    model, clean = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)), torch.randn(6, 4)
    engine, everyone = ExampleGradients(model, Clip(1.0), slots=6, grid=GRID), torch.ones(6, dtype=torch.bool)

    def sums(first: float, other: bool) -> Tensor:
        x = clean.clone()
        x[0] = first
        x.requires_grad_()
        with engine.watch():
            scores = model(x)[:, 0]
            if other:
                torch.autograd.grad(100 * scores.sum().square(), x, retain_graph=True)
            losses = (scores - 1).square()
        return flat(engine.clipped_sum(losses if reduction == "none" else losses.mean(), everyone)).double()

    assert torch.equal(sums(0.3, other=True), sums(0.3, other=False))
    assert (sums(0.3, other=True) - sums(1e4, other=True)).norm() <= 2 * engine.integer_bound


@pytest.mark.parametrize("layer", [nn.Linear(4, 1), nn.LSTM(4, 1, batch_first=True), nn.Bilinear(4, 4, 1)])
def test_gradients_of_gradients_are_refused(layer: nn.Module) -> None:
    """They would be computed with the weights as constants, and the sum would lack a part of the gradient."""
    x = torch.randn(3, 2, 4, requires_grad=True)
    engine = ExampleGradients(layer, Clip(1.0), slots=3, grid=GRID)
    with engine.watch():
        found = layer(x, x) if isinstance(layer, nn.Bilinear) else layer(x)
    output = found[0] if isinstance(found, tuple) else found
    with pytest.raises(InvalidInput, match=r"gradients of gradients \(create_graph=True\)"):
        torch.autograd.grad(output.sum(), x, create_graph=True)


def test_adversarial_training_is_training_on_other_inputs() -> None:
    """The first losses of a loop are tested slot by slot; inner backward passes are no part of them."""
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.randint(0, 2, (60,))
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    trainer = privatize(model, optimizer, (x, y), epsilon=3.0, epochs=1, expected_batch=20, random_state=1)
    for batch in trainer:
        given = batch.x.clone().requires_grad_()
        functional.cross_entropy(model(given), batch.y).backward()
        worse = batch.x + 0.1 * given.grad.sign()
        trainer.step(functional.cross_entropy(model(worse), batch.y, reduction="none"))
    assert trainer.steps_done == 3


@pytest.mark.parametrize("change", ["frozen", "replaced", "unfrozen"])
def test_parameters_that_are_chosen_anew_are_refused_in_words(change: str) -> None:
    x, model = torch.randn(6, 4), nn.Linear(4, 2)
    model.weight.requires_grad_(change != "unfrozen")
    engine = ExampleGradients(model, Clip(1.0), slots=6, grid=GRID)
    if change == "replaced":
        model.weight = nn.Parameter(torch.zeros(2, 4))
    else:
        model.weight.requires_grad_(change == "unfrozen")
    with engine.watch():
        losses = model(x).square().sum(1)
    words = "weight: frozen since" if change == "frozen" else "replaced or unfrozen since"
    with pytest.raises(InvalidInput, match=words):
        engine.clipped_sum(losses, torch.ones(6, dtype=torch.bool))


def test_a_module_without_a_rule_is_differentiated_in_the_precision_of_its_forward_pass() -> None:
    """A loop may leave `torch.autocast` before its step, as PyTorch's own recipes do."""
    torch.manual_seed(2)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.PReLU(), nn.Linear(6, 2)), torch.randn(5, 4)
    engine = ExampleGradients(model, Clip(10.0), slots=5, grid=GRID)
    assert engine.report["1"] == "PReLU: vmap(grad) of this module"
    with torch.autocast("cpu", torch.bfloat16):
        losses = model(x).float().square().sum(1)
    expected = torch.autograd.grad(losses.sum(), engine.parameters)
    with engine.watch(), torch.autocast("cpu", torch.bfloat16):
        losses = model(x).float().square().sum(1)
    found = engine.clipped_sum(losses, torch.ones(5, dtype=torch.bool))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double() * 10 / GRID, other.double(), rtol=2e-2, atol=2e-2)
