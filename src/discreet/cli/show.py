"""``discreet show``: the effects of a saved model in natural units, in the terminal, as a picture or as HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from discreet.cli.common import console, require_place
from discreet.errors import InvalidInput
from discreet.report.effects import ModelEffects, Point

__all__ = ["register", "show"]

_FIRST = 20
_WIDTH = 12


def show(
    model: Annotated[Path, typer.Argument(help="Model written by `discreet fit`.")],
    column: Annotated[list[str] | None, typer.Option(help="Only this column; may be repeated.")] = None,
    everything: Annotated[bool, typer.Option("--all", help=f"All columns, not only the {_FIRST} largest.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the effects into this file (png, svg, pdf).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the effects as one page of HTML.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Show what each column of a model adds to its prediction: log-odds, or units of the target."""
    from discreet.estimators.loading import load

    for place in (plot, html):
        if place is not None:
            require_place(place, [model, html if place is plot else None])
    effects = _chosen(load(model).effects(), column)
    if plot is not None:
        effects.plot(plot)
    if html is not None:
        html.write_text(effects.to_html(), encoding="utf-8")
    if as_json:
        print(effects.to_json())
        return
    _show(effects, None if everything or column else _FIRST)
    for place in (plot, html):
        if place is not None:
            console.print(f"written to {place}", soft_wrap=True)


def _chosen(effects: ModelEffects, columns: list[str] | None) -> ModelEffects:
    if not columns:
        return effects
    from dataclasses import replace

    known = [effect.column for effect in effects.effects[0]]
    if strangers := [name for name in columns if name not in known]:
        raise InvalidInput(f"the model has no column {strangers[0]!r}; it has {', '.join(known)}.")
    return replace(effects, effects=tuple(tuple(e for e in mine if e.column in columns) for mine in effects.effects))


def _show(effects: ModelEffects, first: int | None) -> None:
    from discreet.report.effects_page import explained

    console.print(effects.title)
    console.print(f"privacy: {effects.privacy}", soft_wrap=True)
    console.print(explained(effects), soft_wrap=True)
    for output, intercept, mine in zip(effects.outputs, effects.intercepts, effects.effects, strict=True):
        shown = mine[:first]
        largest = max((abs(p.effect) for e in shown for p in e.points), default=0.0) or 1.0
        table = Table(output or "", "", "effect", *(["factor"] if effects.ratios else []), "", box=None)
        factor = [_factor(intercept)] if effects.ratios else []
        table.add_row(
            "intercept", "", f"{intercept:+.3f}" if abs(intercept) < 1e4 else f"{intercept:+.4g}", *factor, ""
        )
        for effect in shown:
            slope = "" if effect.slope is None else f" ({effect.slope:+.3g} per unit)"
            for place, point in enumerate(effect.points):
                factor = [_factor(point.effect)] if effects.ratios else []
                name = f"{effect.column}{slope}" if place == 0 else ""
                table.add_row(name, point.label, _number(point), *factor, _bar(point.effect / largest))
        console.print(table)
        if first is not None and len(mine) > first:
            console.print(f"{len(mine) - first} columns with smaller effects are left out: --all shows them.")


def _number(point: Point) -> str:
    band = "" if point.error is None else f" ± {1.96 * point.error:.2g}"
    return (f"{point.effect:+.3f}" if 1e-3 <= abs(point.effect) < 1e4 else f"{point.effect:+.2g}") + band


def _factor(effect: float) -> str:
    from math import exp

    return f"× {exp(min(effect, 700.0)):.3g}"


def _bar(share: float) -> Text:
    """A bar to the left or right of a middle line, in eighths of a character to the right."""
    size = round(abs(share) * _WIDTH)
    left = ("█" * size).rjust(_WIDTH) if share < 0 else " " * _WIDTH
    return Text(left + "│" + ("█" * size if share > 0 else ""), style="red" if share < 0 else "blue")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(show)
