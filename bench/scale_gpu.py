"""Rows on a GPU: the time of a gradient step beside that of reading the rows once, and the same integers as on a CPU.

    python bench/scale_gpu.py --expect FILE    # on a machine with numba: rows and the integers of the compiled loops
    python bench/scale_gpu.py --against FILE   # on a machine with a GPU: compares, measures, prints JSON
    python bench/scale.py --part d             # both on one machine, stored with the other parts

The floor is the time in which the GPU reads the stored bytes of all rows once (entries, targets, scales and largest
slopes), at the higher of two bandwidths measured in the same run: summing the entries, and copying them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bare

bare.prepare()

from discreet.losses import Huber, Logistic, SmoothedHinge, Squared  # noqa: E402
from discreet.queries.sums.gradient import GradientSum  # noqa: E402
from discreet.queries.sums.scaled_gradient import ScaledGradientSum, Scaling  # noqa: E402
from discreet.rows import RowSpec  # noqa: E402

MOST_OVER_FLOOR = 2.0
LOSSES = {"logistic": Logistic(), "squared": Squared(), "huber": Huber(0.3), "hinge": SmoothedHinge(0.7)}
WIDTHS = (1, 10, 100, 333, 1500)


def rows_of(d: int, kind: str, n: int) -> tuple[Any, Any]:
    """Rows by integer arithmetic, the same on every machine; some are long, some empty, some have odd entries."""
    i, j = np.arange(n, dtype=np.int64)[:, None], np.arange(d, dtype=np.int64)[None, :]
    mixed = (i * 7919 + j * 104729 + i * j * 31) % 100003
    X = ((mixed - 50001) / 50001.0 * np.array([0.0, 0.01, 0.2, 3.0])[(i * 13 % 97) % 4]).astype(kind)
    X[::101, 0] = np.array([np.nan, np.inf, -np.inf, 1e30, 1e-40], kind)[np.arange(len(X[::101])) % 5]
    y = np.where((i[:, 0] * 31 % 89) % 2, 1.0, -1.0)
    y[::307] = np.nan
    return X, y


def questions(d: int) -> dict[str, Any]:
    """Gradient sums of every loss that a GPU computes, at short and at long parameters, scaled ones too."""
    rows = RowSpec(d, 1.0, 0.5)
    places = np.arange(rows.dimension)
    found: dict[str, Any] = {}
    for name, loss in LOSSES.items():
        for size in (0.0, 1.0, 1e3):
            found[f"{name} {size:g}"] = GradientSum(rows, loss, size * (((places * 37) % 19) - 9.0) / 9.0, 0.8)
        scaling = Scaling(rows, 1 + places * 29 % 64, (places[:d] * 53 % 211 - 105) * (d < 1000))
        found[f"{name} scaled"] = ScaledGradientSum(scaling, loss, (((places * 37) % 19) - 9.0) / 9.0, 0.8)
    return found


def expect(path: Path) -> None:
    """Write the integers of the compiled loops in host memory."""
    from discreet.data.memory import in_memory

    found = {}
    for d in WIDTHS:
        for kind in ("float32", "float64"):
            X, y = rows_of(d, kind, 40_000 if d <= 100 else 4000)
            data = in_memory(X, y, RowSpec(d, 1.0, 0.5))
            for name, query in questions(d).items():
                found[f"{d}/{kind}/{name}"] = query.integers(data)
    np.savez_compressed(path, **found)  # type: ignore[arg-type]


def differing(path: Path, device: str) -> dict[str, Any]:
    """Which sums differ from the expected ones in any integer."""
    import torch

    from discreet.data.cuda.rows import on_device

    expected, wrong, count = np.load(path), [], 0
    for d in WIDTHS:
        for kind in ("float32", "float64"):
            X, y = rows_of(d, kind, 40_000 if d <= 100 else 4000)
            data = on_device(torch.from_numpy(X).to(device), y, RowSpec(d, 1.0, 0.5))
            for name, query in questions(d).items():
                key = f"{d}/{kind}/{name}"
                count += 1
                if not np.array_equal(query.integers(data), expected[key]):
                    wrong.append(key)
    return {"compared": count, "differing": wrong}


def seconds(work: Callable[[], Any], times: int = 20) -> float:
    """Median wall time on the device, from an idle one to an idle one."""
    import torch

    measured = []
    for _ in range(times + 3):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        work()
        torch.cuda.synchronize()
        measured.append(time.perf_counter() - begun)
    return statistics.median(measured[3:])


def measure(n: int, d: int) -> dict[str, Any]:
    """A full-batch logistic step, and how fast the same bytes can be read."""
    import torch

    from discreet.data.cuda.rows import on_device

    rows = RowSpec(d, 1.0, 0.5)
    X = torch.randn((n, d), device="cuda") * 0.15
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    begun = time.perf_counter()
    data = on_device(X, y, rows)
    torch.cuda.synchronize()
    prepared = time.perf_counter() - begun
    theta = np.random.default_rng(0).normal(size=rows.shape) / 10
    query = GradientSum(rows, Logistic(), theta, 1.0)
    begun = time.perf_counter()
    query.integers(data)
    first = time.perf_counter() - begun
    other = torch.empty_like(X)
    size = X.numel() * X.element_size()
    reading = size / seconds(lambda: X.sum())
    copying = 2 * size / seconds(lambda: other.copy_(X))
    stored = [data.whole.X, data.whole.y, data.whole.scale, data.whole.caps(query_caps(query))]
    stored_bytes = sum(part.numel() * part.element_size() for part in stored)
    step = seconds(lambda: query.integers(data))
    floor = stored_bytes / max(reading, copying)
    return {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": n, "columns": d,
        "stored bytes": stored_bytes, "read bytes/s": reading, "copied bytes/s": copying, "floor s": floor,
        "step s": step, "step over floor": step / floor, "preparing s": prepared, "first step s": first,
    }  # fmt: skip


def query_caps(query: Any) -> Any:
    from discreet.queries.sums.gradient import _GradientBlocks

    return _GradientBlocks(query).caps()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expect", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    if arguments.expect:
        expect(arguments.expect)
        return 0
    found = {"integers": differing(arguments.against, arguments.device)}
    if arguments.device == "cuda":
        found |= measure(arguments.rows, 100)
    print(json.dumps(found))
    return 1 if found["integers"]["differing"] or found.get("step over floor", 0.0) > MOST_OVER_FLOOR else 0


if __name__ == "__main__":
    raise SystemExit(main())
