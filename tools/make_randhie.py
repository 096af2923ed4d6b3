"""Write src/discreet/datasets/randhie.csv.gz from the file that ships inside the PyPI package statsmodels.

    pip install statsmodels && python tools/make_randhie.py

Columns are renamed and rounded, people are renumbered in the order of their study number, rows stay in order.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
from pathlib import Path

OUT = Path(__file__).parent.parent / "src" / "discreet" / "datasets" / "randhie.csv.gz"

NAMES = ["person", "year", "site", "coinsurance", "deductible", "age", "female", "income", "education", "family"]
NAMES += ["chronic", "limited", "mental", "general", "health", "visits", "drugs"]


def rounded(text: str, places: int) -> str:
    """A number's shortest spelling after rounding; blanks stay blank."""
    return f"{round(float(text), places):g}" if text else ""


def health(row: dict[str, str]) -> str:
    """Self-rated health, of which the original has an indicator for all but the best."""
    marked = [name for name, column in (("good", "hlthg"), ("fair", "hlthf"), ("poor", "hlthp")) if float(row[column])]
    return marked[0] if marked else "excellent"


def main() -> None:
    """Convert the original table."""
    spec = importlib.util.find_spec("statsmodels")
    assert spec is not None, "pip install statsmodels"
    assert spec.origin is not None
    source = Path(spec.origin).parent / "datasets" / "randhie" / "src" / "randhie.csv"
    with source.open(newline="") as file:
        original = list(csv.DictReader(file))
    number = {
        person: rank for rank, person in enumerate(sorted({int(float(row["zper"])) for row in original}), start=1)
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(NAMES)
    for row in original:
        writer.writerow(
            [
                number[int(float(row["zper"]))],
                *(rounded(row[name], 0) for name in ("year", "site", "coins", "idp")),
                rounded(row["xage"], 1),
                rounded(row["female"], 0),
                f"{float(row['income']):.0f}",
                rounded(row["educdec"], 1),
                rounded(row["num"], 0),
                rounded(row["disea"], 1),
                rounded(row["physlm"], 2),
                rounded(row["mhi"], 1),
                rounded(row["xghindx"], 1),
                health(row),
                rounded(row["mdvis"], 0),
                int(float(row["drugdol"]) > 0),
            ]
        )
    OUT.write_bytes(gzip.compress(text.getvalue().encode(), compresslevel=9, mtime=0))
    print(f"{OUT}: {len(original)} rows, {len(number)} people, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
