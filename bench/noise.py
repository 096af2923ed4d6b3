"""What exact noise costs: nanoseconds a sample, one thread, beside the peers in the same run.

    python bench/noise.py                 # prepares .venv-bench-noise for the peers, measures, writes bench/results/
    python bench/noise.py --no-peers      # discreet and numpy only; writes nothing

Contenders take turns, round by round, so that a busy moment of the machine hits all of them; each is judged by its best
round, in CPU time. Peers run as a subprocess in an environment of their own. They are given fewer samples, since they
need tens of microseconds for each, at any number.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import peers as shared

ROOT = Path(__file__).resolve().parent.parent
PEER_ENVIRONMENT = shared.Environment("noise", ["opendp==0.16.0", "diffprivlib==0.6.6", "scikit-learn<1.6"])
PEER_PACKAGES = ["opendp", "diffprivlib", "numpy"]

SAMPLES, PEER_SAMPLES = 1_000_000, 20_000
SCALE = 2.0**40

#: (what, the contender judged, compared with, allowed ratio of their costs or allowed nanoseconds)
TARGETS = [
    ("Gaussian that protects data, ns a sample", "discreet rounded_gaussian", None, 120.0),
    ("cost relative to numpy's insecure normal", "discreet rounded_gaussian", "numpy normal", 12.0),
    ("cost relative to OpenDP's Gaussian on integers", "discreet rounded_gaussian", "OpenDP gaussian (i64)", 0.01),
]


def cpu_seconds(draw: Callable[[int], object], samples: int) -> float:
    start = time.process_time()
    draw(samples)
    return time.process_time() - start


def own_contenders() -> dict[str, Callable[[int], object]]:
    import numpy as np

    from discreet import noise

    generator = np.random.default_rng()
    return {
        "discreet rounded_gaussian": lambda n: noise.rounded_gaussian(SCALE, n),
        "discreet discrete_gaussian": lambda n: noise.discrete_gaussian(SCALE, n),
        "numpy normal": lambda n: generator.normal(size=n),
        "discreet rounded_laplace": lambda n: noise.rounded_laplace(SCALE, n),
        "discreet discrete_laplace": lambda n: noise.discrete_laplace(SCALE, n),
        "numpy laplace": lambda n: generator.laplace(size=n),
    }


def peer_contenders() -> dict[str, Callable[[int], object]]:
    import opendp.prelude as dp  # type: ignore[import-not-found]
    from diffprivlib import mechanisms  # type: ignore[import-not-found]

    dp.enable_features("contrib")
    integers, reals = dp.vector_domain(dp.atom_domain(T="i64")), dp.vector_domain(dp.atom_domain(T=float, nan=False))
    opendp = {
        "OpenDP gaussian (i64)": (dp.m.make_gaussian(integers, dp.l2_distance(T="i64"), scale=SCALE), 0),
        "OpenDP gaussian (f64)": (dp.m.make_gaussian(reals, dp.l2_distance(T=float), scale=1.0), 0.0),
        "OpenDP laplace (i64)": (dp.m.make_laplace(integers, dp.l1_distance(T="i64"), scale=SCALE), 0),
        "OpenDP laplace (f64)": (dp.m.make_laplace(reals, dp.l1_distance(T=float), scale=1.0), 0.0),
    }
    diffprivlib = {
        "diffprivlib Gaussian": (mechanisms.Gaussian(epsilon=1.0, delta=1e-5, sensitivity=1.0), 0.0),
        "diffprivlib GaussianDiscrete": (mechanisms.GaussianDiscrete(epsilon=1.0, delta=1e-5, sensitivity=1), 0),
        "diffprivlib Laplace": (mechanisms.Laplace(epsilon=1.0, delta=0.0, sensitivity=1.0), 0.0),
        "diffprivlib Geometric": (mechanisms.Geometric(epsilon=1.0, sensitivity=1), 0),
    }

    def vector(measurement: Callable[[list], object], zero: float) -> Callable[[int], object]:
        return lambda n: measurement([zero] * n)

    def one_by_one(mechanism: object, zero: float) -> Callable[[int], object]:
        return lambda n: [mechanism.randomise(zero) for _ in range(n)]  # type: ignore[attr-defined]

    return {name: vector(*args) for name, args in opendp.items()} | {
        name: one_by_one(*args) for name, args in diffprivlib.items()
    }


def serve_peers() -> None:
    """In the peers' environment: answers each request, a line "name<TAB>samples", with CPU seconds."""
    contenders = peer_contenders()
    versions = {package: metadata.version(package) for package in PEER_PACKAGES}
    print(json.dumps({"contenders": list(contenders), "versions": versions}), flush=True)
    for line in sys.stdin:
        name, samples = line.rstrip("\n").split("\t")
        print(cpu_seconds(contenders[name], int(samples)), flush=True)


class Peers:
    """The peers' process."""

    def __init__(self) -> None:
        command = [str(PEER_ENVIRONMENT.python()), str(Path(__file__).resolve()), "--serve-peers"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        greeting = json.loads(self._line())
        self.contenders: list[str] = greeting["contenders"]
        self.versions: dict[str, str] = greeting["versions"]

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the peers' process ended: see its message above; --no-peers measures without them")
        return line

    def seconds(self, name: str, samples: int) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\t{samples}\n")
        self.process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def measure(rounds: int, peers: Peers | None) -> dict[str, float]:
    """Nanoseconds a sample, best round of each contender."""
    own = own_contenders()
    for draw in own.values():
        draw(1000)  # compiles, or loads what was compiled before
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, draw in own.items():
            best[name] = min(best.get(name, 1e9), cpu_seconds(draw, SAMPLES) / SAMPLES * 1e9)
        for name in peers.contenders if peers else []:
            best[name] = min(best.get(name, 1e9), peers.seconds(name, PEER_SAMPLES) / PEER_SAMPLES * 1e9)  # type: ignore[union-attr]
    return best


def integer_over_float() -> float:
    """Time of a clipped, rounded, integer gradient sum over its float version, 400 000 × 100 float32, all cores."""
    import numpy as np

    import glm_step

    generator = np.random.default_rng(0)
    X = generator.standard_normal((glm_step.ROWS, glm_step.COLUMNS), dtype=np.float32)
    y = np.where(generator.random(glm_step.ROWS) < 0.5, 1.0, -1.0)
    return glm_step.ratio(glm_step.best_of(15, [glm_step.Contenders(X, y)]), "float_step")


def verdicts(ns: dict[str, float]) -> list[dict[str, Any]]:
    reached = [target for target in TARGETS if target[2] is None or target[2] in ns]
    return shared.verdicts(
        [(what, ns[ours] / (ns[other] if other else 1.0), most) for what, ours, other, most in reached]
        + [("integer gradient sum over its float version", integer_over_float(), 1.4)]
    )


def table(ns: dict[str, float], judged: list[dict[str, Any]]) -> str:
    base = {"gaussian": ns["discreet rounded_gaussian"], "laplace": ns["discreet rounded_laplace"]}
    lines = ["| sampler | ns a sample | times ours |", "|---|---:|---:|"]
    for family, names in (("gaussian", ("gauss", "normal")), ("laplace", ("laplace", "geometric"))):
        rows = [n for n in ns if any(part in n.lower() for part in names)]
        lines += [f"| {n} | {ns[n]:,.1f} | {ns[n] / base[family]:,.2f} |" for n in sorted(rows, key=ns.__getitem__)]
    lines += ["", shared.verdict_table(judged)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-peers", action="store_true", help="do not prepare or run OpenDP and diffprivlib")
    parser.add_argument("--serve-peers", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_peers:
        serve_peers()
        return 0
    sys.path.insert(0, str(ROOT / "src"))
    peers = None if arguments.no_peers else Peers()
    ns = measure(arguments.rounds, peers)
    judged = verdicts(ns)
    text = table(ns, judged)
    if peers is None:
        print(text)
    else:
        peers.close()
        import discreet

        method = (
            f"best of {arguments.rounds} alternating rounds, CPU time, one thread; {SAMPLES} samples a round "
            f"(peers {PEER_SAMPLES}); scale 2^40 grid steps"
        )
        versions = {"discreet": discreet.__version__, **shared.versions(["numpy", "numba", "cryptography"])}
        versions |= {f"{k} (peers)": v for k, v in peers.versions.items()}
        facts = "\n".join(f"- {package}: {version}" for package, version in versions.items())
        results = {"versions": versions, "method": method, "ns_per_sample": ns, "targets": judged}
        shared.write("noise", "Cost of noise", f"{text}\n\n{method}.\n\n{facts}", results)
    return 0 if all(v["met"] for v in judged) else 1


if __name__ == "__main__":
    raise SystemExit(main())
