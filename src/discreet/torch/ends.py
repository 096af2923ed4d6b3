"""How networks see numbers: by evenly spaced knots as the schema says, and by knots that are dense at both bounds.

Public bounds are often much wider than the range in which most rows are (gains, distances, counts), and a network of a
few private steps cannot find a fine scale by itself. The second view has knots at 2^−k of the range, on the column's
scale, from either bound, for k = 1 … 10: three decades. Both views of a column have the weight ½ in its squared length,
so that a column is as long as before. All of it is public.
"""

from __future__ import annotations

import math

from discreet.estimators.features import Features
from discreet.refinement import ColumnBlock, Groups, Knots, RefinedBlock, Refinement, Value

__all__ = ["with_fine_ends"]

DEPTH = 10
"""Halvings of the range towards either bound."""


def with_fine_ends(features: Features) -> Features:
    """These features with a second view of every column of numbers; as they are where columns cannot be told apart.

    Example:
        >>> from discreet.data.schema import Schema
        >>> from discreet.data.columns import Boolean, Numeric
        >>> schema = Schema({"gain": Numeric(0, 512, bins=2), "smoker": Boolean()})
        >>> features = Features.declared(None, schema, None, None, True)
        >>> with_fine_ends(features).names[:5]
        ('gain ~ 0', 'gain ~ 512', 'gain ~ 0', 'gain ~ 0.5', 'gain ~ 1')
    """
    columns = () if features.encoder is None else features.encoder.column_blocks
    if not any(column.kind == "number" for column in columns):
        return features
    blocks = [block for place, column in enumerate(columns) for block in _blocks(place, column)]
    return features.refined(Refinement(columns, tuple(blocks)))


def _blocks(place: int, column: ColumnBlock) -> list[RefinedBlock]:
    if column.kind == "levels":
        return [RefinedBlock((place,), (Groups(tuple(range(column.size))),))]
    if column.kind == "value":
        return [RefinedBlock((place,), (Value(),))]
    even = Knots(tuple(k / (column.size - 1) for k in range(column.size)))
    return [RefinedBlock((place,), (view,), math.sqrt(0.5)) for view in (even, Knots(_fine_ends()))]


def _fine_ends() -> tuple[float, ...]:
    lower = [2.0**-k for k in range(DEPTH, 0, -1)]
    return (0.0, *lower, *(1 - x for x in reversed(lower[:-1])), 1.0)
