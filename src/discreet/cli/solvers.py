"""``discreet solvers``: the rules by which ``solver="auto"`` chooses, as one table."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Column, Table

from discreet.cli.common import console

__all__ = ["register", "rules_as_markdown", "solvers"]


def solvers(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As in the documentation.")] = False,
    numbers: Annotated[bool, typer.Option("--numbers", help="The tuned numbers instead, in Markdown.")] = False,
) -> None:
    """Show the rules of `auto`: the first one whose condition holds names the solver."""
    if numbers:
        from discreet.cli.numbers import numbers_as_markdown

        print(numbers_as_markdown())
        return
    from discreet.planning.auto import RULES

    if as_json:
        shown = ("solver", "scales", "condition", "why", "evidence")
        print(json.dumps([{name: getattr(rule, name) for name in shown} for rule in RULES], ensure_ascii=False))
        return
    if markdown:
        print(rules_as_markdown())
        return
    table = Table("", "if", Column("auto takes", no_wrap=True), "because", "evidence", show_lines=True)
    for place, rule in enumerate(RULES, start=1):
        table.add_row(str(place), rule.condition, rule.label, rule.why, rule.evidence)
    console.print(table)


def rules_as_markdown() -> str:
    """The rules as the table of ``docs/how-to/solvers.md``; the first condition that holds decides."""
    from discreet.planning.auto import RULES

    lines = ["| | if | `auto` takes | because | evidence |", "|---|---|---|---|---|"]
    for place, rule in enumerate(RULES, start=1):
        lines.append(f"| {place} | {rule.condition} | `{rule.label}` | {rule.why} | {rule.evidence} |")
    return "\n".join(lines)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(solvers)
