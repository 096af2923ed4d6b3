"""A certificate's content as lines of a name and a text: for the page, the model card and the registry entry.

A certificate may come from a file that others wrote: whatever its record holds is shown as text or left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.floats import rounded_up
from discreet.units import Unit

if TYPE_CHECKING:
    from discreet.report.certificate import Certificate

__all__ = [
    "Facts",
    "bound_facts",
    "curve_facts",
    "guarantee_facts",
    "making_facts",
    "mechanism_facts",
    "query_facts",
    "relation_in_words",
]

Facts: TypeAlias = list[tuple[str, str]]

_NORMS = {"l1": "ℓ1", "l2": "ℓ2", "linf": "ℓ∞"}


def guarantee_facts(certificate: Certificate) -> Facts:
    """What is guaranteed to whom: ε, δ, ρ, μ, the relation, and whether the rows of a person were enforced."""
    unit, figures = certificate.unit, certificate.figures
    return [
        ("ε, proved upper bound", _bound(certificate.epsilon, 6)),
        ("δ", _bound(certificate.delta, 4)),
        ("Neighbouring data differ by", relation_in_words(unit)),
        ("Rows of a person", "enforced" if unit.enforced else "declared by the user"),
        ("ρ (zCDP)", _or_none(figures.rho)),
        ("μ (Gaussian DP)", _or_none(figures.mu)),
    ]


def _or_none(value: float | None) -> str:
    return "none is proved" if value is None else _bound(value)


def _bound(value: float, digits: int = 4) -> str:
    return "∞" if math.isinf(value) else rounded_up(value, digits)


def relation_in_words(unit: Unit) -> str:
    """The neighbouring relation for readers.

    Where persons are known it is about all their rows, also if one of them takes part: to take one of several rows from
    a person exchanges what the person takes part with, which is no removal.

    Example:
        >>> relation_in_words(Unit("add-remove", 1, enforced=True)), relation_in_words(Unit("add-remove"))
        ('all rows of one person, added or removed', 'one row, added or removed')
    """
    what = "one row" if unit.rows_per_unit == 1 else f"all rows of one person, at most {unit.rows_per_unit}"
    what = "all rows of one person" if unit.enforced else what
    return f"{what}, replaced" if unit.relation == "replace-one" else f"{what}, added or removed"


def curve_facts(certificate: Certificate) -> Facts:
    """The whole curve: ε at each δ."""
    return [(f"ε at δ = {delta:g}", _bound(epsilon)) for delta, epsilon in certificate.figures.curve]


def mechanism_facts(certificate: Certificate) -> Facts:
    """Every mechanism: how often, on which rows, with how much noise; in bounds C on one row's contribution."""
    found = []
    for one in certificate.figures.mechanisms:
        rest = {k: v for k, v in one.items() if k not in ("mechanism", "steps", "sampling", "sensitivity")}
        rest = {k: v for k, v in rest.items() if (k, v) != ("replace_one_factor", 2.0)}  # what the sensitivity says
        noise = ", ".join(f"{name.replace('_', ' ')} {_number(value)}" for name, value in rest.items())
        moves = f"; sensitivity {_number(one['sensitivity'])} C" if "sensitivity" in one else ""
        steps = f"{one['steps']} {'step' if one['steps'] == 1 else 'steps'}"
        found.append((one["mechanism"], f"{steps} on {one['sampling']}{'; ' if noise else ''}{noise}{moves}"))
    return found


def query_facts(certificate: Certificate) -> Facts:
    """What was asked of the rows: clip, sensitivity, noise and grid in the units of the sums."""
    found = []
    for one in _lines(certificate.record.get("queries")):
        norm = _NORMS.get(str(one.get("norm")), str(one.get("norm")))
        parts = [f"asked {_number(one.get('times'))} times, bounded in {norm}"]
        for name in ("clip", "sensitivity", "noise", "grid"):
            parts += [f"{name} {_number(one[name])}"] if one.get(name) is not None else []
        parts += ["its numbers may follow from earlier releases"] if one.get("after_answers") else []
        found.append((str(one.get("query", "")), ", ".join(parts)))
    return found


def bound_facts(certificate: Certificate) -> Facts:
    """Where every bound comes from."""
    found = []
    for one in _lines(certificate.record.get("bounds")):
        value = f"{_number(one['value'])}: " if one.get("value") is not None else ""
        found.append((str(one.get("of", "")), f"{value}{one.get('provenance', '')}, {one.get('how', '')}"))
    return found


def making_facts(certificate: Certificate) -> Facts:
    """When, of what, by what and where: the release itself and the ledger that paid for it."""
    record, ledger = certificate.record, _inner(certificate.record, "ledger")
    settings = {name: value for name, value in certificate.settings.items() if isinstance(value, int | float | str)}
    versions = {"discreet": certificate.version, **_inner(record, "versions")}
    charges = ledger.get("charges")
    lines = [
        ("Issued", record.get("issued")),
        ("Model", record.get("model")),
        ("Target", record.get("target")),
        ("Algorithm", certificate.solver),
        ("Settings", ", ".join(f"{name} {_number(value)}" for name, value in settings.items())),
        ("Rows, public", record.get("rows")),
        ("Dataset", record.get("dataset")),
        ("Ledger", ledger.get("url")),
        ("Ledger's id", ledger.get("id")),
        ("Analyst", ledger.get("analyst")),
        ("Charges", ", ".join(map(str, charges)) if isinstance(charges, list) else charges),
        ("Sequence number in the book", ledger.get("sequence")),
        ("Head of the book", ledger.get("head")),
        ("Randomness", record.get("randomness")),
        ("Noise", record.get("noise")),
        ("Event", str(certificate.event)),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions.items())),
        ("Signature", f"Ed25519, by the key {certificate.signer}" if certificate.signer else "none"),
    ]
    return [(name, _number(value)) for name, value in lines if value not in (None, "")]


def _number(value: Any) -> str:
    """A number with four digits, a range by its ends, everything else as it is."""
    if isinstance(value, list):
        return " to ".join(map(_number, value))
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return str(value)


def _lines(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _inner(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of the record, which others may have written: empty where it is not what it should be."""
    found = record.get(name)
    return found if isinstance(found, dict) else {}
