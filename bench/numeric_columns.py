"""What each encoding of numeric columns could reach without privacy, from public bounds alone.

    python bench/numeric_columns.py --data FOLDER

FOLDER holds adult/, california_housing/, … as their usual text files; what is not there is left out. The bundled data
is always measured. Classification: test accuracy (%) of logistic regression, C = 100. Regression: test R² of ridge
regression, α = 1. Fixed splits: Adult has its own, RAND is split by person, the others take 80 % at random (seed 0).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from sklearn.linear_model import LogisticRegression, Ridge

from discreet.data.columns import Encoding, Numeric
from discreet.data.encoding import Encoder
from sets import Problem, problems

ENCODINGS: list[tuple[Encoding, int]] = [
    ("linear", 2),
    *(("spline", knots) for knots in (4, 6, 8, 12)),
    *(("bins", bins) for bins in (6, 10)),
    ("both", 8),
]


def score(problem: Problem, encoding: Encoding, bins: int) -> float:
    _, schema, target, train, test = problem
    encoder, column = Encoder(schema, target=target, encoding=encoding, bins=bins), schema.target(target)
    if isinstance(column, Numeric):
        ridge = Ridge(alpha=1.0).fit(encoder.transform(train), column.read(train[target]))
        return float(ridge.score(encoder.transform(test), column.read(test[target])))
    model = LogisticRegression(C=100.0, max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(encoder.transform(train), column.labels(train[target]))
    return 100 * float(model.score(encoder.transform(test), column.labels(test[target])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the public benchmark sets")
    print("| data | train | " + " | ".join(f"{name} {bins}" for name, bins in ENCODINGS) + " |")
    print("|---|---|" + "---|" * len(ENCODINGS))
    for problem in problems(parser.parse_args().data):
        cells = [f"{score(problem, name, bins):.4g}" for name, bins in ENCODINGS]
        print(f"| {problem[0]} | {problem[3].shape[0]} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
