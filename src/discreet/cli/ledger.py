"""``discreet ledger``: set a budget, share it, see what was charged and what is left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer.core import TyperGroup

from discreet.cli.common import console, ledger_at, shown_place
from discreet.floats import rounded_up
from discreet.text import printable

if TYPE_CHECKING:
    from discreet.ledger import Charge, Ledger

__all__ = ["register"]

_BUDGET = ("--epsilon", "--delta", "--adjacency", "--derived-from")


class _ShortForm(TyperGroup):
    """``discreet ledger budget.db`` shows the ledger; with the options of a budget it creates one.

    With ``--json`` this short form prints the charges of each dataset alone, as its first version did.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            wants_a_budget = any(word.split("=")[0] in _BUDGET for word in args)
            args = ["create" if wants_a_budget else "charges" if "--json" in args else "show", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_ShortForm, no_args_is_help=True, help="Set a budget, share it, see what was charged and what is left."
)

Place = Annotated[str, typer.Argument(help="A file such as budget.db, or postgresql://user@host/database.")]
Dataset = Annotated[str, typer.Option(help="The people whose privacy is spent.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable.")]
Note = Annotated[str, typer.Option(help="A line for the history. It must not contain data.")]


@app.command()
def create(
    place: Place,
    dataset: Dataset = "default",
    epsilon: Annotated[float | None, typer.Option(help="The most ε ever.")] = None,
    delta: Annotated[float | None, typer.Option(help="The budget's δ: that of one run, or of all together.")] = None,
    adjacency: Annotated[str | None, typer.Option(help="The budget's relation: replace-one or add-remove.")] = None,
    rows_per_unit: Annotated[int, typer.Option(help="The most rows that one person of the budget has.")] = 1,
    derived_from: Annotated[
        list[str] | None, typer.Option(help="A dataset with the same people, whose budget is shared; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Set the budget of a dataset, once."""
    from discreet.errors import InvalidInput
    from discreet.ledger import Ledger
    from discreet.units import Unit

    if adjacency is None and rows_per_unit != 1:
        raise InvalidInput("--rows-per-unit belongs to a budget: give --epsilon, --delta and --adjacency too.")
    if adjacency is None and not derived_from:
        raise InvalidInput(
            "a budget is --epsilon, --delta and --adjacency together; or give --derived-from to share one."
        )
    unit = None if adjacency is None else Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]
    made = Ledger(
        ledger_at(place), epsilon=epsilon, delta=delta, adjacency=unit, dataset=dataset,
        derived_from=derived_from or (),
    )  # fmt: skip
    _say(made, _headline(made), as_json)


@app.command()
def show(
    place: Place,
    dataset: Annotated[str | None, typer.Option(help="Default: every dataset of the ledger.")] = None,
    as_json: Json = False,
) -> None:
    """Show budgets, what is spent of them, and the charges."""
    found = _ledgers(place, dataset)
    if as_json:
        print(json.dumps({one.dataset: _facts(one) for one in found}))
        return
    for one in found:
        console.print(_headline(one))
        for name, part in one.allocations().items():
            mine = _ledger(place, one.dataset, name)
            console.print(f"  {printable(name)}: spent ε = {rounded_up(mine.spent().upper)} of {part}")
        _table(one)


@app.command()
def history(place: Place, dataset: Dataset = "default", as_json: Json = False) -> None:
    """Show every charge of a dataset, oldest first."""
    (one,) = _ledgers(place, dataset)
    if as_json:
        print(json.dumps([_charge(charge) for charge in one.history()]))
        return
    _table(one)


@app.command(hidden=True)
def charges(place: Place, dataset: Annotated[str | None, typer.Option()] = None, as_json: Json = False) -> None:
    """Print the charges of every dataset as JSON."""
    print(json.dumps({one.dataset: [_charge(charge) for charge in one.history()] for one in _ledgers(place, dataset)}))


@app.command()
def allocate(
    place: Place,
    analyst: Annotated[str, typer.Argument(help="An analyst or a project.")],
    epsilon: Annotated[float, typer.Option(help="The most ε for this part.")],
    delta: Annotated[float, typer.Option(help="The part's δ.")],
    dataset: Dataset = "default",
    as_json: Json = False,
) -> None:
    """Give an analyst or a project a part of a dataset's budget, once; the whole stays a limit."""
    one = _ledger(place, dataset)
    one.allocate(analyst, epsilon=epsilon, delta=delta)
    _say(one, f"{printable(analyst)}: {one.allocations()[analyst]} of {printable(dataset)}", as_json)


@app.command()
def freeze(place: Place, dataset: Dataset = "default", note: Note = "", as_json: Json = False) -> None:
    """Refuse every further charge to a dataset and to what is derived from it."""
    one = _ledger(place, dataset)
    one.freeze(note)
    _say(one, f"{printable(dataset)} is frozen.", as_json)


@app.command()
def thaw(place: Place, dataset: Dataset = "default", note: Note = "", as_json: Json = False) -> None:
    """Allow charges to a frozen dataset again."""
    one = _ledger(place, dataset)
    one.thaw(note)
    _say(one, f"{printable(dataset)} takes charges again.", as_json)


@app.command()
def verify(
    place: Place,
    head: Annotated[str | None, typer.Option(help="number:digest of a certificate: the book must contain it.")] = None,
    as_json: Json = False,
) -> None:
    """Check every line of the book against the one before it."""
    from discreet.ledger.portable import verify_book

    found = verify_book(ledger_at(place), head)
    if as_json:
        print(json.dumps({"lines": found.number, "head": str(found)}))
        return
    console.print(f"{found.number} lines, each bound to the one before; head {found}")


@app.command("export")
def export_(
    place: Place,
    output: Annotated[Path | None, typer.Option(help="A file; by default the terminal.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON value: a file's head, else all lines.")] = False,
) -> None:
    """Write the whole book as lines of JSON."""
    from discreet.cli.common import require_absent, require_place
    from discreet.ledger.portable import export_book

    lines = export_book(ledger_at(place))
    if output is None:
        if as_json:
            print(json.dumps([json.loads(line) for line in lines]))
        else:
            for line in lines:
                print(line)
        return
    require_place(output, [place])
    require_absent([output], force=False)
    whole = list(lines)
    output.write_text("".join(f"{line}\n" for line in whole), encoding="utf-8")
    if as_json:
        number, *_, digest = json.loads(whole[-1]) if len(whole) > 1 else (0, "")
        print(json.dumps({"lines": number, "head": f"{number}:{digest}", "output": str(output)}))


@app.command("import")
def import_(
    place: Place,
    source: Annotated[Path, typer.Argument(help="An exported book; - reads the input.")],
    as_json: Json = False,
) -> None:
    """Write an exported book to a place that has none yet."""
    from discreet.errors import InvalidInput
    from discreet.ledger.portable import import_book

    try:
        text = sys.stdin.read() if str(source) == "-" else source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "it is not text in UTF-8"
        raise InvalidInput(f"{source} cannot be read: {why}.") from None
    head = import_book(ledger_at(place), text.splitlines())
    if as_json:
        print(json.dumps({"lines": head.number, "head": str(head)}))
        return
    console.print(f"head {head}")


def _ledger(place: str, dataset: str, analyst: str = "") -> Ledger:
    """A ledger that is there."""
    from discreet.errors import InvalidInput
    from discreet.ledger import Ledger

    names = Ledger.datasets(ledger_at(place))
    if not names:
        raise InvalidInput(f"{shown_place(place)} has no dataset yet: set a budget with discreet ledger create.")
    if dataset not in names:
        raise InvalidInput(f"{shown_place(place)} has no dataset {dataset!r}; it has {', '.join(map(repr, names))}.")
    return Ledger(ledger_at(place), dataset=dataset, analyst=analyst)


def _ledgers(place: str, dataset: str | None) -> list[Ledger]:
    from discreet.ledger import Ledger

    names = Ledger.datasets(ledger_at(place))
    return [_ledger(place, name) for name in ([dataset] if dataset is not None else names or ["default"])]


def _say(one: Ledger, words: str, as_json: bool) -> None:
    """What was done, in words, or the dataset's facts after it."""
    if as_json:
        print(json.dumps({one.dataset: _facts(one)}))
    else:
        console.print(words)


def _headline(one: Ledger) -> str:
    budget, frozen = one.budget, one.frozen
    spent = f"spent ε = {rounded_up(one.spent().upper)} of {budget}" if budget else "no budget: it only records"
    return f"{printable(one.dataset)}: {spent}" + ("" if frozen is None else f"; frozen {printable(frozen)}".rstrip())


def _table(one: Ledger) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))  # such that 80 columns show all but long notes on one line
    for heading in ("id", "when", "ε", "δ", "status"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what", overflow="fold")
    for charge in one.history():
        stated = ("", "") if charge.stated is None else tuple(map(rounded_up, charge.stated))
        what = charge.note or type(charge.event).__name__
        whose = [charge.analyst] if charge.analyst else []
        whose += [charge.dataset] if charge.dataset != one.dataset else []
        what += f" ({', '.join(whose)})" if whose else ""
        when = charge.at[:16].replace("T", " ")
        table.add_row(str(charge.id), printable(when), *stated, charge.status, printable(what))
    console.print(table)


def _facts(one: Ledger) -> dict[str, Any]:
    budget = one.budget
    return {
        "budget": budget and {"epsilon": budget.epsilon, "delta": budget.delta, "unit": str(budget.unit)},
        "spent": None if budget is None else one.spent().upper,
        "frozen": one.frozen,
        "head": str(one.head),
        "allocations": {
            name: {"epsilon": part.epsilon, "delta": part.delta} for name, part in one.allocations().items()
        },
        "charges": [_charge(charge) for charge in one.history()],
    }


def _charge(charge: Charge) -> dict[str, Any]:
    return {
        "id": charge.id,
        "at": charge.at,
        "dataset": charge.dataset,
        "analyst": charge.analyst,
        "note": charge.note,
        "status": charge.status,
        "stated": None if charge.stated is None else charge.stated._asdict(),
        "event": charge.event.to_dict(),
        "ran": None if charge.ran is None else charge.ran.to_dict(),
    }


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="ledger")
