"""Rows are verified once and read at every query: what a caller writes into their arrays in between must not be read.

Claim: between the moment a row's length is verified and the last query, the memory that queries read is written by
nobody. Otherwise a row that obeyed its bound when it was verified could contribute any amount to a later sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import discreet as dp
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec

N, D = 60, 4
RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((N, D)) / 4
TARGETS = RNG.uniform(-1, 1, N)
HUGE = 1e6


def on_disk(folder: Path, rows: NDArray[Any]) -> NDArray[Any]:
    np.save(folder / "rows.npy", rows)
    return np.load(folder / "rows.npy", mmap_mode="r+")  # type: ignore[no-any-return]


#: what is passed as X, and the array by which its owner can write it
HELD: dict[str, Callable[[Path], tuple[Any, NDArray[Any]]]] = {
    "array": lambda folder: (a := ROWS.copy(), a),
    "single floats": lambda folder: (a := ROWS.astype(np.float32), a),
    "memory map": lambda folder: (a := on_disk(folder, ROWS), a),
    "read-only view": lambda folder: (read_only(a := ROWS.copy()), a),
    "frame": lambda folder: (pd.DataFrame(a := ROWS.copy(), copy=False), a),
    "sparse": lambda folder: (a := sp.csr_array(ROWS), a.data),
}


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


@pytest.mark.parametrize("kind", HELD)
@pytest.mark.parametrize("solver", ["descent", "frank_wolfe"])
def test_what_is_written_during_a_fit_changes_nothing(
    kind: str, solver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fitted(scribble: bool) -> NDArray[Any]:
        X, memory = HELD[kind](tmp_path)
        y = TARGETS.copy()

        @contextmanager
        def between_steps(*_: Any, **__: Any) -> Iterator[Any]:
            def step(done: int, planned: int) -> None:
                if scribble:
                    memory[...] = HUGE
                    y[...] = HUGE

            yield step

        monkeypatch.setattr("discreet.estimators.privacy.progress_bar", between_steps)
        model = dp.Lasso if solver == "frank_wolfe" else dp.LinearRegression
        settings = {"radius": 2.0} if solver == "frank_wolfe" else {}
        return np.array(
            model(
                1.0, 1e-6, row_norm=1.0, target_bounds=(-1, 1), solver=solver, solver_options={"iterations": 5},
                random_state=0, **settings,
            ).fit(X, y).coef_
        )  # fmt: skip

    assert np.array_equal(fitted(scribble=True), fitted(scribble=False))


@pytest.mark.parametrize("kind", HELD)
def test_a_sum_keeps_its_bound_whatever_is_written(kind: str, tmp_path: Path) -> None:
    X, memory = HELD[kind](tmp_path)
    rows = RowSpec(D, 1.0)
    data = in_memory(np.asarray(X) if kind == "frame" else X, TARGETS, rows)
    query = GradientSum(rows, Squared(), np.zeros(D), 1.0)
    before = query.integers(data)
    memory[...] = HUGE
    assert np.array_equal(query.integers(data), before)
    if kind == "sparse":
        X.indices[...] = 10**6  # would be read beyond the end of θ
        X.indptr[1:] = 10**6
        assert np.array_equal(query.integers(data), before)


def test_damaged_row_ends_are_refused() -> None:
    X = sp.csr_array(ROWS)
    X.indptr[3] = X.indptr[5]
    with pytest.raises(InvalidInput, match="damaged"):
        in_memory(X, TARGETS, RowSpec(D, 1.0))


def test_duplicate_entries_are_added_whatever_scipy_remembers() -> None:
    X = sp.csr_array((np.array([0.6, 0.6]), np.array([1, 1]), np.array([0, 2])), shape=(1, D))
    X.has_canonical_format = True  # a flag that its owner may set, or that was true before entries were written
    data: Any = in_memory(X, np.zeros(1), RowSpec(D, 1.0))
    assert data.X.nnz == 1
    assert X.nnz == 2
