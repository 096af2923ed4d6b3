"""Part of `bench/torch_exact.py`: violations of hypothesis (H) that are planted in a model, and who refuses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

GRID = 2.0**20
PARTS = 4096
"""Programs that add to the same entry, in an order that changes from run to run."""


@triton.jit
def _scattered(values, out, width, WIDTH: tl.constexpr, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add the parts of each row by atomic operations on floats; large parts of both signs cancel."""
    row, part = tl.program_id(1), tl.program_id(0)
    entry = tl.arange(0, WIDTH)
    value = tl.load(values + row * width + entry, mask=entry < width, other=0.0) / PARTS
    large = 1000.0 * tl.cos((part // 2).to(tl.float32)) * tl.where(part % 2 == 0, 1.0, -1.0)
    tl.atomic_add(out + row * width + entry, value + large, mask=entry < width, sem="relaxed")


@torch.library.custom_op("planted::scattered", mutates_args=())
def scattered(values: Tensor) -> Tensor:
    """Each row as a sum of `PARTS` parts by atomic additions: a function of the row but for the order of additions."""
    out = torch.zeros_like(values)
    _scattered[(PARTS, len(values))](values.contiguous(), out, values.shape[1], WIDTH=64, PARTS=PARTS)
    return out


@scattered.register_fake
def _(values: Tensor) -> Tensor:
    return torch.empty_like(values)


scattered.register_autograd(lambda context, gradient: gradient)


def atomic_additions(x: Tensor) -> Tensor:
    """Sums by atomic additions of floats."""
    return scattered(x)


def atomic_additions_backward(x: Tensor) -> Tensor:
    """The entries themselves, whose gradients are summed by atomic additions of floats."""
    return _Backward.apply(x)


class _Backward(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return scattered(gradient)


def batch_statistics(x: Tensor) -> Tensor:
    """Entries less their mean over the batch."""
    return x - x.mean(0)


def attention_across_examples(x: Tensor) -> Tensor:
    """Each example is a mixture of all."""
    return (x @ x.T).softmax(1) @ x


def neighbour_in_the_batch(x: Tensor) -> Tensor:
    """Each example with the one beside it."""
    return x + x.roll(1, 0)


def dropout_shared_by_slots(x: Tensor) -> Tensor:
    """One mask for all examples."""
    return x * (torch.rand(x.shape[1], device=x.device) > 0.5)


def none(x: Tensor) -> Tensor:
    """Nothing is violated: has to be certified."""
    return x * 1.0


VIOLATIONS = (
    atomic_additions, atomic_additions_backward, batch_statistics, attention_across_examples, neighbour_in_the_batch,
    dropout_shared_by_slots, none,
)  # fmt: skip


def violations(device: str) -> dict[str, Any]:
    """What each violation led to, by both engines; all but "none" must not be certified."""
    torch.set_float32_matmul_precision("high")
    found = {}
    for kind in VIOLATIONS:
        for compiled in (False, True):
            found[f"{kind.__name__}, {'compiled' if compiled else 'usual'}"] = _violated(kind, compiled, device)
    return found


def _violated(kind: Callable[[Tensor], Tensor], compiled: bool, device: str) -> str:
    from discreet.torch.cuda.compiled import CompiledGradients
    from discreet.torch.engine import Clip, ExampleGradients, check_slots

    torch.manual_seed(2)
    first, last = nn.Linear(24, 32).to(device), nn.Linear(32, 4).to(device)
    model, x = nn.ModuleList([first, last]), torch.randn(8, 24, device=device)

    def forward(fields: Tensor) -> Tensor:
        return last(kind(first(fields)).tanh()).square().sum(1)

    try:
        if compiled:
            check_slots(CompiledGradients(model, Clip(0.01), forward, x, slots=8, grid=GRID), forward, x)
        else:
            check_slots(ExampleGradients(model, Clip(0.01), slots=8, grid=GRID), forward, x)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"[:200]
    return "certified"
