"""Rows of `accuracy.py`: their names, the table, and what each of ours is held to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import measures
import peers

EPSILONS = [0.1, 0.5, 1.0, 2.0, 8.0]
ADD_REMOVE, REPLACE_ONE = "discreet, add-remove", "discreet, replace-one"
COMMAND = {"add-remove": f"{ADD_REMOVE}, command line", "replace-one": f"{REPLACE_ONE}, command line"}
ADASSP, FIXED_DESCENT = "AdaSSP (discreet's), add-remove", "noisy gradient descent (discreet's), add-remove"
OPACUS_ONE, OPACUS_BEST = "Opacus DP-SGD, one setting", "Opacus DP-SGD, best of grid"
DEFAULT_C, BEST_C = "diffprivlib, default", "diffprivlib, best C"
EBM_DEFAULT, EBM_BEST = "DP-EBM, default", "DP-EBM, best of grid"
CEILING, BOOSTING = "without privacy", "gradient boosting, without privacy"
ORDER = [
    ADD_REMOVE, COMMAND["add-remove"], REPLACE_ONE, COMMAND["replace-one"], ADASSP, FIXED_DESCENT,
    OPACUS_ONE, OPACUS_BEST, EBM_DEFAULT, EBM_BEST, DEFAULT_C, BEST_C, CEILING, BOOSTING,
]  # fmt: skip
PEERS = (OPACUS_ONE, OPACUS_BEST, EBM_DEFAULT, EBM_BEST, DEFAULT_C, BEST_C, BOOSTING)
EBM = (EBM_DEFAULT, EBM_BEST)
"""The peer that predicts probabilities of its own: compared in every measure."""
REFERENCES = [
    (ADD_REMOVE, (OPACUS_ONE, OPACUS_BEST)),
    (ADD_REMOVE, EBM),
    (ADD_REMOVE, (ADASSP, FIXED_DESCENT)),
    (COMMAND["add-remove"], (OPACUS_ONE, OPACUS_BEST, *EBM)),
    (REPLACE_ONE, (DEFAULT_C, BEST_C)),
    (COMMAND["replace-one"], (DEFAULT_C, BEST_C)),
]
"""Each row of ours is held to the best of others, all under the same relation. Opacus and DP-EBM protect a person's
presence (add-remove); diffprivlib protects a person's values (replace-one), and by pure ε."""
TARGETS = {
    ("a9a", ADD_REMOVE): dict(zip(EPSILONS, (83.2, 84.7, 85.0, 85.0, 85.0), strict=True)),
    ("adult", COMMAND["add-remove"]): dict(zip(EPSILONS, (82.5, 84.2, 84.6, 84.8, 85.0), strict=True)),
}
SECONDS = 0.5
"""CPU seconds that a fit of ours may take, encoding included; starting the command line is not a part of it."""

Method = dict[str, Any]
"""{"scores": {ε: [score of each run]}, "runs": a figure, "seconds": of the median fit, …}"""


def mean_and_error(runs: list[float]) -> tuple[float, float]:
    return float(np.mean(runs)), float(np.std(runs, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else 0.0


def cell(method: Method, epsilon: float, task: str) -> str:
    runs = method["scores"].get("inf") or method["scores"].get(str(epsilon))
    if not runs:
        return ""
    mean, error = mean_and_error(runs)
    spread = f" ± {error:.{3 if task == 'regression' else 2}f}" if len(runs) > 1 else ""
    if task == "regression":
        return f"{mean:.3f}{spread}" if mean > -10 else f"{mean:.1g}"
    return f"{mean:.2f}{spread}"


def table(results: dict[str, Any], epsilons: list[float]) -> str:
    rows: list[list[object]] = []
    for name, found in results.items():
        majority = f", majority {found['majority']:.1f}" if found["majority"] else ", R²"
        described = f"**{name}** ({found['n']} × {found['d']}{majority})"
        for method_name in ORDER:
            method = found["methods"].get(method_name)
            if method is None:
                continue
            cells = [cell(method, epsilon, found["task"]) for epsilon in epsilons]
            runs = sorted({len(scores) for scores in method["scores"].values()})
            rows.append([described, method_name, *cells, "–".join(map(str, runs)), f"{method['seconds']:.2f}"])
            described = ""
    return peers.markdown(["data", "method", *(f"ε = {e:g}" for e in epsilons), "runs", "CPU s"], rows)


def measure_table(results: dict[str, Any], epsilons: list[float]) -> str:
    """Every measure of the rows that have them beside the constant; empty for results that have none."""
    lines: list[list[object]] = []
    for name, found in results.items():
        for row in (ADD_REMOVE, REPLACE_ONE, *EBM, BOOSTING):
            for measure, runs in found["methods"].get(row, {}).get("measures", {}).items():
                cells = [runs.get("inf") or runs.get(str(e)) for e in epsilons]
                means = [f"{np.mean(cell):.4g}" if cell else "" for cell in cells]
                lines.append([name, row, measure, *means, f"{found['constant'].get(measure, math.nan):.4g}"])
    head = ["data", "method", "measure", *(f"ε = {e:g}" for e in epsilons), "constant"]
    return peers.markdown(head, lines) if lines else ""


def chosen_settings(results: dict[str, Any]) -> str:
    """The settings that were best for peers, which no user could know."""
    rows: list[list[object]] = []
    for name, found in results.items():
        for method in (OPACUS_BEST, EBM_BEST, BEST_C):
            settings = found["methods"].get(method, {}).get("settings", {})
            if settings:
                rows.append([name, method, *(settings.get(str(e), "") for e in EPSILONS)])
    return peers.markdown(["data", "method", *(f"ε = {e:g}" for e in EPSILONS)], rows)


def runs_of(methods: dict[str, Method], name: str) -> dict[str, list[float]]:
    """The runs of a row for each ε; none where it was not measured."""
    found: dict[str, list[float]] = methods.get(name, {"scores": {}})["scores"]
    return found


def best_of(methods: dict[str, Method], names: tuple[str, ...], epsilon: str) -> tuple[str, list[float]] | None:
    """The best of these rows at ε, and its runs."""
    known = [(name, runs_of(methods, name)[epsilon]) for name in names if epsilon in runs_of(methods, name)]
    return max(known, key=lambda row: float(np.mean(row[1])), default=None)


def verdicts(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Each promise as {"claim", "bound", "measured", "met"}: a mean is allowed one standard error of the difference."""
    judged = []

    def judge(claim: str, least: list[float], runs: list[float]) -> None:
        (target, spread), (mean, error) = mean_and_error(least), mean_and_error(runs)
        met = mean + math.hypot(error, spread) >= target - 1e-9
        judged.append({"claim": claim, "bound": target, "measured": mean, "met": met})

    for name, found in results.items():
        methods = found["methods"]
        for (about, ours), targets in TARGETS.items():
            for epsilon, runs in runs_of(methods, ours).items():
                if about == name:
                    judge(f"{name}, ε = {epsilon}, {ours} against its target", [targets[float(epsilon)]], runs)
        for ours, others in REFERENCES:
            for epsilon, runs in runs_of(methods, ours).items():
                best = best_of(methods, others, epsilon)
                if best is not None:
                    judge(f"{name}, ε = {epsilon}, {ours} against {best[0]}", best[1], runs)
        halves = runs_of(methods, ADD_REMOVE)
        for epsilon, runs in runs_of(methods, REPLACE_ONE).items():
            half = halves.get(str(float(epsilon) / 2))
            if half:
                judge(f"{name}, replace-one at ε = {epsilon} against add-remove at half", half, runs)
        for ours in (ADD_REMOVE, REPLACE_ONE):
            if ours == ADD_REMOVE:
                judged += _against_ebm(name, methods)
            judged += _measured_promises(name, ours, methods.get(ours, {}), found.get("constant", {}))
            if ours in methods:
                seconds = methods[ours]["seconds"]
                claim = f"{name}, {ours}, CPU seconds of the median fit"
                judged.append({"claim": claim, "bound": SECONDS, "measured": seconds, "met": seconds <= SECONDS})
    return judged


def _measured_promises(name: str, ours: str, method: Method, constant: dict[str, float]) -> list[dict[str, Any]]:
    """No measure falls by over two standard errors as ε grows, and none is below the constant's by over one."""
    judged = []
    for measure, runs in method.get("measures", {}).items():
        better = measures.LARGER_IS_BETTER[measure]
        if measure != "calibration error":
            lost = measures.losses_in_epsilon(runs, larger_is_better=better)
            claim = f"{name}, {ours}, steps in ε that lose {measure}" + (f" ({', '.join(lost)})" if lost else "")
            judged.append({"claim": claim, "bound": 0.0, "measured": float(len(lost)), "met": not lost})
        if measure in ("accuracy", "log-loss"):
            for epsilon, scores in runs.items():
                mean, error = mean_and_error(scores)
                sign, claim = 1 if better else -1, f"{name}, ε = {epsilon}, {ours}, {measure} against the constant"
                met = sign * (mean - constant[measure]) >= -error
                judged.append({"claim": claim, "bound": constant[measure], "measured": mean, "met": met})
    return judged


def _against_ebm(name: str, methods: dict[str, Method]) -> list[dict[str, Any]]:
    """Each measure beside accuracy and R², which are compared already, against the better of DP-EBM's two rows."""
    judged = []
    for measure, ours in methods.get(ADD_REMOVE, {}).get("measures", {}).items():
        sign = 1 if measures.LARGER_IS_BETTER[measure] else -1
        for epsilon, runs in ours.items() if measure not in ("accuracy", "R²") else ():
            theirs = [methods.get(row, {}).get("measures", {}).get(measure, {}).get(epsilon) for row in EBM]
            known = [mean_and_error(found) for found in theirs if found]
            if known:
                (bound, spread), (mean, error) = max(known, key=lambda pair: sign * pair[0]), mean_and_error(runs)
                met = sign * (mean - bound) >= -math.hypot(error, spread) - 1e-9
                claim = f"{name}, ε = {epsilon}, {ADD_REMOVE}, {measure} against DP-EBM"
                judged.append({"claim": claim, "bound": bound, "measured": mean, "met": met})
    return judged


def summary(judged: list[dict[str, Any]]) -> str:
    missed = [verdict for verdict in judged if not verdict["met"]]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} comparisons met, scores within one standard error."]
    if missed:
        rows = [[verdict["claim"], verdict["bound"], verdict["measured"]] for verdict in missed]
        lines.append("Not met:\n\n" + peers.markdown(["claim", "bound", "measured"], rows))
    return "\n\n".join(lines)
