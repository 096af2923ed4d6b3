"""What several commands share: the console, ledgers, schemas, models, certificates."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from discreet.data.columns import Boolean, Categorical, Numeric
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.report.certificate import FROM_THE_DATA, Certificate
from discreet.text import checked_path, printable, without_passwords

if TYPE_CHECKING:
    from discreet.ledger import Ledger

__all__ = [
    "MODELS",
    "NETWORK",
    "SafeConsole",
    "console",
    "errors",
    "ledger_at",
    "ledger_for",
    "model_for",
    "read_schema",
    "require_absent",
    "require_place",
    "say_not_private",
    "say_unprotected",
    "show_certificate",
    "shown_place",
]


class SafeConsole(Console):
    """A console on which text is text: brackets are no markup, and control characters are shown, not obeyed.

    Names, notes and paths come from files that others may have written.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, stderr=stderr)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render text without markup, in cells of tables and in printed words."""
        return super().render_str(printable(text, keep="\n"), **options)


console, errors = SafeConsole(), SafeConsole(stderr=True)

MODELS = {
    "logistic": "LogisticRegression",
    "svc": "LinearSVC",
    "linear": "LinearRegression",
    "lasso": "Lasso",
    "sparse": "SparseLinearRegression",
    "huber": "HuberRegression",
    "poisson": "PoissonRegression",
    "quantile": "QuantileRegression",
}
NETWORK = "mlp"
"""The name of the network on the command line, which `discreet fit` takes beside `MODELS`."""


def ledger_at(words: str) -> str | Path:
    """The ledger at a url, or in the file of this path.

    Raises:
        InvalidInput: the ledger would be gone when the command ends.
    """
    if words == "memory:":
        raise InvalidInput("a ledger in memory: is gone when the command ends. Give a file, such as budget.db.")
    return words if ":" in words else Path(words)


def shown_place(words: str) -> str:
    """The place of a ledger for messages: a password in it is not repeated.

    Example:
        >>> shown_place("postgresql://ann:secret@db/privacy")
        'postgresql://ann:***@db/privacy'
    """
    return printable(without_passwords(words))


def ledger_for(url: str | None, dataset: str, analyst: str = "", witness: Path | None = None) -> Ledger | None:
    """The ledger of a command's options; one without a budget says that it only records."""
    if url is None:
        given = {"--dataset": dataset != "default", "--analyst": bool(analyst), "--witness": witness is not None}
        for option in (name for name, is_given in given.items() if is_given):
            raise InvalidInput(f"{option} is about the budget in a ledger: give --ledger too.")
        return None
    from discreet.ledger import Ledger

    place = url if url == "memory:" else ledger_at(url)  # runs with a seed are taken by no other
    found = Ledger(place, dataset=dataset, analyst=analyst, witness=witness)
    if found.budget is None:
        advice = "To limit it, set a budget first: discreet ledger --help"
        errors.print(f"{shown_place(url)} only records what is spent. {advice}")
    return found


def require_place(place: Path, others: Sequence[Path | str | None]) -> None:
    """Refuse, before anything is charged, a place that could not be written to afterwards, or that holds an input.

    Two names of one file, by symbolic or hard links, are one place.
    """
    checked_path(place)
    files = [checked_path(str(path).removeprefix("sqlite:///")).expanduser() for path in others if path is not None]
    if any(_same_file(place, file) for file in files):
        raise InvalidInput(
            f"{place} has another part in this command and would be written over: choose another file. Nothing was "
            "released."
        )
    if not place.parent.is_dir():
        raise InvalidInput(f"there is no folder {place.parent} to write {place.name} to; nothing was released.")
    if place.is_dir() or not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InvalidInput(f"{place} cannot be written: choose another file. Nothing was released.")


def require_absent(places: Sequence[Path], *, force: bool) -> None:
    """Ask before files are written over; where nobody can be asked, refuse."""
    there = [str(place) for place in places if place.exists()]
    if not there or force:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"{', '.join(there)} would be written over: choose another --output, or give --force. Nothing was released."
        )
    typer.confirm(f"Write over {printable(', '.join(there))}?", abort=True, err=True)


def _same_file(one: Path, two: Path) -> bool:
    try:
        return one.samefile(two)
    except OSError:  # at least one is not there yet
        return os.path.realpath(one) == os.path.realpath(two)


def read_schema(path: Path | None, columns: Sequence[str] | Callable[[], Sequence[str]]) -> Schema:
    """The schema file, or an error that shows how to write one for these columns."""
    if path is None:
        from discreet.data.schema import schema_missing

        raise schema_missing(columns() if callable(columns) else columns)
    return Schema.from_yaml(path)


def model_for(schema: Schema, target: str, kind: str) -> Any:
    """The estimator class: as asked, or by the target's declaration."""
    from discreet import estimators

    column = schema.target(target)
    has_labels = isinstance(column, Categorical | Boolean)
    if kind == "auto":
        kind = "linear" if isinstance(column, Numeric) else "logistic"
    if kind not in (*MODELS, NETWORK):
        raise InvalidInput(f"unknown model {kind!r}; choose auto or one of {', '.join((*MODELS, NETWORK))}.")
    if kind != NETWORK and (kind in ("logistic", "svc")) != has_labels:
        raise InvalidInput(
            f"model {kind!r} does not fit the target {target!r}, which the schema declares "
            f"{'a number' if isinstance(column, Numeric) else 'a category'}."
        )
    if isinstance(column, Boolean) and column.false is None:
        raise InvalidInput(
            f"the schema declares the target {target!r} as boolean: say which two labels the file has, no before yes, "
            f"as in `{target}: {{boolean: [no, yes]}}`. Predictions are these labels. Nothing was released."
        )
    if kind == NETWORK:
        from discreet.torch import tabular

        return tabular.TorchClassifier if has_labels else tabular.TorchRegressor
    return getattr(estimators, MODELS[kind])


def say_not_private(what: str) -> None:
    """Say on the error stream that an answer is not private, so that programs can still read the answer itself."""
    errors.print(f"NOT PRIVATE: {what}", soft_wrap=True)


def say_unprotected(schema: Schema) -> None:
    """Name the columns whose bounds were taken from the data: no fit with them is private."""
    if schema.unprotected:
        names = ", ".join(map(printable, schema.unprotected))
        say_not_private(f"bounds of {names} are {FROM_THE_DATA}; a fit with this schema is not private.")


def show_certificate(certificate: Certificate, n_features: int) -> None:
    """The certificate as a small table."""
    table = RichTable(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in (
        ("privacy", str(certificate)),
        ("solver", certificate.solver),
        ("scales", _kind(certificate.settings.get("scales"))),
        ("noise multiplier", _short(certificate.settings.get("noise_multiplier"))),
        ("features", str(n_features)),
        ("not protected", ", ".join(certificate.unprotected) or "—"),
    ):
        if value is not None:
            table.add_row(name, value)
    console.print(table)


def _kind(scales: Any) -> str | None:
    """The name of a scale model among a certificate's settings."""
    return str(scales["kind"]) if isinstance(scales, dict) and "kind" in scales else None


def _short(value: Any) -> str | None:
    return f"{value:.4g}" if isinstance(value, int | float) else None
