"""Accuracy on real bags of words, many more words than documents, at ε = 1 and 4 with δ = 1/n².

Every document is a row of log(1 + count), scaled to length 1: a rule about the row alone. Word frequencies are not used
to weight or drop columns, since they are not public; messages of sms_spam have no public list of words, so theirs are
hashed to 2¹⁵ places. Our solvers run as they are set up by default, with nothing given but ε, δ, n and for those that
take it the sparsity 300, a public guess about documents. They stand beside

  * DP-SGD, dense noise on every word: our own ``descent``, whose step size and number of steps (and batches) are the
    best of a grid *on the test set*, which no user could choose privately;
  * Opacus, one linear layer, in one sensible setting and in the best of its grid *on the test set*.

Opacus accounts for add-remove, so that is the relation of the comparison; ours is shown under replace-one too.

Run: ``python bench/sparse_erm.py --data FOLDER [--runs 5] [--sets sms_spam,20news] [--methods "auto;scaled_descent"]``.
What is not measured in a run is kept from the last one. ``--prepare FOLDER`` writes the sets as Opacus reads them, and
``--opacus FOLDER`` takes answers of ``accuracy_peers.opacus_fits`` that another machine gave (``NAME.json``).
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import peers
from sets import Encoded

EPSILONS = (1.0, 4.0)
WORDS = 300
BALL = 50.0  # ℓ1 radius of the two methods that need a set
SETS = ("movie_review_polarity", "sms_spam", "reuters21578", "20news")
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "scaled_descent": {"solver": "scaled_descent", "solver_options": {"scales": "diagonal"}},
    "sparse_descent": {"solver": "sparse_descent", "solver_options": {"sparsity": WORDS}},
    "bias_reduced": {"solver": "bias_reduced", "solver_options": {"sparsity": WORDS}},
    "output, ℓ∞": {"solver": "output_perturbation", "solver_options": {"projection": "linf"}, "ball": True},
    "frank_wolfe": {"solver": "frank_wolfe", "ball": True},
    "descent": {"solver": "descent"},
}
UNDER_REPLACE_ONE = ("auto", "scaled_descent", "sparse_descent", "bias_reduced")
GRID = [
    {"iterations": steps, "step": travel / steps, "iterate": "last", "clip": 0.56, **batches}
    for travel in (16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)
    for steps, batches in ((32, {}), (128, {}), (256, {"rate": 0.05}))
    if travel / steps <= 128
]
"""Travel is the sum of step sizes; 0.56 is the longest gradient at θ = 0 (slope ½, rows of length √1.25)."""
TUNED, OPACUS_ONE, OPACUS_BEST = "DP-SGD, tuned on test", "Opacus", "Opacus, tuned on test"
OPACUS = peers.Environment("accuracy-opacus", ["opacus==1.6.0", "torch==2.13.0", "scikit-learn"])


def prepared(counts: Any) -> Any:
    rows = sp.csr_array(counts, dtype=np.float64)
    rows.data = np.log1p(rows.data)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1e-12)) @ rows)


def problems(folder: Path, wanted: set[str]) -> Iterator[Encoded]:
    for name in SETS:
        if name not in wanted or not (folder / name).is_dir():
            continue
        if name == "sms_spam":
            from sklearn.feature_extraction.text import HashingVectorizer

            with gzip.open(folder / name / "SMSSpamCollection.gz", "rt", encoding="utf-8") as lines:
                labels, texts = zip(*(line.rstrip("\n").split("\t", 1) for line in lines), strict=True)
            counts = HashingVectorizer(n_features=2**15, alternate_sign=False, norm=None).transform(texts)
            y, train = np.array(labels) == "spam", None
        else:
            held = np.load(folder / name / f"{name}.npz", allow_pickle=True)
            counts = sp.csr_array((held["data"], held["indices"], held["indptr"]), shape=tuple(held["shape"]))
            y, train = held["y"], held["is_train"].astype(bool) if "is_train" in held else None
        if name == "reuters21578":
            name, y = "reuters21578, acq", y[:, 1]
        elif name == "20news":
            # the first ten groups against the rest: computers, for sale and vehicles against all other talk
            name, y = "20news, first ten", y < 10
        if train is None:
            train = np.random.default_rng(0).permutation(len(y)) < 0.8 * len(y)
        X, y = prepared(counts), (np.asarray(y).astype(float) > 0).astype(int)
        yield Encoded(name, "binary", X[train], y[train], X[~train], y[~train])


def ours(data: Encoded, method: dict[str, Any], adjacency: str, epsilon: float, seed: int) -> float:
    from discreet import LogisticRegression
    from discreet.geometry import L1Ball

    n = data.X.shape[0]
    settings = {k: v for k, v in method.items() if k != "ball"}
    if method.get("ball"):
        settings["domain"] = L1Ball(BALL)
    model = LogisticRegression(
        epsilon, 1 / n**2, adjacency=adjacency, n_public=n, row_norm=1.0, classes=[0, 1], random_state=seed, **settings
    )
    return float(model.fit(data.X, data.y).score(data.X_test, data.y_test))


def tuned(data: Encoded, epsilon: float, runs: int) -> dict[str, Any]:
    """The setting of `GRID` that is best on the test set by one run, and its runs."""

    def method(setting: dict[str, Any]) -> dict[str, Any]:
        return {"solver": "descent", "solver_options": setting}

    best = max(GRID, key=lambda setting: ours(data, method(setting), "add-remove", epsilon, 0))
    scores = [ours(data, method(best), "add-remove", epsilon, seed) for seed in range(runs)]
    return {"runs": scores, "setting": best}


def opacus(data: Encoded, runs: int, answers: Path | None) -> dict[float, dict[str, Any]]:
    """For each ε its plain and its tuned runs."""
    if answers is not None:
        answer = json.loads((answers / f"{_word(data.name)}.json").read_text())
    else:
        with tempfile.TemporaryDirectory() as folder:
            data.save(Path(folder) / "set.npz")
            answer = peers.in_environment(
                OPACUS, str(Path(__file__).with_name("accuracy_peers.py")), "opacus_fits",
                file=str(Path(folder) / "set.npz"), task="binary", epsilons=list(EPSILONS), seeds=runs,
            )  # fmt: skip
    found: dict[float, dict[str, Any]] = {}
    for epsilon in EPSILONS:
        plain = [fit for fit in answer["fits"] if fit["epsilon"] == epsilon]
        best = [fit for fit in answer["tuned"] if fit["epsilon"] == epsilon]
        found[epsilon] = {
            OPACUS_ONE: {"runs": [fit["score"] for fit in plain], "setting": plain[0]["setting"]},
            OPACUS_BEST: {"runs": [fit["score"] for fit in best], "setting": best[0]["setting"]},
            "version": answer["version"],
        }
    return found


def _word(name: str) -> str:
    return name.split(",")[0]


def measure(data: Encoded, known: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The set's facts and, for each relation, ε and method, its runs; those not asked for are as they were."""
    from sklearn.linear_model import LogisticRegression

    found = known or {"accuracy": {}}
    n, d = data.X.shape
    found |= {"n": n, "d": d, "words in a row": float(data.X.nnz / n)}
    found["majority"] = float(max(np.mean(data.y_test), 1 - np.mean(data.y_test)))
    found["without privacy"] = float(LogisticRegression(C=10.0, max_iter=1000).fit(data.X, data.y).score(
        data.X_test, data.y_test))  # fmt: skip
    cells = found["accuracy"]
    for epsilon in EPSILONS:
        for adjacency in ("add-remove", "replace-one"):
            cell = cells.setdefault(f"{adjacency}, {epsilon:g}", {})
            for label in options.methods:
                if label in METHODS and (adjacency == "add-remove" or label in UNDER_REPLACE_ONE):
                    runs = range(options.runs)
                    cell[label] = {"runs": [ours(data, METHODS[label], adjacency, epsilon, seed) for seed in runs]}
                    print(data.name, adjacency, epsilon, label, np.round(cell[label]["runs"], 4), flush=True)
        if TUNED in options.methods:
            cells[f"add-remove, {epsilon:g}"][TUNED] = tuned(data, epsilon, options.runs)
            print(data.name, epsilon, TUNED, cells[f"add-remove, {epsilon:g}"][TUNED], flush=True)
    if "opacus" in options.methods:
        for epsilon, answer in opacus(data, options.runs, options.opacus).items():
            found["opacus"] = answer.pop("version")
            cells[f"add-remove, {epsilon:g}"] |= answer
    return found


def _figure(runs: list[float]) -> str:
    return f"{100 * np.mean(runs):.1f} ± {100 * np.std(runs) / max(1, len(runs) - 1) ** 0.5:.1f}"


def table(sets: dict[str, Any]) -> str:
    """Mean accuracy in % ± standard error, and our best against the best peer."""
    columns = [*METHODS, TUNED, OPACUS_ONE, OPACUS_BEST]
    lines, ahead = [], []
    for name, found in sets.items():
        for relation, cell in found["accuracy"].items():
            means = {label: float(np.mean(cell[label]["runs"])) for label in columns if label in cell}
            shown = [_figure(cell[label]["runs"]) if label in cell else "–" for label in columns]
            lines.append(
                [f"{name}, n = {found['n']}, d = {found['d']}", relation, f"{100 * found['majority']:.1f}",
                 *shown, f"{100 * found['without privacy']:.1f}"]
            )  # fmt: skip
            rivals = {label: means[label] for label in (TUNED, OPACUS_ONE, OPACUS_BEST) if label in means}
            if rivals:
                rival = max(rivals, key=rivals.__getitem__)
                for label in ("auto", "scaled_descent"):
                    if label in means:
                        margin = 100 * (means[label] - rivals[rival])
                        ahead.append([f"{name}, {relation}", label, f"{margin:+.1f}", rival])
    header = ["set", "relation, ε", "majority", *columns, "without privacy"]
    text = peers.markdown(header, lines)
    text += "\n\nTest accuracy in %, mean ± standard error of the runs. Margin over the best rival, in points:\n\n"
    return text + peers.markdown(["set, relation, ε", "ours", "margin", "best rival"], ahead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS))
    parser.add_argument("--methods", type=lambda text: text.split(";"), default=[*METHODS, TUNED, "opacus"])
    parser.add_argument("--opacus", type=Path, help="folder of answers that another machine gave")
    parser.add_argument("--prepare", type=Path, help="write the sets for Opacus there, and end")
    options = parser.parse_args()
    kept = peers.RESULTS / "sparse_erm.json"
    sets = json.loads(kept.read_text()).get("sets", {}) if kept.exists() else {}
    for data in problems(options.data, set(options.sets)):
        if options.prepare:
            data.save(options.prepare / f"{_word(data.name)}.npz")
            continue
        sets[data.name] = measure(data, sets.get(data.name, {}), options)
        peers.write("sparse_erm", "Bags of words under differential privacy", table(sets), {"sets": sets})


if __name__ == "__main__":
    main()
