"""What it costs to protect people rather than rows, on the bundled data: people with up to five rows each.

    python bench/persons.py

Test accuracy (%) of logistic regression for ``drugs``, add-remove, δ = 1e-8, the mean of 20 private fits and its
standard error. The table goes to bench/results/persons.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import discreet as dp
from discreet.data.columns import Boolean

FITS, DELTA = 20, 1e-8
BY_PERSON, BY_ROW = dp.datasets.randhie_schema(), dp.datasets.randhie_schema("rows")
WAYS = {
    "rows alone (one year of a person)": BY_ROW,
    "people, each counts once (default)": BY_PERSON,
    "people, each row that is kept counts once": dp.Schema({**BY_PERSON, "person": dp.Person(5, "rows")}),
}
OUTPUT = Path(__file__).parent / "results" / "persons.md"


def accuracies(schema: dp.Schema, epsilon: float) -> np.ndarray:
    train, test = dp.datasets.load_randhie("train"), dp.datasets.load_randhie("test")
    column = Boolean()
    y, truth = (column.labels(part["drugs"]) for part in (train, test))
    found = []
    for _ in range(FITS):
        model = dp.LogisticRegression(
            epsilon, DELTA, schema=schema.without("drugs"), classes=[0, 1], adjacency="add-remove"
        )
        model.fit(train.drop("drugs"), y)
        found.append(100 * float(np.mean(model.predict(test.drop("drugs")) == truth)))
    return np.array(found)


def main() -> None:
    lines = ["| protected | ε = 0.5 | ε = 1 |", "|---|---|---|"]
    for name, schema in WAYS.items():
        cells = [accuracies(schema, epsilon) for epsilon in (0.5, 1.0)]
        words = " | ".join(f"{cell.mean():.1f} ± {cell.std(ddof=1) / np.sqrt(FITS):.1f}" for cell in cells)
        lines.append(f"| {name} | {words} |")
        print(lines[-1], flush=True)
    OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
