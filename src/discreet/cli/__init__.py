"""The command line: ``discreet`` and its commands, one file each."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from discreet._version import __version__
from discreet.cli import (
    account,
    check,
    demo,
    evaluate,
    fit,
    ledger,
    plan,
    predict,
    quantiles,
    report,
    schema,
    serve,
    show,
    solvers,
)
from discreet.errors import DiscreetError
from discreet.text import printable

__all__ = ["app", "main"]

app = typer.Typer(
    name="discreet",
    help="Models from sensitive data, with a privacy certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"discreet {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Models from sensitive data, with a privacy certificate."""


fit.register(app)
predict.register(app)
show.register(app)
evaluate.register(app)
check.register(app)
plan.register(app)
solvers.register(app)
quantiles.register(app)
account.register(app)
schema.register(app)
ledger.register(app)
report.register(app)
serve.register(app)
demo.register(app)


_UsageError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the one that is there


def main() -> None:
    """Run the command line; mistakes in what was asked end in one clear line. Codes: docs/how-to/command-line.md."""
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except _UsageError as problem:
        if type(problem).__name__ == "NoArgsIsHelpError":
            problem.show()
        else:
            _say(" ".join(problem.format_message().split()))
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt) as stop:
        print("discreet: stopped.", file=sys.stderr)
        sys.exit(130 if KeyboardInterrupt in (type(stop), type(stop.__cause__)) else 1)
    except DiscreetError as problem:
        _say(str(problem))
        sys.exit(3 if type(problem).__name__ == "BudgetExceeded" else 2)
    except OSError as problem:
        place = f"{problem.filename}: " if problem.filename else ""
        _say(f"{place}{problem.strerror or problem}")
        sys.exit(2)


def _say(words: str) -> None:
    # what is wrong is often a name or a text from outside
    print(f"discreet: {printable(words, keep=chr(10))}", file=sys.stderr)
