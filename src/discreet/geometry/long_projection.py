"""Euclidean projections in decimal arithmetic, for certificates that may not trust float64.

Claim: in a context of p digits and for points of up to 10^6 coordinates, `project_long` errs by less than
10^(10 − p)·(‖θ‖₁ + r), r the set's size: every step is a sum, a quotient, a root or a comparison, none is repeated, and
each set's projection moves by no more than its level (or factor) does.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import singledispatch

import numpy as np

from discreet.errors import InvalidInput
from discreet.geometry.base import Geometry
from discreet.geometry.box import Box
from discreet.geometry.groups import GroupL1Ball
from discreet.geometry.l1_ball import L1Ball
from discreet.geometry.l2_ball import L2Ball
from discreet.geometry.simplex import Simplex
from discreet.geometry.whole_space import WholeSpace

__all__ = ["has_long_projection", "project_long"]

Long = list[Decimal]
_ZERO = Decimal(0)


def has_long_projection(domain: Geometry) -> bool:
    """Whether `project_long` knows the set.

    Example:
        >>> from discreet.geometry import L1Ball, SparseSet
        >>> has_long_projection(L1Ball(1.0)), has_long_projection(SparseSet(2))
        (True, False)
    """
    return project_long.dispatch(type(domain)) is not project_long.dispatch(object)


@singledispatch
def project_long(domain: Geometry, point: Sequence[Decimal]) -> Long:
    """The point of the set nearest to ``point``, in the current decimal context.

    Raises:
        InvalidInput: the set is none of ℝ^d, box, ℓ2 ball, ℓ1 ball, simplex and grouped ℓ1 ball.

    Example:
        >>> [str(x) for x in project_long(Simplex(1.0), [Decimal("0.5"), Decimal(2), Decimal("1.5")])]
        ['0', '0.75', '0.25']
    """
    raise InvalidInput(f"{type(domain).__name__} has no projection in decimal arithmetic.")


@project_long.register
def _(domain: WholeSpace, point: Sequence[Decimal]) -> Long:
    return list(point)


@project_long.register
def _(domain: Box, point: Sequence[Decimal]) -> Long:
    bounds = (
        np.broadcast_to(np.asarray(bound, np.float64), (len(point),)).tolist() for bound in (domain.low, domain.high)
    )
    return [min(max(x, Decimal(low)), Decimal(high)) for x, low, high in zip(point, *bounds, strict=True)]


@project_long.register
def _(domain: L2Ball, point: Sequence[Decimal]) -> Long:
    return _shortened(point, _length(point), min(_length(point), Decimal(domain.radius)))


@project_long.register
def _(domain: Simplex, point: Sequence[Decimal]) -> Long:
    level = _level(point, Decimal(domain.radius))
    return [max(x - level, _ZERO) for x in point]


@project_long.register
def _(domain: L1Ball, point: Sequence[Decimal]) -> Long:
    kept = _on_l1_ball([abs(x) for x in point], Decimal(domain.radius))
    return [size.copy_sign(x) for size, x in zip(kept, point, strict=True)]


@project_long.register
def _(domain: GroupL1Ball, point: Sequence[Decimal]) -> Long:
    numbers = np.asarray(domain.groups).tolist()
    members: list[Long] = [[] for _ in range(domain.n_groups)]
    for group, x in zip(numbers, point, strict=True):
        members[group].append(x)
    lengths = [_length(group) for group in members]
    kept = _on_l1_ball(lengths, Decimal(domain.radius))
    factors = [new / old if old else _ZERO for new, old in zip(kept, lengths, strict=True)]
    return [factors[group] * x for group, x in zip(numbers, point, strict=True)]


def _length(point: Sequence[Decimal]) -> Decimal:
    return sum((x * x for x in point), _ZERO).sqrt()


def _shortened(point: Sequence[Decimal], length: Decimal, new: Decimal) -> Long:
    return [x * new / length for x in point] if length > new else list(point)


def _on_l1_ball(sizes: Long, radius: Decimal) -> Long:
    """Sizes lowered by the least level that leaves a sum of at most the radius."""
    if sum(sizes, _ZERO) <= radius:
        return sizes
    level = _level(sizes, radius)
    return [max(size - level, _ZERO) for size in sizes]


def _level(values: Sequence[Decimal], volume: Decimal) -> Decimal:
    """τ with Σ(values − τ)₊ = volume: with the k largest above it, τ = (their sum − volume)/k."""
    total, level = _ZERO, _ZERO
    for k, value in enumerate(sorted(values, reverse=True), start=1):
        lower = (total + value - volume) / k
        if k > 1 and value <= lower:
            break
        total, level = total + value, lower
    return level
