"""How tight and how fast: certified ε of discreet beside dp_accounting, prv_accountant, Opacus and autodp.

    python bench/accounting.py               # prepares .venv-bench-accounting for the peers on first use
    python bench/accounting.py --only NAME…  # with these peers only, or none; writes nothing

CPU time, one thread, best of 5 (fewer when one run is long). A peer gets 60 s of CPU time and 6 GB for a row; where
it needs more, that is its result.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded

# ruff: noqa: E402
import argparse
import math
import resource
import signal
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import peers

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
JUDGED = ("C1", "C2", "C3", "C4", "C5", "C7", "C8")
CALIBRATIONS = {f"calibrate T={t:.0e}": (0.01, t, 1e-5, 1.0) for t in (10**3, 10**4, 10**5)}
PACKAGES = {
    "dp_accounting": "dp-accounting",
    "prv_accountant": "prv-accountant",
    "opacus": "opacus",
    "autodp": "autodp",
}
ENVIRONMENT = peers.Environment(
    "accounting",
    ["dp-accounting==0.6.0", "prv-accountant==0.2.0", "torch==2.13.0", "opacus==1.6.0", "autodp==0.2.3.1"],
)
SECONDS, BYTES = 60, 6 << 30


# What runs in the peers' environment.


def dp_accounting_epsilon(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma)), steps)
    return 0.0, accountant.get_epsilon(delta)


def dp_accounting_calibrate(rate: float, steps: int, delta: float, epsilon: float) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    return dp_accounting.calibrate_dp_mechanism(
        PLDAccountant,
        lambda s: dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(s)), steps
        ),
        epsilon,
        delta,
    )


def prv_accountant_epsilon(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    prv = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
    accountant = PRVAccountant(prvs=[prv], max_self_compositions=[steps], eps_error=0.01, delta_error=delta / 1000)
    low, _, high = accountant.compute_epsilon(delta=delta, num_self_compositions=[steps])
    return float(low), float(high)


def opacus_epsilon(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(sigma, rate, steps)]
    return 0.0, float(accountant.get_epsilon(delta=delta))


def autodp_epsilon(sigma: float, rate: float, steps: int, delta: float) -> tuple[float, float]:
    from autodp import mechanism_zoo, transformer_zoo

    noise = mechanism_zoo.GaussianMechanism(sigma=sigma)
    if rate < 1:
        noise.neighboring = "add_remove"
        noise = transformer_zoo.AmplificationBySampling(PoissonSampling=True)(noise, rate, improved_bound_flag=True)
    return 0.0, float(transformer_zoo.Composition()([noise], [steps]).get_approxDP(delta))


def peer_answer(task: str, numbers: list[Any]) -> dict[str, Any]:
    """The answer of one of the functions above and its CPU time, or why there is none."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    warnings.filterwarnings("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGXCPU, stop)
    answer, times = globals()[task], []
    try:
        while len(times) < 5 and sum(times) < 3:
            spent = time.process_time()
            resource.setrlimit(resource.RLIMIT_CPU, (int(spent) + SECONDS, 5 * SECONDS))
            value = answer(*numbers)
            times.append(time.process_time() - spent)
    except MemoryError:
        return {"failed": f"out of memory ({BYTES >> 30} GB)"}
    except TimeoutError as late:
        return {"failed": str(late)}
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else ""
        return {"failed": f"{type(error).__name__}: {text}"[:100]}
    return {"value": value, "cpu": min(times)}


def installed() -> dict[str, str]:
    return peers.versions([*PACKAGES.values(), "torch", "numpy", "scipy"])


# What runs here.


def ask(task: str, *numbers: float) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = peers.in_environment(
            ENVIRONMENT, __file__, "peer_answer", task=task, numbers=list(numbers)
        )
    except SystemExit:  # killed by a limit it did not notice
        return {"failed": f"killed ({SECONDS} s, {BYTES >> 30} GB)"}
    return answer


def best(task: Callable[[], object]) -> float:
    """Best of 5, or of as many as fit in half a second: short tasks feel every other process."""
    task()
    times: list[float] = []
    while len(times) < 5 or sum(times) < 0.5:
        begin = time.process_time()
        task()
        times.append(time.process_time() - begin)
    return min(times)


def peak_memory() -> float:
    """MB above import, over all rows."""
    from discreet import accounting
    from discreet.events import Gaussian, Poisson, Repeat

    accounting.epsilon(Repeat(Poisson(0.1, Gaussian(1.0)), 100), 1e-5, "add-remove")
    tracemalloc.start()
    for sigma, rate, steps, delta in ROWS.values():
        accounting.epsilon(Repeat(Poisson(rate, Gaussian(sigma)), steps), delta, "add-remove")
    memory = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return memory


def cell(other: dict[str, Any], cpu: float) -> str:
    """ε or σ, seconds and how many times ours that is."""
    if "failed" in other:
        return str(other["failed"])
    value = other["value"]
    low, high = value if isinstance(value, list) else (0.0, value)
    span = f"{high:.6f}" if low == 0 else f"[{low:.4f}, {high:.4f}]"
    return f"{span}, {other['cpu']:.3g}, {other['cpu'] / cpu:.0f}×"


def measure(names: list[str]) -> tuple[list[list[str]], dict[str, Any]]:
    from discreet import accounting
    from discreet.events import Event, Gaussian, Poisson, Repeat

    def event(sigma: float, rate: float, steps: int) -> Event:
        return Repeat(Poisson(rate, Gaussian(sigma)), steps)

    table: list[list[str]] = []
    results: dict[str, Any] = {}
    for row, (sigma, rate, steps, delta) in ROWS.items():
        run = event(sigma, rate, steps)
        ours = accounting.epsilon(run, delta, "add-remove")
        cpu = best(lambda run=run, delta=delta: accounting.epsilon(run, delta, "add-remove"))  # type: ignore[misc]
        width = (ours.upper - ours.lower) / ours.upper
        others = {name: ask(f"{name}_epsilon", sigma, rate, steps, delta) for name in names}
        results[row] = {"lower": ours.lower, "upper": ours.upper, "width": width, "cpu": cpu, "peers": others}
        cells = [cell(other, cpu) for other in others.values()]
        table.append([row, f"[{ours.lower:.8f}, {ours.upper:.8f}]", f"{width:.1e}", f"{cpu * 1e3:.2f}", *cells])
    for row, (rate, steps, delta, epsilon) in CALIBRATIONS.items():

        def found(rate: float = rate, steps: int = steps, delta: float = delta, epsilon: float = epsilon) -> float:
            return accounting.calibrate(lambda s: event(s, rate, steps), epsilon, delta, "add-remove")

        noise, cpu = found(), best(found)
        others = {
            name: ask(f"{name}_calibrate", rate, steps, delta, epsilon) for name in names if name == "dp_accounting"
        }
        results[row] = {"noise": noise, "cpu": cpu, "peers": others}
        cells = [cell(others[name], cpu) if name in others else "" for name in names]
        table.append([row, f"{noise:.7f}", "1e-7", f"{cpu * 1e3:.2f}", *cells])
    return table, results


def judge(results: dict[str, Any], memory: float) -> list[dict[str, Any]]:
    """The targets; times as a share of dp_accounting's, so that less is better."""

    def share(row: str) -> float:
        other = results[row]["peers"]["dp_accounting"]
        return results[row]["cpu"] / other["cpu"] if "cpu" in other else math.nan

    def worst(rows: Iterable[str]) -> float:
        shares = [share(row) for row in rows]
        return math.nan if any(map(math.isnan, shares)) else max(shares)

    shares = [share(row) for row in JUDGED]
    return peers.verdicts(
        [
            ("relative width on every row", max(results[row]["width"] for row in ROWS), 1e-6),
            (
                "time as a share of dp_accounting's, geometric mean over C1–C5, C7, C8",
                math.exp(sum(map(math.log, shares)) / len(shares)),
                1 / 100,
            ),
            ("the same, on the worst of these rows", worst(JUDGED), 1 / 15),
            ("the same, calibrating, on the worst row", worst(CALIBRATIONS), 1 / 150),
            ("peak memory above import, MB", memory, 50.0),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PACKAGES), help="peers to run; writes nothing")
    only = parser.parse_args().only
    names = list(PACKAGES) if only is None else only
    memory = peak_memory()
    table, results = measure(names)
    header = ["row", "ours [lower, upper]", "relative width", "ms", *(f"{name}: ε or σ, s, ratio" for name in names)]
    text = peers.markdown(header, table)
    if only is not None:
        print(text)
        return
    judged = judge(results, memory)
    versions = peers.in_environment(ENVIRONMENT, __file__, "installed")
    text += "\n\n" + peers.verdict_table(judged)
    text += "\n\nPeers: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + "."
    peers.write(
        "accounting",
        "Certified ε, beside other accountants",
        text,
        {"peers": versions, "memory in MB": memory, "rows": results, "targets": judged},
    )


if __name__ == "__main__":
    main()
