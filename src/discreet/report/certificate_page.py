"""A certificate as one page of HTML: readable by a board, printable, light and dark, without scripts or network."""

from __future__ import annotations

import json
import math
from html import escape
from typing import TYPE_CHECKING

from discreet.floats import rounded_up
from discreet.report.certificate_facts import (
    bound_facts,
    curve_facts,
    guarantee_facts,
    making_facts,
    mechanism_facts,
    query_facts,
)
from discreet.report.risks import FALSE_ALARMS
from discreet.text import printable

if TYPE_CHECKING:
    from discreet.report.certificate import Certificate

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2327; --paper: #fff; --soft: #5c6670; --line: #d5dae0; --good: #0b6b3a;
  --bad: #a3211b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #15181b; --soft: #a2abb4; --line: #3a4148; --good: #6fd19c; --bad: #ff9c94; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 48rem; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem; }
.lead { font-size: 1.15rem; } .yes { color: var(--good); } .no { color: var(--bad); } .soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; } th { font-weight: 600; width: 16rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-top: 1px solid var(--line); }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } caption { text-align: left; }
svg { width: 100%; max-width: 26rem; height: auto; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
details { margin: 1rem 0; } pre { white-space: pre-wrap; font-size: .8rem; }
@media (max-width: 30rem) { th { width: 40%; } }
@media print { body { margin: 0; max-width: none; } details { display: none; } }
"""


def page(certificate: Certificate) -> str:
    """The whole page."""
    title = f"Privacy certificate: {certificate.record.get('model', certificate.solver)}"
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        f"<title>{_text(title)}</title><meta name=viewport content='width=device-width, initial-scale=1'>",
        f"<style>{_STYLE}</style></head><body><main><h1>{_text(title)}</h1>",
        _verdict(certificate),
        _risks(certificate),
        _table("The guarantee", guarantee_facts(certificate)),
        _table("What is not protected", [("Not protected", item) for item in certificate.unprotected]),
        _table("Where every bound comes from", bound_facts(certificate)),
        _privacy_curve(certificate),
        _table("Mechanisms, in bounds C on one row's contribution", mechanism_facts(certificate)),
        _table("What was asked of the rows", query_facts(certificate)),
        _table("How it was made", making_facts(certificate)),
        "<details><summary>The whole certificate</summary><pre>",
        _text(json.dumps(certificate.to_dict(), indent=1, ensure_ascii=False), keep="\n"),
        "</pre></details></main></body></html>\n",
    ]
    return "\n".join(parts)


def _verdict(certificate: Certificate) -> str:
    if not certificate.private:
        return f"<p class='lead no'><strong>Not private.</strong> {_text(str(certificate))}</p>"
    return f"<p class='lead yes'><strong>Differentially private:</strong> {_text(str(certificate))}</p>"


def _risks(certificate: Certificate) -> str:
    risks = certificate.risks
    rows = [(f"{100 * rate:g} % of the others are accused wrongly", risks.hits(rate)) for rate in FALSE_ALARMS]
    rows += [("Membership advantage", risks.advantage), ("A secret guessed with 10 %", risks.reconstruction(0.1))]
    cells = "".join(f"<tr><th scope=row>{name}</th><td class=n>{_upper(value)}</td></tr>" for name, value in rows)
    return (
        f"<h2>What it means for one person</h2><p>{_text(risks.in_words)}</p>{_curve(certificate)}"
        "<table><caption class=soft>The most that any attacker can find of those who took part, whatever else is "
        f"known</caption>{cells}</table>"
    )


def _upper(value: float) -> str:
    """Per cent, rounded up: a bound stays a bound."""
    return f"{math.ceil(value * 1000 - 1e-9) / 10:.1f} %"


def _curve(certificate: Certificate) -> str:
    """Hits against false alarms, with the line of pure guessing."""
    rates = [(k / 24) ** 2 for k in range(25)]
    points = [(rate, certificate.risks.hits(rate)) for rate in rates]
    line = " ".join(f"{40 + 300 * x:.1f},{220 - 200 * y:.1f}" for x, y in points)
    words = f"At 10 % false alarms at most {_upper(certificate.risks.hits(0.1))} are found."
    return (
        f"<svg viewBox='0 0 360 260' role=img aria-label='{_text(words)}'>"
        "<rect x=40 y=20 width=300 height=200 fill=none stroke='var(--line)'/>"
        "<line x1=40 y1=220 x2=340 y2=20 stroke='var(--soft)' stroke-dasharray='4 4'/>"
        f"<polyline points='{line}' fill=none stroke='var(--good)' stroke-width=2.5 />"
        "<text x=40 y=236>0</text><text x=318 y=236>100 %</text><text x=110 y=252>accused wrongly</text>"
        "<text x=2 y=28>100 %</text><text x=180 y=150>dashed: guessing</text>"
        "<text x=60 y=14>found, at most</text></svg>"
    )


def _privacy_curve(certificate: Certificate) -> str:
    """The whole curve: drawn against log δ, and as a table."""
    points = [(d, e) for d, e in certificate.figures.curve if d > 0 and math.isfinite(e)]
    if not points:
        return _table("The whole privacy curve", curve_facts(certificate))
    top, low, high = max(e for _, e in points) or 1.0, math.log10(points[-1][0]), math.log10(points[0][0])
    across = [40 + 300 * (high - math.log10(d)) / max(high - low, 1e-9) for d, _ in points]
    line = " ".join(f"{x:.1f},{220 - 190 * e / top:.1f}" for x, (_, e) in zip(across, points, strict=True))
    least, most = rounded_up(points[0][1]), rounded_up(points[-1][1])
    words = f"ε grows from {least} at δ = {points[0][0]:g} to {most} at δ = {points[-1][0]:g}."
    picture = (
        f"<svg viewBox='0 0 360 260' role=img aria-label='{_text(words)}'>"
        "<rect x=40 y=20 width=300 height=200 fill=none stroke='var(--line)'/>"
        f"<polyline points='{line}' fill=none stroke='var(--good)' stroke-width=2.5 />"
        f"<text x=40 y=236>δ = {points[0][0]:g}</text><text x=290 y=236>{points[-1][0]:g}</text>"
        f"<text x=8 y=34>{rounded_up(top, 3)}</text><text x=28 y=222>0</text><text x=60 y=14>ε, at most</text></svg>"
    )
    return _table("The whole privacy curve", curve_facts(certificate), picture)


def _table(title: str, rows: list[tuple[str, str]], before: str = "") -> str:
    if not rows:
        return ""
    cells = "".join(f"<tr><th scope=row>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<h2>{_text(title)}</h2>{before}<table>{cells}</table>"


def _text(value: str, keep: str = "") -> str:
    return escape(printable(value, keep=keep), quote=True)
