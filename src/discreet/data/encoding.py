"""From a table to rows of bounded norm, by the schema alone.

Every used column becomes a block of features whose ℓ2 norm is at most 1 for any cell, and the m blocks are scaled by
1/√m, so every row has norm at most 1 (`Encoder.row_norm`) whatever it contains: no row needs clipping. How many
entries a row stores, and where, is public too.

Numeric columns, after rescaling to u ∈ [0, 1] by their public bounds:

========  ====================================  ==========================================================
encoding  block of K features                   what a linear model can express
========  ====================================  ==========================================================
bins      one indicator among K                 any step function on equal bins of u
spline    (1−w, w) on the two nearest knots     any continuous function, linear between K knots
linear    2u − 1                                a straight line
both      bins and linear, each over √2         steps and a line
========  ====================================  ==========================================================

A *cross* of two columns, which the schema declares, is a further block: every product of a feature of the one and a
feature of the other, before scaling. Its norm is the product of two norms, at most 1 again. With it a linear model
expresses any function of the two columns that is a sum of such products, so that the effect of the one may depend on
the other.

A spline of six knots is the default: it contains the straight line, bends where most effects bend, and adds few
features, each of which costs noise.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy import sparse

from discreet.data.column_features import (
    Bins,
    Both,
    ColumnFeatures,
    Cross,
    Floats,
    Linear,
    OneHot,
    Positions,
    Sign,
    Spline,
    features_of,
)
from discreet.data.columns import Encoding, Ignore, Numeric, Person
from discreet.data.frames import as_table, unknown_columns
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.refinement import ColumnBlock, Kind

__all__ = ["DEFAULT_BINS", "Encoder"]

DEFAULT_BINS = 6
_MOST_FEATURES = 1 << 20
_SPARSE_BELOW = 1 / 4  # a compressed row costs more time than a dense one from about a tenth, less memory up to half


class Encoder:
    """Turns tables into matrices whose rows have ℓ2 norm at most `row_norm`, using public facts only.

    Args:
        schema: the columns; those that it ignores, people's identity and the target are left out.
        target: the name of the column to predict, which need not be there when encoding new people.
        encoding: for numeric columns that do not say their own: ``"spline"``, ``"bins"``, ``"linear"`` or ``"both"``.
        bins: the number of bins or knots for numeric columns that do not say their own.
        output: ``"csr"``, ``"dense"``, or ``"auto"``: CSR when at most a quarter of the entries are stored.
        dtype: ``float64`` or ``float32``.

    Raises:
        InvalidInput: an unknown option, or no column left to learn from.

    Example:
        >>> from discreet.data.columns import Boolean
        >>> schema = Schema({"age": Numeric(0, 100), "smoker": Boolean(), "sick": Boolean()})
        >>> encoder = Encoder(schema, target="sick", encoding="bins", bins=2)
        >>> encoder.feature_names_out
        ('age [0, 50)', 'age [50, 100]', 'smoker')
        >>> encoder.transform({"age": [30, None], "smoker": ["yes", "no"]}).round(3)
        array([[ 0.707,  0.   ,  0.707],
               [ 0.   ,  0.707, -0.707]])
    """

    row_norm: float = 1.0

    def __init__(
        self,
        schema: Schema,
        *,
        target: str | None = None,
        encoding: Encoding = "spline",
        bins: int = DEFAULT_BINS,
        output: Literal["auto", "csr", "dense"] = "auto",
        dtype: npt.DTypeLike = np.float64,
    ) -> None:
        if encoding not in get_args(Encoding):
            raise InvalidInput(f"encoding must be one of {', '.join(get_args(Encoding))}, got {encoding!r}.")
        if output not in ("auto", "csr", "dense"):
            raise InvalidInput(f"output must be 'auto', 'csr' or 'dense', got {output!r}.")
        if np.dtype(dtype) not in (np.dtype(np.float64), np.dtype(np.float32)):
            raise InvalidInput(f"dtype must be float64 or float32, got {np.dtype(dtype)}.")
        Numeric(0, 1, bins=bins)  # the same rule for the default as for a column's own number
        self.schema, self.target, self.encoding = schema, target, encoding
        self.dtype = np.dtype(dtype)
        used = schema if target is None else schema.without(target)
        self._blocks = {
            name: features_of(name, column, encoding, bins)
            for name, column in used.items()
            if not isinstance(column, Ignore | Person)
        }
        if not self._blocks:
            raise InvalidInput("the schema leaves no column to learn from: all are ignored, ids or the target.")
        self._crosses = {(left, right): Cross(self._blocks[left], self._blocks[right]) for left, right in used.crosses}
        if self._encoded > _MOST_FEATURES:
            raise InvalidInput(
                f"the schema makes {self._encoded} features, more than {_MOST_FEATURES}: cross fewer columns, or "
                "columns of fewer bins or categories."
            )
        stored = sum(block.stored for block in self._all_blocks)
        self.sparse = output == "csr" or (output == "auto" and stored <= _SPARSE_BELOW * self._encoded)
        # Rounded down far enough that the floating-point norm stays within the bound as well.
        self._scale = math.sqrt(1.0 / len(self._all_blocks)) * (1.0 - 8 * float(np.finfo(self.dtype).eps))

    @property
    def _all_blocks(self) -> tuple[ColumnFeatures | Cross, ...]:
        """The blocks of features in order: columns, then crosses."""
        return (*self._blocks.values(), *self._crosses.values())

    @property
    def feature_names_out(self) -> tuple[str, ...]:
        """A name for each feature, made of public facts."""
        return tuple(name for block in self._all_blocks for name in block.names)

    @property
    def names_in(self) -> npt.NDArray[Any]:
        """The columns of a table to encode, ignored ones included, the target not."""
        return np.array([name for name in self.schema if name != self.target], dtype=object)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that features are made of."""
        return tuple(self._blocks)

    @property
    def entry_bound(self) -> float:
        """The largest entry that an encoded row may have: 1/√m for m columns and crosses."""
        return self._scale

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self._encoded

    @property
    def crosses(self) -> tuple[tuple[str, str], ...]:
        """The pairs of columns that are crossed."""
        return tuple(self._crosses)

    @property
    def _encoded(self) -> int:
        """The number of features that columns and crosses of the schema have."""
        sizes = {name: len(block.names) for name, block in self._blocks.items()}
        return sum(sizes.values()) + sum(sizes[left] * sizes[right] for left, right in self._crosses)

    @property
    def feature_columns(self) -> tuple[str, ...]:
        """The column of the table that each feature is made of."""
        return tuple(name for name, block in self._blocks.items() for _ in block.names)

    @property
    def column_blocks(self) -> tuple[ColumnBlock, ...]:
        """Where the features of each column are, for `discreet.refinement`; none where it cannot read them.

        It reads no rows with crosses, and no column that has bins and a line.
        """
        kinds: dict[type, Kind] = {Spline: "number", OneHot: "levels", Bins: "levels", Linear: "value", Sign: "value"}
        if self._crosses or any(type(block) not in kinds for block in self._blocks.values()):
            return ()
        found, first = [], 0
        for name, block in self._blocks.items():
            found.append(ColumnBlock(name, first, first + len(block.names), kinds[type(block)], self._scale))
            first += len(block.names)
        return tuple(found)

    @property
    def partitions(self) -> tuple[tuple[int, int], ...]:
        """(first feature, feature after the last) of features whose sum is the same for every person.

        Levels of a category, bins and knots of a number are such: their entries add up to one.
        """
        found, first = [], 0
        for block in self._blocks.values():
            last = first + len(block.names)
            if isinstance(block, OneHot | Bins | Spline):
                found.append((first, last))
            elif isinstance(block, Both):
                found.append((first, last - 1))
            first = last
        return tuple(found)

    @property
    def curved_columns(self) -> frozenset[str]:
        """The columns whose features are a curve of their number: knots, or bins and a line."""
        return frozenset(name for name, block in self._blocks.items() if isinstance(block, Spline | Both))

    def transform(self, data: Any) -> Any:
        """Encode a table: n × `n_features`, a numpy array or a CSR array as `sparse` says.

        Args:
            data: a pandas, Polars or Arrow frame, a mapping of columns, or a matrix whose columns are those of the
                schema in order (with or without the target).

        Raises:
            InvalidInput: columns are missing, or unknown to the schema.
        """
        unused = {name for name in self.schema if name not in self._blocks}
        table = as_table(data, self._names_of_a_matrix(data), skip=unused)
        unknown_columns(table, self.schema, self._blocks)
        n = table.shape[0]
        stored = sum(block.stored for block in self._all_blocks)
        positions, values = np.zeros((n, stored), dtype=np.int32), np.ones((n, stored), dtype=self.dtype)
        places, first = {}, 0
        for name, block in self._blocks.items():
            places[name] = slice(first, first + block.stored)
            block.fill(table.cells(name), positions[:, places[name]], values[:, places[name]])
            first += block.stored
        for names, cross in self._crosses.items():
            left, right = ((positions[:, places[name]], values[:, places[name]]) for name in names)
            entries = slice(first, first + cross.stored)
            cross.multiply(left, right, positions[:, entries], values[:, entries])
            first += cross.stored
        positions += self._first_features
        values *= self._scale
        self._verify(values)
        return self._assemble(positions, values)

    @cached_property
    def _first_features(self) -> Positions:
        """For each stored entry, the position of its block's first feature among all features."""
        sizes = [len(block.names) for block in self._all_blocks]
        firsts = np.concatenate([[0], np.cumsum(sizes[:-1])])
        return np.repeat(firsts, [block.stored for block in self._all_blocks]).astype(np.int32)

    def _names_of_a_matrix(self, data: Any) -> list[str]:
        names = list(self.schema)
        shape = getattr(data, "shape", None)
        if self.target is not None and shape is not None and len(shape) == 2 and shape[1] == len(names) - 1:
            names.remove(self.target)
        return names

    def _verify(self, values: Floats) -> None:
        # The bound holds by construction; a mistake in a block must not become a mistake in the privacy analysis.
        norms = np.einsum("ij,ij->i", values, values, dtype=np.float64)
        if norms.size and not float(norms.max()) <= self.row_norm**2:
            raise AssertionError("an encoded row exceeds the norm that the encoder guarantees; nothing was released.")

    def _assemble(self, positions: Positions, values: Floats) -> Any:
        n, stored = positions.shape
        if self.sparse:
            starts = np.arange(0, (n + 1) * stored, stored, dtype=np.int64)
            shape = (n, self._encoded)
            return sparse.csr_array((values.ravel(), positions.ravel(), starts), shape=shape)
        dense = np.zeros((n, self._encoded), dtype=self.dtype)
        np.put_along_axis(dense, positions.astype(np.intp), values, axis=1)
        return dense
