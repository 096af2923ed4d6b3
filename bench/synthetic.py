"""Synthetic problems with a known truth, on which defaults are chosen: what users have, and nothing that they own.

Every problem is drawn from its name's seed alone. A problem knows the best score that any model could have on its test
rows (that of the truth itself) and the score without information (the most frequent class, or the training mean), so
that losses of different problems can be compared: 0 is the truth, 1 is no information.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import expit

import discreet as dp
import synthetic_interactions
from discreet.data.encoding import Encoder

Task = Literal["binary", "multinomial", "regression"]
Array = NDArray[np.float64]
_TEST_ROWS = 4000


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Bounded rows (or a table with its schema), targets, and what the truth scores."""

    name: str
    family: str
    task: Task
    X: Any
    y: Array
    X_test: Any
    y_test: Array
    truth: float
    nothing: float
    bounds: tuple[float, float] = (0.0, 1.0)
    schema: dp.Schema | None = None
    classes: int = 2
    row_norm: float = 1.0
    chances: Array | None = None
    """Of the test rows' second class, where they are known: with a rare class all accuracies are alike."""

    def lost_logarithmic(self, chances: Array) -> float:
        """The share of what could be learnt, by the expected logarithmic loss, that these probabilities miss."""
        assert self.chances is not None
        truth, base = self.chances, np.full_like(self.chances, self.y.mean())
        missed, all_there_is = (_divergence(truth, found) for found in (chances, base))
        return missed / all_there_is

    def lost(self, score: float) -> float:
        """The share of what could be learnt that was not."""
        return (self.truth - score) / (self.truth - self.nothing)

    @property
    def trivial(self) -> float:
        """The loss of what costs no budget: the middle of the targets' bounds, or (known by luck) the larger class."""
        if self.task != "regression":
            return 1.0
        spread = ((self.y_test - self.y_test.mean()) ** 2).mean()
        return self.lost(float(1 - ((self.y_test - sum(self.bounds) / 2) ** 2).mean() / spread))

    @cache  # noqa: B019 - problems live as long as the run
    def rows(self, knots: int | None = None) -> tuple[Any, Any]:
        """Training and test rows; a table's through the encoder of its schema."""
        if self.schema is None:
            return self.X, self.X_test
        encoder = Encoder(self.schema) if knots is None else Encoder(self.schema, bins=knots)
        return encoder.transform(self.X), encoder.transform(self.X_test)


# --- rows -------------------------------------------------------------------------------------------------------------


def _unit(X: Array, norm: float = 1.0) -> Array:
    return X * np.minimum(1.0, norm / np.maximum(np.linalg.norm(X, axis=1), 1e-12))[:, None]


def gaussian_rows(rng: Generator, n: int, d: int, decay: float, mean: float = 0.0) -> Array:
    """Correlated rows of spectrum j^−decay around a mean, a third of them clipped to length 1."""
    scales = np.arange(1.0, d + 1) ** (-decay / 2)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0] if d <= 600 else None
    X = rng.normal(size=(n, d)) * scales
    X = X if basis is None else X @ basis.T
    X += mean * np.linalg.norm(scales) * np.sign(rng.normal(size=d)) / np.sqrt(d)
    return _unit(X / np.quantile(np.linalg.norm(X, axis=1), 2 / 3))


def factor_rows(rng: Generator, n: int, d: int, factors: int = 10) -> Array:
    """Many columns driven by few factors, around a common profile: expression levels brought to [−1, 1]/√d."""
    loadings = rng.normal(size=(factors, d)) * (np.arange(1.0, factors + 1) ** -0.5)[:, None]
    X = rng.normal(size=d) * 0.4 + 0.1 * (rng.normal(size=(n, factors)) @ loadings) + 0.1 * rng.normal(size=(n, d))
    return np.clip(X, -1, 1) / np.sqrt(d)


def binary_rows(rng: Generator, n: int, columns: int, levels: int, thermometer: bool) -> sp.csr_array:
    """Indicators of Zipf levels, one a column, or thermometers: all levels up to it."""
    chances = 1.0 / np.arange(1.0, levels + 1)
    blocks = []
    for _ in range(columns):
        level = rng.choice(levels, size=n, p=chances / chances.sum())
        on = level[:, None] >= np.arange(levels) if thermometer else level[:, None] == rng.permutation(levels)
        blocks.append(on.astype(float))
    X = np.hstack(blocks)
    return sp.csr_array(_unit(X / np.sqrt(columns * (2.0 if thermometer else 1.0))))


def word_rows(
    rng: Generator, n: int, d: int, topics: Array, length: float, first: int = 20, many: int = 60, lean: float = 1.0
) -> sp.csr_array:
    """Zipf's words; ``many`` a topic, from word ``first`` on, are up to e^(2·lean) as frequent in its documents."""
    outputs = int(topics.max()) + 1
    base = 1.0 / (np.arange(1.0, d + 1) + 3)
    informative = first + rng.permutation(min(d - first, many * outputs))
    lengths = np.maximum(3, rng.lognormal(np.log(length), 0.6, size=n)).astype(int)
    indptr, indices = np.concatenate([[0], np.cumsum(lengths)]), np.empty(lengths.sum(), dtype=np.int32)
    for topic in range(outputs):
        chances = base.copy()
        own = informative[topic::outputs]
        chances[own] *= np.exp(lean * rng.uniform(0.5, 2.0, size=len(own)))
        rows = np.flatnonzero(topics == topic)
        drawn = rng.choice(d, size=lengths[rows].sum(), p=chances / chances.sum())
        for row, words in zip(rows, np.split(drawn, np.cumsum(lengths[rows])[:-1]), strict=True):
            indices[indptr[row] : indptr[row + 1]] = words
    X = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(n, d))
    X.sum_duplicates()
    X.data = 1 + np.log(X.data)
    return sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)


def subject_rows(
    rng: Generator, n: int, d: int, subjects: NDArray[np.int64], length: float, lean: float, mixed: float
) -> sp.csr_array:
    """Zipf's words; in documents on a subject three words in ten are e^(lean·N(0, 1)) times as frequent.

    Two words in five are on no subject, ``mixed`` of the others on that of another document, and a third of words
    repeat one that the document already has: a word that is used once is used again.
    """
    base = 1.0 / (np.arange(1.0, d + 1) + 3)
    lengths = np.maximum(4, rng.lognormal(np.log(length), 0.7, size=n)).astype(int)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    document = np.repeat(np.arange(n), lengths)
    on = np.where(rng.random(len(document)) < mixed, rng.permutation(subjects)[document], subjects[document])
    on[rng.random(len(document)) < 0.4] = -1
    words, u = np.empty(len(document), dtype=np.int32), rng.random(len(document))
    for subject in range(-1, int(subjects.max()) + 1):
        leaning = lean * rng.normal(size=d) * (rng.random(d) < 0.3) * (subject >= 0)
        chances = np.cumsum(base * np.exp(leaning))
        drawn = on == subject
        words[drawn] = np.searchsorted(chances / chances[-1], u[drawn]).clip(0, d - 1)
    place = np.arange(len(document)) - starts[document]
    earlier = starts[document] + (rng.random(len(document)) * place).astype(int)
    words = np.where(rng.random(len(document)) < 0.3, words[earlier], words)
    X = sp.csr_array((np.ones(len(words)), words, starts), shape=(n, d))
    X.sum_duplicates()
    X.data = 1 + np.log(X.data)
    return sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)


def blob_rows(
    rng: Generator, figures: NDArray[np.int64], side: int, blobs: int, wander: float, width: float, background: float
) -> Array:
    """Square images of figures: a class has its blobs about common places, an image moves them; paper is not white.

    Most pixels are 0 (or the background), neighbours agree, and what all figures share is most of a row's length.
    """
    n, classes, pixels = len(figures), int(figures.max()) + 1, np.arange(side)
    places = rng.uniform(0.25, 0.75, size=(blobs, 2)) * side + rng.normal(size=(classes, blobs, 2)) * side * 0.12
    moved = places[figures] + (0.5 * rng.normal(size=(n, 1, 2)) + rng.normal(size=(n, blobs, 2))) * wander
    height = rng.uniform(0.5, 1.0, size=(classes, blobs))[figures] * rng.uniform(0.6, 1.2, size=(n, blobs))
    spread = 2 * (width * np.exp(0.2 * rng.normal(size=(n, blobs)))) ** 2
    X = np.zeros((n, side, side), np.float32)
    for b in range(blobs):
        down, across = (np.exp(-((pixels - moved[:, b, k, None]) ** 2) / spread[:, b, None]) for k in (0, 1))
        X += (height[:, b, None] * down).astype(np.float32)[:, :, None] * across.astype(np.float32)[:, None, :]
    X = np.clip(1.4 * X - 0.25, 0.0, 1.0)
    if background:
        X = np.maximum(X, background * rng.uniform(0.5, 1.0, size=(n, 1, 1)).astype(np.float32))
    return X.reshape(n, -1)


# --- truths -----------------------------------------------------------------------------------------------------------


def _scores(rng: Generator, X: Any, outputs: int = 1) -> Array:
    """Linear scores of mean 0 and variance 1; directions count by their variance, sparse ones as much as dense ones."""
    weights = rng.standard_t(4, size=(X.shape[1], outputs))
    z = np.asarray(X @ weights)
    return (z - z.mean(axis=0)) / z.std(axis=0)


def _labels(rng: Generator, z: Array, strength: float, share: float) -> tuple[Array, Array]:
    """Labels of a logistic model with about this share of ones, and the likeliest labels."""
    logits = strength * z.ravel()
    offset = -np.quantile(logits + rng.logistic(size=len(z)), 1 - share)
    return ((logits + offset + rng.logistic(size=len(z))) > 0).astype(float), (logits + offset > 0).astype(float)


def _finish(name: str, family: str, task: Task, X: Any, y: Array, best: Array, n: int, **facts: Any) -> Synthetic:
    y_test, best_test = y[n:], best[n:]
    if task == "regression":
        variance = float(((y_test - y_test.mean()) ** 2).mean())
        truth = 1 - float(((y_test - best_test) ** 2).mean()) / variance
        nothing = 1 - float(((y_test - y[:n].mean()) ** 2).mean()) / variance
    else:
        truth, nothing = float((y_test == best_test).mean()), float(np.bincount(y_test.astype(int)).max() / len(y_test))
    cut: Callable[[int, int], Any] = (lambda a, b: X[a:b]) if not isinstance(X, dict) else _part(X)
    return Synthetic(name, family, task, cut(0, n), y[:n], cut(n, len(y)), y_test, truth, nothing, **facts)


def _divergence(truth: Array, found: Array) -> float:
    """The expected logarithmic loss above that of the true probabilities."""
    found = np.clip(found, 1e-9, 1 - 1e-9)
    return float(np.mean(truth * np.log(truth / found) + (1 - truth) * np.log((1 - truth) / (1 - found))))


def _part(table: dict[str, Any]) -> Callable[[int, int], Any]:
    return lambda a, b: {column: cells[a:b] for column, cells in table.items()}


def classified(name: str, family: str, X: Any, rng: Generator, n: int, strength: float, share: float) -> Synthetic:
    y, best = _labels(rng, _scores(rng, X), strength, share)
    return _finish(name, family, "binary", X, y, best, n)


def imbalanced(name: str, X: Any, rng: Generator, n: int, strength: float, share: float) -> Synthetic:
    """A class of about this share, with the true probabilities of the test rows."""
    logits = strength * _scores(rng, X).ravel()
    low, high = -30.0, 30.0
    for _ in range(60):  # the offset that gives the share
        offset = (low + high) / 2
        low, high = (offset, high) if expit(logits + offset).mean() < share else (low, offset)
    chances = expit(logits + offset)
    y = (rng.random(len(logits)) < chances).astype(float)
    return _finish(name, "rare", "binary", X, y, (chances > 0.5).astype(float), n, chances=chances[n:])


def _encoded_table(rng: Generator, n: int) -> Array:
    """Rows of a mixed table through its encoder."""
    rows = tabled("table", rng, n, "binary", 2.0, 0.5).rows()
    return np.vstack([part.toarray() if sp.issparse(part) else part for part in rows])


def several(name: str, family: str, X: Any, rng: Generator, n: int, classes: int, strength: float) -> Synthetic:
    logits = strength * _scores(rng, X, classes) + np.linspace(0, 0.7, classes)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1).astype(float)
    return _finish(name, family, "multinomial", X, y, logits.argmax(axis=1).astype(float), n, classes=classes)


def regressed(
    name: str, family: str, X: Any, rng: Generator, n: int, noise: float, z: Array | None = None
) -> Synthetic:
    """Targets of which 1/(1 + noise²) can be explained; the public bounds are wider than they are, and off centre."""
    best = (_scores(rng, X) if z is None else z).ravel()
    y = best + noise * rng.standard_t(5, size=len(best))
    low, high = np.quantile(y, [0.002, 0.998])
    bounds = (float(low - rng.uniform(0.0, 0.5) * (high - low)), float(high + rng.uniform(0.0, 0.5) * (high - low)))
    return _finish(name, family, "regression", X, np.clip(y, *bounds), best, n, bounds=bounds)


def long_tailed(name: str, family: str, X: Any, rng: Generator, n: int, noise: float, z: Array) -> Synthetic:
    """Targets whose logarithm is told by z, as incomes and prices are: means lie a third of a spread above medians."""
    told = 0.8 / np.sqrt(1 + noise**2)
    y = np.exp(told * (z + noise * rng.normal(size=len(z))))
    bounds = (0.0, float(np.quantile(y, 0.995) * rng.uniform(1.0, 1.5)))
    best = np.exp(told * z + (told * noise) ** 2 / 2)
    return _finish(name, family, "regression", X, np.clip(y, *bounds), best, n, bounds=bounds)


def placed(problem: Synthetic, below: float, above: float) -> Synthetic:
    """The same problem with public bounds that far below and above the targets' mean, in standard deviations."""
    mean, spread = float(problem.y_test.mean()), float(problem.y_test.std())
    bounds = mean - below * spread, mean + above * spread
    inside = {name: np.clip(getattr(problem, name), *bounds) for name in ("y", "y_test")}
    return Synthetic(**{**problem.__dict__, **inside, "bounds": bounds})


def worded(
    name: str, rng: Generator, n: int, d: int, classes: int, share: float, length: float, **telling: Any
) -> Synthetic:
    """Topics first, words after; the truth is taken for right, as long documents of known topics nearly are."""
    chances = np.array([1 - share, share]) if classes == 2 else np.full(classes, 1 / classes)
    topics = rng.choice(classes, size=n + _TEST_ROWS, p=chances)
    X, y = word_rows(rng, n + _TEST_ROWS, d, topics, length, **telling), topics.astype(float)
    task: Task = "binary" if classes == 2 else "multinomial"
    return _finish(name, "words", task, X, y, y, n, classes=classes)


def written(
    name: str, rng: Generator, n: int, d: int, share: float, length: float, kinds: int, lean: float, unequal: float,
    mixed: float,
) -> Synthetic:  # fmt: skip
    """Classes made of many subjects, the k-th of frequency k^−unequal: some common, some rare within their class."""
    frequency = np.arange(1.0, kinds + 1) ** -unequal
    frequency /= frequency.sum()
    belongs, filled = np.zeros(kinds), 0.0
    for subject in rng.permutation(kinds):
        if filled + frequency[subject] <= 1.02 * share:
            belongs[subject] = 1.0
            filled += frequency[subject]
    subjects = rng.choice(kinds, size=n + _TEST_ROWS, p=frequency)
    y = belongs[subjects]
    return _finish(name, "texts", "binary", subject_rows(rng, len(y), d, subjects, length, lean, mixed), y, y, n)


def pictured(name: str, rng: Generator, n: int, classes: int, row_norm: float, *blobs: Any) -> Synthetic:
    """Figures first, pixels after; the truth is taken for right."""
    figures = rng.integers(classes, size=n + _TEST_ROWS)
    X, y = blob_rows(rng, figures, *blobs), figures.astype(float)
    return _finish(name, "images", "multinomial", X, y, y, n, classes=classes, row_norm=row_norm)


def _worded_regression(name: str, rng: Generator, n: int, d: int) -> Synthetic:
    """A number that depends on words, some frequent and some rare."""
    X = word_rows(rng, n + _TEST_ROWS, d, np.zeros(n + _TEST_ROWS), 60)
    return regressed(name, "words", X, rng, n, 0.5)


def _skewed(name: str, rng: Generator, X: Array, n: int) -> Synthetic:
    """A number whose logarithm is linear: means are far from medians."""
    z = np.exp(0.8 * _scores(rng, X))
    return regressed(name, "wide", X, rng, n, 0.5, (z - z.mean()) / z.std())


def _skewed_wide(name: str, rng: Generator, n: int, d: int, factors: int, noise: float) -> Synthetic:
    X = factor_rows(rng, n + _TEST_ROWS, d, factors)
    return long_tailed(name, "wide", X, rng, n, noise, _scores(rng, X).ravel())


def few(name: str, rng: Generator, n: int, d: int, noise: float) -> Synthetic:
    """Many bounded columns of which ten matter."""
    X = rng.uniform(-1, 1, size=(n + _TEST_ROWS, d))
    weights = rng.choice([-1.0, 1.0], size=10) * rng.uniform(0.5, 2.0, size=10)
    z = X[:, rng.permutation(d)[:10]] @ weights
    problem = regressed(name, "few", X, rng, n, noise, (z - z.mean()) / z.std())
    return Synthetic(**{**problem.__dict__, "row_norm": float(np.sqrt(d))})


def few_of(
    name: str, rng: Generator, n: int, d: int, design: str, relevant: int, noise: float, task: Task = "regression"
) -> Synthetic:
    """Columns in [−1, 1] of several designs, of which a few matter.

    ``signs``: fair coins; ``chain``: normal, each correlated by 0.8 with the one before; ``factor``: normal, all
    correlated by a half; ``rare``: indicators of one row in ten. ``noise`` is a logistic model's strength.
    """
    rows = n + _TEST_ROWS
    if design == "signs":
        X = rng.choice([-1.0, 1.0], size=(rows, d))
    elif design == "rare":
        X = (rng.random((rows, d)) < 0.1).astype(float)
    elif design == "uniform":
        X = rng.uniform(-1, 1, size=(rows, d))
    else:
        X = rng.normal(size=(rows, d))
        if design == "factor":
            X = np.sqrt(0.5) * (X + rng.normal(size=(rows, 1)))
        else:
            for j in range(1, d):
                X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
        X = np.clip(X / 2.5, -1, 1)
    weights = rng.choice([-1.0, 1.0], size=relevant) * rng.uniform(0.5, 2.0, size=relevant)
    z = X[:, rng.permutation(d)[:relevant]] @ weights
    z = (z - z.mean()) / z.std()
    norm = float(np.sqrt(d * (0.2 if design == "rare" else 1.0)))
    if task == "regression":
        problem = regressed(name, "few", X, rng, n, noise, z)
        return Synthetic(**{**problem.__dict__, "row_norm": norm})
    y, best = _labels(rng, z, noise, 0.4)
    return _finish(name, "few", "binary", X, y, best, n, row_norm=norm)


def tabled(
    name: str, rng: Generator, n: int, task: Task, strength: float, share: float, wide: int = 1, made: Any = regressed
) -> Synthetic:
    """A mixed table: categories by Zipf's law, numbers whose effects bend, saturate or turn around."""
    rows, columns, table = n + _TEST_ROWS, {}, {}
    z = np.zeros(rows)
    for j, levels in enumerate([2, 3, 5, 8, 14, 40] * wide):
        chances = 1.0 / np.arange(1.0, levels + 1)
        level = rng.choice(levels, size=rows, p=chances / chances.sum())
        columns[f"c{j}"], table[f"c{j}"] = dp.Categorical([str(k) for k in range(levels)]), level.astype(str)
        z += rng.normal(size=levels)[level] * rng.choice([0.0, 0.5, 1.0])
    bends: list[Callable[[Array], Array]] = [
        lambda u: 3 * u,
        lambda u: -6 * (u - 0.5) ** 2,
        lambda u: np.tanh(8 * (u - 0.3)),
        lambda u: np.sin(6 * u),
        lambda u: np.zeros_like(u),
        lambda u: 2.0 * (u > 0.7),
    ]
    for j, bend in enumerate(bends * wide):
        skewed = rng.beta(rng.uniform(0.8, 4), rng.uniform(2, 8), size=rows)
        columns[f"x{j}"], table[f"x{j}"] = dp.Numeric(0.0, 1.0), skewed
        effect = bend(skewed)
        z += rng.choice([0.3, 1.0]) * effect / max(float(effect.std()), 1e-9) * 0.7
    z = (z - z.mean()) / z.std()
    schema = dp.Schema(columns)
    if task == "regression":
        problem = made(name, "table", table, rng, n, strength, z)
        return Synthetic(**{**problem.__dict__, "schema": schema})
    y, best = _labels(rng, z, strength, share)
    return _finish(name, "table", task, table, y, best, n, schema=schema)


def counted(name: str, rng: Generator, n: int, columns: int, strength: float, share: float) -> Synthetic:
    """A table of frequencies: mostly 0, long tails far inside their public bounds, effects that saturate."""
    rows, declared, table = n + _TEST_ROWS, {}, {}
    z = np.zeros(rows)
    common = rng.normal(size=(rows, 3))
    for j in range(columns):
        size = np.exp(rng.normal(size=rows) + 0.5 * common @ rng.normal(size=3))
        value = np.where(rng.random(rows) < rng.uniform(0.1, 0.9), size, 0.0)
        declared[f"x{j}"], table[f"x{j}"] = dp.Numeric(0.0, float(np.quantile(value, 0.9995))), value
        effect = np.log1p(5 * value)
        z += rng.standard_t(4) * (effect - effect.mean()) / effect.std()
    y, best = _labels(rng, (z - z.mean()) / z.std(), strength, share)
    return _finish(name, "table", "binary", table, y, best, n, schema=dp.Schema(declared))


def correlated(
    name: str, rng: Generator, n: int, columns: int, task: Task, noise: float, share: float, made: Any = regressed
) -> Synthetic:
    """A table whose numbers all mirror three common causes, on which the target depends: few directions tell it all."""
    rows, declared, table = n + _TEST_ROWS, {}, {}
    causes = rng.normal(size=(rows, 3)) * [1.0, 0.7, 0.5]
    for j in range(columns):
        value = causes @ rng.normal(size=3) + 0.7 * rng.normal(size=rows)
        low, high = np.quantile(value, [0.005, 0.995])
        declared[f"x{j}"], table[f"x{j}"] = dp.Numeric(float(low), float(high)), value
    z = causes @ rng.normal(size=3)
    z = (z - z.mean()) / z.std()
    if task == "regression":
        problem = made(name, "table", table, rng, n, noise, z)
        return Synthetic(**{**problem.__dict__, "schema": dp.Schema(declared)})
    y, best = _labels(rng, z, noise, share)
    return _finish(name, "table", task, table, y, best, n, schema=dp.Schema(declared))


def crossed(name: str, rng: Generator, n: int, task: Task, kind: str, strength: float, share: float) -> Synthetic:
    """A table of `synthetic_interactions`, where columns tell more together than alone or resolution matters."""
    made = synthetic_interactions
    if kind in made.DEPENDENT:
        columns, cells, z = made.dependent_table(rng, n + _TEST_ROWS, 20 if n < 2000 else 50, kind)
    else:
        columns, cells, z = made.table(rng, n + _TEST_ROWS, kind)
    schema = dp.Schema(columns)
    if task == "regression":
        problem = regressed(name, "crossed", cells, rng, n, strength, z)
        return Synthetic(**{**problem.__dict__, "schema": schema})
    y, best = _labels(rng, z, strength, share)
    return _finish(name, "crossed", task, cells, y, best, n, schema=schema)


# --- the collection ---------------------------------------------------------------------------------------------------


def _gaussian(n: int, d: int, decay: float, mean: float) -> Callable[[Generator], Array]:
    return lambda rng: gaussian_rows(rng, n + _TEST_ROWS, d, decay, mean)


_RARE_ROWS: dict[str, Callable[[Generator, int], Any]] = {
    "table": _encoded_table,
    "dense": lambda rng, n: gaussian_rows(rng, n + _TEST_ROWS, 40, 1.0, 0.5),
    "indicators": lambda rng, n: binary_rows(rng, n + _TEST_ROWS, 14, 9, False),
}


def collection() -> dict[str, Callable[[], Synthetic]]:
    """Every problem by its name, made when called."""
    made: dict[str, Callable[[], Synthetic]] = {}

    def add(name: str, make: Callable[[str, Generator], Synthetic]) -> None:
        made[name] = lambda: make(name, np.random.default_rng(zlib.crc32(name.encode())))

    # mixed tables
    for n, strength, share in [
        (300, 2.0, 0.4),
        (800, 1.2, 0.3),
        (3000, 3.0, 0.5),
        (20_000, 1.5, 0.25),
        (2000, 2.0, 0.1),
    ]:
        add(f"table n={n} s={strength}", lambda m, r, n=n, s=strength, p=share: tabled(m, r, n, "binary", s, p))
    add("table n=200000 s=2", lambda m, r: tabled(m, r, 200_000, "binary", 2.0, 0.3))
    add("table n=5000 wide", lambda m, r: tabled(m, r, 5000, "binary", 3.0, 0.4, wide=4))
    for n, noise in [(300, 0.5), (1500, 1.0), (6000, 0.5), (20_000, 1.5), (100_000, 0.8)]:
        add(f"table regression n={n}", lambda m, r, n=n, s=noise: tabled(m, r, n, "regression", s, 0.5))
    add("table regression n=3000 wide", lambda m, r: tabled(m, r, 3000, "regression", 0.7, 0.5, wide=4))
    for n, columns, strength, share in [(4000, 55, 4.0, 0.4), (1000, 25, 3.0, 0.3)]:
        add(
            f"frequencies n={n}",
            lambda m, r, a=(n, columns, strength, share): counted(m, r, *a),
        )
    for n, columns, strength, share in [(1500, 20, 3.0, 0.35), (3500, 50, 5.0, 0.4)]:
        add(
            f"correlated n={n}",
            lambda m, r, a=(n, columns, "binary", strength, share): correlated(m, r, *a),
        )
    for n, columns, noise in [(500, 15, 0.7), (1500, 30, 0.7), (5000, 10, 1.0)]:
        add(
            f"correlated regression n={n}",
            lambda m, r, a=(n, columns, "regression", noise, 0.5): correlated(m, r, *a),
        )
    for n, noise in [(1500, 0.7), (5000, 1.0)]:
        add(f"skewed table n={n}", lambda m, r, n=n, s=noise: tabled(m, r, n, "regression", s, 0.5, made=long_tailed))
    for n, columns, noise in [(600, 15, 0.5), (1500, 20, 0.7), (4000, 10, 1.0)]:
        add(
            f"skewed correlated n={n}",
            lambda m, r, a=(n, columns, "regression", noise, 0.5): correlated(m, r, *a, made=long_tailed),
        )
    # tables with interactions, spikes and fine steps, and without
    for kind in synthetic_interactions.SHARES:
        for n in (2000, 8000, 30_000):
            add(f"crossed {kind} n={n}", lambda m, r, n=n, k=kind: crossed(m, r, n, "binary", k, 2.5, 0.3))
            add(
                f"crossed {kind} regression n={n}",
                lambda m, r, n=n, k=kind: crossed(m, r, n, "regression", k, 0.7, 0.5),
            )
    # tables of many dependent columns and few rows, with interactions and without
    for kind in synthetic_interactions.DEPENDENT:
        for n in (1500, 4000):
            add(f"dependent {kind} n={n}", lambda m, r, n=n, k=kind: crossed(m, r, n, "binary", k, 8.0, 0.4))
    # dense rows
    for n, d, decay, mean, strength, share in [
        (500, 20, 1.0, 0.5, 2.0, 0.5),
        (2000, 100, 1.0, 1.0, 3.0, 0.4),
        (10_000, 5, 0.5, 0.0, 1.0, 0.3),
        (5000, 400, 1.5, 0.5, 3.0, 0.5),
        (50_000, 60, 0.5, 0.0, 2.0, 0.2),
    ]:
        add(
            f"dense n={n} d={d}",
            lambda m, r, a=(n, d, decay, mean), s=strength, p=share: classified(
                m, "dense", _gaussian(*a)(r), r, a[0], s, p
            ),
        )
    for n, d, decay, mean, noise in [
        (200, 10, 1.0, 1.0, 0.5),
        (1500, 100, 1.0, 1.0, 0.7),
        (10_000, 30, 0.5, 0.0, 1.0),
        (4000, 300, 1.5, 0.5, 0.5),
        (2000, 800, 1.0, 0.5, 0.5),
        (1000, 1500, 1.5, 1.0, 0.5),
        (50_000, 60, 1.0, 0.5, 0.7),
    ]:
        add(
            f"dense regression n={n} d={d}",
            lambda m, r, a=(n, d, decay, mean), s=noise: regressed(m, "dense", _gaussian(*a)(r), r, a[0], s),
        )
    # indicators and thermometers
    for n, columns, levels, thermometer, strength, share in [
        (1000, 14, 9, False, 2.0, 0.3),
        (30_000, 14, 9, False, 1.5, 0.25),
        (3000, 30, 10, True, 2.0, 0.5),
    ]:
        add(
            f"binary n={n} d={columns * levels}",
            lambda m, r, n=n, a=(columns, levels, thermometer), s=strength, p=share: classified(
                m, "binary", binary_rows(r, n + _TEST_ROWS, *a), r, n, s, p
            ),
        )
    add("binary regression", lambda m, r: regressed(m, "binary", binary_rows(r, 9000, 20, 8, True), r, 5000, 0.7))
    # a rare class; 50 % beside them, to see that nothing is lost there
    for share in (0.005, 0.01, 0.03, 0.1, 0.5):
        for kind, n in [("table", 5000), ("table", 20_000), ("dense", 5000), ("indicators", 5000)]:
            add(
                f"rare {kind} n={n} p={share:g}",
                lambda m, r, k=kind, n=n, p=share: imbalanced(m, _RARE_ROWS[k](r, n), r, n, 2.0, p),
            )
    # words
    for n, d, share, length in [(1000, 2000, 0.5, 60), (4000, 1000, 0.13, 15), (10_000, 20_000, 0.4, 80)]:
        add(f"words n={n} d={d}", lambda m, r, n=n, d=d, p=share, k=length: worded(m, r, n, d, 2, p, k))
    add("words n=3000 d=50000", lambda m, r: worded(m, r, 3000, 50_000, 2, 0.5, 150))
    add("words regression n=4000 d=5000", lambda m, r: _worded_regression(m, r, 4000, 5000))
    # texts on many subjects
    for n, d, share, length, kinds, lean, unequal, mixed in [
        (9000, 15_000, 0.33, 60, 40, 2.0, 1.0, 0.0),
        (11_000, 40_000, 0.5, 120, 40, 1.5, 0.5, 0.0),
        (4500, 1000, 0.15, 15, 12, 2.0, 1.0, 0.0),
        (1600, 20_000, 0.5, 300, 10, 0.8, 0.5, 0.0),
        (3000, 8000, 0.5, 100, 6, 1.0, 0.0, 0.15),
        (20_000, 10_000, 0.18, 30, 20, 2.0, 0.7, 0.1),
    ]:
        add(
            f"texts n={n} d={d}",
            lambda m, r, a=(n, d, share, length, kinds, lean, unequal, mixed): written(m, r, *a),
        )
    # tiny n, many columns
    for n, d in [(50, 2000), (100, 4000)]:
        add(
            f"tiny n={n} d={d}",
            lambda m, r, n=n, d=d: classified(m, "tiny", factor_rows(r, n + _TEST_ROWS, d), r, n, 3.0, 0.4),
        )
        add(
            f"tiny regression n={n} d={d}",
            lambda m, r, n=n, d=d: regressed(m, "tiny", factor_rows(r, n + _TEST_ROWS, d), r, n, 0.5),
        )
    # few columns that matter
    for n, d, noise in [(1000, 100, 0.5), (5000, 500, 0.5), (20_000, 200, 1.0), (2000, 2000, 0.3)]:
        add(f"few n={n} d={d}", lambda m, r, a=(n, d, noise): few(m, r, *a))
    for n, d, design, relevant, noise in [
        (5000, 40, "uniform", 5, 0.3),
        (1000, 20, "chain", 5, 0.5),
        (2000, 60, "factor", 5, 0.5),
        (4000, 300, "chain", 10, 0.5),
        (2000, 100, "signs", 10, 0.7),
        (5000, 1000, "signs", 5, 0.5),
        (5000, 150, "rare", 20, 0.5),
        (500, 1000, "uniform", 3, 0.3),
        (20_000, 40, "chain", 20, 1.0),
    ]:
        add(
            f"few {design} n={n} d={d} s={relevant}",
            lambda m, r, a=(n, d, design, relevant, noise): few_of(m, r, *a),
        )
    for n, d, design, relevant, strength in [
        (1000, 20, "uniform", 5, 3.0),
        (5000, 40, "chain", 5, 2.0),
        (3000, 200, "signs", 10, 3.0),
        (2000, 100, "factor", 5, 3.0),
        (5000, 1000, "uniform", 5, 3.0),
        (4000, 300, "rare", 20, 3.0),
        (1000, 2000, "signs", 3, 4.0),
        (20_000, 400, "chain", 10, 2.0),
    ]:
        add(
            f"few {design} logistic n={n} d={d} s={relevant}",
            lambda m, r, a=(n, d, design, relevant, strength): few_of(m, r, *a, task="binary"),
        )
    # several classes
    for n, d, classes, strength in [(1500, 20, 3, 3.0), (10_000, 200, 10, 4.0), (30_000, 50, 5, 2.0)]:
        add(
            f"several n={n} d={d} K={classes}",
            lambda m, r, a=(n, d, 1.0, 1.0), k=classes, s=strength: several(
                m, "classes", _gaussian(*a)(r), r, a[0], k, s
            ),
        )
    add("several words n=8000 K=12", lambda m, r: worded(m, r, 8000, 5000, 12, 0.0, 80))
    add("several words n=1500 K=4", lambda m, r: worded(m, r, 1500, 3000, 4, 0.0, 40))
    for n, classes, norm, *blobs in [
        (5000, 6, 5.0, 16, 4, 1.0, 1.5, 0.0),
        (20_000, 10, 8.0, 28, 6, 1.5, 2.2, 0.0),
        (10_000, 10, 10.0, 28, 5, 2.0, 2.0, 0.3),
    ]:
        add(f"images n={n} K={classes}", lambda m, r, a=(n, classes, norm, *blobs): pictured(m, r, *a))
    # more columns than rows, targets anywhere inside their bounds
    for n, d, factors, noise, below, above in [
        (60, 3000, 10, 0.7, 2.5, 7.0),
        (100, 1200, 2, 0.3, 3.0, 3.5),
        (400, 4000, 5, 2.0, 9.0, 4.0),
        (1500, 2500, 10, 0.5, 4.0, 5.0),
    ]:
        add(
            f"wide regression n={n} d={d}",
            lambda m, r, n=n, d=d, f=factors, s=noise, a=(below, above): placed(
                regressed(m, "wide", factor_rows(r, n + _TEST_ROWS, d, f), r, n, s), *a
            ),
        )
    for n, d, decay, mean, noise, below, above in [
        (200, 1500, 1.5, 1.0, 0.5, 12.0, 4.0),
        (800, 2000, 1.0, 0.0, 2.0, 3.0, 8.0),
        (2000, 2000, 1.0, 0.5, 0.5, 6.0, 5.0),
        (4000, 1200, 1.5, 0.0, 0.5, 3.5, 3.5),
    ]:
        add(
            f"wide regression n={n} d={d}",
            lambda m, r, a=(n, d, decay, mean), s=noise, b=(below, above): placed(
                regressed(m, "wide", _gaussian(*a)(r), r, a[0], s), *b
            ),
        )
    add(
        "wide regression n=600 d=1500",  # targets with a long upper tail
        lambda m, r: placed(_skewed(m, r, gaussian_rows(r, 600 + _TEST_ROWS, 1500, 1.5, 0.5), 600), 2.5, 9.0),
    )
    for n, d, factors, noise in [(80, 2500, 5, 0.5), (500, 3000, 10, 0.7)]:
        add(
            f"skewed wide n={n} d={d}",
            lambda m, r, a=(n, d, factors, noise): _skewed_wide(m, r, *a),
        )
    add("wide words n=1000 d=3000", lambda m, r: placed(_worded_regression(m, r, 1000, 3000), 10.0, 5.0))
    # words that tell are the commonest, or rare, or any; classes of equal size or not; more words than documents
    for where, first, many, leans in [
        ("common", 0, 30, (0.3, 0.9, 0.5)),
        ("rare", 200, 1500, (0.5, 1.5, 0.8)),
        ("any", 10, 5000, (0.35, 1.0, 0.5)),
    ]:
        documents = [(1500, 25_000, 0.5, 200), (5000, 30_000, 0.13, 15), (9000, 18_000, 0.25, 60)]
        for (n, d, share, length), lean in zip(documents, leans, strict=True):
            telling = {"first": first, "many": many, "lean": lean}
            add(
                f"words {where} n={n} d={d}",
                lambda m, r, a=(n, d, 2, share, length), t=telling: worded(m, r, *a, **t),
            )
    return made
