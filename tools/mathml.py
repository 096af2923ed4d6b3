"""Formulas as MathML when the site is built: pages need no script, no font and no network to show them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
_REWRITTEN = (
    (re.compile(r"\\arg(?![a-zA-Z])"), r"\\operatorname{arg}"),
    (re.compile(r"\\\|"), "‖"),
    (re.compile(r"\\(mathcal|mathbb|mathbf)\s*([A-Za-z])"), r"\\\1{\2}"),
)
"""What the converter does not know everywhere, in words that it does."""


def on_page_content(content: str, **_: Any) -> str:
    """Called by MkDocs with the body of each page, in which Arithmatex has marked the formulas."""
    return _FORMULA.sub(_as_mathml, content)


def _as_mathml(found: re.Match[str]) -> str:
    source, displayed = html.unescape(found[3]), found[2] == "["
    for command, known in _REWRITTEN:
        source = command.sub(known, source)
    formula = convert(source, display="block" if displayed else "inline")
    if "\\" in html.unescape(formula):
        raise ValueError(f"a command of this formula cannot be shown: {source}")
    return f'<div class="formula">{formula}</div>' if displayed else formula
