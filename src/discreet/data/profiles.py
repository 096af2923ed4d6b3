"""An encoder seen from outside: where each column's features are, and the features of chosen cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse

from discreet.data.columns import Boolean, Categorical, Column, Encoding, Ignore, Numeric, Person
from discreet.data.encoding import Encoder
from discreet.data.refined_encoder import RefinedEncoder
from discreet.data.schema import Schema

__all__ = ["Values", "blocks", "encoding_of", "features_at", "shown_values", "used_columns"]


def used_columns(encoder: Encoder) -> dict[str, Column]:
    """The declarations of the columns that features are made of, in order."""
    return {
        name: column
        for name, column in encoder.schema.items()
        if name != encoder.target and not isinstance(column, Ignore | Person)
    }


def _names(name: str, column: Column) -> tuple[str, ...]:
    return Encoder(Schema({name: column})).feature_names_out


def blocks(encoder: Encoder) -> dict[tuple[str, ...], Any]:
    """The places of the features of each column, (name,), and of each cross, (left, right): slices, or positions.

    The encoder has the default encoding and number of bins, as those of models have.
    """
    if isinstance(encoder, RefinedEncoder):
        return encoder.places
    sizes = {name: len(_names(name, column)) for name, column in used_columns(encoder).items()}
    found: dict[tuple[str, ...], slice] = {}
    first = 0
    for key in (*((name,) for name in sizes), *encoder.schema.crosses):
        size = math.prod(sizes[name] for name in key)
        found[key] = slice(first, first + size)
        first += size
    assert first == encoder.n_features
    return found


def features_at(encoder: Encoder, cells: Mapping[str, Sequence[Any]]) -> Any:
    """The encoded rows, as a CSR array, of a table with these cells; all columns that are not given are missing."""
    n = max(len(column) for column in cells.values())
    empty = [None] * n
    refined = isinstance(encoder, RefinedEncoder)
    whole = encoder if refined else Encoder(encoder.schema, target=encoder.target, output="csr")
    return sparse.csr_array(whole.transform({name: cells.get(name, empty) for name in used_columns(encoder)}))


@dataclass(frozen=True)
class Values:
    """Cells of a column at which its effect is shown.

    Args:
        kind: whether the effect is straight between them (``"curve"``), constant around them (``"steps"``), or they
            have no order (``"levels"``).
        labels: the cells in words.
        cells: None stands for the level of what is missing or unlisted.
    """

    kind: Literal["curve", "steps", "levels"]
    labels: tuple[str, ...]
    cells: tuple[Any, ...]


def encoding_of(column: Numeric) -> Encoding:
    """How a model sees a column of numbers."""
    return column.encoding or "spline"


def shown_values(name: str, column: Column, encoder: Encoder | None = None) -> Values:
    """Knots of splines, ends of lines, middles of bins, and levels; a refined encoder's own knots.

    Example:
        >>> shown_values("age", Numeric(20, 80, bins=4)).labels
        ('20', '40', '60', '80')
    """
    if isinstance(column, Categorical):
        listed: tuple[Any, ...] = tuple(column.categories)
        return Values("levels", column.levels, listed if column.fill is not None else (*listed, None))
    if isinstance(column, Boolean):
        return Values("levels", tuple(str(label) for label in column.categories), column.categories)
    assert isinstance(column, Numeric)
    encoding, names = encoding_of(column), _names(name, column)
    if encoding in ("linear", "spline"):
        places = np.linspace(0.0, 1.0, len(names) if encoding == "spline" else 2)
        if isinstance(encoder, RefinedEncoder):
            places = np.array(encoder.knots(name))
        knots = column.unscale(places).tolist()
        return Values("curve", _apart(list(map(_short, knots))), tuple(knots))
    bins = names if encoding == "bins" else names[:-1]
    edges = np.linspace(0.0, 1.0, len(bins) + 1)
    middles = column.unscale((edges[:-1] + edges[1:]) / 2)
    if column.integer and len(bins) == math.floor(column.high) - math.ceil(column.low) + 1:  # one for each whole number
        middles = np.arange(math.ceil(column.low), math.floor(column.high) + 1, dtype=np.float64)
    return Values("steps", tuple(label.removeprefix(name).strip() for label in bins), tuple(middles.tolist()))


def _apart(labels: list[str]) -> tuple[str, ...]:
    """Labels of increasing numbers, each different: the first of two alike is that before a jump."""
    last = {label: k for k, label in enumerate(labels)}
    return tuple(label if last[label] == k else "below " * (last[label] - k) + label for k, label in enumerate(labels))


def _short(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.6g}"
