"""Every kind of layer: sums equal clipped gradients of single examples; one example moves them by the bound at most."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

from discreet.torch.engine import Clip, ExampleGradients, check_slots  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using padding='same'"),
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
]
SLOTS = 5
GRID = 2.0**40


class Function(nn.Module):
    """A model from modules and a formula."""

    def __init__(self, formula: Callable[..., Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.formula = formula
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.formula(self, *inputs)


class Scale(nn.Module):
    """A parameter that is broadcast against its input."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(shape))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.scale.sum()


class Patches(nn.Module):
    """A token and positions of its own, beside a layer with a rule, as vision transformers have."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 6))
        self.positions = nn.Parameter(torch.randn(1, 5, 6))
        self.patch = nn.Conv2d(2, 6, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        return torch.cat([self.token.expand(len(x), -1, -1), tokens], 1) + self.positions


class Branching(nn.Module):
    """Control flow that depends on values, which vmap refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight if x.sum().item() > 0 else x * self.weight.square()


class Attention(nn.MultiheadAttention):
    """Attention with a forward pass of its own, to which the rule of PyTorch's layer does not apply."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x, x, 2 * x, need_weights=False)[0]


class Tied(nn.Module):
    """An embedding whose table is also the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.table.weight

    def forward(self, codes: Tensor) -> Tensor:
        return self.head(self.table(codes).cumsum(1).tanh())


def frozen(model: nn.Module, *names: str) -> nn.Module:
    for name, parameter in model.named_parameters():
        if name in names:
            parameter.requires_grad_(False)
    return model


def codes(*shape: int, most: int = 7) -> Tensor:
    return torch.randint(0, most, (SLOTS, *shape))


def rows(*shape: int) -> Tensor:
    return torch.randn(SLOTS, *shape)


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    size = GPT2Config(vocab_size=11, n_positions=6, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(size).eval()
    return Function(lambda s, x: s.model(x, use_cache=False).logits, model=model)


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    size = BertConfig(vocab_size=11, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
                      max_position_embeddings=6)  # fmt: skip
    return Function(lambda s, x: s.model(x).pooler_output, model=BertModel(size).eval())


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTModel

    size = ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12, image_size=4,
                     patch_size=2, num_channels=2)  # fmt: skip
    model = ViTModel(size, add_pooling_layer=False).eval()
    return Function(lambda s, x: s.model(x).last_hidden_state, model=model)


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    size = LlamaConfig(vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2,
                       num_key_value_heads=1, max_position_embeddings=8)  # fmt: skip
    return Function(lambda s, x: s.model(x, use_cache=False).logits, model=LlamaForCausalLM(size).eval())


def causal(size: int) -> Tensor:
    return torch.ones(size, size).triu(1).bool()


def attend(model: nn.Module, query: Tensor, other: Tensor, **options: Any) -> Tensor:
    return model.inner(query, other, other, **options)[0]


ZOO: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "linear": lambda: (nn.Linear(6, 4), (rows(6),)),
    "linear without offset": lambda: (nn.Linear(6, 4, bias=False), (rows(6),)),
    "linear over time": lambda: (nn.Linear(6, 4), (rows(9, 6),)),
    "linear over two axes": lambda: (nn.Linear(6, 4), (rows(2, 3, 6),)),
    "wide linear over little time": lambda: (nn.Linear(40, 30), (rows(2, 40),)),
    "perceptron with relu in place": lambda: (
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 3)),
        (rows(6),),
    ),
    "conv1d, padding": lambda: (nn.Conv1d(3, 4, 3, padding=2), (rows(3, 8),)),
    "conv2d, stride and padding": lambda: (nn.Conv2d(3, 4, 3, stride=2, padding=1), (rows(3, 7, 6),)),
    "conv2d, groups": lambda: (nn.Conv2d(4, 6, (2, 3), groups=2), (rows(4, 5, 5),)),
    "conv2d, depthwise and dilated": lambda: (nn.Conv2d(3, 3, 2, groups=3, dilation=2), (rows(3, 5, 5),)),
    "conv2d, reflected": lambda: (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (rows(2, 4, 4),)),
    "conv2d, same size": lambda: (nn.Conv2d(2, 3, (2, 4), padding="same"), (rows(2, 4, 5),)),
    "conv2d, one position": lambda: (nn.Conv2d(2, 3, 4), (rows(2, 4, 4),)),
    "conv3d": lambda: (nn.Conv3d(2, 3, 2, padding=1), (rows(2, 3, 3, 3),)),
    "embedding, padding": lambda: (nn.Embedding(7, 3, padding_idx=2), (codes(6),)),
    "embedding of one code": lambda: (nn.Embedding(7, 3), (codes(),)),
    "embedding, common positions": lambda: (
        Function(
            lambda s, x: s.table(x) * s.places(torch.arange(6)[None]) + s.other(torch.arange(6)),
            table=nn.Embedding(7, 3),
            places=nn.Embedding(6, 3),
            other=nn.Embedding(6, 3),
        ),
        (codes(6),),
    ),
    "layer norm": lambda: (nn.LayerNorm((3, 4)), (rows(2, 3, 4),)),
    "layer norm without offset": lambda: (nn.LayerNorm(6, bias=False), (rows(6),)),
    "group norm": lambda: (nn.GroupNorm(2, 4), (rows(4, 3, 3),)),
    "instance norm": lambda: (nn.InstanceNorm2d(3, affine=True), (rows(3, 4, 4),)),
    "rms norm": lambda: (nn.RMSNorm(6), (rows(4, 6),)),
    "lstm, two layers, both directions": lambda: (
        Function(lambda s, x: s.inner(x)[0], inner=nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)),
        (rows(5, 3),),
    ),
    "gru": lambda: (Function(lambda s, x: s.inner(x)[1][0], inner=nn.GRU(3, 4, batch_first=True)), (rows(5, 3),)),
    "rnn": lambda: (
        Function(lambda s, x: s.inner(x)[0], inner=nn.RNN(3, 4, nonlinearity="relu", batch_first=True)),
        (rows(5, 3),),
    ),
    "lstm with projection": lambda: (
        Function(lambda s, x: s.inner(x)[0], inner=nn.LSTM(3, 4, proj_size=2, batch_first=True)),
        (rows(4, 3),),
    ),
    "attention to itself, causal": lambda: (
        Function(
            lambda s, x: s.inner(x, x, x, attn_mask=causal(4), need_weights=False)[0],
            inner=nn.MultiheadAttention(6, 2, batch_first=True),
        ),
        (rows(4, 6),),
    ),
    "attention to others": lambda: (
        Function(attend, inner=nn.MultiheadAttention(6, 2, batch_first=True)),
        (rows(4, 6), rows(3, 6)),
    ),
    "attention of other sizes, padded": lambda: (
        Function(
            lambda s, x, y: attend(s, x, y, key_padding_mask=torch.arange(3).expand(len(x), 3) == 2),
            inner=nn.MultiheadAttention(6, 2, kdim=3, vdim=3, bias=False, batch_first=True),
        ),
        (rows(4, 6), rows(3, 3)),
    ),
    "transformer encoder": lambda: (
        nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True),
        (rows(4, 6),),
    ),
    "tied weights": lambda: (Tied(), (codes(4),)),
    "reused layer": lambda: (Function(lambda s, x: s.inner(s.inner(x).tanh()), inner=nn.Linear(5, 5)), (rows(5),)),
    "frozen layer": lambda: (
        frozen(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)), "0.weight", "0.bias"),
        (rows(5),),
    ),
    "offsets only": lambda: (
        frozen(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Conv1d(3, 2, 2)), "0.weight", "2.weight"),
        (rows(3, 5),),
    ),
    "addition in place": lambda: (
        Function(lambda s, x: s.second(s.first(x).add_(x)).mul_(2), first=nn.Linear(4, 4), second=nn.Linear(4, 2)),
        (rows(3, 4),),
    ),
    "windows": lambda: (
        Function(
            lambda s, x: s.norm(s.conv(s.inner(x.reshape(-1, 2, 4)))).reshape(len(x), -1),
            inner=nn.Linear(4, 4),
            conv=nn.Conv1d(2, 3, 2),
            norm=nn.GroupNorm(1, 3),
        ),
        (rows(3, 2, 4),),
    ),
    "doubles": lambda: (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double(), (rows(4).double(),)),
    "low-rank adapter": lambda: (
        frozen(
            Function(
                lambda s, x: s.base(x) + s.up(s.down(input=x)),
                base=nn.Linear(6, 4),
                down=nn.Linear(6, 2, bias=False),
                up=nn.Linear(2, 4, bias=False),
            ),
            "base.weight",
            "base.bias",
        ),
        (rows(3, 6),),
    ),
    "attention of another class": lambda: (
        Function(lambda s, x: s.inner(x), inner=Attention(6, 2, batch_first=True)),
        (rows(4, 6),),
    ),
    "custom scale": lambda: (nn.Sequential(nn.Linear(4, 3), Scale(3)), (rows(2, 4),)),
    "scalar": lambda: (nn.Sequential(Scale(), nn.Linear(4, 3)), (rows(4),)),
    "token and positions": lambda: (nn.Sequential(Patches(), nn.Linear(6, 2)), (rows(2, 4, 4),)),
    "transposed convolution": lambda: (nn.ConvTranspose2d(2, 3, 2), (rows(2, 3, 3),)),
    "bilinear": lambda: (nn.Bilinear(3, 2, 4), (rows(3), rows(2))),
    "prelu": lambda: (nn.Sequential(nn.Linear(4, 3), nn.PReLU(3)), (rows(4),)),
    "weight norm": lambda: (nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), (rows(4),)),
    "branching": lambda: (nn.Sequential(nn.Linear(3, 4), Branching()), (rows(3),)),
    "gpt-2": lambda: (gpt2(), (codes(6, most=11),)),
    "bert": lambda: (bert(), (codes(5, most=11),)),
    "vit": lambda: (vit(), (rows(2, 4, 4),)),
    "llama": lambda: (llama(), (codes(5, most=11),)),
}


def losses(output: Tensor) -> Tensor:
    flat = output.flatten(1)
    return (flat.square() / 2 + flat * torch.linspace(-1, 1, flat.shape[1], dtype=flat.dtype)).sum(1)


def single_gradients(model: nn.Module, inputs: tuple[Tensor, ...], parameters: list[Tensor]) -> list[Tensor]:
    """The gradient of each example as one vector of doubles, by differentiating its loss alone."""
    found = []
    for i in range(SLOTS):
        loss = losses(model(*(x[i : i + 1] for x in inputs)))[0]
        gradient = torch.autograd.grad(loss, parameters, allow_unused=True)
        found.append(torch.cat([
            torch.zeros(p.numel(), dtype=torch.float64) if g is None else g.double().reshape(-1)
            for g, p in zip(gradient, parameters, strict=True)
        ]))  # fmt: skip
    return found


def made(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(7)
    return ZOO[name]()


def summed(engine: ExampleGradients, inputs: tuple[Tensor, ...], present: Tensor, bound: float | None = None) -> Tensor:
    with engine.watch():
        loss = losses(engine.model(*inputs))
    return torch.cat([total.reshape(-1) for total in engine.clipped_sum(loss, present, bound)])


def test_the_zoo_is_large() -> None:
    assert len(ZOO) >= 25


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", ZOO)
def test_sums_are_those_of_clipped_gradients_of_single_examples(name: str, exact: bool) -> None:
    """Up to the rounding of float32 and to what docs/maths/torch.md says of quantising; some are clipped, some not."""
    model, inputs = made(name)
    engine = ExampleGradients(model, Clip(1.0), slots=SLOTS, grid=GRID, exact=exact)
    gradients = single_gradients(model, inputs, engine.parameters)
    bound = float(torch.stack([g.norm() for g in gradients]).median())
    expected = torch.stack([g * min(1.0, bound / float(g.norm())) for g in gradients])
    present = torch.tensor([True] * (SLOTS - 1) + [False])
    found = summed(engine, inputs, present, bound).double() * (bound / GRID)
    assert found.dtype == torch.float64
    quantised = [
        (math.sqrt(layer.in_features) / 2 + math.sqrt(layer.out_features)) / 32000
        for name, layer in model.named_modules()
        if "quantised" in engine.report.get(name, "")
    ]
    assert (found - expected[present].sum(0)).norm() < (1e-4 + int(present.sum()) * math.hypot(*quantised)) * bound
    assert "forward" not in vars(model)


def square_length(integers: Tensor) -> int:
    """The exact squared length, in Python's integers."""
    assert integers.dtype == torch.int64
    return sum(value * value for value in integers.tolist())


HOSTILE: dict[str, Callable[[Tensor], Tensor]] = {
    "huge": lambda x: x * 1e6,
    "tiny": lambda x: x * 1e-12,
    "one entry": lambda x: torch.zeros_like(x).index_fill(-1, torch.tensor([0]), 1e18),
    "infinite": lambda x: x / 0,
    "not a number": lambda x: x * math.nan,
}


STYLED = ("perceptron with relu in place", "transformer encoder", "tied weights", "token and positions")
CASES = [(name, "flat") for name in ZOO] + [(name, style) for name in STYLED for style in ("per-layer", "automatic")]


@pytest.mark.parametrize(("name", "style"), CASES)
def test_one_example_moves_the_sum_by_the_bound_at_most(name: str, style: Any) -> None:
    """The exact integers of two neighbours differ by at most the bound."""
    model, inputs = made(name)
    engine = ExampleGradients(model, Clip(1e-3, style), slots=SLOTS, grid=GRID)
    everyone, slot = torch.ones(SLOTS, dtype=torch.bool), 2
    without = everyone.clone()
    without[slot] = False
    blank = tuple(torch.cat([x[:slot], torch.zeros_like(x[:1]), x[slot + 1 :]]) for x in inputs)
    base = summed(engine, blank, without)
    difference = summed(engine, inputs, everyone) - base
    longest = square_length(difference)
    assert longest <= int(engine.integer_bound) ** 2
    if style == "flat":
        assert longest >= 0.99 * int(engine.integer_bound) ** 2  # clipped, so a bound that is wrong would be exceeded
    if not inputs[0].is_floating_point():
        return
    for change in HOSTILE.values():
        changed = tuple(torch.cat([x[:slot], change(x[slot : slot + 1]), x[slot + 1 :]]) for x in inputs)
        difference = summed(engine, changed, everyone) - base
        assert square_length(difference) <= int(engine.integer_bound) ** 2
    assert square_length(difference) == 0  # what is not a number adds nothing


SEPARATE = (
    "conv2d, stride and padding", "lstm, two layers, both directions", "attention to others", "transformer encoder",
    "tied weights", "token and positions", "branching", "gpt-2", "vit", "llama",
)  # fmt: skip


@pytest.mark.parametrize("name", SEPARATE)
def test_usual_models_keep_examples_apart(name: str) -> None:
    model, inputs = made(name)
    engine = ExampleGradients(model, Clip(1e-3), slots=SLOTS, grid=GRID)
    check_slots(engine, lambda given: losses(model(*given)), inputs)


@pytest.mark.parametrize(
    "name", ["perceptron with relu in place", "conv2d, groups", "layer norm", "transformer encoder", "tied weights"]
)
def test_half_precision_keeps_the_bound(name: str) -> None:
    """With autocast the gradients are those of bfloat16, and their integers are bounded and added as exactly."""
    model, inputs = made(name)
    engine = ExampleGradients(model, Clip(1e-3), slots=SLOTS, grid=GRID)
    parts = []
    for present in (torch.ones(SLOTS, dtype=torch.bool), *torch.eye(SLOTS, dtype=torch.bool)):
        with engine.watch(), torch.autocast("cpu", torch.bfloat16):
            output = model(*inputs)
        sums = engine.clipped_sum(losses(output.float()), present)
        parts.append(torch.cat([total.reshape(-1) for total in sums]))
    assert torch.equal(parts[0], torch.stack(parts[1:]).sum(0))
    for part in parts[1:]:
        assert 0.99 * int(engine.integer_bound) ** 2 <= square_length(part) <= int(engine.integer_bound) ** 2
    expected = sum(g / g.norm() for g in single_gradients(model, inputs, engine.parameters))
    assert (parts[0].double() / GRID - expected).norm() < 0.05 * expected.norm()
