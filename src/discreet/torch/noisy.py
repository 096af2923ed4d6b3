"""Noise on sums in host memory, drawn by several threads where there is much of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch

from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.queries.base import Query
from discreet.torch.threads import in_parts

__all__ = ["perturbed"]

WORK = 64
"""A sample takes as long as so many entries of `in_parts`."""


def perturbed(
    total: Sequence[torch.Tensor], mechanism: Gaussian, query: Query, bits: Bits
) -> list[torch.Tensor]:  # fmt: skip
    """Sums plus noise, as doubles.

    Each entry has noise of its own, so parts of the entries can be perturbed apart. Threads of a protective source read
    streams of their own, keyed by the operating system (`discreet.noise.bits`). A seeded source has one stream, which
    is read in order, so that a seed gives the same noise whatever the number of threads.
    """
    sums = [one.cpu().contiguous().numpy() for one in total]
    if not bits.protective:
        return [torch.from_numpy(mechanism.perturb(np.atleast_1d(s), query, bits).reshape(s.shape)) for s in sums]
    flat, found = [s.reshape(-1) for s in sums], [torch.empty(s.shape, dtype=torch.float64) for s in sums]
    outs, starts = [one.numpy().reshape(-1) for one in found], [0, *accumulate(s.size for s in sums)]

    def perturb(first: int, last: int) -> None:
        for one, out, start in zip(flat, outs, starts, strict=False):
            part = slice(max(first - start, 0), max(last - start, 0))
            if part.start < min(part.stop, one.size):
                out[part] = mechanism.perturb(one[part], query, bits)

    in_parts(perturb, starts[-1], WORK * starts[-1])
    return found
