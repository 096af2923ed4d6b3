"""Every tuned number of the library as one table: its value, its meaning and its source."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields

from discreet.tuned import Tuned

__all__ = ["ROOMS", "numbers_as_markdown", "tuned_kinds"]

ROOMS = ("estimators", "planning", "recipes", "solvers")
"""The rooms that may hold tuned numbers; all others are mathematics, or state exactly what they do."""


def tuned_kinds() -> list[type[Tuned]]:
    """Every dataclass of tuned numbers, by the name of its module."""
    for room in ROOMS:
        package = importlib.import_module(f"discreet.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    kinds = [kind for kind in Tuned.kinds if kind.__module__.startswith("discreet.")]
    return sorted(kinds, key=lambda kind: kind.__module__)


def numbers_as_markdown() -> str:
    """The table of ``docs/tuned-numbers.md``: one line a number, named ``room.module.field``."""
    lines = ["| number | value | meaning | source |", "|---|---|---|---|"]
    for kind in tuned_kinds():
        module = kind.__module__.removeprefix("discreet.")
        for field in fields(kind):
            meaning, source = field.metadata["meaning"], field.metadata["source"]
            lines.append(f"| `{module}.{field.name}` | {field.default!r} | {_cell(meaning)} | {_cell(source)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
