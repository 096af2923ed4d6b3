"""``discreet ledger``: set a budget; see what was charged, and what is left."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from discreet.cli.common import console, ledger_at
from discreet.text import printable

__all__ = ["ledger", "register"]


def ledger(
    url: Annotated[str, typer.Argument(help="For example sqlite:///ledger.db or a path.")],
    dataset: Annotated[str | None, typer.Option(help="Default: every dataset of the ledger.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Set the budget of a new dataset.")] = None,
    delta: Annotated[float | None, typer.Option(help="The budget's δ: that of one run, or of all together.")] = None,
    adjacency: Annotated[str | None, typer.Option(help="The budget's relation: replace-one or add-remove.")] = None,
    rows_per_unit: Annotated[int, typer.Option(help="The most rows that one person of the budget has.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, with every event.")] = False,
) -> None:
    """Show the budgets and charges of a ledger. With --epsilon, --delta and --adjacency: set a budget, once."""
    from discreet.errors import InvalidInput
    from discreet.ledger import Ledger
    from discreet.units import Unit

    place = ledger_at(url)
    if adjacency is None and rows_per_unit != 1:
        raise InvalidInput("--rows-per-unit belongs to a budget: give --epsilon, --delta and --adjacency too.")
    if (epsilon, delta, adjacency) != (None, None, None):
        unit = None if adjacency is None else Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]
        Ledger(place, epsilon=epsilon, delta=delta, adjacency=unit, dataset=dataset or "default")
    names = Ledger.datasets(place)
    if dataset is not None and dataset not in names:
        raise InvalidInput(f"{url} has no dataset {dataset!r}; it has {', '.join(map(repr, names)) or 'none'}.")
    if not names:
        raise InvalidInput(
            f"{url} has no dataset yet: set a budget with --dataset, --epsilon, --delta and --adjacency."
        )
    found = {name: Ledger(place, dataset=name) for name in ([dataset] if dataset else names)}
    if as_json:
        facts = {
            name: [
                {
                    "id": c.id,
                    "at": c.at,
                    "note": c.note,
                    "status": c.status,
                    "stated": None if c.stated is None else c.stated._asdict(),
                    "event": c.event.to_dict(),
                    "ran": None if c.ran is None else c.ran.to_dict(),
                }
                for c in one.history()
            ]
            for name, one in found.items()
        }
        print(json.dumps(facts))
        return
    for name, one in found.items():
        budget = one.budget
        spent = f"spent ε = {one.spent().upper:.4g} of {budget}" if budget else "no budget: it only records"
        console.print(f"{printable(name)}: {spent}")
        table = Table(box=None, padding=(0, 2, 0, 0))  # such that 80 columns show all but long notes on one line
        for heading in ("id", "when", "ε", "δ", "status"):
            table.add_column(heading, no_wrap=True)
        table.add_column("what", overflow="fold")
        for charge in one.history():
            stated = (
                ("", "") if charge.stated is None else (f"{charge.stated.epsilon:.4g}", f"{charge.stated.delta:.3g}")
            )
            what = charge.note or type(charge.event).__name__
            when = charge.at[:16].replace("T", " ")
            table.add_row(str(charge.id), printable(when), *stated, charge.status, printable(what))
        console.print(table)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(ledger)
