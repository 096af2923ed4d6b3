"""The same rows fitted by Spark MLlib (without privacy), by Opacus and by this library: seconds to the same accuracy.

`bench/scale.py --part e` calls these functions, each in a process of its own and the peers in their own environments.
Each system reads the same Parquet files and uses two cores. Seconds are those of reading and fitting, not of starting
an interpreter or a Java machine, of compiling, or of calibrating Opacus' noise. Settings of the peers are chosen from
a grid by the test rows, for free: first on few rows, with as much more budget for Opacus as there are fewer rows, so
that its noise is as large beside the sums; then those that reached the accuracy soonest there, on all rows.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

CORES = 2
TEST_ROWS = 200_000
EPSILON, DELTA = 1.0, 1e-9
NORM = 20.0**0.5
"""Rows are clipped to this length for Opacus: the root mean square of theirs, 20 columns of variance 1."""


SPARK_GRID = [{"most": most, "cached": cached} for most in (1, 2, 3, 5, 10, 100) for cached in (False, True)]
OPACUS_GRID = [
    *({"optimizer": "SGD", "rate": r, "clip": c} for c, rates in ((1.0, (4, 8, 16)), (0.1, (2, 8))) for r in rates),
    *({"optimizer": "Adam", "rate": rate, "clip": 1.0} for rate in (0.1, 0.3, 1.0)),
]
LENGTHS = (((1, 8), (1, 16), (1, 32), (1, 64)), ((2, 16), (2, 32)), ((4, 16), (4, 64)))
"""Epochs, and batches an epoch, of Opacus; those of more epochs are tried where fewer do not suffice."""


def soonest(fits: list[dict[str, Any]], level: float, most: int) -> list[dict[str, Any]]:
    """The settings of the fits that reached a level in the least CPU time; of those nearest to it if none did."""
    reached = [fit for fit in fits if fit["accuracy"] >= level]
    if not reached:
        return [fit["chosen"] for fit in sorted(fits, key=lambda fit: -fit["accuracy"])[:most]]
    return [fit["chosen"] for fit in sorted(reached, key=lambda fit: fit["cpu"])[:most]]


def rows_of(number: int, rows: int, columns: int) -> tuple[Any, Any]:
    """Standard normal features with two decimals, and labels by a logistic model in all of them."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(rows, columns)).round(2)
    weights = np.where(np.arange(columns) % 2, -1.0, 1.0) * 3.0 / np.sqrt(columns)
    return X, (X @ weights + rng.logistic(size=rows) > 0).astype(np.int64)


def accuracy(weights: Any, offset: float, columns: int) -> float:
    """Share of test rows, which no system was shown, that a linear model gets right."""
    X, y = rows_of(10**6, TEST_ROWS, columns)
    return float(((X @ np.asarray(weights) + offset > 0) == y).mean())


class Clock:
    """Wall and CPU seconds since it was made; the CPU of another process where its number is given."""

    def __init__(self, process: int | None = None) -> None:
        self.process = process
        self.start = (time.perf_counter(), self._spent())

    def _spent(self) -> float:
        if self.process is None:
            return time.process_time()
        fields = Path(f"/proc/{self.process}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def read(self) -> dict[str, float]:
        """Seconds so far."""
        return {"wall": time.perf_counter() - self.start[0], "cpu": self._spent() - self.start[1]}


def own_fit(folder: str, columns: int) -> dict[str, Any]:
    """This library at the default settings, from files, rows kept in memory as far as 4 GB."""
    import discreet as dp

    declared = {f"x{j}": dp.Numeric(-4, 4, encoding="linear") for j in range(columns)}
    schema = dp.Schema(declared | {"y": dp.Categorical([0, 1])})

    def fitted(paths: str) -> Any:
        scan = dp.Parquet(paths, target="y", memory="4GB")
        return dp.LogisticRegression(EPSILON, DELTA, schema=schema, interactions=False).fit(scan)

    fitted(f"{folder}/part-0.parquet")  # compiles
    clock = Clock()
    model = fitted(folder)
    spent = clock.read()
    X, y = rows_of(10**6, TEST_ROWS, columns)
    right = model.predict({f"x{j}": X[:, j] for j in range(columns)}) == y
    return spent | {"accuracy": float(np.mean(right)), "setting": str(model.privacy_.solver), "threads": CORES}


def spark_fits(folder: str, columns: int, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Spark MLlib with ``local[2]``, each fit from the files; Spark keeps its blocks of rows itself during a fit."""
    from pyspark.ml.classification import LogisticRegression  # type: ignore[import-not-found]
    from pyspark.ml.feature import VectorAssembler  # type: ignore[import-not-found]
    from pyspark.sql import SparkSession  # type: ignore[import-not-found]

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.driver.memory", "8g")
    session = builder.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR").getOrCreate()
    machine = int(session.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    warm = session.read.parquet(f"{folder}/part-0.parquet")
    assembler = VectorAssembler(inputCols=[f"x{j}" for j in range(columns)], outputCol="features")
    LogisticRegression(labelCol="y", maxIter=3).fit(assembler.transform(warm))  # compiles
    found = []
    for setting in settings:
        clock = Clock(machine)
        rows = assembler.transform(session.read.parquet(folder)).select("features", "y")
        if setting["cached"]:
            rows = rows.cache()
        model = LogisticRegression(labelCol="y", maxIter=setting["most"]).fit(rows)
        spent = clock.read()
        rows.unpersist()
        right = accuracy(model.coefficients.toArray(), model.intercept, columns)
        said = f"maxIter={setting['most']}" + (", rows cached" if setting["cached"] else "")
        found.append(spent | {"accuracy": right, "setting": said, "chosen": setting, "threads": CORES})
    session.stop()
    return found


def opacus_screened(folder: str, columns: int, epsilon: float, level: float) -> list[dict[str, Any]]:
    """Fits of step sizes, optimizers and clips at every length, until three reach the level."""
    found: list[dict[str, Any]] = []
    for lengths in LENGTHS:
        grid = [setting | {"epochs": e, "batches": b} for e, b in lengths for setting in OPACUS_GRID]
        found += opacus_fits(folder, columns, grid, epsilon)
        if sum(fit["accuracy"] >= level for fit in found) >= 3:
            break
    return found


def opacus_fits(
    folder: str, columns: int, settings: list[dict[str, Any]], epsilon: float = EPSILON
) -> list[dict[str, Any]]:
    """Opacus: rows read into one tensor, Poisson batches of its own loader, one linear layer in its "ghost" mode."""
    import warnings

    import pyarrow.parquet as parquet  # type: ignore[import-untyped]
    import torch  # type: ignore[import-not-found]

    import opacus_descent as descent

    warnings.simplefilter("ignore")
    torch.set_num_threads(CORES)
    clock = Clock()
    table = parquet.read_table(folder)
    X = np.column_stack([table[f"x{j}"].to_numpy().astype(np.float32) for j in range(columns)])
    y = table["y"].to_numpy()
    del table
    test_X, test_y = rows_of(10**6, TEST_ROWS, columns)
    parts = {"X": X, "y": y, "X_test": test_X, "y_test": test_y, "low": 0.0, "high": 1.0, "row_norm": NORM}
    problem = descent.Problem(parts, "binary")
    del X, parts
    reading, found = clock.read(), []
    for setting in settings:
        chosen = descent.Setting(**setting)  # type: ignore[arg-type]
        descent.noise_multiplier(1 / chosen.batches, chosen.epochs * chosen.batches, epsilon, DELTA)
        clock = Clock()
        right, _ = descent.fit(problem, chosen, epsilon, 0, DELTA)
        fitting = clock.read()
        spent = {key: reading[key] + fitting[key] for key in reading}
        found.append(spent | {"accuracy": right, "setting": str(chosen), "chosen": setting, "threads": CORES})
    return found
