"""Noise on sums in host memory, drawn by several threads where there is much of it."""

from __future__ import annotations

from collections.abc import Sequence

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

    Each entry has noise of its own, so entries of several sums can be perturbed together, and parts of them apart.
    Threads of a protective source read streams of their own, keyed by the operating system (`discreet.noise.bits`). A
    seeded source has one stream, which is read in order, so that a seed gives the same noise whatever the number of
    threads.
    """
    sums = [one.cpu().contiguous().numpy() for one in total]
    if not bits.protective:
        return [torch.from_numpy(mechanism.perturb(np.atleast_1d(s), query, bits).reshape(s.shape)) for s in sums]
    flat, sizes = np.concatenate([s.reshape(-1) for s in sums]), [s.size for s in sums]
    found = torch.empty(len(flat), dtype=torch.float64)
    out = found.numpy()

    def perturb(first: int, last: int) -> None:
        out[first:last] = mechanism.perturb(flat[first:last], query, bits)

    in_parts(perturb, len(flat), WORK * len(flat))
    return [part.view(s.shape) for part, s in zip(found.split(sizes), sums, strict=True)]
