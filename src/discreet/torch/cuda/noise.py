"""Exact Gaussian noise for sums on a GPU.

Claim: noise is round(σ′Z) for σ′ = `Scale.at_least(σ)` ≥ σ, each entry independent (as far as ChaCha20's keystream is
random). So it is the noise of a Gaussian mechanism whose noise multiplier is not smaller than the one that was charged,
and the event of σ covers it. The key is drawn from the training's own source of bits, is used for one tensor of noise,
and is wiped afterwards.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from discreet.torch.cuda.keystream import Words
from discreet.torch.cuda.sampling import SLACK, Scale, exactly
from discreet.torch.cuda.tables import FIRST_OF_TAIL, gaussian_tables

__all__ = ["available", "drawn", "released", "sample_on"]

PROGRAMS: Final = 528
"""Programs of the second kernel: four a processor of an H200."""
BLOCK: Final = 128
PARTS: Final = 4
"""Noise for about a quarter of all parameters is there at a time."""
LEAST: Final = 1 << 20
"""Samples from which parts pay: 4 MiB of memory against a tenth of a millisecond for another call."""
LEFT_ROOM: Final = 4096
MOST_SAMPLES: Final = 2**31 - 2048
"""Places are 32-bit integers in the lists of the kernels."""


def available(device: torch.device, sigma: float, count: int) -> bool:
    """Whether noise of this scale can be made on the device; otherwise it is made in host memory, as exactly."""
    on_gpu = device.type == "cuda" and importlib.util.find_spec("triton") is not None
    return on_gpu and 0 < count <= MOST_SAMPLES and Scale.at_least(sigma) is not None


def released(bits: Any, total: Sequence[Tensor], sigma: float, unit: float) -> list[Tensor]:
    """unit·(sum + noise) as doubles, for sums on a GPU.

    Noise is drawn for some tensors at a time, under keys of their own, and dropped when it has been added: there is
    never as much of it as there are parameters.
    """
    found: list[Tensor] = []
    for part in _parts(total):
        sizes = [one.numel() for one in part]
        noise = drawn(bits, sum(sizes), sigma, part[0].device)
        pieces = zip(part, noise.split(sizes), strict=True)
        found += [unit * (one + piece.view_as(one)).double() for one, piece in pieces]
        del noise, pieces
    return found


def _parts(total: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Successive tensors: each part but the last has a quarter of all entries, or more by one tensor at most."""
    enough = max(LEAST, -(-sum(one.numel() for one in total) // PARTS))
    part: list[Tensor] = []
    for one in total:
        part.append(one)
        if sum(each.numel() for each in part) >= enough:
            yield part
            part = []
    if part:
        yield part


def drawn(bits: Any, count: int, sigma: float, device: torch.device) -> Tensor:
    """``count`` samples of round(σ′Z), whole numbers on the device, under a key of their own.

    They are made beside the work that the current stream still has to do, which waits for them.
    """
    scale = Scale.at_least(sigma)
    if scale is None:
        raise ValueError("no scale for this standard deviation")
    key = bits.words(4).view(np.uint32)
    with _beside(device):
        noise = sample_on(device, key, count, scale)
    key[:] = 0
    if noise.is_cuda:
        noise.record_stream(torch.cuda.current_stream(device))
    return noise


@contextmanager
def _beside(device: torch.device) -> Iterator[None]:
    """Work on a GPU runs in a stream of its own, for which the current stream waits afterwards."""
    if device.type != "cuda":
        yield
        return
    other = _other_stream(device)
    with torch.cuda.stream(other):
        yield
    torch.cuda.current_stream(device).wait_stream(other)


@cache
def _other_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _kind(sigma: float) -> torch.dtype:
    """The type of samples, none of which is beyond 24 standard deviations (`discreet.torch.cuda.tables.LAST_STRIP`)."""
    return torch.int32 if 25 * sigma + 1 < 2**31 else torch.int64


@cache
def _tables_on(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    tables = gaussian_tables()
    arrays = tables.packed, tables.heights, tables.tail
    packed, heights, tail = (torch.from_numpy(array.view(np.int64)).to(device) for array in arrays)
    return packed, heights, tail


def sample_on(
    device: torch.device, key: Words, count: int, scale: Scale, slack: int = SLACK, out: Tensor | None = None
) -> Tensor:
    """What `discreet.torch.cuda.sampling.sample` computes, on a GPU: the same integers.

    Args:
        device: a CUDA device.
        key: eight words, used for nothing else.
        count: number of samples, at most `MOST_SAMPLES`.
        scale: σ.
        slack: see `sample`.
        out: where the samples are written; by default a new tensor, of 32 bits if they hold all of them, else of 64.
    """
    secret = torch.from_numpy(key.view(np.int32).copy()).to(device)
    out = torch.empty(count, dtype=_kind(float(scale.sigma)), device=device) if out is None else out
    room = count // 64 + (1 << 16)
    try:
        with torch.cuda.device(device):
            listed, number, left, left_number = _launched(secret, out, scale, room, slack)
            if number > room:  # σ so large that 31 bits of a place often do not settle its rounding
                listed, _, left, left_number = _launched(secret, out, scale, number, slack)
        places = left[:left_number] if left_number <= LEFT_ROOM else listed[::3]
        for place in places.tolist():
            out[place] = exactly(key, place, scale, gaussian_tables())
    finally:
        secret.zero_()
    return out


def _launched(secret: Tensor, out: Tensor, scale: Scale, room: int, slack: int) -> tuple[Tensor, int, Tensor, int]:
    """Run both kernels: the samples that the first did not settle, their number, the open ones, and their number."""
    from discreet.torch.cuda.kernels import CHUNK, first_pass, second_pass

    packed, heights, tail = _tables_on(out.device)
    listed = torch.zeros(3 * room, dtype=torch.int32, device=out.device)
    left = torch.zeros(LEFT_ROOM, dtype=torch.int32, device=out.device)
    numbers = torch.zeros(2, dtype=torch.int32, device=out.device)
    first_pass[(-(-out.numel() // CHUNK),)](
        secret, packed, out, listed, numbers, room, out.numel(), scale.multiplier, scale.shift, num_warps=4
    )
    second_pass[(PROGRAMS,)](
        secret, packed, heights, tail, out, listed, numbers, room, left, numbers[1:], LEFT_ROOM, scale.multiplier,
        scale.shift, slack, FIRST_OF_TAIL, tail.numel(), STEPS=tail.numel().bit_length() + 1, BLOCK=BLOCK,
        PROGRAMS=PROGRAMS, num_warps=4,
    )  # fmt: skip
    number, left_number = numbers.tolist()
    return listed[: 3 * min(number, room)], number, left, left_number
