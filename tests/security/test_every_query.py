"""No row moves an answer further than its query claims, and no row changes what another row contributes.

Every query of the library is found by looking through its room, so that a new one without a case here fails.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from operator import sub
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import discreet.queries
from discreet.data.memory import in_memory
from discreet.geometry import L1Ball, Polytope, WholeSpace
from discreet.losses import CappedPoisson, Huber, Logistic, Poisson, Softmax, Squared
from discreet.queries.base import BoundedDifference, replace_one_factor
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import ListedVertices, whole_vertices
from discreet.queries.histograms.column_counts import ColumnCells, ColumnCounts
from discreet.queries.histograms.interaction_scores import SHARES, FineTable, InteractionScores, PairTable, whole_shares
from discreet.queries.histograms.labelled_scores import LabelledScores
from discreet.queries.histograms.outcomes import ClassCells, ConfidenceCells, LossCells, OutcomeCounts, ScoreCells
from discreet.queries.histograms.ranks import Grid, Ranks
from discreet.queries.histograms.residual_histogram import ResidualHistogram
from discreet.queries.histograms.score_histogram import ScoreHistogram
from discreet.queries.histograms.slope_cells import ResidualCounts, SlopeCells
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.queries.sums.candidate_scores import CandidateScores, OneScore
from discreet.queries.sums.clipped_entries import ClippedEntrySum
from discreet.queries.sums.code_counts import CodeCounts, rows_of_codes
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.count import RowCount
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.queries.sums.fine_gradient import FineGradientSum
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.mapped_sum import MappedSum
from discreet.queries.sums.model_score import ModelScore
from discreet.queries.sums.moments import CrossMoment, LeastEigenvalue, SecondMoment, TargetMoment
from discreet.queries.sums.outcomes import OutcomeSums
from discreet.queries.sums.residual import ResidualSum
from discreet.queries.sums.row_sum import RowSum
from discreet.queries.sums.scale_slopes import ScaleSlopes
from discreet.queries.sums.scaled_gradient import ScaledGradientSum, Scaling
from discreet.queries.sums.sign_sums import SignSums
from discreet.queries.sums.sketch import Sketch, SketchedSum
from discreet.queries.sums.sparse_gradient import SparseGradientSum
from discreet.queries.sums.sparse_sum import SparseSum
from discreet.queries.whitened import Whitening, WorkingRows
from discreet.refinement import Cells, ColumnBlock, Groups
from discreet.rows import RowSpec
from discreet.solvers.parts.column_histograms import histogram_cells
from discreet.solvers.parts.recurring_values import FINE_BINS

D = 4
ROWS, PLAIN, MANY = RowSpec(D, 1.5, 0.7), RowSpec(D, 1.5), RowSpec(D, 1.5, 0.7, 3)
Make = Callable[[np.random.Generator], Any]


def theta(rng: np.random.Generator, rows: RowSpec = ROWS) -> NDArray[np.float64]:
    return np.asarray(rng.standard_normal(rows.shape) * 10.0 ** rng.uniform(-3, 3))


def scaled(rng: np.random.Generator, rows: RowSpec = ROWS, centred: float = 1.0) -> Scaling:
    """Weights of all sizes and a centre up to as long as it may be."""
    direction = rng.standard_normal(D)
    centre = np.trunc(direction / np.linalg.norm(direction) * centred * rng.choice([0.01, 1.0]) * 2.0**18)
    return Scaling(rows, rng.integers(1, 65, rows.dimension), centre.astype(np.int64))


def after_choices(rng: np.random.Generator, domain: Any, steps: int) -> VertexScores:
    vertices, chosen = whole_vertices(domain, D + 1), ChosenVertices()
    for vertex in rng.integers(vertices.count, size=steps):
        chosen.append(int(vertex))
    return VertexScores(ROWS, Logistic(), vertices, chosen, 10.0 ** rng.uniform(-1, 1))


def working(
    rng: np.random.Generator, role: Any, query: Any, loss: Any, most: float = 1.0, far: float = 1.0
) -> MappedSum:
    """A sum over whitened rows at a random θ, by matrices of many sizes: some rows are cut and some are short."""
    made = RowSpec(3, 1.0)
    matrix = rng.standard_normal((3, D + 1)) * 10.0 ** rng.uniform(-1, 2)
    near = far * rng.standard_normal(3) * 10.0 ** rng.uniform(-3, 0)
    return MappedSum(ROWS, query, WorkingRows(Whitening(ROWS, made, matrix), loss, near, role, most))


WHITE = RowSpec(3, 1.0)
COLUMNS = (
    ColumnBlock("u", 0, 2, "number", 0.6),
    ColumnBlock("l", 2, 3, "levels", 0.6),
    ColumnBlock("v", 3, 4, "value", 0.6),
)


def column_cells(rng: np.random.Generator) -> ColumnCells:
    """Cells of three columns, one of which has a single level."""
    edges = [tuple(np.sort(rng.uniform(0.01, 0.99, size)).tolist()) for size in (3, 2)]
    return ColumnCells(COLUMNS, (Cells(edges[0]), Groups((0,)), Cells(edges[1])))


def pair_scores(rng: np.random.Generator, floor: float = 0.0) -> InteractionScores:
    """Scores of all pairs of three columns, with any shares of their cells."""
    cells = column_cells(rng)
    shares = [whole_shares(rng.random(size) ** 3) for size in cells.sizes]
    tables = tuple(PairTable(i, j, shares[i], shares[j], floor) for i, j in itertools.combinations(range(3), 2))
    loss, clip = (Logistic(), 0.5) if rng.random() < 0.5 else (Squared(), 10.0 ** rng.uniform(-2, 1))
    return InteractionScores(ROWS, loss, theta(rng), clip, cells, tables, 3.0)


def fine_scores(rng: np.random.Generator, floor: float = 0.0) -> InteractionScores:
    """Scores of two columns of numbers at a finer resolution, with any shares of neighbouring cells."""
    columns = (COLUMNS[0], COLUMNS[0])
    edges = [tuple(np.sort(rng.uniform(0.01, 0.99, size)).tolist()) for size in (3, 5)]
    cells = ColumnCells(columns, tuple(Cells(at) for at in edges))
    shares = [[whole_shares(rng.random(2) ** 3) for _ in range(size // 2)] for size in cells.sizes]
    tables = tuple(FineTable(j, tuple((one, other) for one, other in pairs), floor) for j, pairs in enumerate(shares))
    loss, clip = (Logistic(), 0.5) if rng.random() < 0.5 else (Squared(), 10.0 ** rng.uniform(-2, 1))
    return InteractionScores(ROWS, loss, theta(rng), clip, cells, tables, 3.0)


#: Queries that are sums over rows: one or more ways to build each, at a random place.
SUMS: dict[type, list[Make]] = {
    GradientSum: [
        lambda rng: GradientSum(ROWS, Logistic(), theta(rng), 0.5),
        lambda rng: GradientSum(MANY, Softmax(3), theta(rng, MANY), 0.5),
        lambda rng: GradientSum(ROWS, Squared(), theta(rng), 3.0, anchor=theta(rng)),
    ],
    MappedSum: [
        lambda rng: working(rng, "curvature", SecondMoment(WHITE), Logistic(), 0.25),
        lambda rng: working(rng, "curvature", SecondMoment(WHITE), CappedPoisson(4)),
        lambda rng: working(rng, "curvature", SecondMoment(WHITE), Huber(0.5)),
        lambda rng: working(rng, "score", SecondMoment(WHITE), Huber(0.1), 0.1),
        lambda rng: working(rng, "start", CrossMoment(WHITE, 1.0), Squared()),
        lambda rng: working(rng, "residual", TargetMoment(0.5), Huber(0.5)),
        lambda rng: working(rng, "inside", TargetMoment(1.0), Huber(0.5)),
        lambda rng: working(rng, "root", TargetMoment(4.0), CappedPoisson(4)),
        lambda rng: working(rng, "target", TargetMoment(2.0), CappedPoisson(4)),
        lambda rng: working(rng, "slope of p", TargetMoment(1.0), Logistic(), 0.25, 30.0),
        lambda rng: working(rng, "bend of p", CrossMoment(WHITE, 0.0963), Logistic(), 1.0, 30.0),
    ],
    FineGradientSum: [
        lambda rng: FineGradientSum(ROWS, Logistic(), theta(rng), 0.5, 27, 2**15),
        lambda rng: FineGradientSum(PLAIN, Squared(), theta(rng, PLAIN), 0.5, 28, 2**15),
    ],
    RowCount: [lambda rng: RowCount()],
    EntrywiseGradientSum: [
        lambda rng: EntrywiseGradientSum(ROWS, Squared(), theta(rng), 0.9, 2.0, 1.0),
        lambda rng: EntrywiseGradientSum(
            ROWS, Squared(), theta(rng), 0.9, 2.0, 1.0, centre=rng.normal(size=D), target_centre=0.3
        ),
    ],
    ClippedEntrySum: [
        lambda rng: ClippedEntrySum(ROWS, rng.normal(size=D) * 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 2)),
        lambda rng: ClippedEntrySum(PLAIN, np.zeros(D), 0.5),
    ],
    SecondMoment: [lambda rng: SecondMoment(ROWS)],
    CrossMoment: [lambda rng: CrossMoment(ROWS, 0.8)],
    TargetMoment: [lambda rng: TargetMoment(0.8)],
    CandidateScores: [lambda rng: CandidateScores(ROWS, Huber(0.5), rng.standard_normal((6, D + 1)), 2.0)],
    OneScore: [lambda rng: OneScore(ROWS, Logistic(), rng.standard_normal((1, D + 1)), 2.0)],
    VertexScores: [
        lambda rng: after_choices(rng, L1Ball(2.0), 3),
        lambda rng: after_choices(rng, Polytope(np.vstack([np.eye(D + 1), -np.ones((1, D + 1))])), 2),
    ],
    ModelScore: [
        lambda rng: ModelScore(ROWS, Logistic(), theta(rng), True),
        lambda rng: ModelScore(MANY, Softmax(3), theta(rng, MANY), True),
        lambda rng: ModelScore(ROWS, Squared(), theta(rng), False),
    ],
    SparseSum: [lambda rng: SparseSum(PLAIN, 2, "l1"), lambda rng: SparseSum(PLAIN, 3, "l2")],
    RowSum: [lambda rng: RowSum(ROWS), lambda rng: RowSum(PLAIN)],
    ScoreHistogram: [
        lambda rng: ScoreHistogram(ROWS, theta(rng), np.sort(rng.normal(size=6))),
        lambda rng: ScoreHistogram(PLAIN, theta(rng, PLAIN), np.linspace(-1, 1, 5), np.linspace(-2, 2, 3)),
    ],
    ResidualHistogram: [
        lambda rng: ResidualHistogram(ROWS, theta(rng), np.sort(rng.normal(size=6))),
        lambda rng: ResidualHistogram(PLAIN, theta(rng, PLAIN), np.linspace(-1, 1, 5)),
    ],
    LabelledScores: [
        lambda rng: LabelledScores(ROWS, theta(rng), np.sort(rng.normal(size=6))),
        lambda rng: LabelledScores(PLAIN, theta(rng, PLAIN), np.linspace(-1, 1, 17)),
    ],
    ColumnSecondMoment: [lambda rng: ColumnSecondMoment(ROWS), lambda rng: ColumnSecondMoment(PLAIN, 2.5)],
    ScaledGradientSum: [
        lambda rng: ScaledGradientSum(scaled(rng, MANY), Softmax(3), theta(rng, MANY), 0.5),
        lambda rng: ScaledGradientSum(scaled(rng, PLAIN, 0.0), Logistic(), theta(rng, PLAIN), 0.5),
    ],
    SignSums: [
        lambda rng: SignSums(ROWS, rng.choice([-1.0, 0.0, 1.0], D), tuple(rng.normal(size=2)), tuple(rng.random(2))),
        lambda rng: SignSums(PLAIN, np.ones(D), (0.0, 0.0), (0.5, 1e-300)),
    ],
    ResidualSum: [
        lambda rng: ResidualSum(ROWS, theta(rng), 10.0 ** rng.uniform(-3, 3)),
        lambda rng: ResidualSum(PLAIN, theta(rng, PLAIN), 0.3),
    ],
    ScaleSlopes: [
        lambda rng: ScaleSlopes(MANY, theta(rng, MANY), 10.0 ** rng.uniform(-2, 1)),
        lambda rng: ScaleSlopes(RowSpec(D, 1.5, 0.0, 2), theta(rng, RowSpec(D, 1.5, 0.0, 2)), 0.5),
    ],
    OutcomeCounts: [
        lambda rng: OutcomeCounts(ROWS, theta(rng), ScoreCells(np.linspace(-6, 6, 13))),
        lambda rng: OutcomeCounts(MANY, theta(rng, MANY), ConfidenceCells(3, np.linspace(0, 1, 11))),
        lambda rng: OutcomeCounts(MANY, theta(rng, MANY), LossCells(3, np.geomspace(0.01, 10, 9))),
        lambda rng: OutcomeCounts(MANY, theta(rng, MANY), ClassCells(3)),
    ],
    OutcomeSums: [
        lambda rng: OutcomeSums(ROWS, Squared(), theta(rng), ("squared_error", "target", "squared_target")),
        lambda rng: OutcomeSums(PLAIN, Poisson(), theta(rng, PLAIN), ("deviance", "share", "entropy"), 0.0),
        lambda rng: OutcomeSums(ROWS, Squared(), theta(rng), ("shortfall", "excess", "below")),
    ],
    CodeCounts: [
        lambda rng: CodeCounts(rows_of_codes(D, 4), 4),
        lambda rng: CodeCounts(rows_of_codes(D, 4), 4, 2, True),
    ],
    SparseGradientSum: [
        lambda rng: SparseGradientSum(ROWS, Logistic(), theta(rng), 0.5, LargestEntries(ROWS, 2)),
        lambda rng: SparseGradientSum(MANY, Softmax(3), theta(rng, MANY), 0.5, LargestEntries(MANY, 1)),
    ],
    ColumnCounts: [
        lambda rng: ColumnCounts(ROWS, column_cells(rng)),
        lambda rng: ColumnCounts(ROWS, histogram_cells((COLUMNS[0],), FINE_BINS)),
    ],
    ResidualCounts: [
        lambda rng: ResidualCounts(ROWS, theta(rng), SlopeCells(Logistic(), np.array([0.1, 0.5, 0.9]))),
        lambda rng: ResidualCounts(PLAIN, theta(rng, PLAIN), SlopeCells(Squared(), np.geomspace(0.01, 10, 6))),
    ],
    SketchedSum: [
        lambda rng: SketchedSum(PLAIN, 3, Sketch(D, 2, 2, 7)),
        lambda rng: SketchedSum(PLAIN, 3, GaussianSketch(D, 5, 7, 1.1)),
    ],
}

#: Queries that are no sums; each has a test of its own below.
OTHERS = {LeastEigenvalue, Ranks, RidgeMinimiser, InteractionScores}

EXTREMES = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-310, 1e16, np.nan, np.inf, -np.inf, 0.1, 1 / 3]
TARGETS = [-1.0, 0.0, 1.0, 2.0, 0.3, 7.0, 1e308, -1e308, 5e-324, np.nan, np.inf]


def awkward(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows at many magnitudes, rows of extreme entries, and the most extreme rows with both signs in one corner."""
    X = rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-12, 12, (n, 1))
    wild = rng.random(n) < 0.4
    X[wild] = rng.choice(EXTREMES, (int(wild.sum()), D))
    corner = rng.random(n) < 0.2
    X[corner] = rng.choice([-1.0, 1.0], (int(corner.sum()), 1)) * 1e300 * np.eye(D)[rng.integers(D)]
    return X, rng.choice(TARGETS, n)


def queries_found() -> set[type]:
    """Every public class of the room that answers from a dataset."""
    found = set()
    for module in pkgutil.walk_packages(discreet.queries.__path__, "discreet.queries."):
        loaded = importlib.import_module(module.name)
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            here = kind.__module__ == loaded.__name__ and not name.startswith("_")
            no_query = getattr(kind, "_is_protocol", False) or inspect.isabstract(kind)
            if here and not no_query and any(_takes_data(getattr(kind, m)) for m in dir(kind) if m[0] != "_"):
                found.add(kind)
    return found


def _takes_data(member: Any) -> bool:
    return inspect.isfunction(member) and "data" in inspect.signature(member).parameters


def test_no_query_is_forgotten() -> None:
    assert queries_found() == set(SUMS) | OTHERS


def _rows_of(query: Any) -> RowSpec:
    return getattr(query, "rows", ROWS)


def _answer(query: Any, X: Any, y: NDArray[np.float64]) -> list[int]:
    return [int(v) for v in query.integers(in_memory(X, y, _rows_of(query))).ravel()]


def _length(vector: Sequence[int], norm: str) -> int:
    """The norm; for l2 its square."""
    if norm == "l2":
        return sum(v * v for v in vector)
    return sum(map(abs, vector)) if norm == "l1" else max(map(abs, vector))


def _floors(query: Any) -> int:
    """Scores of listed vertices are exact sums, then floored once: a step that their bound has room for."""
    return int(isinstance(getattr(query, "vertices", None), ListedVertices))


CASES = [pytest.param(make, id=f"{kind.__name__}-{i}") for kind, makes in SUMS.items() for i, make in enumerate(makes)]


@pytest.mark.parametrize("make", CASES)
def test_neighbours_never_differ_by_more_than_is_claimed(make: Make) -> None:
    # Contributions of single rows, in Python's integers, and then every pair of them: 180·179/2 · 6 > 9·10⁴ pairs.
    rng = np.random.default_rng(1)
    reached = furthest = 0.0
    for _ in range(6):
        query = make(rng)
        X, y = awkward(180, rng)
        norm, square = query.norm, 2 if query.norm == "l2" else 1
        whole, between = query.bound**square, math.floor((Fraction(replace_one_factor(query)) * query.bound) ** square)
        alone = {tuple(_answer(query, X[[i]], y[[i]])) for i in range(len(X))}  # equal ones are at no distance
        lengths = [_length(contribution, norm) for contribution in alone]
        distances = [_length(list(map(sub, one, other)), norm) for one, other in itertools.combinations(alone, 2)]
        assert max(lengths) <= whole
        assert max(distances, default=0) <= between
        reached = max(reached, (max(lengths) / whole) ** (1 / square))
        furthest = max(furthest, (max(distances, default=0) / whole) ** (1 / square))
    assert reached > 0.6  # the bound is nearly reached, so a claim of half of it would have been caught
    if isinstance(query, BoundedDifference) and replace_one_factor(query) < 2:
        assert furthest > 0.75 * query.replace_one_factor


@pytest.mark.parametrize("make", CASES)
def test_a_row_contributes_the_same_whatever_the_other_rows_are(make: Make) -> None:
    # Huge rows beside tiny ones and their negatives: in floating point the tiny ones would be lost, here none is.
    rng = np.random.default_rng(2)
    query = make(rng)
    X, y = awkward(120, rng)
    X, y = np.vstack([X, -X]), np.concatenate([y, y])
    everybody = _answer(query, X, y)
    for i in range(0, len(X), 3):
        others = np.delete(np.arange(len(X)), i)
        without, alone = _answer(query, X[others], y[others]), _answer(query, X[[i]], y[[i]])
        moved = [a - b for a, b in zip(everybody, without, strict=True)]
        assert _length(moved, query.norm) <= query.bound ** (2 if query.norm == "l2" else 1)
        assert max(abs(a - b) for a, b in zip(moved, alone, strict=True)) <= _floors(query)


def _arrangements(
    X: NDArray[np.float64], y: NDArray[np.float64], rng: np.random.Generator
) -> Iterator[list[tuple[Any, NDArray[np.float64]]]]:
    """The same rows: in another order, in parts, column by column, and sparse."""
    order = rng.permutation(len(X))
    yield [(X[order], y[order])]
    yield [(X[part], y[part]) for part in np.split(order, sorted(rng.choice(len(X), 9, replace=False)))]
    yield [(np.asfortranarray(X), y)]
    yield [(sp.csr_array(X), y)]
    yield [(sp.csr_array(X[part]), y[part]) for part in np.array_split(order, 5)]


@pytest.mark.parametrize("make", CASES)
def test_sums_are_the_same_to_the_last_bit_in_any_arrangement(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    query = make(rng)
    X, y = awkward(7000, rng)
    monkeypatch.setenv("DISCREET_THREADS", "1")
    expected = _answer(query, X, y)
    for threads in ("1", "3"):
        monkeypatch.setenv("DISCREET_THREADS", threads)
        assert _answer(query, X, y) == expected
        for parts in _arrangements(X, y, rng):
            answers = [_answer(query, *part) for part in parts]
            together = [sum(column) for column in zip(*answers, strict=True)]
            off = max(abs(a - b) for a, b in zip(together, expected, strict=True))
            assert off <= _floors(query) * (len(parts) - 1)


def _scattered(X: NDArray[Any], rng: np.random.Generator) -> sp.csr_array:
    """The same rows as careless writers hold them: entries cut in two, zeros stored, columns in any order."""
    halves = np.where(X / 2 + X / 2 == X, X / 2, X)
    row, column = np.indices(X.shape).reshape(2, -1)
    row, column = np.tile(row, 2), np.tile(column, 2)
    values = np.concatenate([halves.ravel(), np.where(halves == X, 0.0, halves).astype(X.dtype).ravel()])
    order = rng.permutation(len(row))
    order = order[np.argsort(row[order], kind="stable")]
    found = sp.csr_array((values[order], column[order], np.arange(len(X) + 1) * 2 * X.shape[1]), shape=X.shape)
    found.has_sorted_indices = found.has_canonical_format = True  # which is not so, and must not be believed
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", CASES)
def test_however_rows_are_held_they_contribute_the_same_and_no_more(make: Make, dtype: type) -> None:
    rng = np.random.default_rng(8)
    query = make(rng)
    X, y = awkward(300, rng)
    with np.errstate(all="ignore"):
        X = X.astype(dtype)
    expected = _answer(query, X, y)
    for held in (_scattered(X, rng), sp.coo_array(X), sp.csc_matrix(X), np.asfortranarray(X)):
        assert _answer(query, held, y) == expected
    square = 2 if query.norm == "l2" else 1
    for i in range(0, len(X), 10):
        for alone in (X[[i]], _scattered(X[[i]], rng)):
            assert _length(_answer(query, alone, y[[i]]), query.norm) <= query.bound**square


@pytest.mark.parametrize("held", ["dense", "mostly empty", "sparse"])
@pytest.mark.parametrize("make", CASES)
def test_a_batch_contributes_what_its_rows_contribute(make: Make, held: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches name rows of a dataset instead of copying them: the right ones, after other queries and batches too."""
    monkeypatch.setenv("DISCREET_THREADS", "3")
    monkeypatch.setattr("discreet.data.memory._LEAST_ENTRIES", 50)
    rng = np.random.default_rng(10)
    query = make(rng)
    X, y = awkward(300, rng)
    if held != "dense":
        X = np.where(rng.random(X.shape) < 0.25, X, 0.0)
    data = in_memory(sp.csr_array(X) if held == "sparse" else X, y, _rows_of(query))
    query.integers(data)
    for chosen in (np.flatnonzero(rng.random(300) < 0.4), np.array([0, 150, 299]), np.array([], np.int64)):
        batch, part = data.take(chosen), np.arange(0, len(chosen), 2)
        assert [int(v) for v in query.integers(batch).ravel()] == _answer(query, X[chosen], y[chosen])
        assert [int(v) for v in query.integers(batch.take(part)).ravel()] == _answer(
            query, X[chosen[part]], y[chosen[part]]
        )
        assert len(batch) == len(chosen)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("make", CASES)
def test_answers_stay_the_same_when_rows_are_asked_again(make: Make, sparse: bool) -> None:
    """Rows are held in faster forms from the second pass on; rows that repeat themselves have a form of their own."""
    rng = np.random.default_rng(9)
    query = make(rng)
    kinds, labels = awkward(25, rng)
    which = rng.integers(25, size=900)
    X, y = kinds[which], labels[which]
    data = in_memory(sp.csr_array(X) if sparse else X, y, _rows_of(query))
    first = query.integers(data)
    for _ in range(3):
        assert (query.integers(data) == first).all()
    alone = np.array([_answer(query, kinds[[i]], labels[[i]]) for i in range(25)], dtype=object)
    together = np.bincount(which, minlength=25).astype(object) @ alone
    assert np.abs(together - np.array([int(v) for v in first.ravel()], dtype=object)).max() <= 900 * _floors(query)


def test_the_same_checks_find_a_sum_in_floating_point() -> None:
    class Floating(GradientSum):
        def integers(self, data: Any) -> Any:
            return self.unrounded(data).view(np.int64)  # the bits of floats that were summed one after the other

    rng = np.random.default_rng(4)
    query = Floating(ROWS, Squared(), theta(rng), 0.5)
    X, y = awkward(7000, rng)
    order = rng.permutation(len(X))
    assert _answer(query, X, y) != _answer(query, X[order], y[order])


# --- queries that are no sums ---------------------------------------------------------------------------------


def test_the_least_eigenvalue_moves_by_no_more_than_is_claimed() -> None:
    rng = np.random.default_rng(5)
    query = LeastEigenvalue(ROWS)
    largest = 0
    for _ in range(1500):
        n = int(rng.integers(1, 12))
        X, y = awkward(n, rng)
        X[: n // 2] = rng.standard_normal((n // 2, D)) * 10  # long rows in all directions, so that it is not always 0
        (whole,) = _answer(query, X, y)
        (fewer,) = _answer(query, X[1:], y[1:])
        X[0] = rng.choice(EXTREMES, D)
        (replaced,) = _answer(query, X, y)
        assert abs(whole - fewer) <= query.bound
        assert abs(whole - replaced) <= replace_one_factor(query) * query.bound
        largest = max(largest, abs(whole - replaced))
        order = rng.permutation(n)
        assert _answer(query, X[order], y[order]) == [replaced]
    assert largest > 0.1 * query.bound


def _moves_of_scores(make: Callable[[np.random.Generator], InteractionScores]) -> tuple[float, float]:
    """The most by which one row more, and one row replaced, moved a score, over the bound."""
    rng, more, replaced = np.random.default_rng(12), 0, 0
    for _ in range(400):
        query, n = make(rng), int(rng.integers(1, 40))
        X, y = awkward(n + 1, rng)
        X[n // 2 :] = rng.random((n + 1 - n // 2, D))  # ordinary rows, so that cells are filled
        scores = [_answer(query, X[keep], y[keep]) for keep in (slice(0, n), slice(0, n + 1), slice(1, n + 1))]
        more = max(more, max(abs(a - b) for a, b in zip(scores[0], scores[1], strict=True)))
        replaced = max(replaced, max(abs(a - b) for a, b in zip(scores[0], scores[2], strict=True)))
        order = rng.permutation(n)
        assert _answer(query, sp.csr_array(X[:n][order]), y[:n][order]) == scores[0]
    return more / query.bound, replaced / query.bound


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_scores_of_pairs_move_by_no_more_than_is_claimed(floor: float) -> None:
    more, replaced = _moves_of_scores(lambda rng: pair_scores(rng, floor))
    assert 0.6 < more <= 1
    assert 1 < replaced <= 2


def test_a_multiplier_of_pairs_that_forgets_their_shares_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PairTable, "multiplier", property(lambda table: 2**20 // max(1, SHARES - max(table.left_shares)) ** 2)
    )
    assert _moves_of_scores(pair_scores)[0] > 1


@pytest.mark.parametrize("floor", [0.0, 0.5])
def test_scores_of_finer_columns_move_by_no_more_than_is_claimed(floor: float) -> None:
    more, replaced = _moves_of_scores(lambda rng: fine_scores(rng, floor))
    assert 0.9 < more <= 1
    assert 1 < replaced <= 2


def test_a_multiplier_of_finer_columns_that_takes_the_smaller_share_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FineTable, "multiplier", property(lambda table: 2**22 // max(1, min(min(pair) for pair in table.shares)))
    )
    assert _moves_of_scores(fine_scores)[0] > 1


@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_ranks_move_by_no_more_than_is_claimed(q: float) -> None:
    rng = np.random.default_rng(6)
    query = Ranks(Grid.between(-1, 3, 0.25), q)
    column = RowSpec(0, 1.0, 1.0)

    def scores(y: NDArray[np.float64]) -> NDArray[np.int64]:
        found = query.scores(in_memory(np.empty((len(y), 0)), y, column))
        return np.repeat(found.values, found.lengths)

    reached = {"add-remove": 0, "replace-one": 0}
    for _ in range(2000):
        y = rng.choice([*TARGETS, 1.5, 2.75, -0.5], int(rng.integers(1, 9)))
        before, fewer = scores(y), scores(y[1:])
        y[0] = rng.choice(TARGETS)
        replaced = scores(y)
        assert (scores(rng.permutation(y)) == replaced).all()
        reached["add-remove"] = max(reached["add-remove"], int(np.abs(before - fewer).max()))
        reached["replace-one"] = max(reached["replace-one"], int(np.abs(before - replaced).max()))
    assert reached["add-remove"] == query.sensitivity("add-remove")
    assert reached["replace-one"] == query.sensitivity("replace-one")


@pytest.mark.parametrize("domain", [WholeSpace(), L1Ball(3.0)], ids=lambda domain: type(domain).__name__)
@pytest.mark.parametrize(("loss", "slope"), [(Logistic(), np.inf), (Huber(0.5), np.inf), (Squared(), 0.7)])
def test_a_minimiser_moves_by_no_more_than_is_claimed(loss: Any, slope: float, domain: Any) -> None:
    rng = np.random.default_rng(7)
    query = RidgeMinimiser(ROWS, loss, 2.0, slope, domain)
    tilt, most = np.zeros(D + 1), query.gradient_bound / query.regularisation
    tolerance = query.least_tolerance(0.0)
    slack = 2 * tolerance / query.regularisation
    largest = 0.0
    for _ in range(150 if isinstance(domain, WholeSpace) else 50):
        X, y = awkward(int(rng.integers(2, 30)), rng)
        y = np.where(np.isin(y, [-1.0, 1.0, np.nan]), y, 1.0)
        places = [query.minimise(in_memory(X[keep:], y[keep:], ROWS), tilt, tolerance) for keep in (0, 1)]
        X[0], y[0] = rng.choice(EXTREMES, D), -1.0
        places.append(query.minimise(in_memory(X, y, ROWS), tilt, tolerance))
        assert np.linalg.norm(places[0] - places[1]) <= most + slack
        assert np.linalg.norm(places[0] - places[2]) <= 2 * most + slack
        largest = max(largest, float(np.linalg.norm(places[0] - places[1])))
    assert largest > 0.3 * most


@pytest.mark.parametrize("sparse", [False, True])
def test_a_batch_has_the_eigenvalue_and_the_minimiser_of_its_rows(sparse: bool) -> None:
    rng = np.random.default_rng(11)
    X = rng.standard_normal((200, D)) * (rng.random((200, D)) < 0.4)
    y, chosen = rng.choice([-1.0, 1.0], 200), np.flatnonzero(rng.random(200) < 0.5)
    batch = in_memory(sp.csr_array(X) if sparse else X, y, ROWS).take(chosen)
    copied = in_memory(X[chosen], y[chosen], ROWS)
    eigenvalue, minimiser = LeastEigenvalue(ROWS), RidgeMinimiser(ROWS, Logistic(), 2.0)
    assert (eigenvalue.integers(batch) == eigenvalue.integers(copied)).all()
    tilt, tolerance = np.zeros(D + 1), minimiser.least_tolerance(0.0)
    away = minimiser.minimise(batch, tilt, tolerance) - minimiser.minimise(copied, tilt, tolerance)
    assert np.linalg.norm(away) <= 2 * tolerance / minimiser.regularisation
