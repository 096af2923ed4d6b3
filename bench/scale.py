"""Rows larger than memory and larger than one machine: what streaming and a Dask cluster cost, and that they agree.

    python bench/scale.py --quick      # a minute: the same numbers from memory, files and a cluster; else exit status 1
    python bench/scale.py              # all parts; writes bench/results/scale.*
    python bench/scale.py --part a     # one part; the figures of the others stay as they were

(a) A fit of 10⁷ × 50 in Parquet files of which nothing is kept in memory, against reading and encoding the same files
as often, in the same process. (b) A Dask cluster of one, two and four worker processes: the time of a step on
4·10⁶ × 100, and what a step costs where there is next to nothing to compute. (c) Every solver of ``auto`` releases the
same integers wherever the rows are (``tests/conformance/test_backends.py``). (d) A full-batch logistic step of
10⁷ × 100 on a GPU, over reading its rows once (`bench/scale_gpu.py`), and whole fits of CUDA tensors beside those of
the same arrays (`bench/scale_gpu_fit.py`); skipped where there is none. (e) Spark MLlib and Opacus on the same
10⁷ × 20 rows: seconds to the same accuracy (`bench/scale_peers.py`). (m) Bytes of the messages of a step, beside the
formula of docs/scale.md, and what 100 workers would ask of the process that fits. Machines may be busy, so CPU seconds
are judged, but for the overhead of a step, which is waiting, and for two workers over one, where the least wall time of
22 steps is judged as well, and on an idle machine their median.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers as shared

ROOT = Path(__file__).resolve().parent.parent
MOST_OVER_FLOOR, MOST_MEMORY = 1.5, 1.0  # times, GB
MOST_OVERHEAD, MOST_OF_ONE_WORKER = 0.020, 1 / 1.6  # seconds a step, share of the time
QUIET = 0.5
"""Load, before anything is begun, below which a machine is idle enough for medians of wall times to be judged."""
MANY_WORKERS, BYTES_PER_SECOND, MOST_BESIDE = 100, 10e9 / 8, 1.0
FILE_ROWS = 500_000
SPARK = shared.Environment("spark", ["pyspark==4.3.0", "numpy==2.4.6"])
OPACUS = shared.Environment("scale-opacus", ["torch==2.13.0", "opacus==1.6.0", "pyarrow==26.0.1"])
TRIED_ROWS = 200_000
CONVERGED = {"most": 100, "cached": False}
STEPS = 4


def files(folder: Path, rows: int, columns: int) -> Path:
    """Parquet files of numbers with two decimals; all are copies of the first, which changes no time."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    size = min(rows, FILE_ROWS)
    X = rng.normal(size=(size, columns)).round(2)
    y = (X[:, :5].sum(axis=1) + rng.logistic(size=size) > 0).astype(float)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(columns)}, "y": y})
    parquet.write_table(table, folder / "part-0.parquet", row_group_size=100_000)
    for k in range(1, rows // size):
        shutil.copy(folder / "part-0.parquet", folder / f"part-{k}.parquet")
    return folder


def model(columns: int, **settings: Any) -> Any:
    import discreet as dp

    declared = {f"x{j}": dp.Numeric(-4, 4, encoding="linear") for j in range(columns)}
    schema = dp.Schema(declared | {"y": dp.Categorical([0, 1])})
    return dp.LogisticRegression(1.0, 1e-9, schema=schema, random_state=1, **settings)


def descent(columns: int, steps: int) -> Any:
    return model(columns, solver="descent", solver_options={"iterations": steps})


def clocked(work: Callable[[], Any]) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


# --- (a) streaming ----------------------------------------------------------------------------------------------------


def stream(folder: str, columns: int) -> dict[str, Any]:
    """In a process of its own: the floor, the fit, and the peak of memory."""
    import resource

    import discreet as dp
    from discreet.data.streamed import BlockReader
    from discreet.estimators import scans

    scan = dp.Parquet(folder, target="y", memory=1)
    descent(columns, 1).fit(dp.Parquet(f"{folder}/part-0.parquet", target="y", memory=1))  # compiles
    readers: list[BlockReader] = []

    class Noted(BlockReader):
        def open(self) -> BlockReader:
            readers.append(self)
            return super().open()

    scans.BlockReader = Noted  # type: ignore[misc]
    fitted = clocked(lambda: descent(columns, STEPS).fit(scan))
    reader = readers[0]
    floor = clocked(lambda: [None for _ in reader.each(lambda number, block: None, range(*reader.part))])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"rows": reader.n, "passes": STEPS + 1, "floor": floor, "fit": fitted, "peak": peak}


def part_a(rows: int, columns: int, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    place = files(folder / "a", rows, columns)
    command = [sys.executable, __file__, "--child", "stream", str(place), str(columns)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    ratio = found["fit"]["cpu"] / (found["passes"] * found["floor"]["cpu"])
    return found, [
        _judged(f"(a) CPU of a fit over {found['passes']} readings and encodings", MOST_OVER_FLOOR, ratio),
        _judged("(a) peak memory, GB", MOST_MEMORY, found["peak"]),
    ]


# --- (b) a cluster ----------------------------------------------------------------------------------------------------


def step_times(workers: int, place: Path, columns: int, steps: int) -> dict[str, float]:
    """Median and least wall seconds of a gradient sum over all rows, CPU seconds of the busiest worker for one.

    And those of the client, whose process is also that of the scheduler.
    """
    from distributed import Client, LocalCluster

    import discreet as dp
    from discreet.data import dask as clusters

    times: list[float] = []
    asking: list[float] = []
    spent: list[dict[str, float]] = []
    ask = clusters._Shards.ask

    def timed(self: Any, *question: Any) -> Any:
        if len(times) in (2, steps - 1):  # after what is compiled is loaded, and before the last
            spent.append(self.client.run(time.process_time))
        begun, own = time.perf_counter(), time.process_time()
        answer = ask(self, *question)
        times.append(time.perf_counter() - begun)
        asking.append(time.process_time() - own)
        return answer

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        Client(cluster, set_as_default=False, direct_to_workers=True) as client,
    ):
        clusters._Shards.ask = timed  # type: ignore[method-assign]
        descent(columns, steps).fit(dp.Parquet(place, target="y", memory="64GB", dask=client))
        clusters._Shards.ask = ask  # type: ignore[method-assign]
    busiest = max(spent[1][worker] - spent[0][worker] for worker in spent[0])
    found = {"wall": statistics.median(times[2:]), "least wall": min(times[2:]), "cpu": busiest / (steps - 3)}
    return found | {"client's cpu": statistics.median(asking[2:])}


def part_b(rows: int, columns: int, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    load = os.getloadavg()[0]
    large, small = files(folder / "large", rows, columns), files(folder / "small", 1000, 10)
    found = {str(workers): step_times(workers, large, columns, 24) for workers in (1, 2, 4)}
    found["overhead"] = step_times(2, small, 10, 100)
    median, wall, cpu = (found["2"][clock] / found["1"][clock] for clock in ("wall", "least wall", "cpu"))
    quiet = [_judged("(b) median wall time of a step on two workers over that on one", MOST_OF_ONE_WORKER, median)]
    return found | {"rows": rows, "columns": columns, "cores": os.cpu_count(), "load before": load}, [
        *(quiet if load < QUIET else []),
        _judged("(b) seconds of a step with 1000 rows on two workers", MOST_OVERHEAD, found["overhead"]["wall"]),
        _judged("(b) CPU of a step on the busiest of two workers over that on one", MOST_OF_ONE_WORKER, cpu),
        _judged("(b) least wall time of a step on two workers over that on one", MOST_OF_ONE_WORKER, wall),
    ]


# --- (d) a GPU, (e) other systems -------------------------------------------------------------------------------------


def part_d(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The integers of the compiled loops, written by one process, and a GPU's beside them; then whole fits."""
    script, expected = str(ROOT / "bench" / "scale_gpu.py"), str(folder / "expected.npz")
    subprocess.run([sys.executable, script, "--expect", expected], check=True)
    answer = subprocess.run([sys.executable, script, "--against", expected], capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    fits = subprocess.run([sys.executable, script.replace("_gpu", "_gpu_fit")], capture_output=True, text=True)
    found["fits"] = json.loads(fits.stdout.splitlines()[-1])
    return found, judged_gpu(found)


def joined_fits(files: list[Path]) -> dict[str, Any]:
    """What several calls of `bench/scale_gpu_fit.py` printed, each of some parts, as one."""
    parts = [json.loads(file.read_text().splitlines()[-1]) for file in files]
    return {name: value for part in parts for name, value in part.items()} | {
        "compared": sum(part["compared"] for part in parts),
        "differing": [name for part in parts for name in part["differing"]],
        "sums on the GPU": {name: count for part in parts for name, count in part["sums on the GPU"].items()},
    }


def judged_gpu(found: dict[str, Any]) -> list[dict[str, Any]]:
    wrong = len(found["integers"]["differing"])
    compared = found["integers"]["compared"]
    fits = found.get("fits")
    whole = [] if fits is None else [
        _judged(
            f"(d) fits and predictions on CUDA tensors, of {fits['compared']}, that differ from those in host memory",
            0, len(fits["differing"]),
        ),
        _judged(
            f"(d) bad tensors, of {len(fits['refused']) + len(fits['not refused'])}, that were not refused uncharged",
            0, len(fits["not refused"]),
        ),
    ]  # fmt: skip
    return [
        _judged("(d) step of 10⁷ × 100 on a GPU over reading its rows once", 2.0, found["step over floor"]),
        _judged(f"(d) sums on a GPU, of {compared}, that differ from those in host memory", 0, wrong),
        *whole,
    ]


def has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def peers_fits(place: Path, rows: int, columns: int) -> tuple[list[Any], list[Any], dict[str, Any]]:
    """Fits of Spark, the converged one last, and of Opacus, in settings that were best on few of the rows."""
    from pyarrow import parquet

    import scale_peers

    small, script = place.parent / "few", scale_peers.__file__
    small.mkdir()
    parquet.write_table(parquet.read_table(place / "part-0.parquet")[:TRIED_ROWS], small / "part-0.parquet")
    few, whole = ({"folder": str(folder), "columns": columns} for folder in (small, place))
    tried: dict[str, Any] = {"rows": min(rows, TRIED_ROWS)}
    spark = shared.in_environment(SPARK, script, "spark_fits", **few, settings=scale_peers.SPARK_GRID)
    level = max(fit["accuracy"] for fit in spark) - 0.001
    budget = scale_peers.EPSILON * rows / tried["rows"]
    opacus = shared.in_environment(OPACUS, script, "opacus_screened", **few, epsilon=budget, level=level)
    tried |= {"accuracy to reach": level, "ε of Opacus": budget, "Spark MLlib": spark, "Opacus": opacus}
    print("tried", json.dumps(tried), flush=True)
    kept = ([fit for fit in spark if fit["chosen"]["cached"] == cached] for cached in (False, True))
    chosen = (
        [best for fits in kept for best in scale_peers.soonest(fits, level, 1)],
        scale_peers.soonest(opacus, level, 3),
    )
    spark = shared.in_environment(SPARK, script, "spark_fits", **whole, settings=[*chosen[0], CONVERGED])
    opacus = shared.in_environment(OPACUS, script, "opacus_fits", **whole, settings=chosen[1])
    return spark, opacus, tried


def part_e(rows: int, columns: int, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Accuracy that counts: within 0.1 percentage points of Spark's converged model, which has no privacy."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    import scale_peers

    place = folder / "e"
    place.mkdir()
    for k in range(max(1, rows // FILE_ROWS)):
        X, y = scale_peers.rows_of(k, min(rows, FILE_ROWS), columns)
        table = pa.table({**{f"x{j}": np.clip(X[:, j], -4, 4) for j in range(columns)}, "y": y})
        parquet.write_table(table, place / f"part-{k}.parquet", row_group_size=100_000)
    spark, opacus, tried = peers_fits(place, rows, columns)
    command = [sys.executable, __file__, "--child", "own", str(place), str(columns)]
    own = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    level = spark[-1]["accuracy"] - 0.001
    found: dict[str, Any] = {"rows": rows, "columns": columns, "accuracy to reach": level, "tried": tried}
    for name, fits in (("discreet", [own]), ("Spark MLlib", spark), ("Opacus", opacus)):
        reached = [fit for fit in fits if fit["accuracy"] >= level]
        found[name] = {"least CPU": min(reached, key=lambda fit: float(fit["cpu"]), default=None), "all": fits}
    return found, [
        _judged(
            f"(e) accuracy that Spark's converged model has more than ours, {rows:,} rows",
            0.001,
            level + 0.001 - own["accuracy"],
        )
    ]


# --- (c) the same numbers, (m) messages -------------------------------------------------------------------------------


def part_c() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    tests = ROOT / "tests" / "conformance" / "test_backends.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    status = subprocess.run([sys.executable, "-m", "pytest", "-q", str(tests)], env=environment, cwd=ROOT).returncode
    return {"status": status}, [_judged("(c) failures of tests/conformance/test_backends.py", 0, status)]


def messages(d: int) -> tuple[bytes, bytes]:
    """A question and an answer of a gradient step, as they are sent."""
    import cloudpickle
    import numpy as np

    from discreet.losses import Logistic
    from discreet.queries.sums.gradient import GradientSum
    from discreet.rows import RowSpec

    class Asked:
        def map_sum(self, function: Any, shape: Any) -> Any:
            self.question = cloudpickle.dumps(("sum", function, shape))
            return np.full(shape, 2**40, np.int64)

    asked, theta = Asked(), np.random.default_rng(0).normal(size=d)
    answer = GradientSum(RowSpec(d, 1.0), Logistic(), theta, 1.0).integers(asked)  # type: ignore[arg-type]
    return asked.question, cloudpickle.dumps(("ok", answer))


def part_m(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Bytes of the messages of a gradient step; and a step of a hundred workers on 10⁹ × 10³, without their work.

    What a message costs the process that fits, Dask included, is measured with two workers of next to no rows.
    """
    import pickle

    from discreet.data.base import exact_sum

    found: dict[str, Any] = {}
    judged = []
    for d in (10, 100, 1000, 10_000):
        question, answer = messages(d)
        found[str(d)] = {"question": len(question), "answer": len(answer)}
        bytes_ = len(question) + len(answer)
        judged.append(_judged(f"(m) bytes of both for d = {d:,}, over 16·d + 4 KB", 1.0, bytes_ / (16 * d + 4096)))
    question, answer = messages(1000)
    begun = time.process_time()
    total = exact_sum([pickle.loads(answer)[1] for _ in range(MANY_WORKERS)], (1000,), 10**9)
    adding = time.process_time() - begun
    assert total[0] == MANY_WORKERS * 2**40
    message = step_times(2, files(folder / "m", 1100, 1000), 1000, 40)["client's cpu"] / 2
    sent = MANY_WORKERS * (len(question) + len(answer))
    parts = {"asking": MANY_WORKERS * message, "sending": sent / BYTES_PER_SECOND, "adding": adding}
    found["simulated"] = parts | {"workers": MANY_WORKERS, "bytes": sent, "a message": message}
    what = f"(m) seconds of a step of {MANY_WORKERS} workers on 10⁹ × 10³ beside their 10 s of work"
    judged.append(_judged(what, MOST_BESIDE, sum(parts.values())))
    return found, judged


def _judged(target: str, most: float, measured: float) -> dict[str, Any]:
    return {"target": target, "at most": most, "measured": measured, "met": measured <= most}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--part", choices=list("abcdem"))
    parser.add_argument("--gpu-figures", type=Path, help="what `bench/scale_gpu.py` printed elsewhere, to be stored")
    parser.add_argument("--gpu-fits", type=Path, nargs="+", help="and what `bench/scale_gpu_fit.py` printed there")
    parser.add_argument("--rows", type=int, help="of parts a, b and e; only of e are figures of fewer rows stored")
    parser.add_argument("--child", nargs=3)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    if arguments.child:
        import scale_peers

        work = {"stream": stream, "own": scale_peers.own_fit}[arguments.child[0]]
        print(json.dumps(work(arguments.child[1], int(arguments.child[2]))))
        return 0
    found: dict[str, Any] = {}
    if arguments.gpu_figures or arguments.gpu_fits:
        stored = json.loads((shared.RESULTS / "scale.json").read_text())["parts"].get("d", {}).get("figures", {})
        figures = json.loads(arguments.gpu_figures.read_text()) if arguments.gpu_figures else stored
        figures |= {"fits": joined_fits(arguments.gpu_fits)} if arguments.gpu_fits else {}
        written({"d": {"figures": figures, "targets": judged_gpu(figures), "load": 0.0}})
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts: dict[str, Callable[[], tuple[dict[str, Any], list[dict[str, Any]]]]] = {
            "a": lambda: part_a(arguments.rows or 10_000_000, 50, folder),
            "b": lambda: part_b(arguments.rows or 4_000_000, 100, folder),
            "c": part_c,
            "e": lambda: part_e(arguments.rows or 10_000_000, 20, folder),
            "m": lambda: part_m(folder),
        }
        if has_gpu():
            parts["d"] = lambda: part_d(folder)
        for part in "c" if arguments.quick else arguments.part or "".join(parts):
            figures, judged = parts[part]()
            found[part] = {"figures": figures, "targets": judged, "load": os.getloadavg()[0]}
            print(part, json.dumps(figures), shared.verdict_table(judged), sep="\n", flush=True)
    if arguments.part == "e" and arguments.rows:
        written({f"e, {arguments.rows:,} rows": found["e"]})
    elif not (arguments.quick or arguments.rows):
        written(found)
    return 0 if all(target["met"] for part in found.values() for target in part["targets"]) else 1


def workers_table(found: dict[str, Any]) -> str:
    """Seconds of a step by the number of workers."""
    shown = [(workers, found[workers]) for workers in ("1", "2", "4")]
    rows = [[workers, spent["wall"], spent["least wall"], spent["cpu"]] for workers, spent in shown]
    header = ["(b) workers of one core", "median wall", "least wall", "CPU of the busiest"]
    load = f", load before {found['load before']:.1f}" if "load before" in found else ""
    return shared.markdown(header, rows) + f"\n\nSeconds of a step, {found['cores']} cores{load}."


def peers_table(found: dict[str, Any]) -> str:
    """What each system needed for the accuracy to reach."""
    rows = [
        [name, fit["setting"], fit["cpu"], fit["wall"], fit["accuracy"], fit["threads"]]
        for name, fits in found.items()
        if isinstance(fits, dict) and "all" in fits
        for fit in fits["all"]
    ]
    header = ["(e) system", "setting", "CPU seconds", "wall seconds", "accuracy", "cores"]
    level = f"accuracy to reach {found['accuracy to reach']:.4f}"
    said = f"{found['rows']:,} × {found['columns']} rows, {level}; Spark has no privacy, the others have ε = 1."
    tried = found.get("tried")
    if tried is not None:
        counts = f"{len(tried['Spark MLlib'])} of Spark and {len(tried['Opacus'])} of Opacus"
        said += f" Settings were the soonest on {tried['rows']:,} of the rows, of {counts}."
    return shared.markdown(header, rows) + f"\n\n{said}"


def written(found: dict[str, Any]) -> None:
    """Store the figures of some parts beside those of the others."""
    import discreet

    stored = shared.RESULTS / "scale.json"
    before = json.loads(stored.read_text())["parts"] if stored.exists() else {}
    together = dict(sorted((before | found).items()))
    versions = {"discreet": discreet.__version__}
    versions |= shared.versions(["numpy", "numba", "pyarrow", "dask", "distributed"])
    facts = "\n".join(f"- {package}: {version}" for package, version in versions.items())
    table = shared.verdict_table([target for part in together.values() for target in part["targets"]])
    if "b" in together:
        table += "\n\n" + workers_table(together["b"]["figures"])
    for name in together:
        if name.startswith("e"):
            table += "\n\n" + peers_table(together[name]["figures"])
    loads = ", ".join(f"({name}) {part['load']:.1f}" for name, part in together.items() if name != "d")
    if "d" in together:
        loads += f"; (d) on an {together['d']['figures']['device']}"
    text = f"{table}\n\nLoad of the machine while each part was measured: {loads}.\n\n{facts}"
    shared.write("scale", "Rows in files and on a cluster", text, {"versions": versions, "parts": together})


if __name__ == "__main__":
    raise SystemExit(main())
