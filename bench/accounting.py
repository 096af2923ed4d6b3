"""How tight and how fast: certified ε of discreet beside dp_accounting, prv_accountant, Opacus and autodp.

Usage: python bench/accounting.py [--peers /path/to/python]

CPU time, one thread, best of 5 (fewer when one run is long). The peers' pins conflict with ours, so they run in an
interpreter of their own that has `dp-accounting prv-accountant opacus autodp` installed. Writes
bench/results/accounting.{json,md}.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded

# ruff: noqa: E402
import argparse
import json
import math
import platform
import subprocess
import sys
import time
import tracemalloc
from importlib.metadata import version
from pathlib import Path

from discreet import accounting
from discreet.events import Gaussian, Poisson, Repeat

ROWS = {
    "C1": (4.0, 0.01, 10**4, 1e-5),
    "C2": (1.1, 256 / 60000, 14062, 1e-5),
    "C3": (0.8, 0.001, 10**5, 1e-6),
    "C4": (0.6, 1e-4, 10**6, 1e-8),
    "C5": (2.0, 0.05, 500, 1e-6),
    "C6": (10.0, 1.0, 1000, 1e-6),
    "C7": (0.5, 0.02, 100, 1e-5),
    "C8": (20.0, 0.1, 10**6, 1e-9),
}
CALIBRATIONS = {f"calibrate T={t:.0e}": (0.01, t, 1e-5, 1.0) for t in (10**3, 10**4, 10**5)}
PEERS = ("dp_accounting", "prv_accountant", "opacus", "autodp")
HERE = Path(__file__).parent


def best(task):
    """Best of 5, or of as many as fit in half a second: short tasks feel every other process."""
    task()
    times = []
    while len(times) < 5 or sum(times) < 0.5:
        begin = time.process_time()
        task()
        times.append(time.process_time() - begin)
    return min(times)


def peer(python, name, kind, numbers, timeout=240):
    command = [python, str(HERE / "accounting_peer.py"), name, kind, *map(str, numbers)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer in {timeout} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["killed"])[-1][:120]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--only", nargs="+", default=list(PEERS), choices=PEERS, help="peers to run")
    arguments = parser.parse_args()
    python, peers = arguments.peers, arguments.only
    results, lines = {}, []

    def say(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    accounting.epsilon(Repeat(Poisson(0.1, Gaussian(1.0)), 100), 1e-5, "add-remove")
    tracemalloc.start()
    for sigma, rate, steps, delta in ROWS.values():
        accounting.epsilon(Repeat(Poisson(rate, Gaussian(sigma)), steps), delta, "add-remove")
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()

    say(
        "| row | ours [lower, upper] | relative width | ms | "
        + " | ".join(f"{name}: ε, s, ratio" for name in peers)
        + " |"
    )
    say("|" + "---|" * (4 + len(peers)))
    ratios = {}
    for row, (sigma, rate, steps, delta) in ROWS.items():
        event = Repeat(Poisson(rate, Gaussian(sigma)), steps)
        ours = accounting.epsilon(event, delta, "add-remove")
        cpu = best(lambda e=event, d=delta: accounting.epsilon(e, d, "add-remove"))
        width = (ours.upper - ours.lower) / ours.upper
        results[row] = {"lower": ours.lower, "upper": ours.upper, "width": width, "cpu": cpu, "peers": {}}
        cells = []
        for name in peers:
            other = peer(python, name, "epsilon", (sigma, rate, steps, delta))
            results[row]["peers"][name] = other
            if "failed" in other:
                cells.append(other["failed"])
                continue
            low, high = other["value"]
            ratio = other["cpu"] / cpu
            if name == "dp_accounting":
                ratios[row] = ratio
            span = f"{high:.6f}" if low == 0 else f"[{low:.4f}, {high:.4f}]"
            cells.append(f"{span}, {other['cpu']:.3g}, {ratio:.0f}×")
        say(
            f"| {row} | [{ours.lower:.8f}, {ours.upper:.8f}] | {width:.1e} | {cpu * 1e3:.2f} | "
            + " | ".join(cells)
            + " |"
        )
    for row, (rate, steps, delta, epsilon) in CALIBRATIONS.items():
        make = lambda s, q=rate, t=steps: Repeat(Poisson(q, Gaussian(s)), t)  # noqa: E731
        noise = accounting.calibrate(make, epsilon, delta, "add-remove")
        cpu = best(lambda m=make, e=epsilon, d=delta: accounting.calibrate(m, e, d, "add-remove"))
        other = peer(python, "dp_accounting", "calibrate", (0, rate, steps, delta, epsilon))
        results[row] = {"noise": noise, "cpu": cpu, "peers": {"dp_accounting": other}}
        told = other.get("failed") or f"{other['value']:.6f}, {other['cpu']:.3g}, {other['cpu'] / cpu:.0f}×"
        if "failed" not in other:
            ratios[row] = other["cpu"] / cpu
        say(f"| {row} | {noise:.7f} | 1e-7 | {cpu * 1e3:.2f} | {told} |" + " |" * (len(peers) - 1))
    timed = [ratios[row] for row in ("C1", "C2", "C3", "C4", "C5", "C7", "C8") if row in ratios]
    mean = math.exp(sum(map(math.log, timed)) / len(timed)) if timed else math.nan
    say("")
    say(
        f"Against dp_accounting: geometric mean {mean:.0f}× over C1–C5, C7, C8, "
        f"least {min(timed, default=math.nan):.0f}×; "
        f"calibration {', '.join(f'{ratios[row]:.0f}×' for row in CALIBRATIONS if row in ratios)}. "
        f"Peak memory of ours above import: {memory:.1f} MB."
    )
    try:
        listing = subprocess.run(
            [python, "-m", "pip", "freeze"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        listing = ""
    wanted = ("dp-accounting", "prv", "opacus", "autodp", "torch")
    versions = [line for line in listing.splitlines() if line.lower().startswith(wanted)]
    setting = f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, "
    setting += f"numpy {version('numpy')}, scipy {version('scipy')}; peers: {', '.join(versions)}"
    say("")
    say(setting)
    target = HERE / "results"
    target.mkdir(exist_ok=True)
    (target / "accounting.json").write_text(
        json.dumps({"setting": setting, "memory_mb": memory, "rows": results}, indent=1) + "\n"
    )
    (target / "accounting.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
