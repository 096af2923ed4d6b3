"""From integer sums and integer noise to the floats that a training uses, in one pass over the parameters."""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    from discreet.torch.cuda.without_triton import tl, triton

__all__ = ["released"]

BLOCK = 4096


@triton.jit
def _released(sums, noise, out, unit, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    here = place < size
    whole = tl.load(sums + place, mask=here, other=0).to(tl.int64) + tl.load(noise + place, mask=here, other=0)
    tl.store(out + place, (whole.to(tl.float64) * tl.load(unit)).to(tl.float32), mask=here)


def released(sums: Tensor, noise: Tensor, unit: Tensor, out: Tensor) -> None:
    """Write (sum + noise)·unit, rounded to float32, to ``out``; the sum of integers is exact.

    Args:
        sums: integers, flat.
        noise: int64, flat.
        unit: the worth of one integer, a double on the same device.
        out: float32, flat.
    """
    if not sums.is_cuda:
        out.copy_((sums.to(torch.int64) + noise).double() * unit)
        return
    with torch.cuda.device(sums.device):
        _released[(-(-sums.numel() // BLOCK),)](sums, noise, out, unit, sums.numel(), BLOCK=BLOCK, num_warps=8)
