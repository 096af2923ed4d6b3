"""Means of sparse rows: error of every method against the proved upper and lower bounds.

    python bench/sparse_mean.py [--quick] [--out bench/results]

Claims, checked at the end (exit status 1 if one fails):
  * every method's root mean square error is at most 4 times its proved bound;
  * "auto" is within 10 % of the best method at every point;
  * on Zipf(1.1) rows with d = 10⁶, s = 50, ε = 1, δ = 1e-6 the projection is ≥ 4× below plain Gaussian noise at
    n = 10⁵ and ≥ 10× at n = 10⁴;
  * d = 10⁷ with 10⁶ entries fits in 2 GB.

At each point the rows are drawn once, and the noise with 20 seeds (5 for the recovery in 10⁶ dimensions).
Word-like rows have s features drawn Zipf(1.1); "topic" rows draw theirs uniformly from 4s common features, so that the
mean is far sparser than d.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

os.environ.setdefault("DISCREET_THREADS", "1")
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np  # noqa: E402 - after the threads were set
import scipy  # noqa: E402
import scipy.sparse as sp  # noqa: E402

import discreet as dp  # noqa: E402
from discreet.data.memory import in_memory  # noqa: E402
from discreet.noise import Bits  # noqa: E402
from discreet.rows import RowSpec  # noqa: E402
from discreet.solvers import Guarantee  # noqa: E402
from discreet.solvers.sparse_mean import RecoveredMean  # noqa: E402
from discreet.theory import sparse_mean_gaussian, sparse_mean_laplace, sparse_mean_lower_bound  # noqa: E402
from discreet.units import Unit  # noqa: E402

METHODS = ("gaussian", "laplace", "projection", "l1-recovery", "auto")
DELTA = 1e-6
CENTRE = {"d": 10**5, "s": 100, "n": 10**4, "epsilon": 1.0}
AXES = {
    "d": [10**3, 10**4, 10**6],
    "s": [10, 1000],
    "n": [10**3, 10**5],
    "epsilon": [0.1, 0.5, 4.0],
}
CORNERS = {"d": [10**3, 10**6], "s": [10, 1000], "n, epsilon": [(10**3, 0.1), (10**4, 4.0)]}


def draw_rows(kind: str, n: int, d: int, s: int) -> sp.csr_array:
    """n rows of length at most 1 with at most s entries."""
    rng = np.random.default_rng(12345)
    if kind == "zipf":
        edges = np.cumsum(1 / np.arange(1, d + 1) ** 1.1)
        where = np.searchsorted(edges / edges[-1], rng.random((n, s)))
    else:
        where = rng.integers(0, min(d, 4 * s), (n, s))
    X = sp.csr_array((np.ones(n * s), where.ravel(), np.arange(0, n * s + 1, s)), shape=(n, d))
    X.sum_duplicates()
    X.data[:] = 1 / math.sqrt(s)
    return X


def measure(kind: str, d: int, s: int, n: int, epsilon: float, seeds: int) -> dict:
    """Root mean square errors and bounds at one point."""
    X = draw_rows(kind, n, d, s)
    truth = np.asarray(X.sum(axis=0)).ravel() / n
    rows, unit = RowSpec(d, 1.0), Unit("replace-one")
    data, guarantee = in_memory(X, np.zeros(n), rows), Guarantee(epsilon, DELTA, Unit("replace-one"))
    sums, errors, seconds, noises = {}, {}, {}, {}
    for method in METHODS:
        started = time.process_time()
        plan = dp.MeanEstimator(epsilon, DELTA, method=method)._plan(rows, s, n, guarantee)
        measurement = plan.measurement(rows)
        key = repr(measurement.query)
        if key not in sums:
            sums[key] = measurement.query.integers(data)  # the rows do not change with the seed
        runs = min(seeds, 5) if isinstance(plan, RecoveredMean) and d >= 10**6 else seeds
        squares = []
        for seed in range(runs):
            answer = measurement.mechanism.perturb(sums[key], measurement.query, Bits.seeded(seed))
            squares.append(float(((plan.finish(answer, rows, n) - truth) ** 2).sum()))
        errors[method] = math.sqrt(np.mean(squares))
        seconds[method] = (time.process_time() - started) / runs
        noises[method] = plan.noise_multiplier
    sigma, b = noises["gaussian"] / n, unit.sensitivity(math.sqrt(s)) / (n * epsilon)
    gaussian = sparse_mean_gaussian(d=d, s=s, bound=1.0, noise_std=sigma).value
    laplace = sparse_mean_laplace(n=n, d=d, s=s, bound=1.0, epsilon=epsilon, adjacency=unit).value
    bounds = {
        "gaussian": sigma * math.sqrt(d),
        "laplace": b * math.sqrt(2 * d),
        "projection": min(gaussian, laplace),
        "l1-recovery": gaussian,
        "auto": min(gaussian, laplace),
    }
    lower = sparse_mean_lower_bound(n=n, d=d, s=s, bound=1.0, epsilon=epsilon, delta=DELTA, adjacency=unit).value
    return {
        "rows": kind, "d": d, "s": s, "n": n, "epsilon": epsilon, "seeds": seeds, "errors": errors, "bounds": bounds,
        "lower_bound": lower, "norm_of_mean": float(np.linalg.norm(truth)), "cpu_seconds": seconds,
    }  # fmt: skip


def points(quick: bool) -> list[tuple]:
    """(kind, d, s, n, ε): a star around the centre for both kinds of rows, corners, and the two headline points."""
    chosen = []
    for kind in ("zipf", "topic"):
        chosen.append((kind, *CENTRE.values()))
        for axis, values in AXES.items():
            chosen += [(kind, *(CENTRE | {axis: value}).values()) for value in values]
    chosen += [("zipf", d, s, *last) for d, s, last in product(*CORNERS.values())]
    headline = [("zipf", 10**6, 50, n, 1.0) for n in (10**4, 10**5)]
    if quick:
        chosen = [point for point in chosen if point[1] <= 10**4][:6]
    return headline + chosen


def memory() -> dict:
    """Peak memory of a fit with d = 10⁷ and 10⁶ entries, in a process of its own."""
    code = (
        "import resource, json, time, numpy as np, scipy.sparse as sp, discreet as dp\n"
        "rng = np.random.default_rng(0)\n"
        "X = sp.csr_array((np.ones(10**6), rng.integers(0, 10**7, 10**6), np.arange(0, 10**6 + 1, 50)), "
        "shape=(20000, 10**7))\n"
        "t = time.process_time()\n"
        "m = dp.MeanEstimator(1.0, 1e-6, row_norm=1.0, sparsity=50, sparse_output=True).fit(X)\n"
        "print(json.dumps({'peak_mb': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "
        "'cpu_seconds': time.process_time() - t, 'entries_of_mean': int(m.mean_.nnz)}))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1] / "src")}
    return json.loads(
        subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True).stdout
    )


def verdicts(results: list[dict], space: dict) -> dict[str, dict]:
    """Each claim with its worst figure."""
    to_bound = max(r["errors"][m] / r["bounds"][m] for r in results for m in METHODS)
    to_best = max(r["errors"]["auto"] / min(r["errors"].values()) for r in results)
    gains = {
        r["n"]: r["errors"]["gaussian"] / r["errors"]["projection"]
        for r in results
        if (r["rows"], r["d"], r["s"], r["epsilon"]) == ("zipf", 10**6, 50, 1.0)
    }
    return {
        "error / bound ≤ 4 everywhere": {"worst": to_bound, "holds": to_bound <= 4},
        "auto / best method ≤ 1.1 everywhere": {"worst": to_best, "holds": to_best <= 1.1},
        "Gaussian / projection ≥ 10 at n = 10⁴": {"worst": gains[10**4], "holds": gains[10**4] >= 10},
        "Gaussian / projection ≥ 4 at n = 10⁵": {"worst": gains[10**5], "holds": gains[10**5] >= 4},
        "peak memory at d = 10⁷ ≤ 2048 MB": {"worst": space["peak_mb"], "holds": space["peak_mb"] <= 2048},
    }


def table(results: list[dict], claims: dict[str, dict], space: dict, machine: dict) -> str:
    """The results as Markdown."""
    lines = [
        "# Means of sparse rows",
        "",
        f"Root mean square ℓ2 error, δ = 1e-6, replace-one, rows of length ≤ 1. {machine['machine']}; "
        f"{machine['python']}, numpy {machine['numpy']}, scipy {machine['scipy']}, discreet {machine['discreet']}.",
        "",
        "| claim | worst | holds |",
        "|---|---|---|",
        *(
            f"| {claim} | {found['worst']:.3g} | {'yes' if found['holds'] else 'NO'} |"
            for claim, found in claims.items()
        ),
        "",
        f"d = 10⁷ with 10⁶ entries: {space['peak_mb']:.0f} MB at most, {space['cpu_seconds']:.1f} s of CPU.",
        "",
        "| rows | d | s | n | ε | " + " | ".join(METHODS) + " | ‖mean‖ | upper bound | lower bound |",
        "|---" * (len(METHODS) + 8) + "|",
    ]
    for r in results:
        errors = " | ".join(f"{r['errors'][m]:.3g}" for m in METHODS)
        lines.append(
            f"| {r['rows']} | {r['d']} | {r['s']} | {r['n']} | {r['epsilon']:g} | {errors} | {r['norm_of_mean']:.3g} | "
            f"{r['bounds']['projection']:.3g} | {r['lower_bound']:.2g} |"
        )
    return "\n".join(lines) + "\n"


def plot(results: list[dict], path: Path) -> None:
    """Measured error between both bounds, along each axis through the centre."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 4, figsize=(15, 3.6), sharey=True)
    for panel, axis in zip(panels, AXES, strict=True):
        rest = {k: v for k, v in CENTRE.items() if k != axis}
        line = sorted(
            (r for r in results if r["rows"] == "zipf" and all(r[k] == v for k, v in rest.items())),
            key=lambda r: r[axis],
        )
        at = [r[axis] for r in line]
        for method in METHODS:
            panel.plot(at, [r["errors"][method] for r in line], marker="o", label=method)
        panel.plot(at, [r["bounds"]["projection"] for r in line], "k--", label="upper bound")
        panel.plot(at, [r["lower_bound"] for r in line], "k:", label="lower bound, worst case")
        panel.set(xscale="log", yscale="log", xlabel={"epsilon": "ε"}.get(axis, axis))
    panels[0].set_ylabel("ℓ2 error")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper center", ncols=7, fontsize=8)
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few points, 5 seeds")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    results = []
    for point in points(options.quick):
        results.append(measure(*point, seeds=5 if options.quick else 20))
        r = results[-1]
        shown = "  ".join(f"{m} {r['errors'][m]:.3g}" for m in METHODS)
        print(f"{point}: {shown}  bound {r['bounds']['projection']:.3g}", flush=True)
    space = memory()
    claims = verdicts(results, space)
    machine = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one used",
        "python": f"Python {platform.python_version()}",
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "discreet": dp.__version__,
    }
    for claim, found in claims.items():
        print(f"{'holds' if found['holds'] else 'FAILS'}  {claim}: {found['worst']:.3g}")
    if not options.quick:
        options.out.mkdir(parents=True, exist_ok=True)
        everything = {"machine": machine, "claims": claims, "memory": space, "results": results}
        (options.out / "sparse_mean.json").write_text(json.dumps(everything, indent=1, default=float) + "\n")
        (options.out / "sparse_mean.md").write_text(table(results, claims, space, machine))
        plot(results, options.out / "sparse_mean.svg")
    return 0 if all(found["holds"] for found in claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
