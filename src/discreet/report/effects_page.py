"""Effects of a model as one page of HTML: tables and drawings in SVG, no scripts, nothing from elsewhere."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from discreet.text import printable

if TYPE_CHECKING:
    from discreet.report.effects import Effect, ModelEffects, Point

__all__ = ["page"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .1rem .8rem .1rem 0; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { width: 12rem; height: 1rem; vertical-align: middle; } svg.curve { height: 7rem; width: 24rem; max-width: 100%; }
.note { color: #666; }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd; } .note { color: #999; } }
"""


def page(effects: ModelEffects) -> str:
    """The whole page."""
    title = _text(effects.title)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>",
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style><h1>{title}</h1>",
        f"<p class=note>{_text(effects.privacy)}</p><p class=note>{_text(explained(effects))}</p>",
    ]
    for output, intercept, mine in zip(effects.outputs, effects.intercepts, effects.effects, strict=True):
        if len(effects.outputs) > 1:
            parts.append(f"<h1>{_text(output)}</h1>")
        parts.append(f"<p>intercept {intercept:.4g}</p>")
        ends = _ends([point for effect in mine for point in effect.points])
        parts += [_section(effect, ends, effects.ratios) for effect in mine]
    return "\n".join([*parts, "</html>\n"])


def explained(effects: ModelEffects) -> str:
    """How the figures are to be read, in words."""
    what = {
        "log-odds": "Effects add up on the scale of log-odds; e to their power is a factor of the odds.",
        "log of the expected count": "Effects add up to the logarithm of the expected count; e to their power is a "
        "factor of it.",
    }.get(effects.scale, "Effects add up to the prediction, in units of the target." if effects.scale == "target" else
          "Effects add up to the score, which is positive for the second class.")  # fmt: skip
    return f"{what} Those of a column have mean 0 over its values, and the intercept is the sum where all are 0."


def _ends(points: list[Point]) -> tuple[float, float]:
    """The least and the largest effect with its band, 0 among them: one scale for all columns."""
    bands = [1.96 * (p.error or 0.0) for p in points]
    low = min((p.effect - band for p, band in zip(points, bands, strict=True)), default=0.0)
    high = max((p.effect + band for p, band in zip(points, bands, strict=True)), default=0.0)
    return min(low, 0.0), max(high, 0.0)


def _section(effect: Effect, ends: tuple[float, float], ratios: bool) -> str:
    curve = _curve(effect, *ends) if effect.kind == "curve" else ""
    largest = max(-ends[0], ends[1]) or 1.0
    head = "<th class=n>factor" if ratios else ""
    slope = "" if effect.slope is None else f" <small class=note>{effect.slope:+.4g} per unit</small>"
    rows = "".join(
        f"<tr><td>{_text(p.label)}<td class=n>{p.effect:+.3g}{_error(p)}"
        + (f"<td class=n>× {_power(p.effect)}" if ratios else "")
        + f"<td>{_bar(p.effect / largest)}"
        for p in effect.points
    )
    table = f"<table><tr><th>value<th class=n>effect{head}<th>{rows}</table>"
    return f"<h2>{_text(effect.column)}{slope}</h2>{curve}{table}"


def _power(effect: float) -> str:
    return f"{math.exp(min(effect, 700.0)):.3g}"


def _error(point: Point) -> str:
    return "" if point.error is None else f" ± {1.96 * point.error:.2g}"


def _bar(share: float) -> str:
    left, width = (50 + 50 * min(share, 0.0), 50 * abs(share))
    colour = "#3b76b5" if share >= 0 else "#c0504d"
    return (
        f"<svg viewBox='0 0 100 10' preserveAspectRatio=none><rect x={left:.2f} y=1 width={width:.2f} height=8 "
        f"fill='{colour}'/><rect x=49.8 y=0 width=.4 height=10 fill='#999'/></svg>"
    )


def _curve(effect: Effect, low: float, high: float) -> str:
    span = (high - low) or 1.0
    last = len(effect.points) - 1

    def place(i: int, value: float) -> str:  # knots are evenly spaced on the column's own scale
        return f"{5 + 290 * i / last:.1f},{75 - 70 * (value - low) / span:.1f}"

    line = " ".join(place(i, p.effect) for i, p in enumerate(effect.points))
    band = ""
    if all(p.error is not None for p in effect.points):
        upper = [place(i, p.effect + 1.96 * (p.error or 0.0)) for i, p in enumerate(effect.points)]
        lower = [place(i, p.effect - 1.96 * (p.error or 0.0)) for i, p in enumerate(effect.points)]
        band = f"<polygon points='{' '.join(upper + lower[::-1])}' fill='#3b76b5' opacity=.2 />"
    zero = 75 - 70 * (0 - low) / span
    return (
        f"<svg class=curve viewBox='0 0 300 80' preserveAspectRatio=none><line x1=0 x2=300 y1={zero:.1f} "
        f"y2={zero:.1f} stroke='#999' stroke-width=.5 />{band}<polyline points='{line}' fill=none stroke='#3b76b5' "
        "stroke-width=1.5 /></svg>"
    )


def _text(words: str) -> str:
    return escape(printable(words))
