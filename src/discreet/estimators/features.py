"""From what a user passes as X to bounded rows, by public facts only."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from discreet.data.base import Dataset
from discreet.data.cells import column_cells, read_floats, untyped
from discreet.data.columns import Encoding
from discreet.data.encoding import Encoder
from discreet.data.frames import as_table, column_names_of, has_column_names
from discreet.data.memory import in_memory
from discreet.data.refined_encoder import RefinedEncoder
from discreet.data.schema import Schema, schema_missing
from discreet.errors import InvalidInput
from discreet.refinement import Refinement
from discreet.rows import RowSpec

__all__ = ["Features", "checked_matrix", "device_tensor", "numbers_only", "rows_of"]


@dataclass(frozen=True)
class Features:
    """How X becomes rows: through a schema's encoder, or as plain numbers clipped to ``row_norm``."""

    row_norm: float
    names: tuple[str, ...]
    encoder: Encoder | None = None

    @classmethod
    def declared(
        cls,
        X: Any,
        schema: Schema | None,
        row_norm: float | None,
        target: str | None,
        private: bool,
        encoding: Encoding = "spline",
    ) -> Features:
        """Read the declarations; look at X's shape and column names, never at its values.

        ``encoding`` is for numeric columns that do not say their own.
        """
        if schema is not None:
            if row_norm is not None:
                raise InvalidInput("give schema (tables) or row_norm (plain arrays), not both.")
            schema = schema if isinstance(schema, Schema) else Schema(schema)
            encoder = Encoder(schema, target=target if target in schema else None, encoding=encoding)
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

    def refined(self, refinement: Refinement) -> Features:
        """These declarations for rows that are refined by what a fit chose."""
        assert self.encoder is not None
        encoder = RefinedEncoder(self.encoder, refinement)
        return Features(encoder.row_norm, encoder.feature_names_out, encoder)

    def require_target(self, X: Any) -> None:
        """Refuse a table that lacks a column of the schema where y does not say by a name that it is that column."""
        if self.encoder is None or self.encoder.target is not None or not has_column_names(X):
            return
        there = column_names_of(X)
        missing = [name for name in self.encoder.columns if name not in there]
        if len(missing) == 1 < len(self.encoder.columns):
            name = missing[0]
            raise InvalidInput(
                f"the table has no column {name!r}. If it is the target, y must be named so (a pandas or Polars series "
                f"has a name); or take it out of the schema by schema.without({name!r}), and declare classes=… or "
                "target_bounds=…. Nothing was released."
            )


def checked_matrix(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as a matrix of floats, dense or CSR, with scikit-learn's checks of its width and of its columns' names.

    Scikit-learn knows the names of pandas frames. Those of other tables (Polars, Arrow, mappings) are remembered and
    compared here in the same way, so that columns in another order are refused and not read as each other.
    """
    numbers = numbers_only(X)
    names = as_table(X).columns if has_column_names(X) and isinstance(numbers, np.ndarray) else None
    if names is not None and not reset:
        _require_names(estimator, names)
    with np.errstate(all="ignore"), warnings.catch_warnings():  # numbers too long for a float64 become infinite
        if names is not None:
            warnings.filterwarnings("ignore", "X does not have valid feature names")
        matrix = validate_data(
            estimator,
            numbers,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
            accept_large_sparse=True,
        )
    if names is not None and reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    return matrix


def device_tensor(estimator: Any, X: Any, features: Features, private: bool) -> Any:
    """X where it is a tensor on a GPU whose rows stay there; None for everything else.

    Rows that a schema encodes, and those of fits without privacy, are copied to host memory.
    """
    if not private or features.encoder is not None or not getattr(X, "is_cuda", False):
        return None
    _require_matrix(X)
    if X.shape[1] == 0:
        raise InvalidInput("Found array with 0 feature(s) while a minimum of 1 is required. Nothing was released.")
    estimator.n_features_in_ = int(X.shape[1])
    estimator.__dict__.pop("feature_names_in_", None)
    return X


def rows_of(matrix: Any, targets: NDArray[np.float64], rows: RowSpec, *, owned: bool) -> Dataset:
    """The dataset of a matrix, in host memory or on the GPU that holds it; ``owned`` as for `in_memory`."""
    if getattr(matrix, "is_cuda", False):
        from discreet.data.cuda.rows import on_device

        return on_device(matrix, targets, rows)
    return in_memory(matrix, targets, rows, owned=owned)


def _require_names(estimator: Any, names: tuple[str, ...]) -> None:
    known = getattr(estimator, "feature_names_in_", None)
    if known is not None and list(known) != list(names):
        raise InvalidInput(
            f"The feature names should match those that were passed during fit, in the same order: {', '.join(known)}."
        )


def numbers_only(X: Any) -> Any:
    """X such that reading it as floats depends on no cell: what is no number among Python objects becomes NaN.

    Raises:
        InvalidInput: X is no matrix, or a column or the whole matrix is *declared* as text; types are public. The
            message shows no cell.
    """
    if sp.issparse(X):
        _refuse(X.dtype)
        if X.dtype == object:
            raise InvalidInput("sparse rows must be declared as numbers, not as Python objects.")
        return X
    if hasattr(X, "iloc") and hasattr(X, "dtypes"):  # a pandas frame keeps its names
        _require_matrix(X)
        return _numeric_frame(X)
    if has_column_names(X):
        table = as_table(X)
        # always as float64: other libraries give columns of integers in other types where a cell is missing
        columns = [_numeric(table[name]).astype(np.float64) for name in table]
        return np.column_stack(columns) if columns else np.empty((0, 0))
    array = untyped(X)
    _require_matrix(array)
    return _numeric(array)


def _require_matrix(X: Any) -> None:
    if X.ndim < 2:
        raise InvalidInput(
            f"Expected 2D array, got {X.ndim}D array instead: X has one row a person, all of the same length. Reshape "
            "your data by X.reshape(-1, 1) if it has a single feature, or by X.reshape(1, -1) if it is a single row."
        )


def _refuse(kind: Any) -> None:
    if kind.kind == "c":
        raise InvalidInput("Complex data not supported: X must hold real numbers.")
    if kind.kind in "USTMmV":
        raise InvalidInput("X must hold numbers, not text or dates; give a schema for a table with such columns.")


def _numeric(array: NDArray[Any]) -> NDArray[Any]:
    _refuse(array.dtype)
    if array.dtype == object:
        return read_floats(array.ravel()).reshape(array.shape)
    return array


def _numeric_frame(frame: Any) -> Any:
    if any(getattr(kind, "kind", "O") == "c" for kind in frame.dtypes):
        raise InvalidInput("Complex data not supported: X must hold real numbers.")
    # pandas' own types become numpy's in ways that depend on whether a cell is missing
    odd = [j for j, kind in enumerate(frame.dtypes) if not (isinstance(kind, np.dtype) and kind.kind in "biuf")]
    if not odd:
        return frame
    columns = {j: read_floats(column_cells(frame.iloc[:, j])) for j in odd}
    copy = frame.copy()
    for j, column in columns.items():
        copy.isetitem(j, column)
    return copy
