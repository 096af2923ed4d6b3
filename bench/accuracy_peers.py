"""The peers of `accuracy.py`. Each function runs inside its peer's own environment and returns what JSON can hold.

Peers see the encoded features that discreet sees, and are told the same public bounds.
"""

from __future__ import annotations

import time
import warnings
from importlib import metadata
from typing import Any

import numpy as np

STRENGTHS = [0.01, 0.1, 1.0, 10.0]
"""Values of diffprivlib's C, the best of which is taken *by the test set*, for free."""

BATCHES_AN_EPOCH, EPOCHS, CLIP = 32, 10, 1.0
STEPS = {"binary": 4.0, "multinomial": 4.0, "regression": 0.5}
"""DP-SGD as tutorials set it up: Poisson batches of n/32 rows, 10 epochs, gradients clipped to 1, rows of length at
most 1, steps near 1/smoothness."""

LARGE = 5e7
"""Entries (rows × features × outputs) beyond which diffprivlib runs once, with its default C, at two values of ε."""


def _load(file: str) -> dict[str, Any]:
    with np.load(file) as stored:
        parts = dict(stored)
    if "indptr" in parts:
        import scipy.sparse as sp

        for part in ("", "_test"):
            triple = tuple(parts[key + part] for key in ("data", "indices", "indptr"))
            parts["X" + part] = sp.csr_array(triple, shape=parts["shape" + part]).toarray()
    return parts


def diffprivlib_fits(file: str, task: str, epsilons: list[float], seeds: int) -> dict[str, Any]:
    """Scores of LogisticRegression (each C) or LinearRegression, for each ε and seed."""
    import diffprivlib.models as models  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    parts = _load(file)
    X, y, X_test, y_test = (parts[key].astype(np.float64) for key in ("X", "y", "X_test", "y_test"))
    norm, low, high = float(parts["row_norm"]), float(parts["low"]), float(parts["high"])
    strengths = [1.0] if task == "regression" else STRENGTHS
    if X.size * (len(np.unique(y)) if task == "multinomial" else 1) > LARGE:
        strengths, seeds, epsilons = [1.0], 1, [e for e in epsilons if e in (1.0, 8.0)]
    found, seconds = [], []
    for epsilon in epsilons:
        for strength in strengths:
            for seed in range(seeds):
                start = time.process_time()
                if task == "regression":
                    bounds_X = (np.full(X.shape[1], -norm if X.min() < 0 else 0.0), np.full(X.shape[1], norm))
                    model = models.LinearRegression(
                        epsilon=epsilon, bounds_X=bounds_X, bounds_y=(low, high), random_state=seed
                    )
                else:
                    model = models.LogisticRegression(
                        epsilon=epsilon, data_norm=norm, C=strength, max_iter=200, random_state=seed
                    )
                model.fit(X, y)
                seconds.append(time.process_time() - start)
                score = float(model.score(X_test, y_test))
                found.append({"epsilon": epsilon, "C": strength, "seed": seed, "score": score})
    return {"fits": found, "seconds": float(np.median(seconds)), "version": metadata.version("diffprivlib")}


def opacus_fits(file: str, task: str, epsilons: list[float], seeds: int) -> dict[str, Any]:
    """Scores of one linear layer trained by DP-SGD, for each ε and seed."""
    import opacus  # type: ignore[import-not-found]
    import torch  # type: ignore[import-not-found]
    from torch.utils.data import DataLoader, TensorDataset  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parts = _load(file)
    norm, low, high = float(parts["row_norm"]), float(parts["low"]), float(parts["high"])

    def rows(name: str) -> Any:
        X = torch.tensor(parts[name], dtype=torch.float32) / norm
        return X / X.norm(dim=1, keepdim=True).clamp(min=1.0)

    X, X_test, y_test = rows("X"), rows("X_test"), parts["y_test"]
    middle, half = (low + high) / 2, (high - low) / 2
    y = torch.tensor((parts["y"] - middle) / half if task == "regression" else parts["y"])
    y = y.long() if task == "multinomial" else y.float()
    outputs = int(parts["y"].max()) + 1 if task == "multinomial" else 1
    loss: Any = {
        "binary": torch.nn.BCEWithLogitsLoss(),
        "multinomial": torch.nn.CrossEntropyLoss(),
        "regression": torch.nn.MSELoss(),
    }[task]
    found, seconds = [], []
    for epsilon in epsilons:
        for seed in range(seeds):
            torch.manual_seed(seed)
            start = time.process_time()
            model = torch.nn.Linear(X.shape[1], outputs)
            torch.nn.init.zeros_(model.weight)
            torch.nn.init.zeros_(model.bias)
            model, optimizer, loader = opacus.PrivacyEngine(accountant="prv").make_private_with_epsilon(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=STEPS[task]),
                data_loader=DataLoader(TensorDataset(X, y), batch_size=max(1, len(X) // BATCHES_AN_EPOCH)),
                target_epsilon=epsilon,
                target_delta=1 / len(X) ** 2,
                epochs=EPOCHS,
                max_grad_norm=CLIP,
            )
            for _ in range(EPOCHS):
                for rows_of_batch, targets in loader:
                    optimizer.zero_grad()
                    if len(targets):
                        scores = model(rows_of_batch)
                        loss(scores if outputs > 1 else scores[:, 0], targets).backward()
                    else:
                        loss(model(X[:1]) if outputs > 1 else model(X[:1])[:, 0], y[:1]).mul(0.0).backward()
                    optimizer.step()
            seconds.append(time.process_time() - start)
            with torch.no_grad():
                scores = model(X_test).numpy()
            found.append({"epsilon": epsilon, "seed": seed, "score": _score(task, scores, y_test, middle, half)})
    versions = f"{metadata.version('opacus')} on torch {metadata.version('torch')}"
    return {"fits": found, "seconds": float(np.median(seconds)), "version": versions}


def _score(task: str, scores: Any, y: Any, middle: float, half: float) -> float:
    """Accuracy, or R² of predictions clipped to the public bounds."""
    if task == "multinomial":
        return float((scores.argmax(axis=1) == y).mean())
    if task == "binary":
        return float(((scores[:, 0] > 0) == y).mean())
    predicted = np.clip(middle + half * scores[:, 0], middle - half, middle + half)
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())
