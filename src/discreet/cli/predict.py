"""``discreet predict``: a saved model on new rows."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.common import errors, require_place
from discreet.cli.reading import Decimal, File, Separator, as_mark, read_declared
from discreet.data.frames import Table, column_names, read_table
from discreet.errors import InvalidInput
from discreet.text import printable

__all__ = ["predict", "register"]


def predict(
    model: Annotated[Path, typer.Argument(help="Model written by `discreet fit`.")],
    file: File,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; default: standard output.")] = None,
    probabilities: Annotated[bool, typer.Option(help="One column of probability a class.")] = False,
    copy_ids: Annotated[
        bool, typer.Option("--ids/--no-ids", help="Copy the columns that the schema ignores, such as identifiers.")
    ] = True,
    separator: Separator = None,
    decimal: Decimal = ".",
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects instead of CSV.")] = False,
) -> None:
    """Predict the target of each row. Needs the model alone, never the training data."""
    from discreet.estimators.loading import load

    if output is not None:
        require_place(output, [model, file])
    fitted = load(model)
    if probabilities and not hasattr(fitted, "predict_proba"):
        raise InvalidInput(f"{type(fitted).__name__} has no probabilities.")
    kept, table = _rows(fitted, file, separator, decimal, copy_ids)
    if probabilities:
        header = [f"probability_{label}" for label in fitted.classes_.tolist()]
        found = fitted.predict_proba(table).tolist()
    else:
        header, found = ["prediction"], [[value] for value in fitted.predict(table).tolist()]
    copied = [table[name].tolist() for name in kept]
    before = zip(*copied, strict=True) if copied else ((),) * len(found)
    rows = [[*kept, *header], *([*ids, *answer] for ids, answer in zip(before, found, strict=True))]
    if as_json:
        text = json.dumps([dict(zip(rows[0], map(_plain, row), strict=True)) for row in rows[1:]]) + "\n"
        sys.stdout.write(text) if output is None else output.write_text(text, encoding="utf-8")
    elif output is not None:
        with output.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)
    else:  # names and labels come from files of others, and this may be a terminal
        csv.writer(sys.stdout).writerows(
            [printable(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
        )


def _plain(cell: Any) -> Any:
    """A cell as JSON has it: what is no number, text or truth value is text, and a missing number is null."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell if isinstance(cell, str | int | float | bool) or cell is None else str(cell)


def _rows(fitted: Any, file: Path, separator: str | None, decimal: str, ids: bool) -> tuple[list[str], Table]:
    """The columns to copy, and a table of these and of what the model needs."""
    encoder = fitted._features.encoder
    if encoder is None:
        return [], read_table(file, separator=as_mark(separator), decimal=decimal)
    there = column_names(file, separator=as_mark(separator))
    unused = [name for name in there if name in encoder.schema and name not in encoder.columns]
    kept = [name for name in unused if name != encoder.target] if ids else []
    columns = [*encoder.columns, *kept]
    shown = errors.is_terminal
    return kept, read_declared(file, encoder.schema, columns, separator, decimal, shown=shown, count_rows=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(predict)
