"""What a clipped sum promises: absent and hostile slots, reductions, styles of clipping, refusals, and the kernels."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from discreet.errors import InvalidInput  # noqa: E402
from discreet.torch import blocks, kernels  # noqa: E402
from discreet.torch import threads as threads_of  # noqa: E402
from discreet.torch.blocks import AccumulatedBlock, block_of  # noqa: E402
from discreet.torch.engine import Clip, ExampleGradients, check_model, check_slots, fix  # noqa: E402
from discreet.torch.uses import DirectUse, MatrixUse, OuterUse, Target  # noqa: E402

SLOTS, GRID = 6, 2.0**36


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(SLOTS, 5), torch.randint(0, 3, (SLOTS,))


def total(engine: ExampleGradients, x: Tensor, y: Tensor, present: Any = True, **options: Any) -> Tensor:
    reduction = options.pop("of_loss", "none")
    with engine.watch():
        loss = functional.cross_entropy(engine.model(x), y, reduction=reduction)
    slots = torch.as_tensor(present).expand(SLOTS)
    return torch.cat([t.reshape(-1) for t in engine.clipped_sum(loss, slots, **options)])


def engine_of(model: nn.Module, style: Any = "flat", bound: float = 0.5, exact: bool = True) -> ExampleGradients:
    return ExampleGradients(model, Clip(bound, style), slots=SLOTS, grid=GRID, exact=exact)


@pytest.mark.parametrize("exact", [True, False])
def test_absent_slots_and_slots_that_are_not_finite_add_exactly_zero(exact: bool) -> None:
    engine, (x, y) = engine_of(perceptron(), exact=exact), data()
    some = torch.tensor([True, False, True, True, False, False])
    expected = total(engine, x, y, some)
    hostile = x.clone()
    hostile[1], hostile[4], hostile[5, 0] = math.nan, math.inf, 1e38
    assert torch.equal(total(engine, hostile, y, some), expected)  # absent
    everyone = torch.tensor([True, True, True, True, True, False])
    assert torch.equal(total(engine, hostile, y, everyone), expected)  # present, but no numbers
    assert not torch.equal(total(engine, x, y, everyone), expected)
    assert torch.equal(total(engine, x, y, False), torch.zeros_like(expected))


def test_what_is_added_by_parts_is_what_is_added_together() -> None:
    engine, (x, y) = engine_of(perceptron()), data()
    parts = [total(engine, x, y, torch.arange(SLOTS) == slot) for slot in range(SLOTS)]
    assert torch.equal(total(engine, x, y), torch.stack(parts).sum(0))


def test_means_and_sums_of_losses_give_the_integers_of_single_losses() -> None:
    engine, (x, y) = engine_of(perceptron()), data()
    expected = total(engine, x, y).double()
    assert torch.equal(total(engine, x, y, of_loss="sum", reduction="sum").double(), expected)
    mean = total(engine, x, y, of_loss="mean")  # dividing and multiplying by the slots rounds
    assert (mean - expected).norm() < 1e-4 * GRID
    assert torch.equal(total(engine, x, y, of_loss="mean", reduction="mean"), mean)


def gradients(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    rows = []
    for i in range(SLOTS):
        found = torch.autograd.grad(
            functional.cross_entropy(model(x[i : i + 1]), y[i : i + 1]), list(model.parameters())
        )
        rows.append(torch.cat([g.reshape(-1) for g in found]).double())
    return torch.stack(rows)


@pytest.mark.parametrize("exact", [True, False])
def test_styles_of_clipping_follow_their_formulas(exact: bool) -> None:
    model, (x, y) = perceptron(), data()
    rows, bound, first = gradients(model, x, y), 0.5, 5 * 7 + 7
    lengths = rows.norm(dim=1, keepdim=True)
    layers = torch.cat([rows[:, :first].norm(dim=1, keepdim=True), rows[:, first:].norm(dim=1, keepdim=True)], 1)
    per_layer = (bound / math.sqrt(2) / layers).clamp(max=1).repeat_interleave(torch.tensor([first, 7 * 3 + 3]), 1)
    expected = {
        "flat": rows * (bound / lengths).clamp(max=1),
        "per-layer": rows * per_layer,
        "automatic": rows * (bound / (lengths + 0.01)),
    }
    for style, clipped in expected.items():
        found = total(engine_of(model, style, bound, exact), x, y).double() * (bound / GRID)
        quantised = SLOTS * bound * math.sqrt(2) * (math.sqrt(7) / 2 + math.sqrt(7)) / 32000 if exact else 0.0
        assert (found - clipped.sum(0)).norm() < 1e-4 + quantised, style


def test_a_bound_for_one_sum_changes_the_worth_of_an_integer() -> None:
    model, (x, y) = perceptron(), data()
    found = total(engine_of(model, bound=9.0), x, y, bound=0.125)
    assert torch.equal(found, total(engine_of(model, bound=0.125), x, y))
    assert not torch.equal(found, total(engine_of(model, bound=9.0), x, y))


def test_the_report_says_how_each_layer_was_summed() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3), Own())
    engine, (x, y) = engine_of(model), data()
    total(engine, x, y)
    assert engine.report["0"] == "Linear: outer product of quantised vectors"
    assert engine.report["2"] == "Own: vmap(grad) of this module"
    assert [tuple(p.shape) for p in engine.parameters] == [(7, 5), (7,), (3, 7), (3,), (3,)]


def test_the_model_is_left_as_it_was() -> None:
    model, (x, y) = perceptron(), data()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    engine = engine_of(model)
    total(engine, x, y)
    with pytest.raises(ZeroDivisionError), engine.watch():
        _ = 1 / 0
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


# --- refusals ---------------------------------------------------------------------------------------------------------


class Astray(nn.Module):
    """A parameter that is used outside of the module that owns it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + functional.linear(x, self.inner.weight)


def test_a_parameter_that_is_used_outside_of_its_module_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"inner\.weight: used outside"):
        total(engine_of(Astray()), *data())


def test_a_loss_needs_a_watched_forward_pass_and_the_right_shape() -> None:
    engine, (x, y) = engine_of(perceptron()), data()
    everyone = torch.ones(SLOTS, dtype=torch.bool)
    with pytest.raises(InvalidInput, match="inside watch"):
        engine.clipped_sum(functional.cross_entropy(engine.model(x), y), everyone)
    for wrong in (lambda loss: loss[:2], lambda loss: loss[:, None]):
        with engine.watch():
            loss = wrong(functional.cross_entropy(engine.model(x), y, reduction="none"))
        with pytest.raises(InvalidInput, match="shape"):
            engine.clipped_sum(loss, everyone)
    with engine.watch(), pytest.raises(InvalidInput, match="first axis"):
        engine.model(x[:4])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slots": 0}, "slots"),
        ({"slots": 2**20}, "2\\^53"),
        ({"grid": math.inf}, "grid"),
        ({"grid": 1.0}, "grid"),
    ],
)
def test_settings_that_cannot_keep_the_bound_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        ExampleGradients(perceptron(), Clip(1.0), **{"slots": SLOTS, "grid": GRID, **options})


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan, "1"])
def test_a_bound_must_be_a_positive_number(bound: Any) -> None:
    with pytest.raises(InvalidInput, match="positive number"):
        Clip(bound)
    with pytest.raises(InvalidInput, match="style"):
        Clip(1.0, "round")  # type: ignore[arg-type]


def test_a_model_without_trained_parameters_is_refused() -> None:
    with pytest.raises(InvalidInput, match="requires a gradient"):
        engine_of(perceptron().requires_grad_(False))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (nn.BatchNorm2d(4), "GroupNorm"),
        (nn.SyncBatchNorm(4), "GroupNorm"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "track_running_stats"),
        (nn.Embedding(4, 2, scale_grad_by_freq=True), "scale_grad_by_freq=False"),
        (nn.LSTM(2, 3), "batch_first=True"),
        (nn.MultiheadAttention(4, 2), "batch_first=True"),
    ],
)
def test_layers_that_mix_examples_are_refused_by_name_and_with_the_fix(layer: nn.Module, words: str) -> None:
    with pytest.raises(InvalidInput, match=rf"inner\.1 \({type(layer).__name__}\).*{words}"):
        check_model(nn.ModuleDict({"inner": nn.Sequential(nn.Linear(2, 2), layer)}))


def test_fix_replaces_batch_norms_in_a_copy() -> None:
    model = nn.Sequential(nn.Conv2d(3, 12, 3), nn.Sequential(nn.BatchNorm2d(12), nn.ReLU()), nn.InstanceNorm2d(12))
    with torch.no_grad():
        model[1][0].weight.fill_(3.0)
    fixed = fix(model)
    check_model(fixed)
    assert isinstance(model[1][0], nn.BatchNorm2d)
    assert isinstance(fixed[1][0], nn.GroupNorm)
    assert torch.equal(fixed[1][0].weight, torch.full((12,), 3.0))
    assert fixed(torch.randn(2, 3, 5, 5)).shape == model(torch.randn(2, 3, 5, 5)).shape
    assert isinstance(fix(nn.BatchNorm1d(7)), nn.GroupNorm)
    check_model(fix(nn.Sequential(nn.InstanceNorm1d(4, affine=True, track_running_stats=True))))


def test_importing_the_library_does_not_import_torch() -> None:
    code = "import sys, discreet; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- kernels and blocks -----------------------------------------------------------------------------------------------


def test_compiled_loops_give_the_integers_of_the_formulas_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(5)
    values = torch.randn(40, 3000) * torch.logspace(-6, 6, 40)[:, None]
    values[3], values[4, 7], values[5] = 0.0, math.nan, math.inf
    weights = torch.rand(40, dtype=torch.float64) * 1e6
    weights[4:6] = 0.0
    found: dict[bool, tuple[Tensor, ...]] = {}
    for compiled in (True, False):
        monkeypatch.setattr(kernels, "_compiled", lambda _, c=compiled: c)
        added = torch.zeros(3000, dtype=torch.float64)
        kernels.add_truncated(values, weights, added)
        inputs = kernels.quantised(values, 2.0**18)
        scales = found[True][4] if found else inputs.scales  # sums may differ in a last bit
        products = torch.zeros(70, 3000, dtype=torch.float64)
        few = values[:, :70].contiguous()
        used = torch.where(scales > 0, 3e3, 0.0)
        kernels.add_outer(few, used, inputs._replace(scales=scales), 5, products)
        found[compiled] = (
            added, products, kernels.truncated(values, weights), kernels.square_lengths(values), inputs.scales,
            inputs.squares,
        )  # fmt: skip
    for left, right in list(zip(*found.values(), strict=True))[:3]:
        assert torch.equal(left, right)
        assert torch.equal(left, left.round())
        assert left.abs().max() > 1000
    for left, right in list(zip(*found.values(), strict=True))[3:]:
        assert torch.allclose(left, right, rtol=1e-9, equal_nan=True)
    assert found[True][4][3] == 0
    assert found[True][4][4:6].isnan().all()


def test_several_threads_give_the_integers_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_of, "SMALL", 1)
    torch.manual_seed(6)
    values, few = torch.randn(70, 1500), torch.randn(70, 40)
    weights = torch.rand(70, dtype=torch.float64) * 1e6
    found = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        added, products = torch.zeros(1500, dtype=torch.float64), torch.zeros(40, 1500, dtype=torch.float64)
        kernels.add_truncated(values, weights, added)
        inputs = kernels.quantised(values, 32000.0)
        kernels.add_outer(few, weights / 1e3, inputs, 3, products)
        found.append((added, products, inputs.scales, inputs.squares, kernels.square_lengths(values)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("compiled", [True, False])
def test_quantised_products_are_exact_and_as_long_as_is_said(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 2^53 / slots the sums need all digits of a double; Python's integers give the same ones."""
    monkeypatch.setattr(kernels, "_compiled", lambda _: compiled)
    torch.manual_seed(2)
    slots, grid = 8, 2.0**49
    parameter = nn.Parameter(torch.zeros(3, 4))
    use = OuterUse(Target(parameter), torch.randn(slots, 4) * 100, torch.randn(slots, 3) * 1e-3)
    block = block_of([use], grid)
    weights = grid * (1 - 2.0**-20) / block.square_lengths().sqrt()
    sums = torch.zeros(3, 4, dtype=torch.float64)
    block.add(weights, sums)
    expected = [[0] * 4 for _ in range(3)]
    for slot in range(slots):
        alone = torch.zeros(3, 4, dtype=torch.float64)
        block.add(torch.where(torch.arange(slots) == slot, weights, 0.0), alone)
        integers = [[int(v) for v in row] for row in alone.tolist()]
        square = sum(v * v for row in integers for v in row)
        assert 0.99 * grid**2 < square <= int(grid) ** 2
        expected = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(expected, integers, strict=True)]
    assert [[int(v) for v in row] for row in sums.tolist()] == expected


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("size", [1e120, 1e153, 1e160, 1e200])
def test_a_tiny_vector_that_meets_a_huge_one_is_bounded(
    compiled: bool, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In double precision the squared length of one vector underflows while the product of both exceeds the bound."""
    monkeypatch.setattr(kernels, "_compiled", lambda _: compiled)
    parameter, grid, bound = nn.Parameter(torch.zeros(3, 4).double()), 2.0**40, 1e-9
    large, small = torch.rand(2, 4).double() * size, torch.rand(2, 3).double() / size * 1e-7
    for inputs, outputs in ((large, small), (small[:, :1].expand(2, 4) * 1.0, large[:, :3])):
        block = block_of([OuterUse(Target(parameter), inputs, outputs)], grid)
        squares = block.square_lengths()
        weights = torch.where(squares.isfinite(), grid / bound * (bound / squares.sqrt()).clamp(max=1.0), 0.0)
        sums = torch.zeros(3, 4, dtype=torch.float64)
        block.add(weights, sums)
        assert sums.norm() <= 2 * grid * (1 + 2.0**-21)


@pytest.mark.parametrize("transposed", [True, False])
def test_gradients_that_are_made_twice_give_the_integers_of_those_that_are_kept(
    transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(4)
    inputs, outputs = torch.randn(7, 2, 150), torch.randn(7, 2, 130)
    parameter = nn.Parameter(torch.zeros((150, 130) if transposed else (130, 150)))
    sums = []
    for kept in (1 << 23, 0):
        monkeypatch.setattr(blocks, "KEPT", kept)
        block = AccumulatedBlock([MatrixUse(Target(parameter), inputs, outputs, transposed)])
        assert block.keeps == (kept > 0)
        weights = 2.0**30 / block.square_lengths().sqrt()
        sums.append(torch.zeros(parameter.shape, dtype=torch.float64))
        block.add(weights, sums[-1])
    assert torch.equal(*sums)
    assert sums[0].norm() > 2.0**30


def test_gradients_that_come_out_longer_the_second_time_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "KEPT", 0)
    parameter = nn.Parameter(torch.zeros(30, 40))
    use = MatrixUse(Target(parameter), torch.randn(3, 2, 40), torch.randn(3, 2, 30))
    block = AccumulatedBlock([use])
    assert not block.keeps
    weights = 2.0**30 / block.square_lengths().sqrt()
    use.inputs.mul_(3.0)  # as if the second product had been rounded in another way
    for slot in range(3):
        sums = torch.zeros(30, 40, dtype=torch.float64)
        block.add(torch.where(torch.arange(3) == slot, weights, 0.0), sums)
        assert 0.99 * 2.0**30 < sums.norm() <= 2.0**30 * (1 + 2.0**-40)


def test_parts_of_a_parameter_that_overlap_are_added_first() -> None:
    from discreet.torch.blocks import in_blocks

    parameter = nn.Parameter(torch.zeros(4, 2))
    values = torch.ones(3, 2, 2)
    apart = [DirectUse(Target(parameter, 0, 2), values), DirectUse(Target(parameter, 2, 4), values)]
    assert [len(part) for part in in_blocks(apart)] == [1, 1]
    overlapping = [*apart, DirectUse(Target(parameter, 1, 3), values)]
    (whole,) = in_blocks(overlapping)
    assert sum(use.gradients(0, 3) for use in whole)[0].tolist() == [[1, 1], [2, 2], [2, 2], [1, 1]]


class _Exponential(torch.autograd.Function):
    """A function in the style that `torch.func` does not know."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0].exp()


class _Scaled(nn.Module):
    """Parameters in a list, used by their owner's parent through a function of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([torch.randn(5), torch.randn(5)])

    def forward(self, x: Tensor) -> Tensor:
        return _Exponential.apply(x * self.scales[0]) + self.scales[1]


class _Checkpointed(nn.Module):
    """A layer that is used twice, whose activations are computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(lambda z: self.layer(self.layer(z).relu()), x, use_reentrant=False)


class _Cell(nn.Module):
    """A module that vmap cannot differentiate, although it runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.cell(x, self.cell(x.roll(1, 1)))


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("make", [_Scaled, _Checkpointed, _Cell])
def test_lists_of_parameters_own_functions_checkpoints_and_cells_have_the_sums_of_single_examples(
    make: type[nn.Module], exact: bool
) -> None:
    torch.manual_seed(0)
    model, x = make(), torch.randn(SLOTS, 5)
    engine = ExampleGradients(model, Clip(0.5), slots=SLOTS, grid=GRID, exact=exact)

    def losses(rows: Tensor) -> Tensor:
        return model(rows).square().sum(1)

    if exact:
        check_slots(engine, losses, x)
    expected = [torch.zeros_like(parameter) for parameter in engine.parameters]
    for row in x:
        found = torch.autograd.grad(losses(row[None]).sum(), engine.parameters)
        factor = min(1.0, 0.5 / math.sqrt(sum(float(one.square().sum()) for one in found)))
        for total, one in zip(expected, found, strict=True):
            total += factor * one
    sums = engine.sums_of(losses, x, torch.ones(SLOTS, dtype=torch.bool))
    for total, wanted in zip(sums, expected, strict=True):
        torch.testing.assert_close(total.double() * 0.5 / GRID, wanted.double(), rtol=0.0, atol=2e-4)


def test_complex_parameters_are_refused() -> None:
    with pytest.raises(InvalidInput, match="complex"):
        ExampleGradients(nn.Linear(3, 2, dtype=torch.complex64), Clip(1.0), slots=2, grid=GRID)


@pytest.mark.parametrize("features", [4, 64])
def test_what_replaces_a_norm_after_a_linear_layer_lets_numbers_through(features: int) -> None:
    """With as many groups as channels every value was 0, and with two values a group 1 or -1."""
    found = fix(nn.BatchNorm1d(features))(torch.randn(5, features))
    assert len(found.unique()) > 3 * features
    assert found.std() > 0.5
