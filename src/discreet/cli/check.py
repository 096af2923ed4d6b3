"""``discreet check``: noisy shares of cells that are not as the schema declares, before a fit is paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from discreet.cli import options
from discreet.cli.common import console, ledger_for, read_schema, say_not_private
from discreet.cli.reading import Decimal, File, Separator, as_mark, declared_columns, names_in
from discreet.data.columns import Numeric
from discreet.data.frames import read_table
from discreet.data.problems import PROBLEMS
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.report.schema_check import SchemaCheck
from discreet.units import Unit

__all__ = ["check", "register"]


def check(
    file: File,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the whole answer (pure DP).")],
    schema: Annotated[Path | None, typer.Option(help="YAML file with the public bounds of each column.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="May be repeated. Default: every declared column.")] = None,
    most_cells: Annotated[int, typer.Option(help="In how many columns the problems of one row count in full.")] = 1,
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    rows_per_unit: Annotated[int, typer.Option(help="The most rows one person has.")] = 1,
    n_public: Annotated[int | None, typer.Option(help="Number of rows, if it is public (add-remove).")] = None,
    ledger: options.LedgerUrl = None,
    dataset: options.Dataset = "default",
    analyst: options.Analyst = "",
    witness: options.Witness = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    seed: Annotated[int | None, typer.Option(help="Reproducible, and therefore NOT private.")] = None,
    separator: Separator = None,
    decimal: Decimal = ".",
) -> None:
    """Check a file against its schema for little ε: the share of cells that are missing, unreadable, beyond bounds."""
    from discreet.estimators import check as checked

    unit, budget = Unit(adjacency, rows_per_unit), ledger_for(ledger, dataset, analyst, witness)  # type: ignore[arg-type]
    declared = read_schema(schema, names_in(file, separator))
    found = checked(
        _cells(file, declared, column, separator, decimal),
        declared,
        epsilon=epsilon,
        adjacency=unit,
        columns=column,
        most_cells=most_cells,
        n_public=n_public,
        ledger=budget,
        random_state=seed,
    )
    if as_json:
        print(found.to_json())
    else:
        _show(found)
    if not found.private:
        say_not_private("drawn with a seed, or without noise (ε = ∞).")


def _cells(
    file: Path, schema: Schema, columns: list[str] | None, separator: str | None, decimal: str
) -> dict[str, Any]:
    """The cells as they are written: read as numbers, what is no number could not be told from what is missing."""
    if decimal not in (".", ","):
        raise InvalidInput(f"--decimal is . or , and not {decimal!r}.")
    wanted = declared_columns(schema)
    if columns is not None:
        person = schema.person
        wanted = [name for name in schema if name in columns or (person is not None and name == person[0])]
        for name in columns:
            schema.target(name)  # an unknown name is refused before the file is read
    table = read_table(file, columns=wanted, separator=as_mark(separator))
    swap = str.maketrans(",.", ".,") if decimal == "," else None
    return {
        name: [cell.translate(swap) if isinstance(cell, str) else cell for cell in table[name]]
        if swap is not None and isinstance(schema[name], Numeric)
        else table[name]
        for name in wanted
    }


def _show(found: SchemaCheck) -> None:
    table = Table("column", *PROBLEMS, box=None, padding=(0, 2, 0, 0))
    for name, shares in found.shares.items():
        table.add_row(name, *(f"{shares[problem]:.1%}" if problem in shares else "" for problem in PROBLEMS))
    console.print(table)
    console.print(f"each ± {found.margin:.1%} with probability 95 %; privacy: {found.privacy}", soft_wrap=True)
    for name, shares in found.suspects.items():
        worst = max(shares, key=lambda problem: shares[problem])
        about = "at least about" if found.many > found.threshold else "about"
        console.print(f"{name}: {about} {shares[worst]:.0%} of its cells are {worst}: {_ADVICE[worst]}", soft_wrap=True)
    if not found.suspects:
        console.print(f"no share is beyond noise, which hides shares below {found.threshold:.1%}.", soft_wrap=True)
    if found.many > found.threshold:
        console.print(
            f"about {found.many:.0%} of the rows have problems in more than {found.most} columns, and count by less "
            f"for each: shares are larger than shown. --most-cells {min(2 * found.most, len(found.shares))} counts "
            "more of them, with more noise.",
            soft_wrap=True,
        )


_ADVICE = {
    "missing": "if that is not expected, compare the names of the columns; as a target such a row contributes nothing.",
    "unreadable": "declare it categorical, or compare how numbers are written (decimal comma, units).",
    "out of range": "compare the declared bounds and the unit (years, months, thousands) with the codebook.",
    "unlisted": "compare the declared categories with how they are spelled in the file.",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(check)
