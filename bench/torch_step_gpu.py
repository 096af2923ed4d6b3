"""One step of training on a GPU over a step without privacy: GPT-2, a vision transformer and ResNet-18, TF32 and bf16.

A step is: forward pass, backward pass, clipped sum, noise, update by SGD. Modes are ``eager``, ``compiled``
(``torch.compile``) and ``graph`` (compiled, and replayed as a CUDA graph). ``exact`` is the compiled engine of this
library: integers, exact Gaussian noise, one CUDA graph for all but the noise and the update. It is compared with the
step without privacy in mode ``graph``. Every figure is the median of elapsed times between CUDA events; memory is the
peak of one step that is recorded or run, after everything has been compiled.

    python bench/torch_step.py --device cuda --store torch_step_cuda.json
"""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import statistics
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.nn import functional

import bare

BOUND, NOISE, RATE = 1.0, 1.0, 1e-3
GRID = 2.0**20
STEPS, FIRST = 15, 3


class Attention(nn.Module):
    """Self-attention by PyTorch's own kernel."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.joint, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.joint(x).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.last(mixed.transpose(1, 2).reshape(n, t, d))


class Block(nn.Module):
    """Attention and a perceptron, each after a LayerNorm and added to what came in."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.approximate = "tanh" if causal else "none"

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x)), approximate=self.approximate))


class GPT2(nn.Module):
    """GPT-2 small with its vocabulary padded to 50304 and a last layer of its own."""

    def __init__(self, layers: int = 12, width: int = 768, codes: int = 50304, times: int = 512) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(codes, width), nn.Embedding(times, width)
        self.blocks = nn.Sequential(*(Block(width, width // 64, True) for _ in range(layers)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, codes, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        places = torch.arange(codes.shape[1], device=codes.device).expand_as(codes).contiguous()  # for Opacus
        return self.last(self.norm(self.blocks(self.table(codes) + self.places(places))))


class Tokens(nn.Module):
    """A token for the class and positions."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, count + 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places


class ViT(nn.Module):
    """ViT-B/16 for images of 224 × 224."""

    def __init__(self, layers: int = 12, width: int = 768) -> None:
        super().__init__()
        self.patch, self.tokens = nn.Conv2d(3, width, 16, stride=16), Tokens(196, width)
        self.blocks = nn.Sequential(*(Block(width, width // 64, False) for _ in range(layers)))
        self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: Tensor) -> Tensor:
        x = self.tokens(self.patch(x).flatten(2).transpose(1, 2))
        return self.last(self.norm(self.blocks(x))[:, 0])


class Residual(nn.Module):
    """Two convolutions with GroupNorm, added to what came in."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.GroupNorm(32, outputs) for _ in range(2))
        self.short = None
        if stride > 1:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.GroupNorm(32, outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[1](self.second(functional.relu(self.norms[0](self.first(x)))))
        return functional.relu(y + (x if self.short is None else self.short(x)))


def resnet() -> nn.Module:
    """ResNet-18 with GroupNorm."""
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.GroupNorm(32, 64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *(Residual(*size) for size in (*sizes, (512, 512, 1))), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(512, 100),
    )  # fmt: skip


def _codes(slots: int, times: int = 512) -> tuple[Tensor, Tensor]:
    codes = torch.randint(0, 50257, (slots, times))
    return codes, codes.roll(-1, 1)


def _images(slots: int, side: int) -> tuple[Tensor, Tensor]:
    return torch.randn(slots, 3, side, side), torch.randint(0, 100, (slots,))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "GPT-2, 512 codes, batch 16": (GPT2, lambda: _codes(16)),
    "ViT-B/16, batch 32": (ViT, lambda: _images(32, 224)),
    "ResNet-18 GroupNorm, 32², batch 512": (resnet, lambda: _images(512, 32)),
    "ResNet-18 GroupNorm, 224², batch 64": (resnet, lambda: _images(64, 224)),
}


def losses(outputs: Tensor, y: Tensor) -> Tensor:
    """The loss of each example; of codes, the mean over their places."""
    if outputs.dim() == 2:
        return functional.cross_entropy(outputs.float(), y, reduction="none")
    every = functional.cross_entropy(outputs.float().reshape(-1, outputs.shape[-1]), y.reshape(-1), reduction="none")
    return every.view(y.shape).mean(1)


# --- steps ------------------------------------------------------------------------------------------------------------

Step = Callable[[], None]


def usual(model: nn.Module, x: Tensor, y: Tensor, half: bool, mode: str) -> Step:
    """A step without privacy."""
    optimizer = torch.optim.SGD(model.parameters(), RATE, foreach=True)

    def loss() -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            return losses(model(x), y).mean()

    run = loss if mode == "eager" else torch.compile(loss, dynamic=False)

    def step() -> None:
        run().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _graphed(step) if mode == "graph" else step


def _graphed(step: Step, reset: bool = True) -> Step:
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(other)
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    if reset:
        torch.cuda.reset_peak_memory_stats()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@triton.jit
def _released(sums, noise, out, unit, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """(sum + noise)·unit, rounded to float32; the sum of integers is exact."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = place < size
    whole = tl.load(sums + place, mask=here, other=0).to(tl.int64) + tl.load(noise + place, mask=here, other=0)
    tl.store(out + place, (whole.to(tl.float64) * tl.load(unit)).to(tl.float32), mask=here)


def exact(model: nn.Module, x: Tensor, y: Tensor, half: bool, mode: str) -> Step:
    """A private step in integers; ``eager`` is the engine for any loop, ``graph`` the compiled one."""
    from discreet.torch.cuda.compiled import CompiledGradients
    from discreet.torch.cuda.noise import drawn
    from discreet.torch.engine import Clip, ExampleGradients

    class Measured(CompiledGradients):
        def _capture(self) -> None:
            gc.collect()
            torch.cuda.reset_peak_memory_stats()
            super()._capture()

    def forward(fields: tuple[Tensor, Tensor]) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            return losses(model(fields[0]), fields[1])

    device = torch.device("cuda")
    present, worth = torch.ones(len(x), dtype=torch.bool, device=device), BOUND / GRID / len(x)
    optimizer = torch.optim.SGD(model.parameters(), RATE, foreach=True)

    if mode == "eager":
        usual_engine = ExampleGradients(model, Clip(BOUND), slots=len(x), grid=GRID)
        sizes = [p.numel() for p in usual_engine.parameters]

        def step() -> None:
            sums = usual_engine.sums_of(forward, (x, y), present)
            parts = drawn(Bits(), sum(sizes), NOISE * GRID, device).split(sizes)
            for parameter, total, part in zip(usual_engine.parameters, sums, parts, strict=True):
                parameter.grad = (total + part.view_as(total)).double().mul_(worth).float()
            optimizer.step()

        return step
    # noise is made and added for a quarter of the parameters at a time: room for two, as one may be added still
    noise = torch.empty(sum(p.numel() for p in model.parameters()) // 2, dtype=torch.int32, device=device)
    engine = Measured(model, Clip(BOUND), forward, (x, y), slots=len(x), grid=GRID)
    del noise
    gradient = engine.flat.zero_().view(torch.float32)  # takes the place of the sums
    unit = torch.tensor(worth, dtype=torch.float64, device=device)
    for parameter, part in zip(engine.parameters, engine.views(gradient), strict=True):
        parameter.grad = part
    count = engine.flat.numel()
    most = -(-count // (4 * 4096)) * 4096
    move = _graphed(optimizer.step, reset=False)

    def replayed() -> None:
        engine.sums_of(forward, (x, y), present)
        for first in range(0, count, most):
            sums, into = engine.flat[first : first + most], gradient[first : first + most]
            noise, size = drawn(Bits(), len(sums), NOISE * GRID, device), len(sums)
            _released[(-(-size // 4096),)](sums, noise, into, unit, size, BLOCK=4096, num_warps=8)
            del noise
        move()

    return replayed


class Bits:
    """The operating system's random bits."""

    def words(self, count: int) -> Any:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64).copy()


def opacus(model: nn.Module, x: Tensor, y: Tensor, half: bool, mode: str) -> Step:
    """A step of Opacus, ``hooks`` or ``ghost``."""
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    for module in model.modules():
        if isinstance(module, Tokens):  # which Opacus has no rule for
            module.requires_grad_(False)
    loader = DataLoader(TensorDataset(torch.zeros(10 * len(x), 1)), batch_size=len(x))
    options: dict[str, Any] = {"noise_multiplier": NOISE, "max_grad_norm": BOUND, "poisson_sampling": False}
    made = PrivacyEngine().make_private(
        module=model, data_loader=loader,
        optimizer=torch.optim.SGD([p for p in model.parameters() if p.requires_grad], RATE, foreach=True),
        criterion=nn.CrossEntropyLoss(), grad_sample_mode=mode, **options,
    )  # fmt: skip
    private, optimizer = made[0], made[1]
    criterion: Any = made[2] if mode == "ghost" else nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            outputs = private(x).float()
            if outputs.dim() == 2:
                loss = criterion(outputs, y)
            else:
                flat = outputs.reshape(-1, outputs.shape[-1]), y.reshape(-1)
                loss = criterion(*flat, shape=outputs.shape) if mode == "ghost" else criterion(*flat)
        loss.backward()
        optimizer.step()

    return step


METHODS: dict[str, tuple[Callable[..., Step], str]] = {
    "non-private, eager": (usual, "eager"),
    "non-private, compiled": (usual, "compiled"),
    "non-private, graph": (usual, "graph"),
    "exact, eager": (exact, "eager"),
    "exact, graph": (exact, "graph"),
    "opacus-hooks": (opacus, "hooks"),
    "opacus-ghost": (opacus, "ghost"),
}


def measured(name: str, method: str, half: bool) -> dict[str, float]:
    """Milliseconds and peak memory of a step."""
    torch._dynamo.reset()
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # of streams of the methods before
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    make, batch = MODELS[name]
    model, (x, y) = make().cuda().train(), batch()
    if x.dim() == 4:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    begin = time.perf_counter()
    torch.cuda.reset_peak_memory_stats()
    run, mode = METHODS[method]
    step = run(model, x.cuda(), y.cuda(), half, mode)
    recorded = torch.cuda.max_memory_allocated() if mode == "graph" else 0
    for _ in range(FIRST):
        step()
    torch.cuda.synchronize()
    prepared = time.perf_counter() - begin
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(STEPS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    peak = max(recorded, torch.cuda.max_memory_allocated())
    reserved = torch.cuda.memory_reserved() / 2**30
    found = {"ms": statistics.median(times), "least ms": min(times), "peak GiB": peak / 2**30, "reserved GiB": reserved}
    return {**found, "seconds to prepare": prepared}


def main(
    models: list[str] | None, methods: list[str] | None, store: Path | None, kinds: Sequence[str] = ("TF32", "bf16")
) -> None:
    """Measure and print, and write the results to a file if one is named; what the file says of others is kept."""
    bare.prepare()
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    results: dict[str, Any] = {}
    if store is not None and store.exists():
        results = json.loads(store.read_text("utf-8"))["results"]
    for name in MODELS:
        if models and not any(part in name for part in models):
            continue
        for kind in kinds:
            rows = results[f"{name}, {kind}"] = {}
            for method in METHODS:
                if methods and not any(part in method for part in methods):
                    continue
                try:
                    rows[method] = measured(name, method, kind == "bf16")
                except Exception:
                    rows[method] = {"failed": traceback.format_exc()[-1500:]}
                print(f"{name}, {kind}, {method}:", json.dumps(rows[method]), flush=True)
            _compared(rows)
            if store is not None:
                about = {
                    **{name: _version(name) for name in ("torch", "triton", "opacus")},
                    "device": torch.cuda.get_device_name(), "grid": GRID,
                }  # fmt: skip
                text = json.dumps({**about, "results": results}, indent=1, ensure_ascii=False)
                store.write_text(text + "\n", "utf-8")


def _version(name: str) -> str:
    """The version of an installed package, or of one that can be imported."""
    return (
        str(getattr(importlib.import_module(name), "__version__", "unknown")) if importlib.util.find_spec(name) else ""
    )


def _compared(rows: dict[str, Any]) -> None:
    """Add the ratio of each method to the step without privacy in mode graph."""
    base = rows.get("non-private, graph", {})
    for row in rows.values():
        if "ms" in row and "ms" in base:
            row["ratio"], row["memory ratio"] = row["ms"] / base["ms"], row["peak GiB"] / base["peak GiB"]
    print({method: round(row["ratio"], 3) for method, row in rows.items() if "ratio" in row}, flush=True)
