"""Prepared rows as whole numbers, a cache-sized chunk at a time, for queries without a compiled kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.data.base import Block, DenseBlock
from discreet.data.prepare import LARGEST_STEP

__all__ = ["chunks"]

_CHUNK = 1 << 16  # entries in a dense chunk: 512 KB of float64


def chunks(block: Block, *, rounded: bool = True) -> Iterator[tuple[slice, Any]]:
    """(rows, their steps as float64) over the block; the constant column comes last if the rows have one.

    Dense blocks give arrays, sparse blocks `scipy.sparse.csr_array`. With ``rounded`` every entry is whole.
    """
    rows = block.rows
    largest = LARGEST_STEP if rounded else np.inf
    size = max(1, _CHUNK // max(1, rows.dimension)) if isinstance(block, DenseBlock) else 1 << 13
    for low in range(0, len(block.y), size):
        part = slice(low, min(low + size, len(block.y)))
        scale = block.scale[part]
        if isinstance(block, DenseBlock):
            values, factors = block.X[part], scale[:, None]
        else:
            edges = block.indptr[part.start : part.stop + 1]
            within = slice(edges[0], edges[-1])
            values, factors = block.values[within], np.repeat(scale, np.diff(edges))
        with np.errstate(invalid="ignore", over="ignore"):  # a warning must not depend on a row
            steps = (values * factors).astype(np.float64)
        if rounded:
            np.rint(steps, out=steps)
        steps[~(np.abs(steps) <= largest) | np.isinf(steps)] = 0.0
        if not isinstance(block, DenseBlock):
            shape = (part.stop - part.start, rows.n_features)
            steps = sp.csr_array((steps, block.indices[within], edges - edges[0]), shape=shape)
        if rows.dimension > rows.n_features:
            constant = np.full((part.stop - part.start, 1), rows.constant)
            steps = (
                np.hstack([steps, constant]) if isinstance(block, DenseBlock) else sp.hstack([steps, constant], "csr")
            )
        yield part, steps
