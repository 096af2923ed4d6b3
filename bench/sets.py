"""The sets that benchmarks read: the bundled one always, others from a folder of the usual text files."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet import datasets
from discreet.data.frames import Table, read_table
from discreet.data.schema import Schema

SCHEMAS = Path(__file__).parent / "schemas"
FILES = {  # folder, file, target, whether the file names its columns
    "german_credit": ("german.csv.gz", "risk", False),
    "spambase": ("spambase.data.gz", "spam", False),
    "california_housing": ("housing.csv.gz", "median_house_value", True),
    "acsincome_lin": ("ACSincome-LIN_train.csv.gz", "PINCP", True),
    "wine_quality": ("winequality-white.csv.gz", "quality", False),
}
Problem = tuple[str, Schema, str, Table, Table]


def problems(folder: Path | None) -> Iterator[Problem]:
    schema = datasets.randhie_schema()
    yield "RAND, drugs", schema, "drugs", datasets.load_randhie("train"), datasets.load_randhie("test")
    if folder is None:
        return
    if (folder / "adult").is_dir():
        schema = Schema.from_yaml(SCHEMAS / "adult.yaml")
        train = read_table(folder / "adult" / "adult.data.gz", list(schema))
        test = read_table(folder / "adult" / "adult.test.gz", list(schema))
        labels = [str(label).removesuffix(".") for label in test["income"]]  # the test file ends its labels with a dot
        yield "adult", schema, "income", train, Table({**test, "income": labels})
    for name, (file, target, named) in FILES.items():
        if (folder / name / file).is_file():
            schema = Schema.from_yaml(SCHEMAS / f"{name}.yaml")
            table = read_table(folder / name / file, None if named else list(schema))
            order = np.random.default_rng(0).permutation(table.shape[0])
            cut = int(0.8 * len(order))
            yield name, schema, target, table.take(order[:cut]), table.take(order[cut:])


def a9a(folder: Path) -> tuple[Any, Any, Any, Any]:
    """Adult in 123 binary features, rows scaled to unit length by their public number of ones (14)."""
    parts = []
    for name in ("a9a.gz", "a9a.t.gz"):
        labels, indices, indptr = [], [], [0]
        with gzip.open(folder / "a9a" / name, "rt") as lines:
            for line in lines:
                label, *entries = line.split()
                labels.append(int(label))
                indices.extend(int(entry.partition(":")[0]) - 1 for entry in entries)
                indptr.append(len(indices))
        values = np.full(len(indices), 1 / np.sqrt(14))
        parts += [sp.csr_array((values, indices, indptr), shape=(len(labels), 123)), np.array(labels)]
    return parts[0], parts[1], parts[2], parts[3]
