"""The sets that benchmarks read: the bundled one always, others from a folder of the usual text files."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from discreet import datasets
from discreet.data.columns import Numeric
from discreet.data.encoding import Encoder
from discreet.data.frames import Table, read_table
from discreet.data.schema import Schema

SCHEMAS = Path(__file__).parent / "schemas"
FILES = {  # folder, file, target, whether the file names its columns
    "german_credit": ("german.csv.gz", "risk", False),
    "spambase": ("spambase.data.gz", "spam", False),
    "california_housing": ("housing.csv.gz", "median_house_value", True),
    "acsincome_lin": ("ACSincome-LIN_train.csv.gz", "PINCP", True),
    "wine_quality": ("winequality-white.csv.gz", "quality", False),
    "communities_crime": ("communities.data.gz", "crime", False),
}
Problem = tuple[str, Schema, str, Table, Table]


def problems(folder: Path | None, wanted: set[str] | None = None) -> Iterator[Problem]:
    """Tables with a schema; ``wanted`` names those to read by their folders, the bundled one by ``randhie``."""
    if wanted is None or "randhie" in wanted:
        schema = datasets.randhie_schema("rows")
        yield "RAND, drugs", schema, "drugs", datasets.load_randhie("train"), datasets.load_randhie("test")
    if folder is None:
        return
    if (wanted is None or "adult" in wanted) and (folder / "adult").is_dir():
        schema = Schema.from_yaml(SCHEMAS / "adult.yaml")
        train = read_table(folder / "adult" / "adult.data.gz", list(schema))
        test = read_table(folder / "adult" / "adult.test.gz", list(schema))
        labels = [str(label).removesuffix(".") for label in test["income"]]  # the test file ends its labels with a dot
        yield "adult", schema, "income", train, Table({**test, "income": labels})
    for name, (file, target, named) in FILES.items():
        if (wanted is None or name in wanted) and (folder / name / file).is_file():
            schema = Schema.from_yaml(SCHEMAS / f"{name}.yaml")
            table = read_table(folder / name / file, None if named else list(schema))
            yield name, schema, target, *_split(table)


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


def kddcup99(folder: Path, every: int = 5) -> Problem:
    """Every fifth connection of the 10 % file, normal or attack."""
    schema = Schema.from_yaml(SCHEMAS / "kddcup99.yaml")
    with gzip.open(folder / "kddcup99_10pct" / "kddcup.data_10_percent.gz", "rt") as lines:
        cells = [line.rstrip(".\n").split(",") for number, line in enumerate(lines) if number % every == 0]
    columns = dict(zip(schema, map(list, zip(*cells, strict=True)), strict=True))
    columns["label"] = ["normal" if label == "normal" else "attack" for label in columns["label"]]
    return "kddcup99", schema, "label", *_split(Table(columns))


def _split(table: Table) -> tuple[Table, Table]:
    order = np.random.default_rng(0).permutation(table.shape[0])
    cut = int(0.8 * len(order))
    return table.take(order[:cut]), table.take(order[cut:])


Task = Literal["binary", "multinomial", "regression"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A set as bounded rows: labels coded 0 … K − 1, or targets with their public bounds."""

    name: str
    task: Task
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    row_norm: float = 1.0
    bounds: tuple[float, float] = (0.0, 1.0)
    table: Problem | None = None

    def save(self, file: Path) -> None:
        """What peers need, as one .npz file."""
        parts: dict[str, Any] = {"y": self.y, "y_test": self.y_test, "row_norm": self.row_norm}
        parts["low"], parts["high"] = self.bounds
        for suffix, X in (("", self.X), ("_test", self.X_test)):
            if sp.issparse(X):
                for key in ("data", "indices", "indptr", "shape"):
                    parts[key + suffix] = getattr(X, key)
            else:
                parts["X" + suffix] = X
        np.savez(file, **parts)


def encoded(problem: Problem) -> Encoded:
    """A table through the encoder of its schema."""
    name, schema, target, train, test = problem
    encoder, column = Encoder(schema, target=target), schema.target(target)
    X, X_test = encoder.transform(train), encoder.transform(test)
    if isinstance(column, Numeric):
        y, y_test = column.read(train[target]), column.read(test[target])
        return Encoded(name, "regression", X, y, X_test, y_test, 1.0, (column.low, column.high), problem)
    task: Task = "binary" if len(column.categories) == 2 else "multinomial"
    return Encoded(
        name,
        task,
        X,
        column.labels(train[target]),
        X_test,
        column.labels(test[target]),
        encoder.row_norm,
        table=problem,
    )


def _cut(name: str, task: Task, X: Any, y: Any, train: Any = None, **facts: Any) -> Encoded:
    if train is None:
        train = np.zeros(len(y), dtype=bool)
        train[np.random.default_rng(0).permutation(len(y))[: int(0.8 * len(y))]] = True
    return Encoded(name, task, X[train], y[train], X[~train], y[~train], **facts)


def _a9a(folder: Path) -> Encoded:
    X, y, X_test, y_test = a9a(folder)
    return Encoded("a9a", "binary", X, (y > 0).astype(int), X_test, (y_test > 0).astype(int))


def _mnist(folder: Path) -> Encoded:
    """Pixels over 255, rows clipped to length 8."""

    def part(name: str) -> tuple[Any, Any]:
        with gzip.open(folder / "mnist" / f"{name}-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
        with gzip.open(folder / "mnist" / f"{name}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8).astype(int)
        return (pixels / 255).astype(np.float32), labels

    return Encoded("mnist", "multinomial", *part("train"), *part("t10k"), row_norm=8.0)


def _sms_spam(folder: Path) -> Encoded:
    """Words hashed into 1024 places, rows of length 1."""
    from sklearn.feature_extraction.text import HashingVectorizer

    with gzip.open(folder / "sms_spam" / "SMSSpamCollection.gz", "rt", encoding="utf-8", errors="replace") as file:
        messages = [line.partition("\t") for line in file]
    X = HashingVectorizer(n_features=1024, alternate_sign=False).transform(text for _, _, text in messages)
    return _cut("sms_spam", "binary", sp.csr_array(X), np.array([int(label == "spam") for label, _, _ in messages]))


def _words(folder: Path, name: str) -> tuple[Any, Any]:
    """Counts of words as 1 + ln(count), rows of length 1; and the rest of the file."""
    with np.load(folder / name / f"{name}.npz") as file:
        parts = dict(file)
    values = 1 + np.log(parts["data"].astype(np.float64))
    X = sp.csr_array((values, parts["indices"], parts["indptr"]), shape=parts["shape"])
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1e-9)) @ X), parts


def _movie_reviews(folder: Path) -> Encoded:
    X, parts = _words(folder, "movie_review_polarity")
    return _cut("movie_review_polarity", "binary", X, (parts["y"] > 0).astype(int))


def _reuters(folder: Path) -> Encoded:
    X, parts = _words(folder, "reuters21578")
    return _cut("reuters21578, earn", "binary", X, parts["y"][:, 0].astype(int), parts["is_train"].astype(bool))


def _newsgroups(folder: Path) -> Encoded:
    """The first ten groups (computers, for sale, vehicles) against the rest."""
    X, parts = _words(folder, "20news")
    return _cut("20news, first ten", "binary", X, (parts["y"] < 10).astype(int), parts["is_train"].astype(bool))


def _all_newsgroups(folder: Path) -> Encoded:
    X, parts = _words(folder, "20news")
    return _cut("20news, all twenty", "multinomial", X, parts["y"].astype(int), parts["is_train"].astype(bool))


def _genes(folder: Path) -> Encoded:
    """Logarithms of intensities declared from 1 to 10⁵, brought to [−1, 1]; rows of length at most 1."""
    with np.load(folder / "gene_alon" / "alon.npz") as file:
        X, y = 2 * np.log10(np.clip(file["x"].astype(np.float64), 1, 1e5)) / 5 - 1, file["y"]
    return _cut("gene_alon", "binary", X / np.sqrt(X.shape[1]), (y == "t").astype(int))


def _riboflavin(folder: Path) -> Encoded:
    """Logarithms (base 2) of expressions declared from 0 to 16, brought to [−1, 1]; the rate's from −12 to −4."""
    with np.load(folder / "riboflavin" / "riboflavin.npz") as file:
        X, y = np.clip(file["x"], 0, 16) / 8 - 1, file["y"]
    return _cut("riboflavin", "regression", X / np.sqrt(X.shape[1]), y, bounds=(-12.0, -4.0))


_MATRICES: dict[str, Callable[[Path], Encoded]] = {
    "a9a": _a9a,
    "kddcup99_10pct": lambda folder: encoded(kddcup99(folder)),
    "sms_spam": _sms_spam,
    "reuters21578": _reuters,
    "movie_review_polarity": _movie_reviews,
    "20news": _newsgroups,
    "gene_alon": _genes,
    "riboflavin": _riboflavin,
    "mnist": _mnist,
}


def encoded_problems(folder: Path | None, wanted: set[str] | None = None) -> Iterator[Encoded]:
    """All sets, or those named by their folders (the bundled one is ``randhie``)."""
    for problem in problems(folder, wanted):
        yield encoded(problem)
    for name, load in _MATRICES.items():
        if folder is not None and (wanted is None or name in wanted) and (folder / name).is_dir():
            yield load(folder)
    if folder is not None and wanted is not None and "20news_all" in wanted:  # a million weights: only on request
        yield _all_newsgroups(folder)
