"""One step of training over a step without privacy: time and peak memory of this library and of Opacus.

Every method runs in a process of its own, and the processes take turns, so that all meet the same load of the machine.
A turn begins with a pause, in which the threads of the process before give up their processors (OpenMP's wait for some
milliseconds without doing so), and with steps that do not count, one or those of 20 ms: a training takes one step after
another, with its data in the cache and its threads awake. Then one step counts. There are as many threads as processors
by default. Reported is the median over rounds of a method's time divided by that of the step without privacy in the
same round, for processor time and for elapsed time, and the peak resident memory over that without privacy.

A step is: forward pass, clipped sum, noise, update by SGD. ``exact`` adds exact Gaussian noise to exact integers,
``float`` adds PyTorch's noise to floats, as Opacus does. Opacus (``hooks``, ``ghost``) runs in ``.venv-bench-opacus``;
fastDP is not on the package registry.

    python bench/torch_step.py --device cpu --rounds 15
    python bench/torch_step.py --device cuda                        # large models, compiled: bench/torch_step_gpu.py
    python bench/torch_step.py --device cuda --models MLP --methods exact float
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import bare
import peers

OPACUS = peers.Environment("opacus", ["torch==2.13.0", "opacus==1.6.0"])
METHODS = ("non-private", "exact", "float", "opacus-hooks", "opacus-ghost")
BOUND, NOISE, RATE = 1.0, 1.0, 1e-3
PAUSE = 0.02
"""Seconds before a turn, several times as long as OpenMP's threads wait for work, and of steps that do not count."""


class Encoder(nn.Module):
    """Two layers of a transformer encoder over 64 codes, and a linear classifier of their mean."""

    def __init__(self, attention: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(2000, 128), nn.Embedding(64, 128)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True) for _ in range(2))
        if attention is not None:
            for layer in self.layers:
                layer.self_attn = attention(128, 4, batch_first=True)
        self.last = nn.Linear(128, 2)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.table(codes) + self.places(torch.arange(64, device=codes.device).repeat(len(codes), 1))
        for layer in self.layers:
            x = layer(x)
        return self.last(x.mean(1))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )  # fmt: skip


MODELS: dict[str, tuple[Callable[..., nn.Module], int, tuple[int, ...], int]] = {
    "logistic regression 784→10, batch 4096": (lambda: nn.Sequential(nn.Linear(784, 10)), 4096, (784,), 10),
    "MLP 784-512-512-10, batch 1024": (perceptron, 1024, (784,), 10),
    "CNN 28×28, batch 512": (cnn, 512, (1, 28, 28), 10),
    "transformer encoder, 2 layers, batch 64": (Encoder, 64, (64,), 2),
}


# --- a worker ---------------------------------------------------------------------------------------------------------


def batch(name: str, device: str) -> tuple[Tensor, Tensor]:
    _, size, shape, classes = MODELS[name]
    x = torch.randint(0, 2000, (size, *shape)) if "transformer" in name else torch.randn(size, *shape)
    return x.to(device), torch.randint(0, classes, (size,)).to(device)


class FloatNoise:
    """Gaussian noise in floats, drawn in host memory by PyTorch's threads, each part of it with its own generator."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.values = torch.empty(size, device=device)
        threads = 1 if self.values.is_cuda or size < 1 << 16 else torch.get_num_threads()
        self.parts = self.values.chunk(threads)
        self.generators = [torch.Generator(device).manual_seed(k) for k in range(len(self.parts))]

    def add_to(self, totals: list[Tensor], scale: float) -> None:
        from discreet.torch.threads import SMALL, in_parts

        def draw(first: int, last: int) -> None:
            for part, generator in zip(self.parts[first:last], self.generators[first:last], strict=True):
                part.normal_(0.0, scale, generator=generator)

        in_parts(draw, len(self.parts), SMALL)
        for total, noise in zip(totals, self.values.split([total.numel() for total in totals]), strict=True):
            total.add_(noise.view_as(total))


def own_step(model: nn.Module, x: Tensor, y: Tensor, exact: bool) -> Callable[[], None]:
    bare.prepare()
    from discreet.torch.engine import Clip, ExampleGradients

    grid = 2.0**36
    engine = ExampleGradients(model, Clip(BOUND), slots=len(x), grid=grid, exact=exact)
    optimizer = torch.optim.SGD(engine.parameters, RATE)
    present = torch.ones(len(x), dtype=torch.bool, device=x.device)
    unit = 1.0 if exact and not x.is_cuda else BOUND / grid  # of what is multiplied below; `perturbed` gives gradients

    def noisy(totals: list[Tensor]) -> list[Tensor]:
        from discreet.mechanisms import Gaussian
        from discreet.noise.bits import process_bits
        from discreet.torch.noisy import perturbed
        from discreet.torch.rounds import ClippedGradientSum

        return perturbed(totals, Gaussian(NOISE), ClippedGradientSum(engine, BOUND), process_bits())

    float_noise = FloatNoise(sum(p.numel() for p in engine.parameters), x.device)

    def noisy_on_gpu(totals: list[Tensor]) -> list[Tensor]:
        from discreet.torch.cuda.noise import sample_on
        from discreet.torch.cuda.sampling import Scale

        scale, sizes = Scale.at_least(NOISE * grid), [total.numel() for total in totals]
        assert scale is not None
        key = np.frombuffer(os.urandom(32), dtype=np.uint32)
        parts = sample_on(x.device, key, sum(sizes), scale).split(sizes)
        return [total + part.view_as(total) for total, part in zip(totals, parts, strict=True)]

    def step() -> None:
        with engine.watch():
            loss = functional.cross_entropy(model(x), y, reduction="none")
        totals = engine.clipped_sum(loss, present)
        if not exact:
            float_noise.add_to(totals, NOISE * grid)
        else:
            totals = noisy_on_gpu(totals) if x.is_cuda else noisy(totals)
        for parameter, total in zip(engine.parameters, totals, strict=True):
            parameter.grad = total.to(parameter.dtype).mul_(unit / len(x))
        optimizer.step()

    return step


def usual_step(model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def opacus_step(model: nn.Module, x: Tensor, y: Tensor, ghost: bool) -> Callable[[], None]:
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(x, y), batch_size=len(x))
    options: dict[str, Any] = {"noise_multiplier": NOISE, "max_grad_norm": BOUND, "poisson_sampling": False}
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    if not ghost:
        model, optimizer, _ = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, **options
        )
        criterion: Any = nn.CrossEntropyLoss()
    else:
        model, optimizer, criterion, _ = PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader, criterion=nn.CrossEntropyLoss(),
            grad_sample_mode="ghost", **options,
        )  # fmt: skip

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

    return step


def worker(method: str, name: str, device: str, threads: int) -> None:
    """Answer each line of standard input by one step's times and the peak memory."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    make = MODELS[name][0]
    if method.startswith("opacus") and make is Encoder:
        from opacus.layers import DPMultiheadAttention

        model: nn.Module = Encoder(DPMultiheadAttention).to(device)
    else:
        model = make().to(device)
    x, y = batch(name, device)
    if method == "non-private":
        step = usual_step(model, x, y)
    elif method in ("exact", "float"):
        step = own_step(model, x, y, method == "exact")
    else:
        step = opacus_step(model, x, y, method == "opacus-ghost")
    for _ in sys.stdin:
        time.sleep(PAUSE)
        warm = time.perf_counter() + PAUSE
        step()
        while time.perf_counter() < warm:
            step()
        start, cpu = time.perf_counter(), time.process_time()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
        times = time.perf_counter() - start, time.process_time() - cpu
        peak = (
            torch.cuda.max_memory_allocated() / 2**20
            if device == "cuda"
            else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        )
        print(json.dumps({"wall": times[0], "cpu": times[1], "peak": peak}), flush=True)


# --- the race ---------------------------------------------------------------------------------------------------------


class Runner:
    """A worker process that makes one step when it is asked."""

    def __init__(self, method: str, name: str, device: str, threads: int) -> None:
        self.method = method
        python = str(OPACUS.python()) if method.startswith("opacus") else sys.executable
        command = [python, "-W", "ignore", __file__, "--worker", method, "--model", name, "--device", device]
        self.process = subprocess.Popen(
            [*command, "--threads", str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )  # fmt: skip

    def step(self) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.method} stopped")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def race(name: str, methods: list[str], device: str, threads: int, rounds: int) -> dict[str, dict[str, float]]:
    runners = [Runner(method, name, device, threads) for method in methods]
    found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    for turn in range(rounds + 3):
        for runner in list(runners):
            try:
                answer = runner.step()
            except RuntimeError:
                runners.remove(runner)
                continue
            if turn >= 3:  # the first steps compile and allocate
                found[runner.method].append(answer)
    for runner in runners:
        runner.close()
    base = found["non-private"]
    result = {}
    for method, steps in found.items():
        if len(steps) < rounds:
            continue
        ratios = {
            f"{kind} ratio": statistics.median(a[kind] / b[kind] for a, b in zip(steps, base, strict=True))
            for kind in ("wall", "cpu")
        }
        times = {f"{kind} ms": 1e3 * statistics.median(a[kind] for a in steps) for kind in ("wall", "cpu")}
        result[method] = {
            **ratios,
            **times,
            "peak MiB": steps[-1]["peak"],
            "peak ratio": steps[-1]["peak"] / base[-1]["peak"],
        }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--models", nargs="+", help="parts of the models' names")
    parser.add_argument("--store", help="name of a file of bench/results to write")
    parser.add_argument("--worker", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.model, options.device, options.threads)
        return
    small = options.models and any(part in name for part in options.models for name in MODELS)
    if options.device == "cuda" and not small:
        import torch_step_gpu

        place = peers.RESULTS / options.store if options.store else None
        torch_step_gpu.main(options.models, None if options.methods == list(METHODS) else options.methods, place)
        return
    methods = ["non-private", *(m for m in options.methods if m != "non-private")]
    results = {}
    for name in MODELS:
        if options.models and not any(part in name for part in options.models):
            continue
        results[name] = race(name, methods, options.device, options.threads, options.rounds)
        print(name)
        for method, row in results[name].items():
            print(
                f"  {method:14s} {row['cpu ratio']:6.2f}× cpu {row['wall ratio']:6.2f}× wall"
                f" {row['wall ms']:8.1f} ms {row['peak ratio']:5.2f}× memory",
                flush=True,
            )
        if options.store:
            store(peers.RESULTS / options.store, options, results)


def store(path: Path, options: argparse.Namespace, results: dict[str, Any]) -> None:
    """Write the results; models that were not run keep theirs, if settings are the same."""
    settings = {"device": options.device, "threads": options.threads, "rounds": options.rounds}
    facts = {"settings": settings, "torch": torch.__version__}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = before["results"] if all(before.get(name) == value for name, value in facts.items()) else {}
    found = {"machine": peers.machine(), **facts, "results": {**kept, **results}}
    text = json.dumps(found, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
