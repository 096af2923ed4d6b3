"""Random models, grids, bounds and sizes of numbers: the integers of one example are never longer than the bound."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402

from discreet.torch import blocks, kernels  # noqa: E402
from discreet.torch.engine import Clip, ExampleGradients  # noqa: E402

CASES = 400


def random_model(rng: np.random.Generator) -> tuple[nn.Module, Tensor]:
    d, p = int(rng.choice([1, 2, 5, 30, 300])), int(rng.choice([1, 3, 40]))
    kind = torch.float64 if rng.random() < 0.3 else torch.float32
    models: list[tuple[nn.Module, Tensor]] = [
        (nn.Linear(d, p, bias=rng.random() < 0.5), torch.randn(2, d)),
        (nn.Sequential(nn.Linear(d, p), nn.ReLU(), nn.Linear(p, 2)), torch.randn(2, d)),
        (nn.Linear(d, p), torch.randn(2, 4, d)),
        (nn.Embedding(5, p), torch.randint(0, 5, (2, 4))),
        (nn.Conv1d(2, p, 3, padding=1), torch.randn(2, 2, 7)),
    ]
    model, x = models[int(rng.integers(len(models)))]
    model = model.to(kind)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10.0 ** rng.uniform(-8, 8))
    if x.is_floating_point():
        x = x.to(kind) * 10.0 ** rng.uniform(-30, 30)
        if rng.random() < 0.3:
            x = x * torch.randint(0, 2, x.shape)
        if rng.random() < 0.2:
            x = x * 10.0 ** (20 * torch.randn(x.shape)).to(kind)
    return model, x


def test_random_settings_keep_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, usual = np.random.default_rng(8), kernels._compiled
    torch.manual_seed(8)
    longest = Fraction(0)
    for _ in range(CASES):
        model, x = random_model(rng)
        monkeypatch.setattr(kernels, "_compiled", usual if rng.random() < 0.7 else lambda _: False)
        monkeypatch.setattr(blocks, "KEPT", int(rng.choice([0, 1 << 23])))
        style: Any = rng.choice(["flat", "per-layer", "automatic"])
        grid, bound, scale = 2.0 ** rng.uniform(1, 50), 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-30, 30)
        engine = ExampleGradients(model, Clip(bound, str(style)), slots=2, grid=grid)  # type: ignore[arg-type]
        with engine.watch():
            loss = (model(x).flatten(1) * scale).sum(1)
        sums = torch.cat([total.reshape(-1) for total in engine.clipped_sum(loss, torch.tensor([False, True]))])
        longest = max(longest, sum(value * value for value in sums.tolist()) / Fraction(grid) ** 2)
    assert Fraction(999, 1000) < longest <= 1
