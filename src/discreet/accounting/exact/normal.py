"""Probabilities of small bins under the normal law, each to a proved relative accuracy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.floats import UNIT_ROUNDOFF

__all__ = ["FAINT", "bin_error", "normal_bins"]

Array = NDArray[Any]
FAINT = 1e-310
"""What may be missing from a tail: `ndtr` is 0 from −37.68 on, where 5.3e-311 of the normal law is left."""
_RULES = tuple(tuple(array.tolist() for array in np.polynomial.legendre.leggauss(nodes)) for nodes in (8, 3))
_FEW = 1 / 128  # bins narrower than this over 1 + |t| need three nodes


def bin_error(reach: float) -> float:
    """A bound on the relative error of `normal_bins` for edges t with |t| ≤ ``reach``."""
    return UNIT_ROUNDOFF * (128 + 16 * reach * reach)


def normal_bins(edges: Array) -> Array:
    """N(0, 1) of the bins between ``edges`` (which may be infinite), each to a relative u(128 + 16t²).

    Bins narrower than 1/(1 + |t|) are eight Gauss nodes, whose own error is below 1e-16 of the bin: the 16th derivative
    of φ is at most 2027025·(1 + |t|)^16·φ. Those narrower than 1/128 of that are three: the 6th is at most
    15·(1 + |t|)^6·φ, the error at most 15/(2016000·128^6). The exponent t²/2 is off by 4ut². Wider bins are differences
    of the nearer tail, each granted u(32 + 4t²), of which at most two thirds cancel.
    """
    left = np.concatenate([[-np.inf], edges])
    right = np.concatenate([edges, [np.inf]])
    flip = left > 0  # mirror to the left tail, where ndtr keeps its relative accuracy
    low, high = np.where(flip, -right, left), np.where(flip, -left, right)
    with np.errstate(invalid="ignore"):
        width = right - left
        size = width * (1 + np.maximum(np.abs(left), np.abs(right)))
        narrow, few = size < 1, size < _FEW
    out: Array = np.empty(len(left))
    out[~narrow] = ndtr(high[~narrow]) - ndtr(low[~narrow])
    for (nodes, weights), here in zip(_RULES, (narrow & ~few, few), strict=True):
        if not here.any():
            continue
        middle, half = (left[here] + right[here]) / 2, width[here] / 2
        density = np.zeros(len(middle))
        for node, weight in zip(nodes, weights, strict=True):
            density += weight * np.exp(-((middle + node * half) ** 2) / 2)
        out[here] = density * half / math.sqrt(2 * math.pi)
    return np.maximum(out, 0.0)
