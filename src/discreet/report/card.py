"""A model card in Markdown: what was fitted, what it guarantees, and what its owner has to say about its use."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from discreet.report.certificate_facts import (
    bound_facts,
    curve_facts,
    guarantee_facts,
    making_facts,
    mechanism_facts,
    query_facts,
)
from discreet.text import printable

if TYPE_CHECKING:
    from discreet.report.certificate import Certificate

__all__ = ["model_card"]

_MARKS = re.compile(r"([\\`*_\[\]|~]|^[#+-])")
_MISSING = "*to be filled in*"


def model_card(certificate: Certificate) -> str:
    """The card of a certified model. What a certificate cannot know, such as the intended use, is marked.

    Example:
        >>> from discreet.events import PureDP
        >>> from discreet.report import Certificate
        >>> from discreet.units import Unit
        >>> made = Certificate(1.0, 0.0, Unit("replace-one"), PureDP(1.0), "descent")
        >>> print(model_card(made).splitlines()[0])
        # Model card: descent
    """
    name = certificate.record.get("model", certificate.solver)
    return "\n".join(
        [
            f"# Model card: {_text(name)}",
            "",
            *_part("Intended use", [_MISSING]),
            *_part("Training data", [_MISSING + " (whose data, from when, how it was collected)"]),
            *_part("Evaluation", [_MISSING + " (`discreet evaluate` states accuracy with intervals)"]),
            *_part("Privacy", _privacy(certificate)),
            *_part(
                "What is not protected", [f"- {_text(item)}" for item in certificate.unprotected] or ["Nothing known."]
            ),
            *_part("Where every bound comes from", _table(bound_facts(certificate))),
            *_part("Mechanisms, in bounds C on one row's contribution", _table(mechanism_facts(certificate))),
            *_part("What was asked of the rows", _table(query_facts(certificate))),
            *_part("How it was made", _table(making_facts(certificate))),
        ]
    )


def _privacy(certificate: Certificate) -> list[str]:
    verdict = "Differentially private" if certificate.private else "Not private"
    return [
        f"**{verdict}:** {_text(str(certificate))}",
        "",
        _text(certificate.risks.in_words),
        "",
        *_table(guarantee_facts(certificate) + curve_facts(certificate)),
    ]


def _part(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if lines else []


def _table(rows: list[tuple[str, Any]]) -> list[str]:
    shown = [f"| {_text(name)} | {_text(value)} |" for name, value in rows if value not in (None, "")]
    return ["| | |", "|---|---|", *shown] if shown else []


def _text(value: Any) -> str:
    """Text of others without a mark that Markdown or HTML would read."""
    return _MARKS.sub(r"\\\1", escape(printable(str(value)), quote=False))
