"""What reading a file costs: wall and CPU seconds and peak memory, beside Polars on the same file.

    python bench/reading.py                        # 5·10⁶ rows × 20 columns; writes bench/results/reading.*
    python bench/reading.py --rows 200000 --dry    # a quick look; writes nothing

The table is drawn once: whole numbers, prices, doubles with all their digits, categories and yes/no. Each contender
is a process of its own, which reads a small file of the same kind first (so that what is compiled is loaded), and is
judged by the better of two runs. `discreet` reads every column by the schema, as `discreet fit` does; Polars reads them
with the types that it finds. Peak memory is the process's, interpreter and libraries included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import peers as shared

ROOT = Path(__file__).resolve().parent.parent
ROWS, RUNS = 5_000_000, 2
MOST_MEMORY = 2.5  # GB
MOST_TIME = 2.0  # times that of Polars
JOBS = ["clerk", "nurse", "teacher", "driver", "cook", "smith", "miner", "none"]
KINDS = ["plain CSV", "quoted CSV", "gzipped CSV", "Parquet"]
FILES = dict(zip(KINDS, ["t.csv", "quoted.csv", "t.csv.gz", "t.parquet"], strict=True))


def make(folder: Path, rows: int) -> None:
    """Write the files."""
    import gzip
    import shutil

    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"whole{j}": rng.integers(0, 10 ** (j + 2), rows) for j in range(4)}
    columns |= {f"price{j}": np.round(rng.lognormal(5, 1, rows), 2) for j in range(4)}
    columns |= {f"double{j}": rng.normal(size=rows) for j in range(2)}
    columns |= {f"job{j}": pl.Series(JOBS).gather(rng.integers(0, 8, rows)) for j in range(6)}
    columns |= {f"flag{j}": pl.Series(["no", "yes"]).gather(rng.integers(0, 2, rows)) for j in range(4)}
    frame = pl.DataFrame(columns)
    frame.write_csv(folder / FILES["plain CSV"])
    frame.write_csv(folder / FILES["quoted CSV"], quote_style="non_numeric")
    frame.write_parquet(folder / FILES["Parquet"])
    with (
        (folder / FILES["plain CSV"]).open("rb") as plain,
        gzip.open(folder / FILES["gzipped CSV"], "wb", 1) as packed,
    ):
        shutil.copyfileobj(plain, packed, 1 << 22)


def schema() -> Any:
    import discreet as dp

    columns: dict[str, Any] = {f"whole{j}": dp.Numeric(0, 10 ** (j + 2)) for j in range(4)}
    columns |= {f"price{j}": dp.Numeric(0, 10_000) for j in range(4)}
    columns |= {f"double{j}": dp.Numeric(-5, 5) for j in range(2)}
    columns |= {f"job{j}": dp.Categorical(JOBS) for j in range(6)}
    return dp.Schema(columns | {f"flag{j}": dp.Boolean("no", "yes") for j in range(4)})


def read(contender: str, path: Path) -> int:
    """Read a file as the contender does; the number of rows."""
    if contender == "discreet":
        from discreet.data.frames import read_table

        return read_table(path, schema=schema()).shape[0]
    import polars as pl

    return pl.read_parquet(path).height if path.suffix == ".parquet" else pl.read_csv(path).height


def measured(contender: str, path: Path) -> dict[str, float]:
    """One reading, in a process of its own."""
    command = [sys.executable, __file__, "--serve", contender, str(path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "bench").stdout
    found: dict[str, float] = json.loads(out)
    return found


def serve(contender: str, path: Path) -> None:
    if contender == "discreet":
        import numba  # noqa: F401 - importing is not reading
    else:
        import polars  # noqa: F401
    small = path.parent / f"small-{path.name}"
    read(contender, small)
    wall, before = time.perf_counter(), time.process_time()
    rows = read(contender, path)
    status = Path("/proc/self/status").read_text()  # getrusage counts the process that began this one, too
    peak = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024 / 1e9
    seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - before}
    print(json.dumps({**seconds, "peak": peak, "rows": rows}))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, help="where files are kept between runs; default: a temporary one")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    if arguments.serve:
        serve(arguments.serve[0], Path(arguments.serve[1]))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        return compare(folder, arguments.rows, arguments.dry)


def compare(folder: Path, rows: int, dry: bool) -> int:
    if not all((folder / name).exists() for name in FILES.values()):
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, 1000)
        for name in FILES.values():
            (folder / name).rename(folder / f"small-{name}")
        make(folder, rows)
    found: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in KINDS}
    for _ in range(RUNS):
        for kind in KINDS:
            for contender in ("discreet", "polars"):
                one = measured(contender, folder / FILES[kind])
                best = found[kind].setdefault(contender, one)
                found[kind][contender] = {key: min(best[key], one[key]) for key in one}
                print(kind, contender, one, flush=True)
    lines = ["| file | MB | reader | wall s | CPU s | peak GB |", "|---|---|---|---|---|---|"]
    judged = []
    for kind, both in found.items():
        size = (folder / FILES[kind]).stat().st_size / 1e6
        lines += [
            f"| {kind} | {size:,.0f} | {name} | {one['wall']:.2f} | {one['cpu']:.2f} | {one['peak']:.2f} |"
            for name, one in both.items()
        ]
        ours, polars = both["discreet"], both["polars"]
        if kind == "gzipped CSV":  # a third of its time is zlib's, which is shown and not judged
            continue
        for what, value, most in (
            ("CPU time over that of Polars", ours["cpu"] / polars["cpu"], MOST_TIME),
            ("peak memory, GB", ours["peak"], MOST_MEMORY),
        ):
            judged.append({"target": f"{kind}: {what}", "at most": most, "measured": value, "met": value <= most})
    text = "\n".join([*lines, "", shared.verdict_table(judged)])
    method = (
        f"{rows:,} rows × 20 columns (10 numeric, 6 categories, 4 yes/no); the better of {RUNS} runs each, in turn; "
        "CPU time is judged, as machines may be busy"
    )
    if dry:
        print(text)
    else:
        import discreet

        versions = {"discreet": discreet.__version__, **shared.versions(["numpy", "numba", "polars", "pyarrow"])}
        facts = "\n".join(f"- {package}: {version}" for package, version in versions.items())
        results = {"versions": versions, "method": method, "measured": found, "targets": judged}
        shared.write("reading", "Cost of reading a file", f"{text}\n\n{method}.\n\n{facts}", results)
    return 0 if all(v["met"] for v in judged) else 1


if __name__ == "__main__":
    raise SystemExit(main())
