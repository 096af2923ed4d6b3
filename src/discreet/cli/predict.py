"""``discreet predict``: a saved model on new rows."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.common import require_place
from discreet.data.frames import read_table
from discreet.text import printable

__all__ = ["predict", "register"]


def predict(
    model: Annotated[Path, typer.Argument(help="Model written by `discreet fit`.")],
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file with the same columns.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file; default: standard output.")] = None,
    probabilities: Annotated[bool, typer.Option(help="One column of probability a class.")] = False,
) -> None:
    """Predict the target of each row. Needs the model alone, never the training data."""
    from discreet.errors import InvalidInput
    from discreet.estimators.loading import load

    if output is not None:
        require_place(output, [model, file])

    fitted, table = load(model), read_table(file)
    if probabilities:
        if not hasattr(fitted, "predict_proba"):
            raise InvalidInput(f"{type(fitted).__name__} has no probabilities.")
        header = [f"probability_{label}" for label in fitted.classes_.tolist()]
        rows = fitted.predict_proba(table).tolist()
    else:
        header, rows = ["prediction"], [[value] for value in fitted.predict(table).tolist()]
    if output is not None:
        with output.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *rows])
    else:  # labels come from the model's file, and this may be a terminal
        csv.writer(sys.stdout).writerows(
            [printable(cell) if isinstance(cell, str) else cell for cell in row] for row in [header, *rows]
        )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(predict)
