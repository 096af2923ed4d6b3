"""Private Frank–Wolfe on sparse rows: the time of a step must not grow with the number of features.

    python bench/frank_wolfe.py [--most 10000000] [--steps 200] [--out bench/results]

n = 20 000 rows, 0.05 % of the entries non-zero, ε = 1, δ = 1/n², add-remove, ℓ1 ball of radius 20. Times are CPU times
of one core through the vault, charge and all. In the same run: the same solver with dense selection, the χ² of both
against the exact probabilities, and harder settings (little noise, skewed columns), where more must be recorded.
"""

from __future__ import annotations

import os

os.environ.setdefault("DISCREET_THREADS", "1")

import argparse
import json
import math
import platform
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
import scipy.sparse as sp
from scipy.stats import chi2

from discreet.calibration.guarantee import Guarantee
from discreet.data.memory import Sparse, in_memory
from discreet.geometry import L1Ball
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements import Noisy
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice
from discreet.noise import exponential_select
from discreet.noise.bits import Bits
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.recipes.frank_wolfe import recipe
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.units import Unit
from discreet.vault import Vault

N = 20_000
DENSITY = 5e-4
RADIUS = 20.0
UNIT = Unit("add-remove")


def uniform_rows(d: int, seed: int = 0) -> Sparse:
    """One entry in each of k stretches of columns, k = 0.05 % of d; labels follow the first of them."""
    rng = np.random.default_rng(seed)
    k = round(d * DENSITY)
    stretch = d // k
    columns = rng.integers(0, stretch, (N, k), dtype=np.int32)
    columns += np.arange(k, dtype=np.int32) * stretch
    values = rng.random(N * k, dtype=np.float32)
    starts = np.arange(0, N * k + 1, k, dtype=np.int32)
    X = sp.csr_array((values, columns.ravel(), starts), shape=(N, d))
    X.has_sorted_indices = X.has_canonical_format = True
    score = values.reshape(N, k)[:, 0] * np.where(columns[:, 0] % 2, 4.0, -4.0)
    return _labelled(X, score, rng)


def skewed_rows(d: int, seed: int = 0) -> Sparse:
    """The same number of entries in columns of very unequal length: the longest hold most rows."""
    rng = np.random.default_rng(seed)
    k = round(d * DENSITY)
    columns = (d * rng.random((N, k)) ** 3).astype(np.int32)
    X = sp.csr_array((rng.random(N * k, dtype=np.float32), columns.ravel(), np.arange(0, N * k + 1, k)), shape=(N, d))
    X.sum_duplicates()
    X.data = np.minimum(X.data, 1.0)
    return _labelled(X, 4.0 * np.asarray(X[:, [0]].toarray())[:, 0] - 1.0, rng)


def _labelled(X: sp.csr_array, score: Any, rng: np.random.Generator) -> Sparse:
    y = np.where(rng.random(N) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
    longest = math.sqrt(float(np.diff(X.indptr).max()))
    data = in_memory(X, y, RowSpec(X.shape[1], norm=longest))
    assert isinstance(data, Sparse)
    return data


def timed(data: Sparse, epsilon: float, steps: int) -> dict[str, float]:
    """CPU seconds of each step, by the vault's progress calls; the first step builds the columns."""
    problem = Problem(data.rows, Logistic(), N, L1Ball(RADIUS))
    solver = recipe(problem, Guarantee(epsilon, 1 / N**2, UNIT), feature_bound=1.0, iterations=steps)
    stamps = [time.process_time()]
    vault = Vault(data, UNIT, Ledger(), Bits.seeded(0))
    vault.run(solver, problem, progress=lambda done, planned: stamps.append(time.process_time()))
    laps = np.diff(stamps)
    return {
        "noise_multiplier": solver.noise_multiplier,
        "first_step_s": float(laps[0]),
        "mean_step_us": float(laps[1:].mean() * 1e6),
        "median_step_us": float(np.median(laps[1:]) * 1e6),
        "slowest_step_us": float(laps[1:].max() * 1e6),
    }


def timed_dense(data: Sparse, noise_multiplier: float, steps: int) -> dict[str, float]:
    """The same chosen scored from scratch, and the least that any selection costs which looks at all 2d scores."""
    vertices, chosen, bits = whole_vertices(L1Ball(RADIUS), data.rows.dimension), ChosenVertices(), Bits.seeded(0)
    laps, scans = [], []
    for _ in range(steps + 1):
        query, mechanism = VertexScores(data.rows, Logistic(), vertices, chosen, 1.0), Choice(noise_multiplier)
        start = time.process_time()
        vertex = Noisy(query, mechanism).sample(data, UNIT, bits)
        laps.append(time.process_time() - start)
        chosen.append(vertex)
    scores = query.integers(data)
    for _ in range(steps + 1):
        start = time.process_time()
        exponential_select(scores, noise_multiplier * query.bound, bits=bits)
        scans.append(time.process_time() - start)
    return {"dense_step_us": float(np.mean(laps[1:]) * 1e6), "dense_selection_us": float(np.mean(scans[1:]) * 1e6)}


def same_law(draws: int) -> dict[str, float]:
    """p-values of χ² of sparse and dense choices among 40 vertices, 15 steps into a chosen; and of a stale chosen."""
    rng = np.random.default_rng(1)
    X = sp.random_array((2000, 20), density=0.1, rng=rng, format="csr")
    y = np.where(X[:, [0]].toarray()[:, 0] > 0.1, 1.0, -1.0)
    rows = RowSpec(20, norm=2.0)
    data = in_memory(X, y, rows)
    vertices, chosen = whole_vertices(L1Ball(RADIUS), 20), ChosenVertices()
    mechanism, bits = Choice(40.0), Bits.seeded(2)

    def query() -> VertexScores:
        return VertexScores(rows, Logistic(), vertices, chosen, 1.0)

    def law() -> Any:
        tilt = query().integers(data) / (mechanism.noise_multiplier * query().bound)
        weights = np.exp(tilt - tilt.max())
        return weights / weights.sum()

    def p_value(measurement: Any, expected: Any) -> float:
        counts = np.bincount([measurement.sample(data, UNIT, bits) for _ in range(draws)], minlength=40)
        return float(chi2.sf(np.sum((counts - draws * expected) ** 2 / (draws * expected)), 39))

    start = law()
    for _ in range(15):
        chosen.append(VertexChoice(query(), mechanism).sample(data, UNIT, bits))
    return {
        "sparse": p_value(VertexChoice(query(), mechanism), law()),
        "dense": p_value(Noisy(query(), mechanism), law()),
        "sparse against the law of the first step (must be rejected)": p_value(VertexChoice(query(), mechanism), start),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=10**7)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    timed(uniform_rows(10**4), 1.0, 5)  # compiles
    timed(uniform_rows(10**4), 1e3, 5)
    results: dict[str, Any] = {
        "machine": _machine(),
        "n": N,
        "density": DENSITY,
        "epsilon": 1.0,
        "steps": options.steps,
    }
    growth = []
    for d in (10**k for k in range(4, 8)):
        if d > options.most:
            continue
        data = uniform_rows(d)
        growth.append({"d": d} | timed(data, 1.0, options.steps))
        if d == 10**6:
            growth[-1] |= timed_dense(data, growth[-1]["noise_multiplier"], 5)
        print(growth[-1], flush=True)
        del data
    results["growth"] = growth
    results["exponent"] = float(
        np.polyfit(*(np.log([row[key] for row in growth]) for key in ("d", "mean_step_us")), 1)[0]
    )
    at = next((row for row in growth if "dense_step_us" in row), None)
    if at:
        results["times_faster_than_scoring_anew"] = at["dense_step_us"] / at["mean_step_us"]
        results["times_faster_than_dense_selection_alone"] = at["dense_selection_us"] / at["mean_step_us"]
    results["chi_squared_p_values"] = same_law(20_000)
    harder = []
    for name, make in (("uniform", uniform_rows), ("skewed", skewed_rows)):
        data = make(min(10**6, options.most))
        for epsilon in (0.1, 1.0, 10.0, 100.0):
            harder.append({"columns": name, "epsilon": epsilon} | timed(data, epsilon, options.steps))
            print(harder[-1], flush=True)
    results["harder"] = harder
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "frank_wolfe.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "frank_wolfe.md").write_text(_table(results))
    print(_table(results))


def _machine() -> dict[str, str]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    return (
        {"cpu": cpu, "cores": str(os.cpu_count()), "system": platform.platform()}
        | versions
        | {"numba": numba.__version__}
    )


def _table(results: dict[str, Any]) -> str:
    lines = [
        "# Private Frank–Wolfe on sparse rows",
        "",
        f"n = {results['n']}, {results['density']:.2%} non-zero, ε = 1, δ = 1/n², add-remove, {results['steps']} "
        "steps; CPU time of one core, charge and all. The first step lists the columns and scores every vertex once.",
        "",
        "| d | a step, mean µs | median | slowest | first step, s |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in results["growth"]:
        times = " | ".join(f"{row[key]:.0f}" for key in ("mean_step_us", "median_step_us", "slowest_step_us"))
        lines.append(f"| 10^{round(math.log10(row['d']))} | {times} | {row['first_step_s']:.2f} |")
    lines += ["", f"Time of a step grows as d^{results['exponent']:.3f}."]
    if "times_faster_than_scoring_anew" in results:
        anew, selection = (results[f"times_faster_than_{what}"] for what in ("scoring_anew", "dense_selection_alone"))
        lines.append(
            f"At d = 10^6 a step is {anew:.0f} times faster than with all vertices scored anew, and {selection:.0f} "
            "times faster than a dense selection alone, its scores given."
        )
    lines += ["", "χ² p-values against the exact probabilities, 40 vertices, 20 000 draws:", ""]
    lines += [f"- {name}: {value:.3g}" for name, value in results["chi_squared_p_values"].items()]
    lines += ["", "| columns (d = 10^6) | ε | a step, mean µs | median | slowest |", "|---|---:|---:|---:|---:|"]
    for row in results["harder"]:
        times = " | ".join(f"{row[key]:.0f}" for key in ("mean_step_us", "median_step_us", "slowest_step_us"))
        lines.append(f"| {row['columns']} | {row['epsilon']:g} | {times} |")
    return "\n".join([*lines, "", " · ".join(f"{key} {value}" for key, value in results["machine"].items()), ""])


if __name__ == "__main__":
    main()
