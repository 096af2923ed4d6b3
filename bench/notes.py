"""Every algorithm, theorem and example of the source notes at its defaults: one row an item.

    python bench/notes.py [--only WORD] [--out bench/results]

Rows are in ``notes_accounting``, ``notes_solvers``, ``notes_settings`` and ``notes_theory``. An item is a function
under ``@item(place in the notes, what it is, public way to it)`` that returns a figure, what it is compared with, and
whether it holds. Problems are synthetic with fixed seeds; settings are ε = 1, δ = 1e-6 and the defaults, unless the
item is about others. Bounds are proved ones; references are the same problem without privacy, or a trivial answer that
a useful one must beat. Exit status 1 if a verdict does not hold. About five minutes of one core.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import notes_accounting  # noqa: E402, F401 - its items
import notes_settings  # noqa: E402, F401
import notes_solvers  # noqa: E402, F401
import notes_theory  # noqa: E402, F401
from notes_base import ITEMS, Found, Item  # noqa: E402


def measured(chosen: list[Item]) -> list[tuple[Item, Found, float]]:
    """Run the items; what fails is a row that says why."""
    rows = []
    for one in chosen:
        start = time.perf_counter()
        try:
            found = one.run()
        except Exception as problem:  # a row for every item, whatever it does
            found = Found(f"failed: {problem!r}"[:120], "", False)
        rows.append((one, found, time.perf_counter() - start))
        print(f"{'ok ' if found.holds else 'NO '} {one.what}: {found.figure} ({found.reference}), {rows[-1][2]:.1f} s")
    return rows


def as_markdown(rows: list[tuple[Item, Found, float]]) -> str:
    """The table of ``docs/notes.md``."""
    lines = ["| notes | item | public way | figure | bound or reference | verdict |", "|---|---|---|---|---|---|"]
    for one, found, _ in rows:
        verdict = "holds" if found.holds else "**does not hold**"
        lines.append(f"| {one.place} | {one.what} | `{one.way}` | {found.figure} | {found.reference} | {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all items, or those with a word in their name, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run items whose name contains this word; nothing is written")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = measured([one for one in ITEMS if arguments.only in one.what])
    if not arguments.only:
        (arguments.out / "notes.md").write_text(as_markdown(rows), encoding="utf-8")
    sys.exit(not all(found.holds for _, found, _ in rows))


if __name__ == "__main__":
    main()
