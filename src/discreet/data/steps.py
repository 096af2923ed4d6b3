"""Prepared rows as whole numbers, a cache-sized chunk at a time, for queries without a compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.data.base import Block, DenseBlock, SparseBlock, TakenBlock
from discreet.data.prepare import LARGEST_STEP, dense_steps

__all__ = ["chunks"]

_CHUNK = 1 << 16  # entries in a dense chunk: 512 KB of float64


def chunks(block: Block, *, rounded: bool = True) -> Iterator[tuple[slice, Any]]:
    """(rows, their steps as float64) over the block; the constant column comes last if the rows have one.

    Dense blocks give arrays, sparse blocks `scipy.sparse.csr_array`. With ``rounded`` every entry is whole.
    """
    size = max(1, _CHUNK // max(1, block.rows.dimension)) if isinstance(block, DenseBlock) else 1 << 13
    largest = LARGEST_STEP if rounded else np.inf
    for low in range(0, len(block.y), size):
        part = slice(low, min(low + size, len(block.y)))
        if isinstance(block, DenseBlock):
            yield part, _dense(block, part, rounded, largest)
        else:
            yield part, _sparse(block, part, rounded, largest)


def _dense(block: DenseBlock, part: slice, rounded: bool, largest: float) -> Any:
    rows, steps = block.rows, np.empty((part.stop - part.start, block.rows.dimension))
    dense_steps(block.X[part], block.scale[part], rounded, largest, float(rows.constant), steps)
    return steps


def _sparse(block: SparseBlock | TakenBlock, part: slice, rounded: bool, largest: float) -> Any:
    rows, edges = block.rows, block.indptr[part.start : part.stop + 1]
    within = slice(edges[0], edges[-1])
    with np.errstate(invalid="ignore", over="ignore"):  # a warning must not depend on a row
        steps = (block.values[within] * np.repeat(block.scale[part], np.diff(edges))).astype(np.float64)
    if rounded:
        np.rint(steps, out=steps)
    steps[~(np.abs(steps) <= largest) | np.isinf(steps)] = 0.0
    shape = (part.stop - part.start, rows.n_features)
    steps = sp.csr_array((steps, block.indices[within], edges - edges[0]), shape=shape)
    if rows.dimension == rows.n_features:
        return steps
    return sp.hstack([steps, np.full((part.stop - part.start, 1), rows.constant)], "csr")
