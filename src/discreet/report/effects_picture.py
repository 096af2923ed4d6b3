"""Effects of a model as a picture, by matplotlib, which is imported only here and when it is asked for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from discreet.accounting.plots import figure_of, saved
from discreet.text import printable

if TYPE_CHECKING:
    from discreet.report.effects import Effect, ModelEffects

__all__ = ["picture"]

_COLUMNS = 4
_LONGEST = 18
_BAND = 1.96


def picture(effects: ModelEffects, path: Any, most: int) -> Any:
    """One panel a column, for each output, all on one scale; see `ModelEffects.plot`."""
    panels = [
        (output, effect)
        for output, mine in zip(effects.outputs, effects.effects, strict=True)
        for effect in mine[:most]
    ]
    lines = math.ceil(len(panels) / _COLUMNS)
    figure = figure_of(3.2 * min(_COLUMNS, len(panels)), 2.6 * lines + 0.5)
    axes = figure.subplots(lines, min(_COLUMNS, len(panels)), squeeze=False, sharey=True).ravel()
    for axis, (output, effect) in zip(axes, panels, strict=False):
        _draw(axis, effect)
        several = len(effects.outputs) > 1
        axis.set_title(_short(f"{effect.column} → {output}" if several else effect.column, 36), fontsize=9)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(_literal(f"{effects.title}\n{effects.privacy}"), fontsize=10)
    if path is not None:
        saved(figure, path)
    return figure


def _draw(axis: Any, effect: Effect) -> None:
    values = [point.effect for point in effect.points]
    bands = [_BAND * point.error if point.error is not None else 0.0 for point in effect.points]
    axis.axhline(0.0, color="0.7", linewidth=0.8)
    axis.tick_params(labelsize=7)
    if effect.kind in ("curve", "slope"):
        xs = [point.x for point in effect.points]
        axis.plot(xs, values, marker="o", markersize=3, color="C0")
        if any(bands):
            low, high = ([v + sign * b for v, b in zip(values, bands, strict=True)] for sign in (-1, 1))
            axis.fill_between(xs, low, high, color="C0", alpha=0.2, linewidth=0)
        if effect.log_scale:
            axis.set_xscale("symlog", linthresh=max(abs(xs[1] or 1.0), 1e-300))
        return
    places = range(len(values))
    colours = ["C0" if point.usual else "0.8" for point in effect.points]
    axis.bar(places, values, color=colours, yerr=bands if any(bands) else None, error_kw={"elinewidth": 0.8})
    axis.set_xticks(list(places), [_short(point.label, _LONGEST) for point in effect.points], rotation=60, ha="right")


def _short(text: str, most: int) -> str:
    return _literal(text if len(text) <= most else text[: most - 1] + "…")


def _literal(text: str) -> str:
    """Text in which matplotlib finds no formula: names come from files that others may have written."""
    return printable(text, keep="\n").replace("$", r"\$")
