"""A whole private logistic regression on the bundled health data, beside the peers in the same run.

    python bench/glm_fit.py               # prepares .venv-bench-diffprivlib and .venv-bench-opacus on first use
    python bench/glm_fit.py --only ours   # without the peers; writes nothing

All contenders get the same matrix: the table encoded by its public schema, rows of length at most 1, the same δ. Ours
is also measured straight from the table, encoding included. Every fit is timed after one fit that is not (imports,
compilation), wall clock and CPU, median over the seeds. Accuracy is on people kept apart, mean over the seeds.

Neighbours: Opacus counts a row added or removed, diffprivlib a row replaced (its noise is for twice the gradient), so
ours is fitted under both and each peer is compared with ours under its own relation. The number of rows is public to
all. Settings of the peers: their defaults or common practice, and a second set. For diffprivlib that is the best of a
few regularisations *on the test data*, for free, which is more than a user could do; for Opacus a larger batch and
rate.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

import peers

DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0)
DIFFPRIVLIB = peers.Environment("diffprivlib", ["diffprivlib==0.6.6", "scikit-learn==1.6.1", "numpy==2.2.6"])
OPACUS = peers.Environment("opacus", ["torch==2.13.0", "opacus==1.6.0"])

Fits = list[dict[str, float]]


def timed(fit: Callable[[int], Callable[[], float]], seeds: int) -> Fits:
    """For each seed: wall and CPU seconds of fit(seed), and the accuracy that what it returns reports."""
    fit(seeds)  # not timed
    found = []
    for seed in range(seeds):
        wall, cpu = time.perf_counter(), time.process_time()
        accuracy = fit(seed)
        found.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "accuracy": accuracy()})
    return found


# --- each contender: (data file, ε, seeds, settings) -> fits ---------------------------------------------------------


def diffprivlib(data: str, epsilon: float, seeds: int, **settings: Any) -> Fits:
    import warnings

    from diffprivlib.models import LogisticRegression  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    with np.load(data) as arrays:
        X, y, X_test, y_test = (arrays[name] for name in ("X", "y", "X_test", "y_test"))

    def fit(seed: int) -> Callable[[], float]:
        model = LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed, **settings).fit(X, y)
        return lambda: float(model.score(X_test, y_test))

    return timed(fit, seeds)


def opacus(data: str, epsilon: float, seeds: int, *, rate: float, batch: int, epochs: int) -> Fits:
    import warnings

    import torch  # type: ignore[import-not-found]
    from opacus import PrivacyEngine  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    with np.load(data) as arrays:
        X, X_test = (torch.tensor(arrays[name], dtype=torch.float32) for name in ("X", "X_test"))
        y, y_test = (torch.tensor(arrays[name], dtype=torch.float32) for name in ("y", "y_test"))

    def fit(seed: int) -> Callable[[], float]:
        torch.manual_seed(seed)
        model = torch.nn.Linear(X.shape[1], 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=batch)
        private, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            target_epsilon=epsilon,
            target_delta=DELTA,
            epochs=epochs,
            max_grad_norm=1.0,
        )
        for _ in range(epochs):
            for rows, labels in loader:
                optimizer.zero_grad()
                torch.nn.functional.binary_cross_entropy_with_logits(private(rows).squeeze(1), labels).backward()
                optimizer.step()
        with torch.no_grad():
            scores = model(X_test).squeeze(1)
        return lambda: float(((scores > 0) == (y_test > 0.5)).float().mean())

    return timed(fit, seeds)


class Ours:
    """discreet and scikit-learn, in this interpreter."""

    def __init__(self) -> None:
        from discreet import datasets
        from discreet.data.encoding import Encoder

        self.schema = datasets.randhie_schema("rows")
        self.train, self.test = datasets.load_randhie("train"), datasets.load_randhie("test")
        encoder, column = Encoder(self.schema, target="drugs", output="dense"), self.schema.target("drugs")
        self.X, self.X_test = encoder.transform(self.train), encoder.transform(self.test)
        self.y, self.y_test = (np.asarray(column.labels(t["drugs"])).astype(int) for t in (self.train, self.test))

    def save(self, path: Path) -> str:
        np.savez(path, X=self.X, y=self.y, X_test=self.X_test, y_test=self.y_test)
        return str(path)

    def matrix(self, epsilon: float, seeds: int, adjacency: str) -> Fits:
        import discreet as dp

        def fit(seed: int) -> Callable[[], float]:
            model = dp.LogisticRegression(
                epsilon,
                DELTA,
                adjacency=adjacency,
                row_norm=1.0,
                classes=[0, 1],
                n_public=len(self.y),
                random_state=seed,
            ).fit(self.X, self.y)
            return lambda: float(model.score(self.X_test, self.y_test))

        return timed(fit, seeds)

    def table(self, epsilon: float, seeds: int, adjacency: str) -> Fits:
        import pandas as pd

        import discreet as dp

        train, test = (pd.DataFrame({name: t[name] for name in t}) for t in (self.train, self.test))

        def fit(seed: int) -> Callable[[], float]:
            model = dp.LogisticRegression(
                epsilon, DELTA, adjacency=adjacency, schema=self.schema, n_public=len(self.y), random_state=seed
            ).fit(train, train["drugs"])
            return lambda: float((model.predict(test).astype(int) == self.y_test).mean())

        return timed(fit, seeds)

    def without_privacy(self, seeds: int) -> Fits:
        from sklearn.linear_model import LogisticRegression

        def fit(seed: int) -> Callable[[], float]:
            model = LogisticRegression(C=100.0, max_iter=1000, random_state=seed).fit(self.X, self.y)
            return lambda: float(model.score(self.X_test, self.y_test))

        return timed(fit, seeds)


PEERS: dict[str, tuple[peers.Environment, str, dict[str, Any]]] = {
    "diffprivlib (replace-one)": (DIFFPRIVLIB, "diffprivlib", {"max_iter": 1000}),
    "diffprivlib, C tuned on the test data": (DIFFPRIVLIB, "diffprivlib", {"max_iter": 1000, "C": 0.03}),
    "Opacus (add-remove)": (OPACUS, "opacus", {"rate": 0.5, "batch": 256, "epochs": 10}),
    "Opacus, larger batch and rate": (OPACUS, "opacus", {"rate": 2.0, "batch": 1024, "epochs": 10}),
}


def measure(seeds: int, opacus_seeds: int, *, with_peers: bool) -> dict[str, dict[str, Fits]]:
    """Fits of each contender at each ε."""
    ours = Ours()
    found: dict[str, dict[str, Fits]] = {"scikit-learn, not private": {"inf": ours.without_privacy(3)}}
    with tempfile.TemporaryDirectory() as folder:
        data = ours.save(Path(folder) / "randhie.npz")
        for epsilon in EPSILONS:
            for adjacency in ("add-remove", "replace-one"):
                found.setdefault(f"ours ({adjacency})", {})[f"{epsilon:g}"] = ours.matrix(epsilon, seeds, adjacency)
            fits = ours.table(epsilon, seeds, "add-remove")
            found.setdefault("ours from the table (add-remove)", {})[f"{epsilon:g}"] = fits
            for name, (environment, function, settings) in PEERS.items() if with_peers else ():
                times = opacus_seeds if environment is OPACUS else seeds
                fits = peers.in_environment(
                    environment, __file__, function, data=data, epsilon=epsilon, seeds=times, **settings
                )
                found.setdefault(name, {})[f"{epsilon:g}"] = fits
                print(f"{name}, ε = {epsilon:g}: {median(f['wall'] for f in fits):.2f} s a fit", flush=True)
    return found


def summary(fits: Fits) -> tuple[float, float, float, float]:
    """Median wall and CPU seconds, mean accuracy and its standard error."""
    accuracy = [f["accuracy"] for f in fits]
    error = float(np.std(accuracy, ddof=1)) / len(accuracy) ** 0.5 if len(accuracy) > 1 else 0.0
    return median(f["wall"] for f in fits), median(f["cpu"] for f in fits), mean(accuracy), error


def judge(found: dict[str, dict[str, Fits]]) -> list[dict[str, Any]]:
    """Against each peer at each ε: time at most a fifth, accuracy not lower (by more than two standard errors)."""
    targets = []
    for name, by_epsilon in found.items():
        if name not in PEERS:
            continue
        relation = "replace-one" if "diffprivlib" in name else "add-remove"
        for epsilon, fits in by_epsilon.items():
            wall, cpu, accuracy, error = summary(found[f"ours ({relation})"][epsilon])
            other_wall, other_cpu, other_accuracy, other_error = summary(fits)
            targets.append((f"wall time of ours / {name}, ε = {epsilon}", wall / other_wall, 0.2))
            targets.append((f"CPU time of ours / {name}, ε = {epsilon}", cpu / other_cpu, 0.2))
            margin = 2 * float(np.hypot(error, other_error))
            targets.append((f"accuracy of {name} − ours, ε = {epsilon}", other_accuracy - accuracy, margin))
    return peers.verdicts(targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--opacus-seeds", type=int, help="fewer seeds for Opacus, which takes a hundred times longer")
    parser.add_argument("--only", choices=["ours"], help="leave the peers out; writes nothing")
    arguments = parser.parse_args()
    opacus_seeds = arguments.opacus_seeds or arguments.seeds
    found = measure(arguments.seeds, opacus_seeds, with_peers=arguments.only is None)
    rows = []
    for name, by_epsilon in found.items():
        for epsilon, fits in by_epsilon.items():
            wall, cpu, accuracy, error = summary(fits)
            rows.append(
                [name, epsilon, f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}", f"{100 * accuracy:.2f} ± {100 * error:.2f}"]
            )
    text = f"RAND health insurance, 16 190 rows, target *drugs*, δ = {DELTA:g}, {arguments.seeds} seeds"
    text += (f", {opacus_seeds} for Opacus" if opacus_seeds != arguments.seeds else "") + ".\n\n"
    text += peers.markdown(["", "ε", "wall ms", "CPU ms", "test accuracy %"], rows)
    if arguments.only:
        print(text)
        return
    judged = judge(found)
    settings = {name: settings for name, (_, _, settings) in PEERS.items()}
    text += f"\n\n{peers.verdict_table(judged)}\n\nSettings: {settings}"
    versions = {
        "this": peers.versions(["numpy", "scikit-learn", "numba"]),
        **{e.name: list(e.requirements) for e in (DIFFPRIVLIB, OPACUS)},
    }
    results = {"versions": versions, "settings": settings, "fits": found, "targets": judged}
    peers.write("glm_fit", "A private logistic regression", text, results)


if __name__ == "__main__":
    main()
