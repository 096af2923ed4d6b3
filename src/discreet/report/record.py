"""When, where, of what and with what a certificate was issued."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from discreet.ledger import Ledger
from discreet.measurements.questions import Question
from discreet.units import Unit

__all__ = ["FROM_DATA", "PRIVATE", "PUBLIC", "bound", "record_of"]

PUBLIC, PRIVATE, FROM_DATA = "public", "privately estimated", "from the data: void"
"""Where a bound comes from. What a fit with a bound from the data guarantees is void."""


def bound(of: str, provenance: str, how: str, value: Any = None) -> dict[str, Any]:
    """One line about a bound: of what, where it comes from, how, and its value where that is public.

    Example:
        >>> bound("row_norm", PUBLIC, "declared", 1.0)
        {'of': 'row_norm', 'provenance': 'public', 'how': 'declared', 'value': 1.0}
    """
    found = {"of": of, "provenance": provenance, "how": how}
    return found if value is None or provenance == FROM_DATA else found | {"value": value}


def record_of(
    model: str,
    ledger: Ledger,
    charges: Sequence[int],
    *,
    protective: bool,
    rows: float | None,
    unit: Unit | None = None,
    target: str | None = None,
    bounds: Sequence[dict[str, Any]] = (),
    asked: Mapping[Question, int] | None = None,
) -> dict[str, Any]:
    """The facts of a certificate that are about its making, not about the guarantee.

    Args:
        model: what was fitted.
        ledger: was charged.
        charges: their ids.
        protective: whether the randomness was private.
        rows: their number, where it is public.
        unit: whose privacy is protected; needed with ``asked``.
        target: the name of what is predicted, where it has one.
        bounds: where each comes from (`bound`).
        asked: how often each question was asked of the rows.
    """
    head, now = ledger.head if ledger.durable else None, datetime.now(UTC)
    return {
        "issued": now.isoformat(timespec="seconds") if head else now.date().isoformat(),  # memory keeps no times
        "model": model,
        "dataset": ledger.dataset,
        "target": target,
        "rows": rows,
        "ledger": {
            "id": ledger.id if ledger.durable else "",
            "url": ledger.url,
            "analyst": ledger.analyst,
            "charges": list(charges),
            "sequence": None if head is None else head.number,
            "head": "" if head is None else str(head),
        },
        "queries": _queries(asked, unit) if asked and unit else [],
        "bounds": list(bounds),
        "randomness": "AES-256-CTR, keyed by the operating system" if protective else "a seed of the user: not private",
        "noise": "exact samples on a grid of integers",
        "versions": {
            name: metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")
        } | {"python": platform.python_version()},
    }  # fmt: skip


def _queries(asked: Mapping[Question, int], unit: Unit) -> list[dict[str, Any]]:
    """The questions, those that differ in their bounds alone in one line with the range of these.

    Numbers of a question that was asked after other answers are left out: they may follow from them.
    """
    groups: dict[tuple[str, str, bool], list[tuple[Question, int]]] = {}
    for question, times in asked.items():
        groups.setdefault((question.query, question.norm, question.after_answers), []).append((question, times))
    return [
        {
            "query": query,
            "norm": norm,
            "times": sum(times for _, times in found),
            "clip": _range([one.bound for one, _ in found]),
            "sensitivity": _range([unit.sensitivity(one.bound, one.replace_one_factor) for one, _ in found]),
            "noise": _range([one.noise for one, _ in found]),
            "grid": _range([one.grid for one, _ in found]),
            "after_answers": after,
        }
        for (query, norm, after), found in groups.items()
    ]


def _range(values: list[float]) -> float | list[float] | None:
    """One number, or the least and the greatest where they differ; None where there is none."""
    least, greatest = min(values), max(values)
    if greatest == 0:
        return None
    return greatest if least == greatest else [least, greatest]
