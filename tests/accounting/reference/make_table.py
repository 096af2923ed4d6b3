"""Writes table/: a file for each class of events; event, relation and ε a line, with doubles below and above δ(ε).

Every line is drawn by a generator of its own, seeded by the class and a number, so that any part can be made again.

Run: python -m tests.accounting.reference.make_table [class …]
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.accounting.reference.draw import CLASSES, Case, draw

from discreet.events import from_dict

__all__ = ["TABLE", "read"]

TABLE = Path(__file__).with_name("table")
_SEED = 2026


def _short(tree: Any) -> Any:
    """Without the fields that an event has anyway."""
    if isinstance(tree, list):
        return [_short(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    return {name: _short(value) for name, value in tree.items() if (name, value) not in (("apart", 2.0), ("bound", 1))}


def rows(name: str, count: int) -> Iterator[str]:
    """Lines of one class."""
    found = number = 0
    while found < count:
        number += 1
        case = draw(random.Random(f"{_SEED}/{name}/{number}"), name)
        if case is not None:
            found += 1
            tree = [_short(case.event.to_dict()), case.adjacency, case.epsilon, case.lower, case.upper]
            yield json.dumps(tree, separators=(",", ":"))


def _file(name: str) -> Path:
    return TABLE / f"{name.replace(',', '').replace(' ', '-')}.jsonl"


def read() -> list[tuple[str, Case]]:
    """The table: classes and cases."""
    found = []
    for name in CLASSES:
        for line in _file(name).read_text(encoding="utf-8").splitlines():
            tree, *rest = json.loads(line)
            found.append((name, Case(from_dict(tree), *rest)))
    return found


if __name__ == "__main__":
    TABLE.mkdir(exist_ok=True)
    for name in sys.argv[1:] or list(CLASSES):
        with _file(name).open("w", encoding="utf-8") as file:
            for line in rows(name, CLASSES[name]):
                print(line, file=file, flush=True)
        print(name)
