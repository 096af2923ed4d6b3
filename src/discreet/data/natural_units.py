"""Encoded features in units that a reader knows."""

from __future__ import annotations

import math

import numpy as np

from discreet.data.column_features import Both, ColumnFeatures, Floats, Linear, Sign
from discreet.data.encoding import Encoder

__all__ = ["natural_units"]


def natural_units(encoder: Encoder) -> tuple[Floats, Floats, tuple[str, ...]]:
    """(factor, offset, name) of each feature: feature = factor·u + offset, u in units that a reader knows.

    u is 0 or 1 for a level, a bin, a knot's share or a yes; the number itself for a linear column, or its logarithm
    where the column is on a logarithmic scale. For encoders without products of columns.
    """
    found = [_natural(block, name) for block in encoder._blocks.values() for name in block.names]
    factors, offsets = (np.array([line[k] for line in found]) * encoder.entry_bound for k in (0, 1))
    return factors, offsets, tuple(name for _, _, name in found)


def _natural(block: ColumnFeatures, name: str) -> tuple[float, float, str]:
    """(factor, offset, name) of one feature before rows are scaled."""
    match block:
        case Sign():
            return 2.0, -1.0, f"{name}: yes" if block.column.true is None else f"{name}: {block.column.true}"
        case Linear(column):
            low, high, shown = column.linear_scale(name)
            return 2 / (high - low), -1 - 2 * low / (high - low), shown
        case Both() if name == block.names[-1]:
            factor, offset, shown = _natural(block.linear, name)
            return factor * math.sqrt(0.5), offset * math.sqrt(0.5), shown
        case Both():
            return math.sqrt(0.5), 0.0, name
    return 1.0, 0.0, name
