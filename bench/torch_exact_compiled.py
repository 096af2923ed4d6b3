"""Parts of `bench/torch_exact.py` about programs that ``trainer.fit`` replays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

GRID = 2.0**20
PAIRS = 24


class OneKey:
    """Bits of which every key is the same."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def words(self, count: int) -> Any:
        return self.key.view(np.uint64)[:count].copy()


def compiled(device: str, zoo: dict[str, Any], examples: Any, pairs: Any, slots: int = 8) -> dict[str, Any]:
    """Neighbours' sums by compiled programs, and how far they are from the usual ones.

    Args:
        device: where models run.
        zoo: constructor, shape of an example and number of codes of each model.
        examples: makes examples of a shape.
        pairs: compares sums of neighbours.
        slots: the size of a batch.
    """
    found: dict[str, Any] = {}
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    for name, (make, shape, codes) in zoo.items():
        for half in (False, True):
            label = f"{name}, {'bf16' if half else 'TF32'}"
            try:
                found[label] = _of_model(make, examples(shape, codes, 2 * slots, device), codes, half, pairs)
            except Exception as problem:
                found[label] = {"failed": f"{type(problem).__name__}: {problem}"[:400]}
            print(label, found[label], flush=True)
    return found


def _of_model(make: Callable[[], nn.Module], both: Tensor, codes: int, half: bool, pairs: Any) -> dict[str, Any]:
    from discreet.torch.cuda.compiled import CompiledGradients
    from discreet.torch.engine import Clip, ExampleGradients, check_slots

    torch.manual_seed(1)
    x, other = both.chunk(2)
    model = make().to(x.device).train()

    def forward(fields: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            return model(fields).float().square().sum(1)

    engine = CompiledGradients(model, Clip(0.01), forward, other, slots=len(x), grid=GRID)
    check_slots(engine, forward, other)
    everyone = torch.ones(len(x), dtype=torch.bool, device=x.device)
    usual = ExampleGradients(model, Clip(0.01), slots=len(x), grid=GRID)
    mine, theirs = (
        torch.cat([total.reshape(-1) for total in one.sums_of(forward, x, everyone)]).double()
        for one in (engine, usual)
    )
    apart = float((mine - theirs).norm() / theirs.norm())
    return {**pairs(engine, forward, x, PAIRS, codes), "apart from the usual sums": apart}


def fit(device: str, key: Any) -> dict[str, Any]:
    """What a compiled training releases of a step: the program's sum plus the reference's noise, bit for bit."""
    from discreet.mechanisms import Gaussian
    from discreet.torch.cuda import fitting
    from discreet.torch.cuda.sampling import Scale, sample
    from discreet.torch.engine import Clip
    from discreet.torch.engines import TrainingGradients
    from discreet.torch.rounds import ClippedGradientSum, GradientRound
    from discreet.torch.rows import Batch

    torch.set_float32_matmul_precision("high")
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Flatten(), nn.Linear(320, 3)).to(device)
    everyone = torch.ones(8, dtype=torch.bool, device=device)
    usual = TrainingGradients(model, Clip(0.01), slots=8, grid=GRID)
    usual.made_up = Batch((torch.randn(8, 5, 32, device=device), torch.zeros(8, 3, device=device)), everyone)
    replayed = fitting.replayed_for(usual, lambda outputs, y: (outputs - y).square().sum(1))
    assert replayed is not None
    query = ClippedGradientSum(replayed, 0.01)
    made: Any = GradientRound(query, Gaussian(1.3), None, None, torch.device(device))  # type: ignore[arg-type]
    fields = torch.randn(8, 5, 32, device=device), torch.randn(8, 3, device=device)
    total = query.zero()
    with replayed.watch():
        for one, part in zip(total, query.integers(fields, everyone), strict=True):
            one += part
    usual_total = usual.sums_of(replayed.forward, fields, everyone)
    apart = sum(float((a - b).double().square().sum()) for a, b in zip(total, usual_total, strict=True)) ** 0.5 / GRID
    scale = Scale.at_least(math.nextafter(1.3 * GRID, math.inf))
    assert scale is not None
    noise = torch.from_numpy(sample(key, sum(one.numel() for one in total), scale))
    released = torch.cat([one.reshape(-1).cpu() for one in made._noisy(total, OneKey(key)).gradients])
    wanted = (torch.cat([one.reshape(-1).cpu() for one in total]) + noise).double() * (0.01 / GRID)
    return {"different": int((released != wanted).sum()), "apart from the usual sum, in bounds": apart}
