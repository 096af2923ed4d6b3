"""Sums as one traced program: those of the usual engine, bounded, exact, and refused where they cannot be certified.

Programs run uncompiled here, in host memory; `bench/torch_exact.py` runs the same on a GPU.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
from test_slots import VIOLATIONS, Between  # noqa: E402
from test_zoo import SLOTS, ZOO, losses, made  # noqa: E402

from discreet.errors import HypothesisViolated  # noqa: E402
from discreet.torch import privatize  # noqa: E402
from discreet.torch.cuda import convolutions, fitting, segments  # noqa: E402
from discreet.torch.cuda.compiled import CompiledGradients, NotCompiled  # noqa: E402
from discreet.torch.engine import Clip, ExampleGradients, check_slots  # noqa: E402
from discreet.torch.taps import transposed  # noqa: E402
from discreet.torch.uses import ConvolutionUse, Target  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same'"),
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
]
GRID = 2.0**20
FINE = 2.0**28
MASK = torch.ops.aten.le.Scalar
NAMES = (
    "wide linear over little time", "perceptron with relu in place", "conv2d, stride and padding", "conv2d, groups",
    "conv2d, one position", "embedding, padding", "embedding, common positions", "group norm", "gru",
    "attention to others", "transformer encoder", "tied weights", "reused layer", "windows", "low-rank adapter",
    "token and positions", "gpt-2",
)  # fmt: skip


@pytest.fixture(autouse=True)
def tf32() -> Iterator[None]:
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision("highest")


def compiled(name: str, clip: Clip, grid: float) -> tuple[CompiledGradients, tuple[Tensor, ...]]:
    """An engine that was traced on other examples than those that are returned."""
    model, inputs = made(name)
    other = tuple(torch.randn_like(x) if x.is_floating_point() else x.flip(0) for x in inputs)
    engine = CompiledGradients(model, clip, lambda fields: losses(model(*fields)), other, slots=SLOTS, grid=grid)
    return engine, inputs


def flat(sums: list[Tensor]) -> Tensor:
    return torch.cat([total.reshape(-1).to(torch.int64) for total in sums])


@pytest.mark.parametrize("name", NAMES)
def test_a_program_gives_the_sums_of_the_usual_engine_to_the_rounding_of_bfloat16(name: str) -> None:
    engine, inputs = compiled(name, Clip(1.0), FINE)
    usual = ExampleGradients(engine.model, Clip(1.0), slots=SLOTS, grid=FINE)
    present = torch.tensor([True] * (SLOTS - 1) + [False])
    expected = flat(usual.sums_of(engine.forward, inputs, present, 2.0)).double()
    found = flat(engine.sums_of(engine.forward, inputs, present, 2.0)).double()
    assert (found - expected).norm() < 2**-7 * expected.norm()
    assert all("compiled" in words for words in engine.report.values())


@pytest.mark.parametrize("style", ["flat", "per-layer", "automatic"])
@pytest.mark.parametrize("name", ["perceptron with relu in place", "transformer encoder", "tied weights", "windows"])
def test_one_example_moves_a_program_s_sum_by_the_bound_at_most(name: str, style: Any) -> None:
    engine, inputs = compiled(name, Clip(0.01, style), GRID)
    everyone = torch.ones(SLOTS, dtype=torch.bool)
    changes: list[Callable[[Tensor], Tensor]] = [
        lambda x: x * 1e6, lambda x: x * 1e30, lambda x: x * math.nan, lambda x: x * 1e-12, torch.zeros_like,
    ]  # fmt: skip
    for turn, change in enumerate(changes):
        slot = turn % SLOTS
        others = torch.arange(SLOTS) != slot
        changed = [x.clone() for x in inputs]
        for x in changed:
            x[slot] = change(x[slot]) if x.is_floating_point() else (x[slot] + turn) % 7
        with_it = flat(engine.sums_of(engine.forward, tuple(changed), everyone))
        without = flat(engine.sums_of(engine.forward, tuple(changed), others))
        assert torch.equal(without, flat(engine.sums_of(engine.forward, inputs, others)))
        assert sum(v * v for v in (with_it - without).tolist()) <= int(engine.integer_bound) ** 2
    before = flat(engine.sums_of(engine.forward, inputs, everyone)) - flat(
        engine.sums_of(engine.forward, inputs, everyone & (torch.arange(SLOTS) != 0))
    )
    assert before.double().norm() > 0.99 * GRID / (1 if style == "flat" else 2)


def test_gradients_so_long_that_weights_lose_digits_keep_the_bound() -> None:
    """Weights near 2^−140 are float32 numbers of a few digits, and may be half as large again as they should be."""
    model = nn.Linear(6, 4, bias=False)
    x = torch.linspace(1, 2, 18).reshape(3, 6)

    def forward(fields: Tensor) -> Tensor:
        return model(fields).square().sum(1)

    engine = CompiledGradients(model, Clip(1e-5), forward, x, slots=3, grid=GRID)
    for size in torch.logspace(20.0, 24.0, 80).tolist():
        found = flat(engine.sums_of(forward, x * size, torch.tensor([False, True, False])))
        assert sum(v * v for v in found.tolist()) <= int(GRID) ** 2


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda f: f.__name__)
def test_planted_violations_are_refused_for_the_program_that_is_replayed(violation: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model = Between(violation)
    examples = torch.randn(6, model.first.in_features)

    def forward(x: Tensor) -> Tensor:
        return model(x).square().sum(1)

    with pytest.raises((HypothesisViolated, NotCompiled)):
        check_slots(CompiledGradients(model, Clip(1.0), forward, examples, slots=6, grid=GRID), forward, examples)


def test_what_cannot_be_compiled_is_said() -> None:
    model, x = nn.Linear(3, 2), torch.randn(4, 3)

    def attempt(forward: Callable[[Tensor], Tensor], grid: float = GRID) -> None:
        CompiledGradients(model, Clip(1.0), forward, x, slots=4, grid=grid)

    constant = torch.randn(4, 2)
    with pytest.raises(NotCompiled, match="neither a parameter nor a buffer"):
        attempt(lambda x: (model(x) * constant).sum(1))
    with pytest.raises(NotCompiled, match="random"):
        attempt(lambda x: nn.functional.dropout(model(x)).sum(1))
    with pytest.raises(NotCompiled, match="could not be compiled"):
        attempt(lambda x: model(x).sum(1) * float(x.sum()))
    with pytest.raises(NotCompiled, match=r"2\^31"):
        attempt(lambda x: model(x).sum(1), 2.0**30)
    with pytest.raises(NotCompiled, match="writes"):
        attempt(lambda x: model(x.add_(1)).sum(1))
    torch.set_float32_matmul_precision("highest")
    with pytest.raises(NotCompiled, match="full float32"):
        attempt(lambda x: model(x).sum(1))


def test_truncated_sums_are_exact_and_leave_out_weights_of_zero() -> None:
    torch.manual_seed(3)
    left, right = torch.randn(4, 9, 16), torch.randn(4, 9, 32)
    left[2] = math.inf
    weights = torch.tensor([1000.0, 31.5, 0.0, 2.0**18])
    products = left.double().transpose(1, 2) @ right.double()
    expected = sum((w * p).trunc() for w, p in zip(weights, products, strict=True) if w)
    found = torch.zeros(16, 32, dtype=torch.int32)
    segments.segment_sums(left, right, weights, found)
    assert (found - expected).abs().max() <= 3  # one a slot: products in float32 may round across a whole number
    kept = torch.zeros(512, dtype=torch.int32)
    segments.kept_sums(products.float().reshape(4, -1), weights, kept)
    assert (kept.view(16, 32) - expected).abs().max() <= 3
    squares = torch.zeros(segments.segment_parts(9, 16, 32), 4, dtype=torch.float64)
    segments.segment_squares(left, right, squares)
    lengths = squares.sum(0)
    assert torch.allclose(lengths[[0, 1, 3]], products[[0, 1, 3]].square().sum((1, 2)), rtol=2**-16)
    assert not lengths[2].isfinite()
    table, codes = torch.zeros(5, 32, dtype=torch.int32), torch.tensor([[0, 4], [4, 4], [1, 2], [0, 0]])
    segments.row_sums(right[:, :2].contiguous(), codes, weights, table)
    assert not table[1].any()
    assert not table[3].any()
    assert torch.equal(
        table[4], (1000 * right[0, 1]).to(torch.int32) + (31.5 * right[1, :2]).to(torch.int32).sum(0, dtype=torch.int32)
    )


def test_both_answers_of_the_kernel_are_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Squared lengths and sums differ in one number that is read at run time, not in what a program is compiled for."""
    calls: list[tuple[Any, ...]] = []

    class Kernel:
        def __getitem__(self, grid: Any) -> Callable[..., None]:
            def launch(*arguments: Any, **constants: Any) -> None:
                kinds = [a.dtype if isinstance(a, Tensor) else a for a in arguments]
                calls.append((grid, kinds, constants))

            return launch

    monkeypatch.setattr(segments, "_segments", Kernel())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    left, images = torch.zeros(3, 16, 16), torch.zeros(3, 4, 4, 16)
    window = segments.Window((3, 3), (1, 1), (1, 1), (1, 1), 4)
    squares = torch.zeros(segments.segment_parts(16, 16, 144), 3, dtype=torch.float64)
    segments._launched(left, images, window, squares=squares)
    segments._launched(left, images, window, weights=torch.zeros(3), total=torch.zeros(16, 144, dtype=torch.int32))
    (grid, kinds, constants), (other_grid, other_kinds, other_constants) = calls
    assert (grid, constants) == (other_grid, other_constants)
    assert [(a, b) for a, b in zip(kinds, other_kinds, strict=True) if a != b] == [(1, 0)]


def test_a_convolution_s_answers_are_one_program_whatever_the_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr(segments, "segment_squares", lambda *a, last: given.append((a[3], last)))
    monkeypatch.setattr(segments, "segment_sums", lambda *a, last: given.append((a[4], last)))
    for layout in (torch.contiguous_format, torch.channels_last):
        parameter = nn.Parameter(torch.zeros(16, 32, 3, 3).contiguous(memory_format=layout))
        sizes = (1, 1), (1, 1), (1, 1), 1, 3
        images = torch.zeros(3, 32, 4, 4), torch.zeros(3, 16, 4, 4)
        reduction = convolutions.Convolution(ConvolutionUse(Target(parameter), *images, *sizes), torch.bfloat16)
        window = reduction.window = segments.Window((3, 3), (1, 1), (1, 1), (1, 1), 4)
        reduction.measure(reduction.held, torch.zeros(1, 3))
        reduction.add(reduction.held, torch.zeros(3), torch.zeros_like(parameter))
        last = layout == torch.channels_last
        assert given[-2:] == [(window, last), (window, last)]


def _small_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
        nn.Conv2d(32, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 24, 2), nn.Flatten(), nn.Linear(24, 2),
    )  # fmt: skip


def test_channels_last_change_no_sum_but_for_rounding() -> None:
    torch.manual_seed(5)
    model, x, everyone = _small_network(), torch.randn(4, 3, 9, 9), torch.ones(4, dtype=torch.bool)

    def forward(fields: Tensor) -> Tensor:
        return model(fields).square().sum(1)

    def engine() -> CompiledGradients:
        return CompiledGradients(model, Clip(0.01), forward, torch.randn_like(x), slots=4, grid=FINE)

    usual = [total.clone() for total in engine().sums_of(forward, x, everyone)]
    model.to(memory_format=torch.channels_last)
    turned = engine()
    found = turned.sums_of(forward, x.contiguous(memory_format=torch.channels_last), everyone)
    assert all(one.stride() == p.stride() for one, p in zip(found, turned.parameters, strict=True))
    assert (flat(found) - flat(usual)).double().norm() < 2**-8 * flat(usual).double().norm()
    assert turned.flat.sum() == sum(int(one.sum()) for one in found)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_masks_of_relu_are_read_from_what_is_held_where_layouts_agree(layout: Any, in_place: bool) -> None:
    torch.manual_seed(6)
    model = nn.Sequential(
        nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(in_place), nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
        nn.Conv2d(32, 16, 1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2),
    ).to(memory_format=layout)  # fmt: skip
    x, everyone = torch.randn(4, 16, 8, 8), torch.ones(4, dtype=torch.bool)

    def forward(fields: Tensor) -> Tensor:
        return model(fields).square().sum(1)

    engine = CompiledGradients(model, Clip(0.01), forward, torch.randn_like(x), slots=4, grid=FINE)
    targets = [node.target for node in engine._program.graph.nodes]
    if not in_place and layout == torch.channels_last:
        assert (targets.count(MASK), targets.count(torch.ops.aten.threshold_backward.default)) == (2, 1)
    found = flat(engine.sums_of(forward, x, everyone)).double()
    usual = ExampleGradients(model, Clip(0.01), slots=4, grid=FINE)
    expected = flat(usual.sums_of(forward, x, everyone)).double()
    assert (found - expected).norm() < 2**-7 * expected.norm()


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups", "size"),
    [(3, 1, 1, 1, 1, (6, 5)), (3, 2, 1, 1, 1, (8, 7)), (3, 2, 0, 2, 2, (11, 9)), (1, 3, 0, 1, 1, (6, 8)),
     (5, 3, 2, 1, 2, (7, 10))],
)  # fmt: skip
def test_a_transposed_convolution_is_the_gradient_of_the_input(
    kernel: int, stride: int, padding: int, dilation: int, groups: int, size: tuple[int, int]
) -> None:
    torch.manual_seed(7)
    layer = nn.Conv2d(4, 6, kernel, stride, padding, dilation, groups).double()
    x = torch.randn(3, 4, *size, dtype=torch.float64, requires_grad=True)
    outputs = layer(x)
    g = torch.randn_like(outputs)
    (expected,) = torch.autograd.grad(outputs, x, g)
    assert torch.allclose(transposed(g, layer.weight, size, layer, layer.padding), expected)


def test_fit_trains_by_the_program_and_says_where_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "DEVICES", ["cpu"])
    torch.manual_seed(0)
    x = torch.randn(60, 5, 4)
    y = (x.sum((1, 2)) > 0).long()
    calls = []

    def trained(loss_fn: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Flatten(), nn.Linear(30, 2))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        trainer = privatize(model, optimizer, (x, y), epsilon=2.0, epochs=2, expected_batch=20, random_state=5)
        engine = trainer.parts.round.query.engine
        trainer.fit(loss_fn, compiled=True)
        assert trainer.parts.round.query.engine is engine
        assert trainer.steps_done == trainer.plan.steps
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    def loss(outputs: Tensor, target: Tensor) -> Tensor:
        calls.append(None)
        return nn.functional.cross_entropy(outputs, target, reduction="none")

    by_program = trained(loss)
    assert len(calls) < 60  # traced and compared, and not called once a batch for every check
    traced = len(calls)
    monkeypatch.setattr(fitting, "DEVICES", ["cuda"])
    with pytest.warns(UserWarning, match="on a GPU"):
        as_usual = trained(loss)
    assert len(calls) > traced
    assert (by_program - as_usual).norm() < 0.01 * as_usual.norm()
    monkeypatch.setattr(fitting, "DEVICES", ["cpu"])
    with pytest.warns(UserWarning, match="without compiling"):
        trained(lambda outputs, target: nn.functional.dropout(loss(outputs, target), 0.1))


def test_the_zoo_has_the_models_that_are_traced() -> None:
    assert set(NAMES) <= set(ZOO)
