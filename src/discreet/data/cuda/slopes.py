"""Sums of whole rows with whole slopes in PyTorch, and the preparation of rows: the same integers as compiled loops.

Claim: every function gives, bit by bit, what `discreet.data.prepare` and `discreet.queries.kernels` give for the same
rows, on any device. Sums are of whole numbers below 2^53, exact in any order. Everything else is one operation after
another, each of which IEEE 754 rounds correctly (+, −, ×, ÷, √, rounding to whole numbers), and each is a call of its
own, so that no compiler fuses two of them; divisions and roots go through `_over` and `_root`. A loss with another
operation, such as a library's exp, is not computed here (`LOSSES`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from discreet.data.prepare import LARGEST_STEP, prepare_dense
from discreet.data.slope_sums import SlopeCaps
from discreet.losses import Huber, Logistic, Loss, SmoothedHinge, Squared
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["CHUNK", "LOSSES", "caps_of", "prepared", "slope_sum", "whole_slopes"]

LOSSES = (Logistic, Squared, Huber, SmoothedHinge)
"""Losses whose slopes are made of correctly rounded operations alone."""
CHUNK = 1 << 18
"""Rows worked on together: so many contributions of at most 2^35 are exact in float64."""
_BELOW = 1.0 - 2.0**-50
_TINY, _HUGE = 1e-200, 1e200
_SHRINK = 1.0 - 2.0**-17


def _over(a: Tensor | float, b: Tensor | float, like: Tensor) -> Tensor:
    """a/b, correctly rounded: PyTorch multiplies by 1/b where a or b is a number, which rounds twice."""
    above, below = (torch.as_tensor(part, dtype=torch.float64, device=like.device) for part in (a, b))
    return torch.div(*torch.broadcast_tensors(above, below))


def _root(x: Tensor) -> Tensor:
    """√x, correctly rounded: in host memory PyTorch may call a library whose roots are not."""
    return torch.sqrt(x) if x.is_cuda else torch.from_numpy(np.sqrt(x.numpy()))


def whole_rows(X: Tensor, scale: Tensor) -> Tensor:
    """Rows in whole steps, as float64; entries that are not finite count as 0."""
    steps = torch.round(X * scale[:, None]).double()
    return torch.where(steps.abs() <= LARGEST_STEP, steps, 0.0)


def _squared(X: Tensor, scale: Tensor, own: float) -> Tensor:
    steps = torch.round(X * scale[:, None]).double()
    steps = torch.where(steps.abs() < torch.inf, steps, 0.0)
    return (steps * steps).sum(1) + own


def prepared(X: Tensor, rows: RowSpec) -> tuple[Tensor, Tensor]:
    """Scale and squared length of each row, as `discreet.data.prepare` finds them."""
    parts = [_prepared(X[low : low + CHUNK, : rows.n_features], rows) for low in range(0, len(X), CHUNK)]
    if not parts:
        return X.new_zeros(0), torch.zeros(0, dtype=torch.int64, device=X.device)
    return torch.cat([scale for scale, _ in parts]), torch.cat([squared for _, squared in parts])


def _prepared(X: Tensor, rows: RowSpec) -> tuple[Tensor, Tensor]:
    plain = torch.zeros(len(X), dtype=torch.float64, device=X.device)
    for j in range(X.shape[1]):  # in column order: the same bits as in host memory
        column = X[:, j].double()
        plain = plain + column * column
    length = _root(plain)
    factor = torch.where(length > rows.norm, _over(rows.norm, length, X), 1.0)
    scale = _over(factor, rows.grid, X).to(X.dtype)
    scale = torch.where(torch.isfinite(scale) & (length > 0), scale, 0.0)
    own, most = rows.constant**2, float(4**ROW_BITS)
    squared = _squared(X, scale, own)
    long = torch.nonzero((squared > most) & (plain > _TINY) & (plain < _HUGE))[:, 0]
    while len(long):  # nearest rounding can lengthen a row by a few steps
        scale[long] = (scale[long].double() * _SHRINK).to(X.dtype)
        squared[long] = _squared(X[long], scale[long], own)
        long = long[squared[long] > most]
    odd = torch.nonzero(~((plain > _TINY) & (plain < _HUGE)) & (X != 0).any(1))[:, 0]
    squared = squared.long()
    if len(odd):  # sums of squares beyond floats, and entries that are not finite
        few = np.ascontiguousarray(X[odd].cpu().numpy())
        few_scale, few_squared = np.zeros(len(few), few.dtype), np.zeros(len(few), np.int64)
        prepare_dense(few, rows.norm, rows.grid, own, most, few_scale, few_squared)
        scale[odd] = torch.from_numpy(few_scale).to(X.device)
        squared[odd] = torch.from_numpy(few_squared).to(X.device)
    return scale, squared


def caps_of(caps: SlopeCaps, X: Tensor, scale: Tensor, squared: Tensor) -> Tensor:
    """The largest whole slope of each row."""
    if caps.squares is not None:
        squared = torch.cat([_stretched(caps, *part) for part in zip(X.split(CHUNK), scale.split(CHUNK), strict=True)])
    slopes = torch.floor(_over(float(caps.bound), _root(squared.double()), X) * _BELOW)
    return torch.clamp(torch.where(squared > 0, slopes, 0.0), max=caps.largest)


def _stretched(caps: SlopeCaps, X: Tensor, scale: Tensor) -> Tensor:
    assert caps.squares is not None
    assert caps.centre is not None
    squares, centre = (torch.from_numpy(values).to(X.device) for values in (caps.squares, caps.centre))
    apart = whole_rows(X[:, : len(squares)], scale) - centre
    return (squares * (apart * apart)).sum(1) + caps.own


def _exp(x: Tensor) -> Tensor:
    """e^x by the operations of `discreet.losses._kernels.exp`, in their order."""
    x = torch.where(x < -708.0, -708.0, x)
    x = torch.where(x > 708.0, 708.0, x)
    k = torch.round(x * 1.4426950408889634)
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    p0 = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
    p4 = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    p8 = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    p12 = 1 / 479001600 + r * (1 / 6227020800)
    power = ((torch.nan_to_num(k).long() + 1023) << 52).view(torch.float64)
    return (p0 + r4 * (p4 + r4 * (p8 + r4 * p12))) * power


def _slope(loss: Loss, z: Tensor, y: Tensor) -> Tensor:
    if loss.kind == Logistic.kind:
        return -y / (1.0 + _exp(y * z))
    if loss.kind == Squared.kind:
        return z - y
    if loss.kind == Huber.kind:
        return torch.clamp(z - y, -loss.parameter, loss.parameter)
    return -y * torch.clamp(_over(1.0 - y * z, loss.parameter, z), 0.0, 1.0)


def whole_slopes(loss: Loss, z: Tensor, y: Tensor, steps: float, cap: Tensor) -> Tensor:
    """Slopes in whole steps, at most ``cap``; 0 where a target is unknown."""
    slopes = _slope(loss, z, y) * steps
    slopes = torch.where(slopes > cap, cap, slopes)
    slopes = torch.round(torch.where(slopes < -cap, -cap, slopes))
    return torch.where(torch.isnan(slopes), 0.0, slopes)


def slope_sum(
    rows: RowSpec,
    given: tuple[Tensor, Tensor, Tensor, Tensor],
    loss: Loss,
    theta: np.ndarray[Any, np.dtype[np.float64]],
    unit: float,
    steps: float,
) -> Tensor:
    """Σ a_i·x_i, constant column last, of ``given`` rows, targets, scales and largest slopes.

    A chunk of rows is worked on at a time, whose sum is below 2^53, before it is added to the others in int64.
    """
    d, weights = rows.n_features, torch.from_numpy(theta).to(given[0].device)
    start = rows.constant * float(theta[d]) if len(theta) > d else 0.0
    total = torch.zeros(d + 1, dtype=torch.int64, device=given[0].device)
    most = max(1, min(CHUNK, (1 << 24) // max(1, d)))
    for X, y, scale, cap in zip(*(values.split(most) for values in given), strict=True):
        whole = whole_rows(X[:, :d], scale)
        z = ((whole * weights[:d]).sum(1) + start) * unit
        slopes = whole_slopes(loss, z, y, steps, cap)
        total[:d] += (whole * slopes[:, None]).sum(0).long()
        total[d] += (slopes.sum() * rows.constant).long()
    return total[: len(theta)]
