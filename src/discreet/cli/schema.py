"""``discreet schema``: a schema to fill in, from a file's column names alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.common import console, say_unprotected
from discreet.cli.reading import Separator, as_mark

__all__ = ["register", "schema"]


def schema(
    file: Annotated[Path, typer.Argument(help="File of rows; only its column names are read.")],
    check: Annotated[Path | None, typer.Option(help="Schema file to check against the file's columns.")] = None,
    separator: Separator = None,
    as_json: Annotated[bool, typer.Option("--json", help="The columns, and what a check found, as JSON.")] = False,
) -> None:
    """Print a schema to fill in with public knowledge, or check one."""
    from discreet.data.frames import column_names
    from discreet.data.schema import Schema, schema_template
    from discreet.errors import InvalidInput

    columns = column_names(file, separator=as_mark(separator))
    if check is None:
        print(json.dumps({"columns": list(columns)}) + "\n" if as_json else schema_template(columns), end="")
        return
    declared = Schema.from_yaml(check)
    missing = [name for name in columns if name not in declared]
    unknown = [name for name in declared if name not in columns]
    if missing or unknown:
        raise InvalidInput(
            (f"not declared: {', '.join(missing)}. " if missing else "")
            + (f"not in the file: {', '.join(unknown)}." if unknown else "")
        )
    if as_json:
        print(json.dumps({"columns": list(columns), "unprotected": list(declared.unprotected)}))
        return
    console.print(f"{check} declares all {len(columns)} columns of {file}.", soft_wrap=True)
    say_unprotected(declared)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(schema)
