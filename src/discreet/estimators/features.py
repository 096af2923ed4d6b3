"""From what a user passes as X to bounded rows, by public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.data.encoding import Encoder
from discreet.data.frames import as_table, has_column_names
from discreet.data.schema import Schema, schema_missing
from discreet.errors import InvalidInput

__all__ = ["Features", "matrix_of"]


@dataclass(frozen=True)
class Features:
    """How X becomes rows: through a schema's encoder, or as plain numbers clipped to ``row_norm``."""

    row_norm: float
    names: tuple[str, ...]
    encoder: Encoder | None = None

    @classmethod
    def declared(
        cls, X: Any, schema: Schema | None, row_norm: float | None, target: str | None, private: bool
    ) -> Features:
        """Read the declarations; look at X's shape and column names, never at its values."""
        if schema is not None:
            if row_norm is not None:
                raise InvalidInput("give schema (tables) or row_norm (plain arrays), not both.")
            schema = schema if isinstance(schema, Schema) else Schema(schema)
            encoder = Encoder(schema, target=target if target in schema else None)
            return cls(encoder.row_norm, encoder.feature_names_out, encoder)
        if row_norm is None:
            if not private:
                row_norm = math.inf
            elif has_column_names(X):
                raise schema_missing(as_table(X).columns)
            else:
                raise InvalidInput(
                    "plain arrays need row_norm, the public ℓ2 length to which each row is clipped (for example "
                    "row_norm=1.0 after scaling features by public bounds), or a schema. Bounds are never taken from "
                    "the data. Nothing was released."
                )
        if not (isinstance(row_norm, int | float | np.number) and row_norm > 0):
            raise InvalidInput(f"row_norm must be a positive number, got {row_norm!r}.")
        if private and not math.isfinite(row_norm):
            raise InvalidInput("a private fit needs rows of bounded length: give a finite row_norm.")
        names = tuple(as_table(X).columns) if has_column_names(X) else ()
        return cls(float(row_norm), names)

    def matrix(self, X: Any) -> Any:
        """X as float rows, dense or CSR."""
        return self.encoder.transform(X) if self.encoder else matrix_of(X)


def matrix_of(X: Any) -> Any:
    """A two-dimensional float array or CSR array; float32 stays float32."""
    if has_column_names(X):
        table = as_table(X)
        X = np.column_stack([np.asarray(table[name]) for name in table]) if table.columns else np.empty((0, 0))
    if sp.issparse(X):
        if np.iscomplexobj(X):
            raise InvalidInput("Complex data not supported.")
        X = sp.csr_array(X)
        return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    array = np.asarray(X)
    if np.iscomplexobj(array):
        raise InvalidInput("Complex data not supported.")
    if array.ndim != 2:
        raise InvalidInput(
            f"X must have two dimensions, got {array.ndim}: Expected 2D array, got a scalar or 1D array instead. "
            "Reshape your data with .reshape(-1, 1) for one feature or .reshape(1, -1) for one row."
        )
    if array.dtype not in (np.float32, np.float64):
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidInput("X must hold numbers; give a schema for a table with text columns.") from None
    return array
