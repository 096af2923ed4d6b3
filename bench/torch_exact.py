"""Rigour of private training on a GPU: noise equal to the reference, its law, and neighbours' sums, all bit for bit.

    python bench/torch_exact.py --device cuda --store torch_exact.json

* ``noise``: the kernels' samples are those of the NumPy reference, also where many are left to the exact routine.
* ``step``: what a training releases of a step is the sum plus the reference's noise.
* ``law``: χ² of the kernels' samples against P(k) = Φ((k + ½)/σ) − Φ((k − ½)/σ), and counts in the tails.
* ``neighbours``: for each model the integers of a batch with one slot exchanged, blanked or made hostile differ by the
  integers of that slot alone, whose ℓ2 length is at most the grid.
* ``compiled``: the same for the program that ``trainer.fit`` replays, in TF32 and in bf16; its sums are those of the
  usual engine to the rounding of bfloat16.
* ``violations``: planted violations of hypothesis (H) are refused, by the usual engine and by the compiled one.
* ``fit``: what a compiled training releases of a step is the program's sum plus the reference's noise.
* ``speed``: milliseconds for the noise of 1.2·10⁸ parameters.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import torch
from torch import Tensor, nn

import bare

bare.prepare()
import torch_exact_compiled  # noqa: E402
import torch_exact_violations  # noqa: E402

KEY = np.array(
    [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89], np.uint32
)
GRID = 2.0**20


def noise(device: str) -> dict[str, Any]:
    """Samples of the device beside those of the reference."""
    from discreet.torch.cuda.noise import sample_on
    from discreet.torch.cuda.sampling import SLACK, Scale, sample

    found: dict[str, Any] = {}
    for sigma, count, slack in (
        (2.0**20, 3_000_001, SLACK), (0.3, 1_000_000, SLACK), (1.7e6 / 3, 1_000_000, SLACK),
        (2.0**36 * 1.37, 300_000, SLACK), (2.0**42, 100_000, SLACK), (2.0**20, 100_000, 1 << 52),
    ):  # fmt: skip
        scale = Scale.at_least(sigma)
        assert scale is not None
        label = f"σ = {sigma:.6g}, {count} samples, slack {slack}"
        print(label, flush=True)
        there = sample_on(torch.device(device), KEY, count, scale, slack).cpu().numpy()
        here = sample(KEY, count, scale, slack)
        found[label] = {"different": int((there != here).sum())}
    return found


def step(device: str) -> dict[str, Any]:
    """What a training releases of a step on the device: sums plus the reference's noise, bit for bit."""
    from discreet.mechanisms import Gaussian
    from discreet.torch.cuda.sampling import Scale, sample
    from discreet.torch.engine import Clip, ExampleGradients
    from discreet.torch.rounds import ClippedGradientSum, GradientRound

    model = nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 3)).to(device)
    query = ClippedGradientSum(ExampleGradients(model, Clip(1.0), slots=8, grid=GRID), 1.0)
    made: Any = GradientRound(query, Gaussian(1.3), None, None, torch.device(device))  # type: ignore[arg-type]
    total = [torch.randint_like(one, 1000) for one in query.zero()]
    scale = Scale.at_least(math.nextafter(1.3 * GRID, math.inf))
    assert scale is not None
    noise = torch.from_numpy(sample(KEY, sum(one.numel() for one in total), scale))
    released = torch.cat(
        [one.reshape(-1).cpu() for one in made._noisy(total, torch_exact_compiled.OneKey(KEY)).gradients]
    )
    wanted = (torch.cat([one.reshape(-1).cpu() for one in total]) + noise).double() / GRID
    return {"entries": noise.numel(), "different": int((released != wanted).sum())}


def _chi_square(observed: Tensor, expected: Tensor) -> dict[str, float]:
    """χ² over cells that expect at least 20, the others merged from both ends, with Wilson and Hilferty's z-value."""
    cells: list[list[float]] = []
    seen = wanted = 0.0
    for o, e in zip(observed.tolist(), expected.tolist(), strict=True):
        seen, wanted = seen + o, wanted + e
        if wanted >= 20:
            cells.append([seen, wanted])
            seen = wanted = 0.0
    cells[-1][0] += seen
    cells[-1][1] += wanted
    value, free = sum((o - e) ** 2 / e for o, e in cells), len(cells) - 1
    z = ((value / free) ** (1 / 3) - (1 - 2 / (9 * free))) / math.sqrt(2 / (9 * free))
    return {"cells": len(cells), "chi2": value, "z": z}


def _upper(x: Tensor) -> Tensor:
    return torch.special.erfc(x / math.sqrt(2)) / 2


def law(device: str, count: int = 200_000_000) -> dict[str, Any]:
    """χ² at several scales, and the tails at σ = 2^20."""
    from discreet.torch.cuda.noise import sample_on
    from discreet.torch.cuda.sampling import Scale

    found: dict[str, Any] = {}
    for turn, wanted in enumerate((0.7, 25.3, 400.0)):
        scale = Scale.at_least(wanted)
        assert scale is not None
        sigma, most = float(scale.sigma), int(12 * wanted) + 3
        samples = sample_on(torch.device(device), KEY + np.uint32(turn), count, scale)
        observed = torch.bincount((samples + most).clamp_(0, 2 * most), minlength=2 * most + 1).cpu()
        k = torch.arange(-most, most + 1, dtype=torch.float64).abs()
        expected = _upper((k - 0.5) / sigma) - _upper((k + 0.5) / sigma)
        found[f"σ = {sigma:.6g}"] = _chi_square(observed, expected * count)
    scale = Scale.at_least(2.0**20)
    assert scale is not None
    samples = sample_on(torch.device(device), KEY + np.uint32(9), count, scale)
    low = torch.bincount(samples & 4095, minlength=4096).cpu()
    found["low 12 bits at σ = 2^20"] = _chi_square(low, torch.full((4096,), count / 4096, dtype=torch.float64))
    for t in (3.0, 4.0, 5.0, 6.0):
        expected_count = 2 * count * float(_upper(torch.tensor(t, dtype=torch.float64)))
        found[f"|Z| > {t:g}"] = {"count": int((samples.abs() > t * 2**20).sum()), "expected": expected_count}
    return found


# --- neighbours -------------------------------------------------------------------------------------------------------


class Table(nn.Module):
    """Embedding, GRU, attention and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.recurrent = nn.Embedding(50, 32), nn.GRU(32, 32, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True)
        self.last = nn.Linear(32, 3)

    def forward(self, codes: Tensor) -> Tensor:
        return self.last(self.encoder(self.recurrent(self.table(codes))[0]).mean(1))


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=100, n_positions=32, n_embd=64, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0,
                        attn_pdrop=0.0, use_cache=False)  # fmt: skip
    body = GPT2Model(config)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.last = body, nn.Linear(64, 3)

        def forward(self, codes: Tensor) -> Tensor:
            return self.last(self.body(codes).last_hidden_state.mean(1))

    return Last()


ZOO: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "MLP": (lambda: nn.Sequential(nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 3)), (40,), 0),
    "CNN with GroupNorm": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, groups=2),
            nn.Flatten(), nn.Linear(8 * 36, 3),
        ), (1, 14, 14), 0,
    ),
    "linear layers over time": (
        lambda: nn.Sequential(nn.Linear(32, 160), nn.GELU(), nn.LayerNorm(160), nn.Linear(160, 48), nn.Flatten(),
                              nn.Linear(48 * 37, 3)), (37, 32), 0,
    ),
    "wide layers over little time": (
        lambda: nn.Sequential(nn.Linear(96, 320), nn.GELU(), nn.Linear(320, 112), nn.Flatten(), nn.Linear(560, 3)),
        (5, 96), 0,
    ),
    "convolutions of 16 channels and more": (
        lambda: nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2),
            nn.Flatten(), nn.Linear(32 * 36, 3),
        ), (16, 14, 14), 0,
    ),
    "convolutions with few positions": (
        lambda: nn.Sequential(
            nn.Conv2d(32, 64, 3, 2, 1), nn.GroupNorm(4, 64), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
            nn.Conv2d(64, 96, 3, 2, 1), nn.ReLU(), nn.Conv2d(96, 80, 3, 1, 1, bias=False), nn.Flatten(),
            nn.Linear(80 * 4, 3),
        ), (32, 8, 8), 0,
    ),
    "convolutions with few positions, channels last": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
            nn.Conv2d(64, 96, 1, 2, bias=False), nn.ReLU(), nn.Conv2d(96, 80, 3, 2, 1, bias=False), nn.ReLU(),
            nn.Conv2d(80, 64, 3, 1, 1), nn.Flatten(), nn.Linear(64, 3),
        ).to(memory_format=torch.channels_last), (3, 16, 16), 0,
    ),
    "embedding, GRU, attention": (Table, (24,), 50),
    "GPT-2, two layers": (_gpt2, (32,), 100),
}  # fmt: skip


def _examples(shape: tuple[int, ...], codes: int, slots: int, device: str) -> Tensor:
    if codes:
        return torch.randint(0, codes, (slots, *shape), device=device)
    return torch.randn(slots, *shape, device=device)


def _hostile(x: Tensor, turn: int, codes: int) -> Tensor:
    if codes:
        return torch.randint_like(x, codes) if turn % 2 else torch.full_like(x, turn % codes)
    return (torch.randn_like(x), x * 1e4, x * 1e30, torch.full_like(x, math.nan), x * 0, x * 1e-30)[turn % 6]


def neighbours(device: str, slots: int = 8, pairs: int = 24) -> dict[str, Any]:
    """For each model and precision: the longest q(D) − q(D without one) over the grid; whether others are unmoved."""
    from discreet.torch.engine import Clip, ExampleGradients, check_slots

    found: dict[str, Any] = {}
    for name, (make, shape, codes) in ZOO.items():
        for tf32 in (False, True):
            torch.manual_seed(1)
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
            label = f"{name}, {'TF32' if tf32 else 'float32'}"
            try:
                model = make().to(device).train()
                engine = ExampleGradients(model, Clip(1.0), slots=slots, grid=GRID)
                x = _examples(shape, codes, slots, device)

                def forward(fields: Tensor, model: nn.Module = model) -> Tensor:
                    return model(fields).square().sum(1)

                check_slots(engine, forward, x)
                found[label] = _pairs(engine, forward, x, pairs, codes)
            except Exception as problem:  # reported in the result, beside the others
                found[label] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
    return found


def _pairs(engine: Any, forward: Callable[[Tensor], Tensor], x: Tensor, pairs: int, codes: int) -> dict[str, Any]:
    slots = len(x)

    def integers(examples: Tensor, present: Tensor) -> Tensor:
        return torch.cat([total.reshape(-1).long() for total in engine.sums_of(forward, examples, present)])

    everyone = torch.ones(slots, dtype=torch.bool, device=x.device)
    longest, unmoved, kinds = 0.0, True, set()
    for turn in range(pairs):
        slot = turn % slots
        others = everyone.clone()
        others[slot] = False
        changed = x.clone()
        changed[slot] = _hostile(x[slot], turn, codes)
        before, after, without = integers(x, everyone), integers(changed, everyone), integers(changed, others)
        unmoved &= torch.equal(without, integers(x, others))
        unmoved &= torch.equal(after - without, integers(changed, ~others))
        for difference in (before - without, after - without):
            longest = max(longest, math.isqrt(sum(int(v) ** 2 for v in difference[difference != 0].tolist())) / GRID)
        kinds |= set(engine.report.values())
    return {"longest": longest, "unmoved": bool(unmoved), "within": longest <= 1.0, "rules": sorted(kinds)}


def compiled(device: str) -> dict[str, Any]:
    """`neighbours` for compiled programs, and how far their sums are from the usual ones."""
    return torch_exact_compiled.compiled(device, ZOO, _examples, _pairs)


def violations(device: str) -> dict[str, Any]:
    """What planted violations of hypothesis (H) led to."""
    return torch_exact_violations.violations(device)


def fit(device: str) -> dict[str, Any]:
    """What a compiled training releases of a step: the program's sum plus the reference's noise, bit for bit."""
    return torch_exact_compiled.fit(device, KEY)


def speed(device: str, count: int = 120_000_000) -> dict[str, Any]:
    """Milliseconds for the noise of a large model, beside ``torch.randn``."""
    from discreet.torch.cuda.noise import sample_on
    from discreet.torch.cuda.sampling import Scale

    scale = Scale.at_least(2.0**20)
    assert scale is not None
    there = torch.device(device)
    torch.use_deterministic_algorithms(False)  # it fills every new tensor, which is not the sampler's work
    return {
        "samples": count,
        "exact noise ms": _milliseconds(lambda: sample_on(there, KEY, count, scale)),
        "torch.randn ms": _milliseconds(lambda: torch.randn(count, device=there)),
    }


def _milliseconds(work: Callable[[], Any]) -> float:
    times = []
    for turn in range(13):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if turn >= 3:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


PARTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "noise": noise, "step": step, "law": law, "neighbours": neighbours, "compiled": compiled,
    "violations": violations, "fit": fit, "speed": speed,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--models", nargs="+", help="parts of the names of the models of neighbours and compiled")
    parser.add_argument("--store", help="name of a file of bench/results to write")
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    if options.models:
        for name in [name for name in ZOO if not any(part in name for part in options.models)]:
            del ZOO[name]
    results: dict[str, Any] = {}
    for part in options.parts:
        try:
            results[part] = PARTS[part](options.device)
        except Exception:
            results[part] = {"failed": traceback.format_exc()[-3000:]}
        print(part, json.dumps(results[part], indent=1, ensure_ascii=False), flush=True)
    if options.store:
        text = json.dumps({"torch": torch.__version__, "results": results}, indent=1, ensure_ascii=False)
        (Path(__file__).parent / "results" / options.store).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
