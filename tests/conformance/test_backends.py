"""Every solver that ``auto`` takes releases the same numbers on rows in memory, in files, on a cluster and on a device.

The noise comes from one seed. A single integer of a single release that differed would move the coefficients.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import discreet as dp
from discreet.data import runs
from discreet.errors import InvalidInput
from discreet.planning.auto import RULES

N = 1200
JOBS, WORDS = ["clerk", "nurse", "pilot"], [f"w{k}" for k in range(1100)]
COLUMNS = {f"x{k}": dp.Numeric(-3, 3) for k in range(6)}
FEW = {"x0": dp.Numeric(-3, 3, encoding="linear")}
TEXT = {"x0": dp.Numeric(-3, 3, encoding="linear"), "word": dp.Categorical(WORDS)}
SMALL = {"x0": dp.Numeric(-3, 3), "x1": dp.Numeric(-3, 3), "job": dp.Categorical(JOBS)}
TARGETS = {
    "yes": dp.Categorical(["no", "yes"]),
    "income": dp.Numeric(-4, 4),
    "visits": dp.Numeric(0, 20),
    "kind": dp.Categorical(JOBS),
}

FORTY: dict[str, Any] = {"solver": "scaled_descent", "solver_options": {"iterations": 40}}

#: (label of the rule, estimator, declarations of columns, target, settings)
CASES: dict[str, tuple[str, Any, dict[str, Any], str, dict[str, Any]]] = {
    "intervals": ("intervals", dp.LogisticRegression, FEW, "yes", {"inference": True, "epsilon": 4.0}),
    "pairs": ("interactions", dp.LogisticRegression, SMALL, "yes", {"epsilon": 20.0}),
    "pairs and numbers": ("interactions", dp.LinearRegression, SMALL, "income", {"solver": "interactions"}),
    "grid": ("exponential_mechanism", dp.LogisticRegression, FEW, "yes", {"loss": "sigmoid", "delta": 0.0}),
    "own loss": ("descent", dp.LogisticRegression, SMALL, "yes", {"loss": "sigmoid"}),
    "vertices": ("frank_wolfe", dp.Lasso, SMALL, "income", {"delta": 0.0}),
    "vertices of sparse rows": ("frank_wolfe", dp.Lasso, TEXT, "income", {}),
    "few entries": ("hard_threshold", dp.SparseLinearRegression, SMALL, "income", {"sparsity": 3, "loss": "huber"}),
    "full scales": ("scaled_descent", dp.LinearRegression, SMALL, "income", {}),
    "one scale": ("scaled_descent", dp.LinearRegression, SMALL, "income", {"epsilon": 0.002}),
    # "auto" takes the same solver with 400 steps, every one a pass of the same code
    "counts": ("scaled_descent", dp.PoissonRegression, SMALL, "visits", FORTY),
    "quantile": (
        "scaled_descent",
        dp.QuantileRegression,
        SMALL,
        "income",
        {"quantile": 0.8, "solver": "scaled_descent", "solver_options": {"iterations": 9}},
    ),
    "classes": ("scaled_descent", dp.LogisticRegression, SMALL, "kind", {}),
    "classes with a ridge": ("descent", dp.LogisticRegression, SMALL, "kind", {"alpha": 0.01}),
    "two classes": ("objective_perturbation", dp.LogisticRegression, SMALL, "yes", {}),
    "words": ("weighted_perturbation", dp.LogisticRegression, TEXT, "yes", {"epsilon": 4.0}),
    "columns": ("weighted_perturbation", dp.LogisticRegression, COLUMNS, "yes", {}),
    "within a ball": ("objective_perturbation", dp.HuberRegression, SMALL, "income", {"domain": dp.geometry.L2Ball(1)}),
    "batches": (
        "descent",
        dp.LogisticRegression,
        SMALL,
        "yes",
        {"solver": "descent", "solver_options": {"batch_size": 100, "iterations": 3}},
    ),
    "coins": (
        "descent",
        dp.LogisticRegression,
        SMALL,
        "yes",
        {
            "solver": "descent",
            "solver_options": {"rate": 0.1, "iterations": 3},
            "adjacency": "add-remove",
            "n_public": N,
        },
    ),
    "epochs": (
        "descent",
        dp.LogisticRegression,
        SMALL,
        "yes",
        {"solver": "descent", "solver_options": {"batches": 2, "iterations": 2}},
    ),
}
PERSONS = ("pairs and numbers", "two classes", "full scales", "vertices of sparse rows", "batches")


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of few rows, so that few rows make many of them."""
    monkeypatch.setattr(runs, "_LEAST_ENTRIES", 1 << 11)
    monkeypatch.setattr(runs, "_MOST_ENTRIES", 1 << 12)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame({f"x{k}": rng.normal(size=N) for k in range(6)})
    made["job"] = rng.choice(JOBS, N)
    made["word"] = rng.choice(WORDS, N)
    made.loc[::17, ["x0", "job"]] = None
    score = made.x0.fillna(0.0) + (made.job == "pilot") - made.x1
    made["yes"] = np.where(score + rng.normal(size=N) > 0, "yes", "no")
    made["income"], made["visits"] = score + rng.normal(size=N), rng.poisson(np.exp(score / 4)).astype(float)
    made["kind"] = np.array(JOBS)[np.clip(np.rint(score + 1), 0, 2).astype(int)]
    made["who"] = rng.integers(0, 300, N)
    return made


@pytest.fixture(scope="module")
def folder(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of row groups whose edges are not those of runs."""
    place = tmp_path_factory.mktemp("files")
    for k, (first, last) in enumerate([(0, 500), (500, 530), (530, N)]):
        table.iloc[first:last].to_parquet(place / f"part-{k}.parquet", row_group_size=110)
    return place


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers in threads of this process, in which the runs are short, too."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


def model(case: str, table: pd.DataFrame, *, persons: bool = False) -> Any:
    _, kind, columns, target, settings = CASES[case]
    declared = {name: dp.Ignore() for name in table} | columns | {target: TARGETS[target]}
    declared |= {"who": dp.Person(2)} if persons else {}
    return kind(**({"epsilon": 1.0, "delta": 1e-6} | settings), schema=dp.Schema(declared), random_state=5)


def released(fitted: Any) -> list[Any]:
    return [np.asarray(fitted.coef_).tolist(), np.asarray(fitted.intercept_).tolist(), fitted.privacy_]


def test_there_is_a_case_for_every_solver_of_auto() -> None:
    assert {case[0] for case in CASES.values()} >= {rule.solver for rule in RULES}


@pytest.mark.parametrize(("case", "persons"), [*((c, False) for c in CASES), *((c, True) for c in PERSONS)])
def test_the_same_numbers_are_released_wherever_the_rows_are(
    case: str, persons: bool, table: pd.DataFrame, folder: Path, client: Client
) -> None:
    target = CASES[case][3]
    in_memory = model(case, table, persons=persons).fit(table.drop(columns=target), table[target])
    assert in_memory.privacy_.solver.split()[0] == CASES[case][0]
    expected = released(in_memory)
    # without room for sparse rows all vertices are scored: the same law, by other coins
    memory = "100MB" if case == "vertices of sparse rows" or persons else 1
    streamed = dp.Parquet(folder, target=target, memory=memory)
    assert released(model(case, table, persons=persons).fit(streamed)) == expected
    clustered = dp.Parquet(folder, target=target, dask=client)
    assert released(model(case, table, persons=persons).fit(clustered)) == expected
    on_device = dp.Parquet(folder, target=target, memory=memory, device="cpu")  # the code of a GPU, but for its kernel
    if CASES[case][0] == "interactions":  # asks nothing of a device, and takes longest
        return
    if "word" in CASES[case][2]:
        with pytest.raises(InvalidInput, match="held sparse"):
            model(case, table, persons=persons).fit(on_device)
    else:
        assert released(model(case, table, persons=persons).fit(on_device)) == expected
