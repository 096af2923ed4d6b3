"""What a user who sets only ε gets: test accuracy and R² of ``solver="auto"``, beside the peers and no privacy.

    python bench/accuracy.py --data FOLDER      # prepares .venv-bench-… for the peers, measures, writes bench/results/
    python bench/accuracy.py                    # the bundled data only
    python bench/accuracy.py --only own --sets adult,a9a    # discreet on these sets; all other figures stay as they are
    python bench/accuracy.py --quick            # two seeds, three ε, prints only

FOLDER holds adult/, a9a/, … as their usual files; what is not there is left out. Splits are fixed (Adult, a9a, Reuters
and MNIST have their own; RAND is split by person; others take 80 % at random, seed 0). δ = 1/n² and n is public. Peers
see the same encoded features and public bounds. diffprivlib is pure-ε; "best C" is chosen on the test set, separately
for each ε, for free. Figures are means ± standard errors over runs, in % of the test set or R²; seconds are CPU seconds
of the median fit (for Adult, encoding included).
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import discreet as dp
import peers
import sets
from discreet.cli.fit import NamedColumn
from sets import Encoded

EPSILONS = [0.1, 0.5, 1.0, 2.0, 8.0]
DIFFPRIVLIB = peers.Environment("accuracy-diffprivlib", ["diffprivlib==0.6.6", "scikit-learn<1.6"])
OPACUS = peers.Environment("accuracy-opacus", ["opacus==1.6.0", "torch==2.13.0", "scikit-learn"])
PEERS = str(Path(__file__).with_name("accuracy_peers.py"))
RESULTS = peers.RESULTS / "accuracy.json"

MANY_ROWS = 50_000
"""Sets with more rows get three runs: their standard errors are small."""
DENSE = 2e8
"""Peers get dense rows; sets that would need more entries than this are not given to them."""

ADD_REMOVE, REPLACE_ONE = "discreet, add-remove", "discreet, replace-one"
ADASSP, FIXED_DESCENT = "AdaSSP (discreet's), add-remove", "noisy gradient descent (discreet's), add-remove"
DEFAULT_C, BEST_C = "diffprivlib, default", "diffprivlib, best C"
OPACUS_SGD, CEILING = "Opacus DP-SGD, add-remove", "without privacy"
REFERENCES = {  # what each row of ours must not lose to, under the same relation
    ADD_REMOVE: (OPACUS_SGD, ADASSP, FIXED_DESCENT),
    REPLACE_ONE: (DEFAULT_C, BEST_C),
}
TARGETS = {
    "a9a": dict(zip(EPSILONS, (83.2, 84.7, 85.0, 85.0, 85.0), strict=True)),
    "adult": dict(zip(EPSILONS, (82.5, 84.2, 84.6, 84.8, 85.0), strict=True)),
}
Method = dict[str, Any]  # {"scores": {ε: [score of each run]}, "seconds": of the median fit}


# --- fits -------------------------------------------------------------------------------------------------------------


def own(data: Encoded, adjacency: str, epsilons: list[float], seeds: int, solver: str = "auto") -> Method:
    scores: dict[str, list[float]] = {}
    seconds = []
    for epsilon in epsilons:
        scores[str(epsilon)] = []
        for seed in range(seeds):
            score, spent = one_fit(data, epsilon, adjacency, seed, solver)
            scores[str(epsilon)].append(score)
            seconds.append(spent)
    return {"scores": scores, "seconds": float(np.median(seconds))}


def one_fit(data: Encoded, epsilon: float, adjacency: str, seed: int, solver: str = "auto") -> tuple[float, float]:
    """Test score, and CPU seconds of the fit."""
    n = len(data.y)
    given = {"adjacency": adjacency, "n_public": n, "delta": 1 / n**2, "random_state": seed, "solver": solver}
    if data.name == "adult" and data.table is not None:  # as the command line does it, from the table
        _, schema, target, train, test = data.table
        estimator = dp.LogisticRegression(epsilon, schema=schema, **given)
        start = time.process_time()
        estimator.fit(train, NamedColumn.of(train, target))
        seconds = time.process_time() - start
        right = estimator.predict(test.drop(target)) == test[target].astype(str)
        return float(100 * np.mean(right)), seconds
    given["row_norm"] = data.row_norm
    if data.task == "regression":
        estimator = dp.LinearRegression(epsilon, target_bounds=data.bounds, **given)
    else:
        estimator = dp.LogisticRegression(epsilon, classes=list(range(int(data.y.max()) + 1)), **given)
    start = time.process_time()
    estimator.fit(data.X, data.y)
    seconds = time.process_time() - start
    score = float(estimator.score(data.X_test, data.y_test))
    return score if data.task == "regression" else 100 * score, seconds


def ceiling(data: Encoded) -> Method:
    from sklearn.linear_model import LogisticRegression, Ridge

    model = Ridge(alpha=1.0) if data.task == "regression" else LogisticRegression(C=100.0, max_iter=300)
    start = time.process_time()
    model.fit(data.X, data.y)
    seconds = time.process_time() - start
    score = float(model.score(data.X_test, data.y_test)) * (1 if data.task == "regression" else 100)
    return {"scores": {"inf": [score]}, "seconds": seconds}


def peer_methods(data: Encoded, epsilons: list[float], seeds: int) -> dict[str, Method]:
    if math.prod(data.X.shape) > DENSE:
        return {}
    unit = 1 if data.task == "regression" else 100
    methods: dict[str, Method] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "set.npz"
        data.save(file)
        asked = {"file": str(file), "task": data.task, "epsilons": epsilons, "seeds": seeds}
        answer = peers.in_environment(DIFFPRIVLIB, PEERS, "diffprivlib_fits", **asked)
        runs: dict[float, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for fit in answer["fits"]:
            runs[fit["C"]][str(fit["epsilon"])].append(unit * fit["score"])
        facts = {"seconds": answer["seconds"], "version": answer["version"]}
        methods[DEFAULT_C] = {"scores": runs[1.0], **facts}
        if len(runs) > 1:
            best = {e: max((by_epsilon[e] for by_epsilon in runs.values()), key=np.mean) for e in runs[1.0]}
            methods[BEST_C] = {"scores": best, **facts}
        answer = peers.in_environment(OPACUS, PEERS, "opacus_fits", **asked)
        scores: dict[str, list[float]] = defaultdict(list)
        for fit in answer["fits"]:
            scores[str(fit["epsilon"])].append(unit * fit["score"])
        methods[OPACUS_SGD] = {"scores": scores, "seconds": answer["seconds"], "version": answer["version"]}
    return methods


def measure(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Any]:
    seeds = min(options.seeds, 3) if data.X.shape[0] > MANY_ROWS else options.seeds
    methods: dict[str, Method] = {}
    if options.only != "peers":
        methods |= own_methods(data, epsilons, seeds)
    if options.only != "own":
        asked = [epsilon for epsilon in epsilons if epsilon in options.peer_epsilons]
        methods |= peer_methods(data, asked, min(seeds, options.peer_seeds))
    n, d = data.X.shape
    return {"task": data.task, "n": n, "d": d, "majority": _majority(data), "methods": methods}


def own_methods(data: Encoded, epsilons: list[float], seeds: int) -> dict[str, Method]:
    one_fit(data, 1.0, "add-remove", 0)  # compiles
    methods = {
        ADD_REMOVE: own(data, "add-remove", epsilons, seeds),
        REPLACE_ONE: own(data, "replace-one", epsilons, seeds),
    }
    if data.task == "regression" and data.X.shape[1] <= 1000:
        methods[ADASSP] = own(data, "add-remove", epsilons, seeds, "sufficient_statistics")
    if data.task == "regression":
        methods[FIXED_DESCENT] = own(data, "add-remove", epsilons, min(seeds, 3), "descent")
    methods[CEILING] = ceiling(data)
    return methods


def _majority(data: Encoded) -> float:
    return 0.0 if data.task == "regression" else 100 * float(np.bincount(data.y_test).max() / len(data.y_test))


# --- tables and verdicts ----------------------------------------------------------------------------------------------


def mean_and_error(runs: list[float]) -> tuple[float, float]:
    return float(np.mean(runs)), float(np.std(runs, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else 0.0


def cell(method: Method, epsilon: float, task: str) -> str:
    runs = method["scores"].get(str(epsilon))
    if not runs:
        return ""
    mean, error = mean_and_error(runs)
    if task == "regression":
        return f"{mean:.3f} ± {error:.3f}" if mean > -10 else f"{mean:.1g}"
    return f"{mean:.2f} ± {error:.2f}"


def table(results: dict[str, Any], epsilons: list[float]) -> str:
    order = [ADD_REMOVE, REPLACE_ONE, ADASSP, FIXED_DESCENT, OPACUS_SGD, DEFAULT_C, BEST_C, CEILING]
    rows: list[list[object]] = []
    for name, found in results.items():
        majority = f", majority {found['majority']:.1f}" if found["majority"] else ", R²"
        described = f"**{name}** ({found['n']} × {found['d']}{majority})"
        for method_name in order:
            method = found["methods"].get(method_name)
            if method is None:
                continue
            if method_name == CEILING:
                score = method["scores"]["inf"][0]
                cells = [f"{score:.3f}" if found["task"] == "regression" else f"{score:.2f}"] * len(epsilons)
            else:
                cells = [cell(method, epsilon, found["task"]) for epsilon in epsilons]
            rows.append([described, method_name, *cells, f"{method['seconds']:.2f}"])
            described = ""
    return peers.markdown(["data", "method", *(f"ε = {e:g}" for e in epsilons), "CPU s"], rows)


def verdicts(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Each promise as {"claim", "least", "measured", "met"}: a mean is allowed one standard error of the difference."""
    judged = []

    def judge(claim: str, least: list[float], runs: list[float]) -> None:
        (target, spread), (mean, error) = mean_and_error(least), mean_and_error(runs)
        met = mean + math.hypot(error, spread) >= target - 1e-9
        judged.append({"claim": claim, "least": target, "measured": mean, "met": met})

    for name, found in results.items():
        methods = found["methods"]
        if ADD_REMOVE not in methods:
            continue
        for epsilon, target in TARGETS.get(name, {}).items():
            runs = methods[ADD_REMOVE]["scores"].get(str(epsilon))
            if runs:
                judge(f"{name}, ε = {epsilon:g}, target", [target], runs)
        for ours, others in REFERENCES.items():
            for epsilon, runs in methods[ours]["scores"].items():
                for other in others:
                    theirs = methods.get(other, {"scores": {}})["scores"].get(epsilon)
                    if theirs:
                        judge(f"{name}, ε = {epsilon}, {ours} against {other}", theirs, runs)
        for epsilon, runs in methods[REPLACE_ONE]["scores"].items():
            half = methods[ADD_REMOVE]["scores"].get(str(float(epsilon) / 2))
            if half:
                judge(f"{name}, replace-one at ε = {epsilon} against add-remove at half", half, runs)
    return judged


def summary(judged: list[dict[str, Any]]) -> str:
    missed = [verdict for verdict in judged if not verdict["met"]]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} comparisons met, each within one standard error."]
    if missed:
        rows = [[verdict["claim"], verdict["least"], verdict["measured"]] for verdict in missed]
        lines.append("Not met:\n\n" + peers.markdown(["claim", "least", "measured"], rows))
    return "\n\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the public benchmark sets")
    parser.add_argument("--sets", help="folders' names, with commas; the bundled set is randhie")
    parser.add_argument("--seeds", type=int, default=10, help="runs of discreet for each figure")
    parser.add_argument("--peer-seeds", type=int, default=3, help="runs of peers, which are slower")
    parser.add_argument(
        "--peer-epsilons", type=float, nargs="+", default=EPSILONS, help="budgets that peers are run at"
    )
    parser.add_argument("--only", choices=["own", "peers"], help="keep the other figures of the last run")
    parser.add_argument("--no-peers", dest="only", action="store_const", const="own", help="the same as --only own")
    parser.add_argument("--quick", action="store_true", help="two seeds, three ε; writes nothing")
    options = parser.parse_args()
    epsilons = EPSILONS
    if options.quick:
        options.seeds, options.peer_seeds, epsilons = 2, 1, [0.1, 1.0, 8.0]
    wanted = set(options.sets.split(",")) if options.sets else None
    measured: dict[str, Any] = {}
    for data in sets.encoded_problems(options.data, wanted):
        measured[data.name] = found = measure(data, options, epsilons)
        print(table({data.name: found}, epsilons), flush=True)
        if not options.quick:
            measured[data.name] = keep(data.name, found)
    print("\n" + summary(verdicts(measured)))


def keep(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Write what is known so far: new figures replace old ones of the same set and method."""
    results = json.loads(RESULTS.read_text())["sets"] if RESULTS.exists() else {}
    found["methods"] = {**results.get(name, {"methods": {}})["methods"], **found["methods"]}
    results[name] = found
    judged = verdicts(results)
    versions = peers.versions(["numpy", "scipy", "scikit-learn", "numba"]) | {"discreet": dp.__version__}
    for each in results.values():
        versions |= {
            method.split()[0].strip(","): m["version"] for method, m in each["methods"].items() if "version" in m
        }
    described = ", ".join(f"{package} {version}" for package, version in versions.items())
    text = (
        '`python bench/accuracy.py --data FOLDER`: `solver="auto"`, only ε given, δ = 1/n², n public. Test accuracy in '
        "% (or R²), mean ± standard error over runs; CPU seconds of the median fit, on a busy machine. Runs a figure: "
        f"{_runs(results)}. Peers are slower, so they get fewer runs and, where blank, not every ε. 'best C' is chosen "
        "on the test set for each ε.\n\n"
        f"{table(results, EPSILONS)}\n\n{summary(judged)}\n\nVersions: {described}."
    )
    machine = peers.machine()
    peers.RESULTS.mkdir(exist_ok=True)
    stored = {"machine": machine, "versions": versions, "sets": results, "verdicts": judged}
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")
    where = ", ".join(f"{key} {value}" for key, value in machine.items())
    RESULTS.with_suffix(".md").write_text(f"# Accuracy\n\n{text}\n\nMachine: {where}.\n")
    return found


def _runs(results: dict[str, Any]) -> str:
    """How many runs the figures rest on, for discreet and for peers."""
    counts: dict[str, set[int]] = defaultdict(set)
    for found in results.values():
        for method, measured in found["methods"].items():
            if method != CEILING:
                peer = method.startswith(("diffprivlib", "Opacus"))
                counts["peers" if peer else "discreet"] |= {len(runs) for runs in measured["scores"].values()}
    return ", ".join(f"{who} {'–'.join(map(str, sorted({min(n), max(n)})))}" for who, n in sorted(counts.items()))


if __name__ == "__main__":
    main()
