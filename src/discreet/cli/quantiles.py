"""``discreet quantile`` and ``discreet bounds``: private quantiles of a file's columns, for themselves or as bounds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli import options
from discreet.cli.common import errors, ledger_for, read_schema, require_place, say_not_private, say_unprotected
from discreet.cli.reading import Decimal, File, Separator, names_in, read_declared
from discreet.data.columns import Numeric, Person
from discreet.data.frames import Table
from discreet.data.schema import Schema
from discreet.data.unprotected import is_unprotected
from discreet.errors import InvalidInput
from discreet.units import Unit

__all__ = ["bounds", "quantile", "register"]

Epsilon = Annotated[float, typer.Option(help="Privacy budget of the whole answer (pure DP).")]


def quantile(
    file: File,
    column: Annotated[str, typer.Option(help="A numeric column of the schema.")],
    epsilon: Epsilon,
    q: Annotated[list[float] | None, typer.Option(help="Quantile in [0, 1]; may be repeated. Default: 0.5.")] = None,
    schema: options.SchemaFile = None,
    adjacency: options.Adjacency = "replace-one",
    rows_per_unit: options.RowsPerUnit = 1,
    ledger: options.LedgerUrl = None,
    dataset: options.Dataset = "default",
    analyst: options.Analyst = "",
    witness: options.Witness = None,
    seed: options.Seed = None,
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
    budget = ledger_for(ledger, dataset, analyst, witness)
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
    schema: options.SchemaFile = None,
    column: Annotated[list[str] | None, typer.Option(help="May be repeated. Default: every numeric column.")] = None,
    low: Annotated[float | None, typer.Option(help="Quantile that new lower bounds are near to; with --high.")] = None,
    high: Annotated[float | None, typer.Option(help="Quantile that new upper bounds are near to.")] = None,
    n_public: Annotated[int | None, typer.Option(help="Number of rows, if it is public (add-remove).")] = None,
    adjacency: options.Adjacency = "replace-one",
    rows_per_unit: options.RowsPerUnit = 1,
    ledger: options.LedgerUrl = None,
    dataset: options.Dataset = "default",
    analyst: options.Analyst = "",
    witness: options.Witness = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Schema file; default: standard output.")
    ] = None,
    seed: options.Seed = None,
    separator: Separator = None,
    decimal: Decimal = ".",
    as_json: Annotated[bool, typer.Option("--json", help="The schema as JSON instead of YAML.")] = False,
) -> None:
    """Narrow a schema's wide public bounds by private quantiles; write a schema to fit with."""
    from discreet.estimators import private_bounds

    declared = read_schema(schema, names_in(file, separator))
    unit = Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]
    if (low is None) != (high is None):
        raise InvalidInput("--low and --high go together; without them both follow from ε and the number of rows.")
    if output is not None:
        require_place(output, [file, schema, ledger])
    budget = ledger_for(ledger, dataset, analyst, witness)
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
    text = json.dumps(found.to_dict()) + "\n" if as_json else found.to_yaml()
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")


def _rows(file: Path, schema: Schema, columns: list[str], separator: str | None, decimal: str, unit: Unit) -> Table:
    persons = [name for name, kind in schema.items() if isinstance(kind, Person)]
    count = unit.relation == "replace-one"
    wanted = [*columns, *persons]
    return read_declared(file, schema, wanted, separator, decimal, shown=errors.is_terminal, count_rows=count)


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command()(quantile)
    app.command()(bounds)
