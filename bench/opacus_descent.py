"""One linear layer trained by Opacus, in the settings that its users would try. Runs in Opacus' own environment.

Each row is clipped to the public norm and divided by it, targets are brought to [−1, 1], weights start at zero. Batches
are Poisson samples drawn by Opacus' own loader. Gradients are clipped in Opacus' "ghost" mode, which never forms them
one by one; a sparse set stays sparse. Noise is calibrated by Opacus' tightest accountant, to a hundredth of ε rather
than to its default 0.01, and calibration is not counted in the seconds of a fit.
"""

from __future__ import annotations

import functools
import math
import time
import warnings
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
import opacus  # type: ignore[import-not-found]
import torch  # type: ignore[import-not-found]
from opacus.accountants import create_accountant  # type: ignore[import-not-found]
from opacus.grad_sample import register_norm_sampler  # type: ignore[import-not-found]
from torch.utils.data import DataLoader, Dataset  # type: ignore[import-not-found]


@dataclass(frozen=True)
class Setting:
    """``rate`` is of gradients divided by ``clip``, so that the longest step is the same for every clip."""

    rate: float
    epochs: int = 10
    batches: int = 32
    clip: float = 1.0
    optimizer: str = "SGD"

    def __str__(self) -> str:
        return f"{self.optimizer}, rate {self.rate:g}, clip {self.clip:g}, {self.epochs} × {self.batches} batches"


TUTORIAL = {"binary": Setting(4.0), "multinomial": Setting(4.0), "regression": Setting(0.5)}
"""Poisson batches of n/32 rows, 10 epochs, gradients clipped to 1, steps near 1/smoothness."""
SHORT, MIDDLE, LONG = (10, 4), (20, 8), (40, 8)
"""Epochs, and batches an epoch."""


def grid(task: str) -> list[Setting]:
    """Step sizes, lengths and clips that were best somewhere in a wider search over Adult, Spambase and California."""
    if task == "regression":
        return [
            TUTORIAL[task],
            *(Setting(0.5, *length) for length in (SHORT, LONG)),
            *(Setting(0.2, *length, clip=0.1) for length in (SHORT, LONG)),
            Setting(0.1, *SHORT, clip=0.1, optimizer="Adam"),
            *(Setting(rate, *length, optimizer="Adam") for rate in (0.03, 0.1) for length in (MIDDLE, LONG)),
        ]
    return [
        TUTORIAL[task],
        Setting(4.0, *MIDDLE),
        *(Setting(16.0, *length, clip=0.1) for length in (SHORT, MIDDLE, LONG)),
        *(Setting(0.1, *length, optimizer="Adam") for length in (MIDDLE, LONG)),
        *(Setting(0.3, *length, optimizer="Adam") for length in (SHORT, MIDDLE)),
        Setting(0.3, *SHORT, clip=0.1, optimizer="Adam"),
    ]


class Rows(Dataset):  # type: ignore[misc]
    """Positions of rows, with their targets: the layer holds the rows themselves."""

    def __init__(self, y: Any) -> None:
        self.y = y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return torch.tensor(index), self.y[index]

    def __getitems__(self, indices: list[int]) -> tuple[Any, Any]:
        return torch.tensor(indices, dtype=torch.int64), self.y[indices]


class _Scores(torch.autograd.Function):  # type: ignore[misc]
    """Rows times weights, dense or sparse."""

    @staticmethod
    def forward(context: Any, rows: Any, weight: Any, bias: Any) -> Any:
        context.rows = rows
        return torch.from_numpy(rows @ weight.detach().numpy().T) + bias

    @staticmethod
    def backward(context: Any, slopes: Any) -> tuple[None, Any, Any]:
        gradient = torch.from_numpy(np.ascontiguousarray((context.rows.T @ slopes.numpy()).T))
        return None, gradient, slopes.sum(dim=0)


class Linear(torch.nn.Module):  # type: ignore[misc]
    """Affine scores of the rows of X at given positions."""

    def __init__(self, X: Any, outputs: int) -> None:
        super().__init__()
        self.X, self.squares = X, squared_lengths(X)
        self.weight = torch.nn.Parameter(torch.zeros(outputs, X.shape[1]))
        self.bias = torch.nn.Parameter(torch.zeros(outputs))

    def forward(self, positions: Any) -> Any:
        return _Scores.apply(self.X[positions.numpy()], self.weight, self.bias)


@register_norm_sampler(Linear)  # type: ignore[untyped-decorator]
def gradient_norms(layer: Linear, positions: list[Any], slopes: Any) -> dict[Any, Any]:
    """A row's gradient is its slopes times (x, 1)."""
    lengths = slopes.norm(dim=1)
    squares = torch.from_numpy(layer.squares[positions[0].numpy()])
    return {layer.weight: lengths * squares.sqrt(), layer.bias: lengths}


class Problem:
    """The set of a file as Opacus is shown it: rows of length at most 1, targets in [−1, 1] or classes."""

    def __init__(self, parts: dict[str, Any], task: str) -> None:
        self.task = task
        low, high, norm = (float(parts[key]) for key in ("low", "high", "row_norm"))
        self.middle, self.half = (low + high) / 2, (high - low) / 2
        self.outputs = int(parts["y"].max()) + 1 if task == "multinomial" else 1
        y = (parts["y"] - self.middle) / self.half if task == "regression" else parts["y"]
        targets = torch.tensor(y).long() if task == "multinomial" else torch.tensor(y).float()
        self.X, self.rows = shortened(parts["X"], norm), Rows(targets)
        self.X_test, self.y_test = shortened(parts["X_test"], norm), parts["y_test"]
        self.n = len(targets)

    def loss(self) -> Any:
        kinds = {"binary": "BCEWithLogitsLoss", "multinomial": "CrossEntropyLoss", "regression": "MSELoss"}
        return getattr(torch.nn, kinds[self.task])()

    def score(self, layer: Linear) -> float:
        """Accuracy, or R² of predictions clipped to the public bounds, on the test set."""
        scores = self.X_test @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        if self.task == "multinomial":
            return float((scores.argmax(axis=1) == self.y_test).mean())
        if self.task == "binary":
            return float(((scores[:, 0] > 0) == self.y_test).mean())
        predicted = self.middle + self.half * np.clip(scores[:, 0], -1, 1)
        return float(1 - ((self.y_test - predicted) ** 2).sum() / ((self.y_test - self.y_test.mean()) ** 2).sum())


def squared_lengths(X: Any) -> Any:
    return np.asarray(X.multiply(X).sum(axis=1)).ravel() if hasattr(X, "tocsr") else np.einsum("ij,ij->i", X, X)


def shortened(X: Any, norm: float) -> Any:
    """X/norm in single precision, with rows longer than 1 scaled to 1."""
    factors = 1 / np.maximum(np.sqrt(squared_lengths(X)), norm)
    if hasattr(X, "tocsr"):
        values = X.data * np.repeat(factors, np.diff(X.indptr))
        return type(X)((values.astype(np.float32), X.indices, X.indptr), shape=X.shape)
    return (X * factors[:, None]).astype(np.float32)


@functools.cache
def noise_multiplier(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Noise at which Opacus' PRV accountant finds between 0.99 ε and ε.

    Opacus' own search stops 0.01 below ε, which is much at ε = 0.1, and passes through noise so small that accounting
    for large batches takes minutes. This one starts near the answer and follows the slope of ln ε in ln noise.
    """
    accountant = create_accountant("prv")
    noise, slope = max(0.5, rate * math.sqrt(2 * steps * math.log(1.25 / delta)) / epsilon), -1.0
    before: tuple[float, float] | None = None
    for _ in range(30):
        accountant.history = [(noise, rate, steps)]
        spent = accountant.get_epsilon(delta, eps_error=min(0.01, epsilon / 50))
        if 0.99 * epsilon <= spent <= epsilon:
            return noise
        if before is not None and before[0] != noise:
            slope = min(-0.5, math.log(spent / before[1]) / math.log(noise / before[0]))
        before = noise, spent
        noise *= math.exp(math.log(0.995 * epsilon / spent) / slope)
    raise RuntimeError(f"no noise found for rate {rate}, {steps} steps, ε = {epsilon}")


def fit(
    problem: Problem, setting: Setting, epsilon: float, seed: int, delta: float | None = None
) -> tuple[float, float]:
    """Test score, and CPU seconds of training; δ is 1/n² unless it is given."""
    loader = DataLoader(problem.rows, batch_size=max(1, problem.n // setting.batches), collate_fn=lambda batch: batch)
    batches = len(loader)
    noise = noise_multiplier(1 / batches, setting.epochs * batches, epsilon, delta or 1 / problem.n**2)
    torch.manual_seed(seed)
    start = time.process_time()
    layer = Linear(problem.X, problem.outputs)
    optimizers = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam}
    rate = setting.rate / setting.clip if setting.optimizer == "SGD" else setting.rate  # Adam ignores the scale
    model, optimizer, loss, loader = opacus.PrivacyEngine(accountant="prv").make_private(
        module=layer,
        optimizer=optimizers[setting.optimizer](layer.parameters(), lr=rate),
        criterion=problem.loss(),
        data_loader=loader,
        noise_multiplier=noise,
        max_grad_norm=setting.clip,
        grad_sample_mode="ghost",
    )
    for _ in range(setting.epochs):
        for positions, targets in loader:
            optimizer.zero_grad()
            weight = 1.0 if len(targets) else 0.0  # an empty batch releases noise alone
            if not len(targets):
                positions, targets = problem.rows.__getitems__([0])
            scores = model(positions)
            (loss(scores if problem.outputs > 1 else scores[:, 0], targets) * weight).backward()
            optimizer.step()
    return problem.score(layer), time.process_time() - start


def fits(
    parts: dict[str, Any], task: str, epsilons: list[float], seeds: int, settings: list[Setting], choosing: int
) -> dict[str, Any]:
    """The tutorial's setting, and for each ε the best of ``settings``, chosen *by the test set* over a few seeds."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    problem, tutorial = Problem(parts, task), TUTORIAL[task]
    known: dict[tuple[Setting, float, int], tuple[float, float]] = {}

    def scores(setting: Setting, epsilon: float, runs: int) -> list[float]:
        for seed in range(runs):
            if (setting, epsilon, seed) not in known:
                known[setting, epsilon, seed] = fit(problem, setting, epsilon, seed)
        return [known[setting, epsilon, seed][0] for seed in range(runs)]

    def described(setting: Setting, epsilon: float, runs: int) -> list[dict[str, Any]]:
        return [
            {"epsilon": epsilon, "seed": seed, "score": score, "setting": str(setting)}
            for seed, score in enumerate(scores(setting, epsilon, runs))
        ]

    def best(epsilon: float) -> Setting:
        """One run of each setting, three of the three best of them (as far as ``choosing`` allows)."""
        some, few = min(choosing, seeds), min(choosing, 1)
        ranked = sorted(settings, key=lambda setting: -float(np.mean(scores(setting, epsilon, few))))
        return max(ranked[:3], key=lambda setting: float(np.mean(scores(setting, epsilon, some))))

    one, tuned = [], []
    chosen: dict[float, Setting] = {}
    for epsilon in epsilons:
        one += described(tutorial, epsilon, min(seeds, 5))
        if settings:
            chosen[epsilon] = best(epsilon)
            tuned += described(chosen[epsilon], epsilon, seeds)
    seconds = {
        "fits": [spent for (setting, _, _), (_, spent) in known.items() if setting == tutorial],
        "tuned": [spent for (setting, epsilon, _), (_, spent) in known.items() if setting == chosen.get(epsilon)],
    }
    return {
        "fits": one,
        "tuned": tuned,
        "seconds": float(np.median(seconds["fits"])),
        "tuned_seconds": float(np.median(seconds["tuned"] or [0.0])),
        "version": f"{metadata.version('opacus')} on torch {metadata.version('torch')}",
    }
