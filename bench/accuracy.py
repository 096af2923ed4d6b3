"""What a user who sets only ε gets: test accuracy and R² of ``solver="auto"``, beside the peers and no privacy.

    python bench/accuracy.py --data FOLDER      # prepares .venv-bench-… for the peers, measures, writes bench/results/
    python bench/accuracy.py                    # the bundled data only
    python bench/accuracy.py --only own --sets adult,a9a    # discreet on these sets; all other figures stay as they are
    python bench/accuracy.py --quick            # two seeds, three ε, small sets, peers untuned: minutes, writes nothing

FOLDER holds adult/, a9a/, … as their usual files; what is not there is left out. Splits are fixed (Adult, a9a, Reuters,
20news and MNIST have their own; RAND is split by person; others take 80 % at random, seed 0). δ = 1/n² and n is public.
Raw Adult also goes through the commands ``discreet fit`` and ``discreet predict``. Opacus and diffprivlib see the same
encoded features and public bounds; DP-EBM sees the columns themselves with their public bounds and kinds, as does
gradient boosting without privacy, the ceiling of what a table holds. The settings of "best of grid" and "best C" are
chosen on the test set, separately for each ε, for free. Figures are means ± standard errors over runs, in % of the test
set or R²; seconds are CPU seconds of the median fit (of the whole process for the command line).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import accuracy_command
import accuracy_table as rows
import boosting
import discreet as dp
import measures
import peers
import sets
from accuracy_table import EPSILONS, Method
from discreet.cli.fit import NamedColumn
from sets import Encoded

DIFFPRIVLIB = peers.Environment("accuracy-diffprivlib", ["diffprivlib==0.6.6", "scikit-learn<1.6"])
OPACUS = peers.Environment("accuracy-opacus", ["opacus==1.6.0", "torch==2.13.0", "scikit-learn"])
PEERS = str(Path(__file__).with_name("accuracy_peers.py"))
RESULTS = peers.RESULTS / "accuracy.json"

DENSE = 2e8
"""diffprivlib gets dense rows in double precision; sets with more entries would not fit into memory."""
WIDE = 1000
"""diffprivlib's linear regression minimises over the square of the features: it did not end in minutes on 4088."""
FEW_ROWS = 1000
QUICK = 8e6
"""Entries of the largest set that a quick run measures."""


FEW_SETTINGS = [
    {"rate": 4.0},
    {"rate": 16.0, "epochs": 10, "batches": 4, "clip": 0.1},
    {"rate": 16.0, "epochs": 20, "batches": 8, "clip": 0.1},
    {"rate": 0.1, "epochs": 10, "batches": 8, "optimizer": "Adam"},
    {"rate": 0.03, "epochs": 20, "batches": 8, "optimizer": "Adam"},
]
"""What Opacus chooses from where a run takes a minute."""


# --- fits -------------------------------------------------------------------------------------------------------------


def own(data: Encoded, adjacency: str, epsilons: list[float], seeds: int, solver: str = "auto") -> Method:
    scores: dict[str, list[float]] = {}
    others: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds = []
    for epsilon in epsilons:
        scores[str(epsilon)] = []
        for seed in range(seeds):
            found, spent = one_fit(data, epsilon, adjacency, seed, solver)
            scores[str(epsilon)].append(found["R²" if data.task == "regression" else "accuracy"])
            for name, value in found.items():
                others[name][str(epsilon)].append(value)
            seconds.append(spent)
    return {"scores": scores, "measures": others, "seconds": float(np.median(seconds))}


def one_fit(
    data: Encoded, epsilon: float, adjacency: str, seed: int, solver: str = "auto"
) -> tuple[dict[str, float], float]:
    """Measures of the test predictions, and CPU seconds of the fit."""
    n = len(data.y)
    given = {"adjacency": adjacency, "n_public": n, "delta": 1 / n**2, "random_state": seed, "solver": solver}
    if data.table is not None and solver == "auto":  # as the command line does it, from the table
        _, schema, target, train, test = data.table
        model = dp.LinearRegression if data.task == "regression" else dp.LogisticRegression
        estimator = model(epsilon, schema=schema, **given)
        start = time.process_time()
        estimator.fit(train, NamedColumn.of(train, target, schema))
        seconds = time.process_time() - start
        if data.task == "regression":
            return measures.of_numbers(data.y_test, estimator.predict(test.drop(target))), seconds
        named = [str(label) for label in estimator.classes_]  # sorted; codes of labels are in the schema's order
        chances = estimator.predict_proba(test.drop(target))
        chances = chances[:, [named.index(str(label)) for label in schema[target].categories]]
        return measures.of_classes(data.y_test, chances), seconds
    given["row_norm"] = data.row_norm
    if data.task == "regression":
        estimator = dp.LinearRegression(epsilon, target_bounds=data.bounds, **given)
    else:
        estimator = dp.LogisticRegression(epsilon, classes=list(range(int(data.y.max()) + 1)), **given)
    start = time.process_time()
    estimator.fit(data.X, data.y)
    seconds = time.process_time() - start
    if data.task == "regression":
        return measures.of_numbers(data.y_test, estimator.predict(data.X_test)), seconds
    return measures.of_classes(data.y_test, estimator.predict_proba(data.X_test)), seconds


def ceiling(data: Encoded) -> Method:
    from sklearn.linear_model import LogisticRegression, Ridge

    model = Ridge(alpha=1.0) if data.task == "regression" else LogisticRegression(C=100.0, max_iter=300)
    start = time.process_time()
    model.fit(data.X, data.y)
    seconds = time.process_time() - start
    score = float(model.score(data.X_test, data.y_test)) * (1 if data.task == "regression" else 100)
    return {"scores": {"inf": [score]}, "seconds": seconds}


def own_methods(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Method]:
    seeds = options.seeds * repeats(data, options)
    one_fit(data, 1.0, "add-remove", 0)  # compiles
    methods = {
        rows.ADD_REMOVE: own(data, "add-remove", epsilons, seeds),
        rows.REPLACE_ONE: own(data, "replace-one", epsilons, seeds),
    }
    if data.name == "adult":
        for adjacency, name in rows.COMMAND.items():
            methods[name] = accuracy_command.fits(options.data / "adult", adjacency, epsilons, seeds)
    if data.task == "regression" and data.X.shape[1] <= 1000:
        methods[rows.ADASSP] = own(data, "add-remove", epsilons, seeds, "sufficient_statistics")
    if data.task == "regression":
        methods[rows.FIXED_DESCENT] = own(data, "add-remove", epsilons, seeds, "descent")
    for method in methods.values():
        method["commit"] = commit()
    methods[rows.CEILING] = ceiling(data)
    return methods


def commit() -> str:
    """The commit that is measured, marked where the working tree's source differs from it."""
    command = ["git", "-C", str(peers.ROOT), "describe", "--always", "--abbrev=10", "--exclude=*"]
    named = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    changed = subprocess.run(["git", "-C", str(peers.ROOT), "diff", "--quiet", "HEAD", "--", "src"], check=False)
    return named + ("-changed" if changed.returncode else "")


def diffprivlib_methods(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Method]:
    n, d, outputs = sizes(data)
    if n * d > DENSE or (data.task == "regression" and d > WIDE):
        return {}
    strengths = {"strengths": [0.01, 1.0] if outputs == 1 else [1.0]}
    given = effort(n * d * outputs, options, strengths)  # it makes every entry dense
    given["seeds"] *= repeats(data, options)
    answer = asked(DIFFPRIVLIB, "diffprivlib_fits", data, epsilons=epsilons, **given)
    return as_methods(answer, data.task, rows.DEFAULT_C, rows.BEST_C)


def opacus_methods(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Method]:
    n, d, outputs = sizes(data)
    entries = data.X.nnz if hasattr(data.X, "nnz") else n * d
    given = effort(entries + 40 * n + 100 * d * outputs, options, {"settings": FEW_SETTINGS})
    given["seeds"] *= repeats(data, options)
    answer = asked(OPACUS, "opacus_fits", data, epsilons=epsilons, **given)
    return as_methods(answer, data.task, rows.OPACUS_ONE, rows.OPACUS_BEST)


def dp_ebm_methods(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Method]:
    given = effort(20 * len(data.y) * boosting.width(data), options, {"few": True})
    seeds = given.pop("seeds") * repeats(data, options)
    found = boosting.dp_ebm_methods(data, epsilons, seeds, **{"few": False, **given})
    return dict(zip(rows.EBM, found, strict=False))


def boosting_methods(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Method]:
    """Gradient boosting, which knows no ε and needs no environment of its own."""
    found = boosting.ceiling(data)
    return {} if found is None else {rows.BOOSTING: found}


def repeats(data: Encoded, options: argparse.Namespace) -> int:
    """Four times the runs where rows are few: so are test rows, scores scatter, and the best of a grid is luck."""
    return 4 if data.X.shape[0] < FEW_ROWS and not options.quick else 1


def sizes(data: Encoded) -> tuple[int, int, int]:
    """Rows, features and outputs."""
    return (*data.X.shape, int(data.y.max()) + 1 if data.task == "multinomial" else 1)


def effort(work: float, options: argparse.Namespace, few: dict[str, Any]) -> dict[str, Any]:
    """Runs that a peer gets: all where they take a second, fewer and by fewer settings where they take minutes."""
    if options.quick:
        return {"seeds": 1, "choosing": 0}
    if work <= 8e6:
        return {"seeds": options.peer_seeds, "choosing": 3}
    if work <= 5e7:
        return {"seeds": min(options.peer_seeds, 3), "choosing": 1}
    return {"seeds": min(options.peer_seeds, 3 if work <= 1e8 else 1), "choosing": 1, **few}


def asked(environment: peers.Environment, function: str, data: Encoded, **given: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "set.npz"
        data.save(file)
        answer: dict[str, Any] = peers.in_environment(
            environment, PEERS, function, file=str(file), task=data.task, **given
        )
    return answer


def as_methods(answer: dict[str, Any], task: str, plain: str, best: str) -> dict[str, Method]:
    """A peer's answer as two rows: its plain setting, and its best."""
    methods: dict[str, Method] = {}
    for name, key, seconds in ((plain, "fits", "seconds"), (best, "tuned", "tuned_seconds")):
        scores: dict[str, list[float]] = defaultdict(list)
        settings: dict[str, str] = {}
        for fit in answer[key]:
            scores[str(fit["epsilon"])].append(fit["score"] * (1 if task == "regression" else 100))
            settings[str(fit["epsilon"])] = fit["setting"]
        if scores:
            facts = {"seconds": answer[seconds], "version": answer["version"], "settings": settings}
            methods[name] = {"scores": scores, **facts}
    return methods


MEASURED = {
    "own": own_methods,
    "diffprivlib": diffprivlib_methods,
    "opacus": opacus_methods,
    "dp-ebm": dp_ebm_methods,
    "boosting": boosting_methods,
}


def measure(data: Encoded, options: argparse.Namespace, epsilons: list[float]) -> dict[str, Any]:
    methods: dict[str, Method] = {}
    for who in wanted_rows(options):
        methods |= MEASURED[who](data, options, epsilons)
    for method in methods.values():
        method["runs"] = max(len(scores) for scores in method["scores"].values())
    n, d = data.X.shape
    majority = 0.0 if data.task == "regression" else 100 * float(np.bincount(data.y_test).max() / len(data.y_test))
    constant = measures.of_constant(data.y, data.y_test, classes=data.task != "regression")
    facts = {"task": data.task, "n": n, "d": d, "majority": majority}
    return {**facts, "constant": constant, "methods": methods}


# --- the run ----------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the public benchmark sets")
    parser.add_argument("--sets", help="folders' names, with commas; the bundled set is randhie")
    parser.add_argument("--seeds", type=int, default=10, help="runs of discreet for each figure")
    parser.add_argument("--peer-seeds", type=int, default=10, help="runs of peers for each figure; fewer on large sets")
    named = [name for name in MEASURED if name != "own"]
    parser.add_argument("--peers", nargs="+", choices=named, default=named)
    parser.add_argument("--only", choices=["own", "peers"], help="keep the other figures of the last run")
    parser.add_argument("--no-peers", dest="only", action="store_const", const="own", help="the same as --only own")
    parser.add_argument("--quick", action="store_true", help="two seeds, three ε, small sets; writes nothing")
    options = parser.parse_args()
    epsilons = EPSILONS
    if options.quick:
        options.seeds, options.peer_seeds, epsilons = 2, 1, [0.1, 1.0, 8.0]
    else:
        print(estimate(options), flush=True)
    wanted = set(options.sets.split(",")) if options.sets else None
    measured: dict[str, Any] = {}
    for data in sets.encoded_problems(options.data, wanted):
        if options.quick and wanted is None and np.prod(data.X.shape) > QUICK:
            continue
        measured[data.name] = found = measure(data, options, epsilons)
        print(rows.table({data.name: found}, epsilons), flush=True)
        if not options.quick:
            measured[data.name] = keep(data.name, found)
    print(f"\n{rows.table(measured, epsilons)}\n\n{rows.measure_table(measured, epsilons)}")
    print(f"\n{rows.summary(rows.verdicts(measured))}")


def wanted_rows(options: argparse.Namespace) -> list[str]:
    """Keys of ``MEASURED`` that were asked for."""
    return (["own"] if options.only != "peers" else []) + (options.peers if options.only != "own" else [])


def stored() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text())["sets"]) if RESULTS.exists() else {}


def estimate(options: argparse.Namespace) -> str:
    """CPU time by the figures of the last run: choosing a peer's setting, or predicting by command, doubles a fit."""
    minutes: dict[str, float] = defaultdict(float)
    for name, found in stored().items():
        set_name = name.split(",")[0].replace("RAND", "randhie")
        asked_for = options.sets is None or any(folder.startswith(set_name) for folder in options.sets.split(","))
        if not asked_for or (options.data is None and set_name != "randhie"):
            continue
        for row, method in found["methods"].items():
            if options.only is None or (options.only == "peers") == (row in rows.PEERS):
                fits = sum(map(len, method["scores"].values()))
                twice = row in (rows.OPACUS_BEST, rows.EBM_BEST, rows.BEST_C, *rows.COMMAND.values())
                minutes[set_name] += method["seconds"] * fits * (2 if twice else 1) / 60
    longest = sorted(minutes, key=lambda name: -minutes[name])[:5]
    most = ", ".join(f"{name} {minutes[name]:.0f}" for name in longest)
    return f"By the last run, about {sum(minutes.values()):.0f} CPU minutes (longest: {most})."


def keep(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Write what is known so far: new figures replace old ones of the same set and method."""
    peers.RESULTS.mkdir(exist_ok=True)
    with (peers.RESULTS / ".accuracy.lock").open("w") as lock:  # runs for different sets may go on side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _keep(name, found)


def _keep(name: str, found: dict[str, Any]) -> dict[str, Any]:
    results = stored()
    old = results.get(name, {"methods": {}})
    merged = {**old["methods"], **found["methods"]}
    found["methods"] = {method: merged[method] for method in rows.ORDER if method in merged}
    results[name] = found
    judged = rows.verdicts(results)
    versions = peers.versions(["numpy", "scipy", "scikit-learn", "numba"]) | {"discreet": dp.__version__}
    commits = set()
    for method, measured in [pair for each in results.values() for pair in each["methods"].items()]:
        if "version" in measured:
            versions[method.split()[0].strip(",")] = measured["version"]
        if "commit" in measured:
            commits.add(measured["commit"])
    described = ", ".join(f"{package} {version}" for package, version in versions.items())
    text = (
        '`python bench/accuracy.py --data FOLDER`: `solver="auto"`, only ε given, δ = 1/n², n public. Test accuracy in '
        "% (or R²), mean ± standard error over runs; CPU seconds of the median fit, on a busy machine (of the whole "
        "process for the command line). diffprivlib is pure ε under replace-one, Opacus and DP-EBM (ε, δ) under "
        "add-remove. 'best of grid' and 'best C' are chosen on the test set for each ε, for DP-EBM also for each "
        "measure. Gradient boosting sees the columns as DP-EBM does.\n\n"
        f"{rows.table(results, EPSILONS)}\n\n{rows.measure_table(results, EPSILONS)}\n\n{rows.summary(judged)}\n\n"
        f"Settings that were best for peers:\n\n{rows.chosen_settings(results)}\n\n"
        f"Versions: {described}. discreet at commit {', '.join(sorted(commits)) or 'unknown'}."
    )
    machine = peers.machine()
    everything = {"machine": machine, "versions": versions, "sets": results, "verdicts": judged}
    RESULTS.write_text(json.dumps(everything, indent=1) + "\n")
    where = ", ".join(f"{key} {value}" for key, value in machine.items())
    RESULTS.with_suffix(".md").write_text(f"# Accuracy\n\n{text}\n\nMachine: {where}.\n")
    return found


if __name__ == "__main__":
    main()
