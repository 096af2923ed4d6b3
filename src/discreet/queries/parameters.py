"""A parameter θ in whole steps, so that ⟨row, θ⟩ of a whole row is exact in float64 in any order of summation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block

__all__ = ["linear_predictors", "whole_parameter"]

_BITS = {"l2": 34, "l1": 36}


def whole_parameter(
    theta: NDArray[np.float64], unit: float, norm: Literal["l1", "l2"] = "l2"
) -> tuple[NDArray[np.float64], float]:
    """θ in whole steps, and the value of ⟨row, θ⟩ = 1 step for rows in steps of ``unit``.

    A step is a power of two, such that θ is at most 2^35 steps long in ℓ2, or about 2^36 in ℓ1. NaN counts as 0, ∞ as
    the largest double.
    """
    if not np.isfinite(theta).all():
        theta = np.nan_to_num(theta)
    with np.errstate(over="ignore"):
        length = _length(theta, norm)
    exponent = math.frexp(length)[1]
    if length == math.inf:  # entries whose squares, or whose sum, overflow
        largest = float(np.abs(theta).max())
        exponent = math.frexp(largest)[1] + math.frexp(_length(theta / largest, norm))[1]
    step = 2.0 ** (exponent - _BITS[norm]) if length > 0 else 1.0
    return np.rint(theta / step), unit * step


def linear_predictors(
    block: Block, theta: NDArray[np.float64], *, rounded: bool
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """(rows, their ⟨x, θ⟩), a chunk of a block at a time; with several outputs one column for each.

    With ``rounded``, rows and θ are whole, so ⟨x, θ⟩ is exact in any order of summation: a function of the row and θ.
    """
    from discreet.data.steps import chunks

    theta, unit = whole_parameter(theta, block.rows.unit) if rounded else (theta, block.rows.unit)
    for part, rows in chunks(block, rounded=rounded):
        with np.errstate(all="ignore"):  # rows without a bound may be of any size
            predictors = np.asarray(rows @ theta.T) * unit
        yield part, predictors


def _length(theta: NDArray[np.float64], norm: Literal["l1", "l2"]) -> float:
    return float(np.linalg.norm(theta) if norm == "l2" else np.abs(theta).sum())
