"""``discreet quantile`` and ``discreet bounds``: private quantiles of a file's columns, for themselves or as bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.common import errors, ledger_for, read_schema, require_place, say_not_private, say_unprotected
from discreet.cli.reading import Decimal, File, Separator, names_in, read_declared
from discreet.data.columns import Numeric, Person
from discreet.data.frames import Table
from discreet.data.schema import Schema
from discreet.data.unprotected import is_unprotected
from discreet.errors import InvalidInput
from discreet.units import Unit

__all__ = ["bounds", "quantile", "register"]

SchemaFile = Annotated[Path | None, typer.Option(help="YAML file with the public bounds of each column.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget of the whole answer (pure DP).")]
Relation = Annotated[str, typer.Option(help="replace-one or add-remove.")]
Rows = Annotated[int, typer.Option(help="Rows one person has: believed, unlike {unit: 5} in a schema.")]
LedgerUrl = Annotated[str | None, typer.Option(help="Ledger, e.g. sqlite:///ledger.db or a path.")]
Dataset = Annotated[str, typer.Option(help="Whose budget is charged, by its name in the ledger.")]
Seed = Annotated[int | None, typer.Option(help="Reproducible, and therefore NOT private.")]


def quantile(
    file: File,
    column: Annotated[str, typer.Option(help="A numeric column of the schema.")],
    epsilon: Epsilon,
    q: Annotated[list[float] | None, typer.Option(help="Quantile in [0, 1]; may be repeated. Default: 0.5.")] = None,
    schema: SchemaFile = None,
    adjacency: Relation = "replace-one",
    rows_per_unit: Rows = 1,
    ledger: LedgerUrl = None,
    dataset: Dataset = "default",
    seed: Seed = None,
    separator: Separator = None,
    decimal: Decimal = ".",
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Private quantiles of one column, within its public bounds."""
    from discreet.estimators import quantile as private_quantile
    from discreet.estimators.persons import persons_of

    declared = read_schema(schema, names_in(file, separator))
    unit = Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]
    known = declared.target(column)
    if not isinstance(known, Numeric):
        raise InvalidInput(f"column {column!r} is not declared numeric: it has no quantiles.")
    wanted = q or [0.5]
    budget = ledger_for(ledger, dataset)
    table = _rows(file, declared, [column], separator, decimal, unit)
    persons = persons_of(table, declared, None, unit, math.isfinite(epsilon))
    found: Any = private_quantile(
        table[column],
        wanted,
        epsilon=epsilon,
        bounds=(known.low, known.high),
        adjacency=unit if persons is None else Unit(unit.relation, persons.most_rows),
        step=1.0 if known.integer and known.high - known.low < 1 << 28 else None,
        groups=persons,
        ledger=budget,
        random_state=seed,
    )
    if is_unprotected(found):
        say_not_private("drawn with a seed, or without noise (ε = ∞).")
    if as_json:
        print(json.dumps([{"q": one, "value": value} for one, value in zip(wanted, found.tolist(), strict=True)]))
        return
    print("q,value")
    for one, value in zip(wanted, found.tolist(), strict=True):
        print(f"{one:g},{value:.10g}")


def bounds(
    file: File,
    epsilon: Epsilon,
    schema: SchemaFile = None,
    column: Annotated[list[str] | None, typer.Option(help="May be repeated. Default: every numeric column.")] = None,
    low: Annotated[float | None, typer.Option(help="Quantile that new lower bounds are near to; with --high.")] = None,
    high: Annotated[float | None, typer.Option(help="Quantile that new upper bounds are near to.")] = None,
    n_public: Annotated[int | None, typer.Option(help="Number of rows, if it is public (add-remove).")] = None,
    adjacency: Relation = "replace-one",
    rows_per_unit: Rows = 1,
    ledger: LedgerUrl = None,
    dataset: Dataset = "default",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Schema file; default: standard output.")
    ] = None,
    seed: Seed = None,
    separator: Separator = None,
    decimal: Decimal = ".",
) -> None:
    """Narrow a schema's wide public bounds by private quantiles; write a schema to fit with."""
    from discreet.estimators import private_bounds

    declared = read_schema(schema, names_in(file, separator))
    unit = Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]
    if (low is None) != (high is None):
        raise InvalidInput("--low and --high go together; without them both follow from ε and the number of rows.")
    if output is not None:
        require_place(output, [file, schema, ledger])
    budget = ledger_for(ledger, dataset)
    numeric = [name for name, kind in declared.items() if isinstance(kind, Numeric)]
    chosen = [name for name in column or numeric if name in numeric]  # others are refused below
    table = _rows(file, declared, chosen, separator, decimal, unit)
    found = private_bounds(
        table,
        declared,
        epsilon=epsilon,
        adjacency=unit,
        columns=column,
        quantiles=None if low is None or high is None else (low, high),
        n_public=n_public,
        ledger=budget,
        random_state=seed,
    )
    say_unprotected(found)
    if output is None:
        print(found.to_yaml(), end="")
    else:
        output.write_text(found.to_yaml(), encoding="utf-8")


def _rows(file: Path, schema: Schema, columns: list[str], separator: str | None, decimal: str, unit: Unit) -> Table:
    persons = [name for name, kind in schema.items() if isinstance(kind, Person)]
    count = unit.relation == "replace-one"
    wanted = [*columns, *persons]
    return read_declared(file, schema, wanted, separator, decimal, shown=errors.is_terminal, count_rows=count)


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command()(quantile)
    app.command()(bounds)
