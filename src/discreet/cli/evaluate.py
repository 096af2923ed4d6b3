"""``discreet evaluate``: how well a saved model predicts rows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from discreet.cli import options
from discreet.cli.common import console, errors, ledger_for, require_place, say_not_private
from discreet.cli.reading import Decimal, File, Separator, as_mark, read_declared
from discreet.data.frames import NamedColumn, read_table
from discreet.data.profiles import used_columns
from discreet.errors import InvalidInput
from discreet.report.evaluation import CONFIDENCE, Evaluation
from discreet.units import Unit

__all__ = ["evaluate", "register"]


def evaluate(
    model: Annotated[Path, typer.Argument(help="Model written by `discreet fit`.")],
    file: File,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget of the evaluation (pure DP).")] = None,
    public: Annotated[bool, typer.Option("--public", help="The rows are public: exact figures, at no cost.")] = False,
    target: Annotated[str | None, typer.Option(help="Column to predict; by default the model's own.")] = None,
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    rows_per_unit: Annotated[int, typer.Option(help="The most rows one person has.")] = 1,
    n_public: Annotated[int | None, typer.Option(help="Number of rows, if it is public (add-remove).")] = None,
    ledger: options.LedgerUrl = None,
    dataset: options.Dataset = "default",
    analyst: options.Analyst = "",
    witness: options.Witness = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the figures to a JSON file too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    seed: Annotated[int | None, typer.Option(help="Reproducible, and therefore NOT private.")] = None,
    separator: Separator = None,
    decimal: Decimal = ".",
) -> None:
    """Accuracy, AUC, log-loss, calibration (R², deviance for numbers) on test rows, which are private by default."""
    from discreet.estimators import evaluate as evaluated
    from discreet.estimators.loading import load

    if not public and epsilon is None:
        raise InvalidInput(
            "test rows are private unless you say --public: give --epsilon (which is charged), or --public. Nothing "
            "was released."
        )
    if public and (epsilon is not None or ledger is not None or seed is not None):
        raise InvalidInput("--public rows are neither charged nor protected: leave out --epsilon, --ledger and --seed.")
    if output is not None:
        require_place(output, [model, file, ledger])
    fitted = load(model)
    name = _target(fitted, target)
    budget, unit = ledger_for(ledger, dataset, analyst, witness), Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]
    found = evaluated(
        fitted,
        *_rows(fitted, file, name, separator, decimal, public),
        epsilon=epsilon,
        public=public,
        adjacency=unit,
        n_public=n_public,
        ledger=budget,
        random_state=seed,
    )
    if output is not None:
        output.write_text(found.to_json() + "\n", encoding="utf-8")
    if as_json:
        print(found.to_json())
    else:
        _show(found)
    if not public and not found.private:
        say_not_private("drawn with a seed, or without noise (ε = ∞).")


def _target(fitted: Any, target: str | None) -> str:
    """The column that the model predicts."""
    encoder = fitted._features.encoder
    if encoder is None:
        raise InvalidInput("this model was fitted to plain arrays, not to a table: evaluate it in Python.")
    if target is not None and encoder.target is not None and target != encoder.target:
        raise InvalidInput(f"the model predicts {encoder.target!r}, not {target!r}.")
    name = target or encoder.target
    if name is None:
        raise InvalidInput("the model does not say which column it predicts: give --target.")
    return str(name)


def _rows(
    fitted: Any, file: Path, target: str, separator: str | None, decimal: str, public: bool
) -> tuple[Any, NamedColumn]:
    """The columns that the model needs, whose each row is where it is protected, and the target."""
    encoder = fitted._features.encoder
    if target not in encoder.schema:  # a model whose schema leaves its target out
        table = read_table(file, separator=as_mark(separator), decimal=decimal)
        column = NamedColumn.of(table, target, encoder.schema)
        return {other: table[other] for other in table if other != target}, column
    person = encoder.schema.person
    ids = [] if public or person is None else [person[0]]
    columns = [*used_columns(encoder), *ids, target]
    table = read_declared(file, encoder.schema, columns, separator, decimal, shown=False, count_rows=False)
    return table, NamedColumn.of(table, target, encoder.schema)


def _show(found: Evaluation) -> None:
    table = Table("", "model", f"{CONFIDENCE:.0%} interval", "guess", box=None, padding=(0, 2, 0, 0))
    for metric in found.metrics:
        guess = "" if metric.guess is None else f"{metric.guess:.4g}"
        table.add_row(
            metric.name.replace("_", " "), f"{metric.value:.4g}", f"{metric.low:.4g} to {metric.high:.4g}", guess
        )
    console.print(table)
    about = "" if found.unit is None or not found.epsilon < float("inf") else "about "
    console.print(f"rows with a known target: {about}{found.rows:.0f}")
    console.print(f"privacy: {found.privacy}", soft_wrap=True)
    if found.unit is not None and any(m.high - m.low > 0.2 for m in found.metrics if m.name in ("accuracy", "auc")):
        errors.print("The intervals are wide: more rows or a larger --epsilon make them narrower.", soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(evaluate)
