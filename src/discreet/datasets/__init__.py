"""Bundled public data of a sensitive kind, to try the library on.

`load_randhie` reads the RAND Health Insurance Experiment: 20 190 person-years with health, income and use of medical
services. PROVENANCE.md beside this file says where it comes from and what each column means.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from discreet.data.cells import read_floats
from discreet.data.columns import Ignore, Numeric
from discreet.data.frames import Table, read_table
from discreet.data.schema import Schema
from discreet.errors import InvalidInput

__all__ = ["Part", "Protects", "load_randhie", "randhie_path", "randhie_schema", "randhie_schema_path"]

Part = Literal["all", "train", "test"]
Protects = Literal["persons", "rows"]
_HERE = Path(__file__).parent
_EVERY = 5  # one person in five is kept for testing


def randhie_path() -> Path:
    """The compressed CSV file."""
    return _HERE / "randhie.csv.gz"


def randhie_schema_path() -> Path:
    """The YAML file with the public bounds."""
    return _HERE / "randhie.schema.yaml"


def randhie_schema(protects: Protects = "persons") -> Schema:
    """The public bounds and categories of the table.

    Args:
        protects: ``"persons"``, with up to five rows each; or ``"rows"``, with which a fit protects a person's single
            years alone and the column ``person`` is not used.

    Example:
        >>> randhie_schema()["person"], randhie_schema("rows")["person"]
        (Person(most_rows=5, weights='persons'), Ignore())
    """
    if protects not in get_args(Protects):
        raise InvalidInput(f"protects must be one of {', '.join(get_args(Protects))}, got {protects!r}.")
    schema = Schema.from_yaml(randhie_schema_path())
    return schema if protects == "persons" else Schema({**schema, "person": Ignore()})


def load_randhie(part: Part = "all") -> Table:
    """The RAND Health Insurance Experiment, one row a person and year; the usual target is ``drugs``.

    Columns that the schema declares as numbers are numbers; the others are text, as in the file.

    The test part holds every fifth *person*: nobody is in both parts. One person has up to five rows, which
    `randhie_schema` protects as a whole.

    Args:
        part: ``"all"``, ``"train"`` or ``"test"``.

    Example:
        >>> load_randhie("test").shape
        (4000, 17)
    """
    if part not in get_args(Part):
        raise InvalidInput(f"part must be one of {', '.join(get_args(Part))}, got {part!r}.")
    schema, text = randhie_schema(), read_table(randhie_path())
    numeric = {name for name, column in schema.items() if isinstance(column, Numeric)}
    table = Table({name: read_floats(cells) if name in numeric else cells for name, cells in text.items()})
    if part == "all":
        return table
    test = table["person"].astype(int) % _EVERY == 0
    return table.take(test if part == "test" else ~test)
