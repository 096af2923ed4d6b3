"""A certificate as one page of HTML: readable by a board, printable, light and dark, without scripts or network."""

from __future__ import annotations

import json
import math
from html import escape
from typing import TYPE_CHECKING, Any

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
td.n { text-align: right; font-variant-numeric: tabular-nums; } caption { text-align: left; }
svg { width: 100%; max-width: 26rem; height: auto; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
details { margin: 1rem 0; } pre { white-space: pre-wrap; font-size: .8rem; }
@media (max-width: 30rem) { th { width: auto; } }
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
        _table("The guarantee", _guarantee(certificate)),
        _table("How it was made", _making(certificate)),
        _table("What is not protected", [("Not protected", item) for item in certificate.unprotected])
        if certificate.unprotected
        else "",
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
    rows = [(f"{rate:.1%} of the others are accused wrongly", risks.hits(rate)) for rate in FALSE_ALARMS]
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


def _guarantee(certificate: Certificate) -> list[tuple[str, str]]:
    from discreet.accounting.upper.zcdp import zcdp_rho
    from discreet.errors import DiscreetError

    unit = certificate.unit
    rows = [
        ("ε, proved upper bound", "∞" if math.isinf(certificate.epsilon) else f"{certificate.epsilon:.6g}"),
        ("δ", f"{certificate.delta:.3g}"),
        ("Neighbouring data differ by", _relation(unit.relation, unit.rows_per_unit)),
        ("Rows of a person", "enforced" if unit.enforced else "declared by the user"),
    ]
    if certificate.private:
        try:
            whole = certificate.curve()
            rows += [(f"ε at δ = {delta:g}", f"{whole.epsilon(delta).upper:.4g}") for delta in (1e-5, 1e-6, 1e-9)]
            rows.append(("ρ (zCDP)", f"{zcdp_rho(certificate.event, unit):.4g}"))
        except DiscreetError:
            pass
    return rows


def _relation(relation: str, rows: int) -> str:
    what = "one row" if rows == 1 else f"all rows of one person, at most {rows}"
    return f"{what}, replaced" if relation == "replace-one" else f"{what}, added or removed"


def _making(certificate: Certificate) -> list[tuple[str, str]]:
    record, ledger = certificate.record, _inner(certificate.record, "ledger")
    settings = {name: value for name, value in certificate.settings.items() if isinstance(value, int | float | str)}
    versions = {"discreet": certificate.version, **_inner(record, "versions")}
    charges = ledger.get("charges")
    rows = [
        ("Issued", record.get("issued")),
        ("Model", record.get("model")),
        ("Algorithm", certificate.solver),
        ("Settings", ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in settings.items())),
        ("Rows, public", record.get("rows")),
        ("Dataset", record.get("dataset")),
        ("Ledger", ledger.get("url")),
        ("Charges", ", ".join(map(str, charges)) if isinstance(charges, list) else charges),
        ("Head of the book", ledger.get("head")),
        ("Randomness", record.get("randomness")),
        ("Noise", record.get("noise")),
        ("Event", str(certificate.event)),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
    ]
    return [(name, str(value)) for name, value in rows if value not in (None, "")]


def _inner(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of the record, which others may have written: empty where it is not what it should be."""
    found = record.get(name)
    return found if isinstance(found, dict) else {}


def _table(title: str, rows: list[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><th scope=row>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<h2>{_text(title)}</h2><table>{cells}</table>"


def _text(value: str, keep: str = "") -> str:
    return escape(printable(value, keep=keep), quote=True)
