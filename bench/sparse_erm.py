"""Accuracy on real bag-of-words sets, many more words than documents, at ε = 1 and 4 with δ = 1/n².

Every document is a row of log(1 + count), scaled to length 1: a rule about the row alone. Word frequencies are not used
to weight or drop columns, since they are not public. All methods run under replace-one.

Run: ``python bench/sparse_erm.py --data FOLDER [--runs 3]``.
"""

from __future__ import annotations

import argparse
import gzip
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import peers

Split = tuple[str, Any, Any, Any, Any]
EPSILONS = (1.0, 4.0)
WORDS = 300  # entries of a row that the projections count on: a public guess about documents
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "descent": {"solver": "descent"},
    "dense DP-SGD": {"solver": "descent", "solver_options": {"rate": 0.05, "iterations": 200, "iterate": "last"}},
    "bias_reduced": {"solver": "bias_reduced", "solver_options": {"sparsity": WORDS}},
    "output, ℓ∞": {"solver": "output_perturbation", "solver_options": {"projection": "linf"}, "ball": True},
    "frank_wolfe": {"solver": "frank_wolfe", "ball": True},
}
BALL = 50.0  # ℓ1 radius of the two methods that need a set


def prepared(counts: Any) -> Any:
    rows = sp.csr_array(counts, dtype=np.float64)
    rows.data = np.log1p(rows.data)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1e-12)) @ rows)


def problems(folder: Path) -> Iterator[Split]:
    for name in ("movie_review_polarity", "sms_spam", "reuters21578", "20news"):
        if not (folder / name).is_dir():
            continue
        if name == "sms_spam":
            from sklearn.feature_extraction.text import CountVectorizer

            with gzip.open(folder / name / "SMSSpamCollection.gz", "rt", encoding="utf-8") as lines:
                labels, texts = zip(*(line.rstrip("\n").split("\t", 1) for line in lines), strict=True)
            counts, y, train = CountVectorizer().fit_transform(texts), np.where(np.array(labels) == "spam", 1, -1), None
        else:
            held = np.load(folder / name / f"{name}.npz", allow_pickle=True)
            counts = sp.csr_array((held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
            y, train = held["y"], held["is_train"].astype(bool) if "is_train" in held else None
        if train is None:
            train = np.random.default_rng(0).permutation(len(y)) < 0.8 * len(y)
        X = prepared(counts)
        if name == "reuters21578":
            name, y = "reuters21578, acq", np.where(y[:, 1], 1, -1)
        elif name == "20news":
            # the first ten groups against the rest: computers, for sale and vehicles against all other talk
            name, y = "20news, first ten", np.where(y < 10, 1, -1)
        yield name, X[train], y[train], X[~train], y[~train]


def ours(split: Split, method: dict[str, Any], epsilon: float, seed: int) -> tuple[float, float, str]:
    from discreet import LogisticRegression
    from discreet.geometry import L1Ball

    _, X, y, X_test, y_test = split
    settings = {k: v for k, v in method.items() if k != "ball"}
    if method.get("ball"):
        settings["domain"] = L1Ball(BALL)
    start = time.process_time()
    model = LogisticRegression(epsilon, row_norm=1.0, classes=[-1, 1], random_state=seed, **settings).fit(X, y)
    return float(model.score(X_test, y_test)), time.process_time() - start, model.privacy_.solver


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    table, results = [], []
    for split in problems(options.data):
        name, X, _, _, y_test = split
        majority = float(max(np.mean(y_test == c) for c in (-1, 1)))
        ceiling = ours(split, METHODS["auto"], float("inf"), 0)[0]
        for epsilon in EPSILONS:
            scores: dict[str, list[float]] = {}
            for label, method in METHODS.items():
                scores[label] = [ours(split, method, epsilon, seed)[0] for seed in range(options.runs)]
                print(name, epsilon, label, scores[label], flush=True)
            means = {label: float(np.mean(values)) for label, values in scores.items()}
            results.append(
                {"set": name, "n": X.shape[0], "d": X.shape[1], "epsilon": epsilon, "majority": majority,
                 "without privacy": ceiling, "accuracy": means, "runs": scores}
            )  # fmt: skip
            table.append([f"{name}, n = {X.shape[0]}, d = {X.shape[1]}", epsilon, majority, *means.values(), ceiling])
            header = ["set", "ε", "majority", *METHODS, "without privacy"]
            text = peers.markdown(header, table) + f"\n\nTest accuracy, mean of {options.runs} runs."
            peers.write("sparse_erm", "Sparse text classification under differential privacy", text, {"rows": results})


if __name__ == "__main__":
    main()
