"""From files that do not fit in memory to a dataset, by the declarations of an estimator alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from discreet import rows as limits
from discreet.data.base import Dataset
from discreet.data.columns import Ignore
from discreet.data.encoding import Encoder
from discreet.data.frames import Table
from discreet.data.partitions import FrameScan
from discreet.data.persons import Persons, numbered_persons
from discreet.data.runs import run_edges
from discreet.data.scans import Scan
from discreet.data.schema import Schema
from discreet.data.sources import Source
from discreet.data.streamed import BlockReader, Coding, RowCoding, Streamed
from discreet.errors import InvalidInput
from discreet.estimators.features import Features
from discreet.estimators.interactions import declared_interactions
from discreet.estimators.persons import person_column, persons_of
from discreet.rows import RowSpec
from discreet.units import Unit

__all__ = ["opened_scan", "require_summable", "scanned_rows", "scanned_tables"]

_PREDICTED = 1 << 16
"""Rows that are predicted together."""


@contextmanager
def opened_scan(
    model: Any, scan: Scan, y: Any, groups: Any, unit: Unit, private: bool
) -> Iterator[tuple[Features, Dataset, Persons | None]]:
    """Features, rows and persons of a scan; every file is read once here, before anything can be charged.

    Args:
        model: the estimator; it gets the attributes that decoding needs.
        scan: the files.
        y: the name of the target, where the scan does not say it.
        groups: refused: whose a row is must be said by a column of the files.
        unit: the relation and the rows of a person that were declared.
        private: whether there is privacy.

    Raises:
        InvalidInput: a declaration is missing, or a file cannot be read or lacks a column.
    """
    schema, target = _declared(model, scan, y, groups)
    model._target = target
    schema = declared_interactions(schema, model._interactions())
    features = Features.declared(None, schema, model.row_norm, target, private, model._encoding())
    encoder = features.encoder
    assert encoder is not None
    column = schema.target(target)
    _, outputs = model._read_target(np.empty(0, dtype=object), column, private)
    rows = RowSpec(encoder.n_features, features.row_norm, model._constant(features, encoder.n_features), outputs)
    coding = Coding(encoder, target, model._target_coding(column), rows)
    model.feature_names_in_ = encoder.names_in
    model.n_features_in_ = len(encoder.names_in)
    cache = None if scan.cache is None else Path(scan.cache)
    if scan.dask is None:
        source = scan.source(schema, target)
        persons = _persons(source, schema, unit, private)
        streamed = Streamed(BlockReader(source, coding, scan.bytes, cache).open())
        yield features, streamed if scan.device is None else _on_device(streamed, scan.device), persons
        return
    if scan.device is not None:
        raise InvalidInput("rows are held by a cluster (dask) or on a GPU (device), not by both. Nothing was released.")
    from discreet.data.dask import clustered, connection

    with connection(scan.dask) as client:
        source = scan.source(schema, target, client)
        persons = _persons(source, schema, unit, private)
        with clustered(client, source, coding, scan.bytes, cache) as data:
            yield features, data, persons


def scanned_tables(scan: Scan, encoder: Encoder | None) -> Iterator[Table]:
    """The columns that a model needs, some rows after others, in the order of the files; the target may be missing.

    Args:
        scan: the files.
        encoder: of the model.

    Raises:
        InvalidInput: the model has no schema, or a file cannot be read or lacks a column.
    """
    if encoder is None:
        raise InvalidInput("files can be read by a model whose columns a schema declares; this one was fitted without.")
    if isinstance(scan, FrameScan):
        raise InvalidInput("apply the model to each partition: frame.map_partitions(model.predict).")
    declared = {name: column if name in encoder.columns else Ignore() for name, column in encoder.schema.items()}
    source = scan.source(declared, encoder.target or next(iter(declared)))
    edges = run_edges(source.n, _PREDICTED)
    runs = [(k, first, last) for k, (first, last) in enumerate(itertools.pairwise(edges)) if last > first]
    for _, make in source.tables(runs):
        yield make()


def scanned_rows(
    scan: Scan, coding: RowCoding, declared: tuple[Schema, str], unit: Unit, private: bool
) -> tuple[Streamed, Persons | None]:
    """Rows of files for one question, and whose each is; every file is read once before anything can be charged.

    Args:
        scan: the files; a cluster or a GPU that it names is not used.
        coding: how tables become rows.
        declared: the schema, and the name of the target or of another column that it declares.
        unit: the relation and the rows of a person that were declared.
        private: whether there is privacy.
    """
    if isinstance(scan, FrameScan):
        raise InvalidInput("a Dask DataFrame can be fitted to; for other questions write it to Parquet files.")
    source = scan.source(*declared)
    require_summable(source.n)
    cache = None if scan.cache is None else Path(scan.cache)
    persons = _persons(source, declared[0], unit, private)
    return Streamed(BlockReader(source, coding, scan.bytes, cache).open()), persons


def require_summable(n: int) -> None:
    """Refuse more rows than all queries are proved to sum exactly; fits have their own rule.

    Raises:
        InvalidInput: there are more than `MOST_ROWS`.
    """
    if n > limits.MOST_ROWS:
        raise InvalidInput(
            f"more than {limits.MOST_ROWS} rows are for fits alone; give fewer files. Nothing was released."
        )


def _on_device(data: Streamed, device: Any) -> Dataset:
    """The rows of files on a GPU; what is not computed there is read from the files."""
    try:
        from discreet.data.cuda.rows import streamed_on_device
    except ImportError:
        raise InvalidInput("rows on a GPU need PyTorch: pip install 'discreet[torch]'. Nothing was released.") from None
    return streamed_on_device(data, device)


def _declared(model: Any, scan: Scan, y: Any, groups: Any) -> tuple[Schema, str]:
    if model.schema is None:
        raise InvalidInput(
            "files need a schema: the public bounds of each column are never taken from the data. Nothing was released."
        )
    if groups is not None:
        raise InvalidInput(
            "whose a row of a file is must be said by a column: declare a Person in the schema. Nothing was released."
        )
    if y is not None and not isinstance(y, str):
        raise InvalidInput("targets of files are a column of them: give its name as y. Nothing was released.")
    names = {name for name in (scan.target, y) if name is not None}
    if len(names) != 1:
        said = "say which column is the target" if not names else "two columns are named as the target"
        raise InvalidInput(f"{said}: {type(scan).__name__}(…, target=…). Nothing was released.")
    return model.schema if isinstance(model.schema, Schema) else Schema(model.schema), names.pop()


def _persons(source: Source, schema: Schema, unit: Unit, private: bool) -> Persons | None:
    named = person_column(schema)
    if named is None or not private:
        return None
    persons = Persons(numbered_persons(source.ids(named[0])), named[1])
    return persons_of(None, None, persons, unit, private)
