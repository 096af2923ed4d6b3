"""What one private gradient step costs, beside a pass that only reads the data.

    python bench/glm_step.py

One full-batch step of logistic regression on 400 000 × 100 float32: the clipped, rounded, exact integer gradient sum,
on all cores. Beside it, taking turns with it: a pass that only reads X (each core sums its share), the usual two passes
in numpy, and the same step in floating point. Each is judged by its best round.

Whole passes on all cores mean little while other programs use the cores. So a second column has the same on one core,
in slices of 20 000 rows, each judged by its best round: a slice may find a quiet moment where a pass does not. (Two
passes over a slice find it in the cache, so numpy's column is no measure there.)
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import peers
from discreet.data.memory import in_memory
from discreet.data.threads import cores
from discreet.losses import Logistic
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec

ROWS, COLUMNS, SLICE = 400_000, 100, 20_000
CLIP = 6.0


Matrix: TypeAlias = NDArray[Any]
WAYS = ("read_only", "private_step", "float_step", "numpy_two_passes")


class Contenders:
    """The same work done in four ways on the same rows."""

    def __init__(self, X: Matrix, y: Matrix) -> None:
        generator, columns = np.random.default_rng(1), X.shape[1]
        self.X, self.y = X, y
        self.spec = RowSpec(columns, norm=9.0, intercept=4.5)  # about a fifth of the rows are longer, and clipped
        theta = generator.standard_normal(columns + 1) / columns**0.5
        self.query = GradientSum(self.spec, Logistic(), theta, CLIP)
        self.data = in_memory(self.X, self.y, self.spec)
        self.shares = np.array_split(self.X, cores())
        self.pool = ThreadPoolExecutor(cores())

    def private_step(self) -> None:
        self.query.integers(self.data)

    def float_step(self) -> None:
        self.query.unrounded(self.data)

    def read_only(self) -> None:
        if cores() == 1:
            self.X.sum()
        else:
            sum(self.pool.map(np.sum, self.shares))

    def numpy_two_passes(self) -> None:
        X, theta = self.X, self.query.theta.astype(np.float32)
        z = X @ theta[:-1] + theta[-1] * np.float32(self.spec.intercept)
        slopes = -self.y / (1.0 + np.exp(self.y * z))
        lengths = np.sqrt(np.einsum("ij,ij->i", X, X))
        slopes *= np.minimum(1.0, CLIP / np.maximum(np.abs(slopes) * lengths, 1e-30))
        X.T @ slopes.astype(np.float32)


def best_of(rounds: int, slices: list[Contenders]) -> dict[str, float]:
    """Seconds of each way: over the slices, the sum of the best rounds. All ways take their turn in each round."""
    best = {way: np.full(len(slices), np.inf) for way in WAYS}
    for _ in range(rounds):
        for way in WAYS:
            for k, contenders in enumerate(slices):
                start = time.perf_counter()
                getattr(contenders, way)()
                best[way][k] = min(best[way][k], time.perf_counter() - start)
    return {way: float(seconds.sum()) for way, seconds in best.items()}


def ratio(best: dict[str, float], other: str) -> float:
    return best["private_step"] / best[other]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_extra_memory(run: Callable[[], None]) -> float:
    """Growth of the resident memory while ``run`` works, in MB, looked at every millisecond."""
    before, peak, done = resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    return (max(peak, resident()) - before) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    generator = np.random.default_rng(0)
    X = generator.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    y = np.where(generator.random(ROWS) < 0.5, 1.0, -1.0)
    full, slices = Contenders(X, y), [Contenders(X[a : a + SLICE], y[a : a + SLICE]) for a in range(0, ROWS, SLICE)]
    start = time.perf_counter()
    slices[0].private_step()
    compiled = time.perf_counter() - start
    # a first step prepares the rows: their scale, length and largest slope are kept from step to step, and count
    memory = peak_extra_memory(full.private_step)
    threads = cores()
    whole = best_of(arguments.rounds, [full])
    os.environ["DISCREET_THREADS"] = "1"
    with threadpool_limits(1):
        sliced = best_of(max(5, arguments.rounds // 2), slices)
    judged = peers.verdicts(
        [
            (f"private step / pass that only reads X, {threads} cores", ratio(whole, "read_only"), 1.5),
            ("the same on one core, in slices", ratio(sliced, "read_only"), 1.5),
            (f"private step / two passes in numpy, {threads} cores", ratio(whole, "numpy_two_passes"), 0.4),
            (f"private step / its float version, {threads} cores", ratio(whole, "float_step"), 1.4),
            ("the same on one core, in slices", ratio(sliced, "float_step"), 1.4),
            ("peak extra memory of the first step, MB", memory, 20.0),
        ]
    )
    rows = [[w.replace("_", " "), 1e9 * whole[w] / ROWS, 1e9 * sliced[w] / ROWS] for w in WAYS]
    text = f"Nanoseconds a row, {ROWS:,} × {COLUMNS} float32, best of {arguments.rounds} rounds in turn.\n\n"
    text += peers.markdown(["", f"{threads} cores, whole passes", "one core, slices"], rows)
    text += "\n\n" + peers.verdict_table(judged)
    text += f"\n\nThe first step of the process took {compiled:.2f} s, with compiling or loading what was compiled."
    if load > 0.5:
        text += f"\nOther programs kept the cores busy (load {load:.1f} at the start): trust the slices."
    results = {
        "versions": peers.versions(["numpy", "numba"]),
        "load at the start": load,
        "seconds, whole passes": whole,
        "seconds on one core, slices": sliced,
        "first step": compiled,
        "peak extra memory in MB": memory,
        "targets": judged,
    }
    peers.write("glm_step", "One private gradient step", text, results)


if __name__ == "__main__":
    main()
