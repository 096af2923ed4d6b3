"""Whole fits of CUDA tensors beside fits of the same arrays in host memory: the same released numbers, bit by bit.

    python bench/scale_gpu_fit.py                   # on a machine with a GPU and this library's dependencies
    python bench/scale_gpu_fit.py --device cpu      # a rehearsal: tensors that only say that they are on a GPU

The noise comes from one insecure seed, so that coefficients, intercepts and certificates must be equal. Compared are
every estimator that takes tensors with every solver that `auto` takes for it, batches, people, kinds and layouts of
tensors, hostile rows, text files that are held on the GPU, and predictions. Tensors that are no rows must be refused
with nothing in the ledger. Last, one fit of many rows is timed on both. Prints JSON; exits non-zero on a difference.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import bare

bare.prepare()

import numpy as np  # noqa: E402
import torch  # noqa: E402

import discreet as dp  # noqa: E402
from discreet.data.cuda import rows as device_rows  # noqa: E402
from discreet.errors import InvalidInput  # noqa: E402

N, D = 3000, 6
PARTS = ["fits", "tensors", "time"]
CLASSES = {"classes": [0, 1], "row_norm": 1.0}
NUMBERS = {"target_bounds": (-2.0, 2.0), "row_norm": 1.0}
DESCENT: dict[str, Any] = {"solver": "descent"}

#: (estimator, target, settings)
FITS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "two classes": (dp.LogisticRegression, "yes", CLASSES),
    "two classes by descent": (dp.LogisticRegression, "yes", CLASSES | DESCENT),
    "two classes by scaled descent": (dp.LogisticRegression, "yes", CLASSES | {"solver": "scaled_descent"}),
    "weighted perturbation": (dp.LogisticRegression, "yes", CLASSES | {"solver": "weighted_perturbation"}),
    "output perturbation": (dp.LogisticRegression, "yes", CLASSES | {"solver": "output_perturbation"}),
    "intervals": (dp.LogisticRegression, "yes", CLASSES | {"inference": True, "epsilon": 4.0}),
    "no constant column": (dp.LogisticRegression, "yes", CLASSES | DESCENT | {"fit_intercept": False}),
    "three classes": (dp.LogisticRegression, "kind", {"classes": [0, 1, 2], "row_norm": 1.0}),
    "three classes, ridge": (dp.LogisticRegression, "kind", {"classes": [0, 1, 2], "row_norm": 1.0, "alpha": 0.01}),
    "own loss": (dp.LogisticRegression, "yes", CLASSES | {"loss": "sigmoid"}),
    "ball": (dp.LogisticRegression, "yes", CLASSES | {"domain": dp.geometry.L2Ball(1)}),
    "batches": (
        dp.LogisticRegression,
        "yes",
        CLASSES | DESCENT | {"solver_options": {"batch_size": 200, "iterations": 5}},
    ),
    "coins": (
        dp.LogisticRegression,
        "yes",
        CLASSES
        | DESCENT
        | {"solver_options": {"rate": 0.1, "iterations": 5}, "adjacency": "add-remove", "n_public": N},
    ),
    "epochs": (
        dp.LogisticRegression,
        "yes",
        CLASSES | DESCENT | {"solver_options": {"batches": 4, "iterations": 4}},
    ),
    "private count": (dp.LogisticRegression, "yes", CLASSES | DESCENT | {"adjacency": "add-remove"}),
    "numbers": (dp.LinearRegression, "income", NUMBERS),
    "numbers, little budget": (dp.LinearRegression, "income", NUMBERS | {"epsilon": 0.01}),
    "numbers by descent": (dp.LinearRegression, "income", NUMBERS | DESCENT),
    "huber": (dp.HuberRegression, "income", NUMBERS),
    "huber by descent": (dp.HuberRegression, "income", NUMBERS | DESCENT),
    "counts": (dp.PoissonRegression, "visits", {"target_bounds": (0, 20), "row_norm": 1.0}),
    "hinge": (dp.LinearSVC, "yes", CLASSES),
    "hinge by descent": (dp.LinearSVC, "yes", CLASSES | DESCENT),
    "quantiles": (dp.QuantileRegression, "income", NUMBERS),
    "few entries": (dp.SparseLinearRegression, "income", NUMBERS | {"sparsity": 3, "feature_bound": 1.0}),
    "vertices": (dp.Lasso, "income", NUMBERS | {"feature_bound": 1.0}),
    "no privacy": (dp.LogisticRegression, "yes", CLASSES | {"epsilon": float("inf")}),
}
SUMS_ON_THE_GPU = (
    "two classes by descent", "batches", "coins", "epochs", "private count", "numbers by descent", "huber by descent",
    "hinge by descent",
)  # fmt: skip


def made(n: int = N, d: int = D) -> tuple[Any, dict[str, Any], Any]:
    """Rows of all lengths, some with entries that are no numbers; targets; and whose each row is."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / 3 * rng.choice([0.1, 1.0, 5.0], n)[:, None]
    score = np.clip(X[:, 0] - X[:, 1], -2, 2) + rng.normal(size=n) / 2
    targets = {"yes": (score > 0).astype(np.int64), "income": score, "visits": rng.poisson(np.exp(score / 4))}
    targets["kind"] = np.clip(np.rint(score + 1), 0, 2).astype(np.int64)
    X[::211, 0] = np.resize([np.nan, np.inf, -np.inf, 1e30, 1e-40], len(X[::211]))
    return X, targets, rng.integers(0, n // 3, n)


class Devices:
    """Puts arrays where a fit is to find them."""

    def __init__(self, device: str) -> None:
        self.device = device

    def put(self, values: Any) -> Any:
        """A tensor on the GPU."""
        tensor = values if isinstance(values, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(values))
        if self.device == "cuda":
            return tensor.cuda()

        class OnGPU(torch.Tensor):
            is_cuda = True

        return tensor.as_subclass(OnGPU)


def fitted(kind: Any, settings: dict[str, Any], X: Any, y: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**({"epsilon": 1.0, "delta": 1e-6, "random_state": 7} | settings)).fit(X, y, **more)


def bits_of(model: Any) -> Any:
    """All that a fit has released."""
    return [np.asarray(model.coef_).tobytes(), np.asarray(model.intercept_).tobytes(), model.n_iter_, model.privacy_]


def released(kind: Any, settings: dict[str, Any], X: Any, y: Any, **more: Any) -> Any:
    """All that a fit releases."""
    return bits_of(fitted(kind, settings, X, y, **more))


class Comparison:
    """What was compared, and what differed or failed."""

    def __init__(self) -> None:
        self.compared, self.differing, self.on_device = 0, list[str](), dict[str, int]()

    def same(self, name: str, one: Callable[[], Any], other: Callable[[], Any]) -> None:
        """Whether two computations give the same; what they raise counts as a difference, and is named."""
        self.compared += 1
        try:
            if one() != other():
                self.differing.append(name)
        except Exception as problem:
            self.differing.append(f"{name}: {type(problem).__name__}: {problem}")


def compare_fits(devices: Devices, found: Comparison) -> None:
    """Every estimator and solver, in single and double precision; counts the sums that the GPU has computed."""
    X, targets, _ = made()
    sums, count = device_rows.Resident.sum, [0]

    def counted(self: Any, function: Any) -> Any:
        count[0] += 1
        return sums(self, function)

    device_rows.Resident.sum = counted  # type: ignore[method-assign]
    for name, (kind, target, settings) in FITS.items():
        for precision in ("float32", "float64"):
            rows, y, count[0] = X.astype(precision), targets[target], 0
            found.same(
                f"{name}, {precision}",
                partial(released, kind, settings, devices.put(rows), devices.put(y)),
                partial(released, kind, settings, rows, y),
            )
            found.on_device[f"{name}, {precision}"] = count[0]
            if name in SUMS_ON_THE_GPU and not count[0]:
                found.differing.append(f"{name}, {precision}: no sum was computed on the GPU")
    device_rows.Resident.sum = sums  # type: ignore[method-assign]


def compare_tensors(devices: Devices, found: Comparison) -> None:
    """Kinds, layouts and targets of tensors, people, files, predictions."""
    X, targets, who = made()
    y, (kind, settings) = targets["yes"], (dp.LogisticRegression, CLASSES | DESCENT)
    X = np.nan_to_num(X, posinf=1.0, neginf=-1.0)
    tensor = torch.from_numpy(X)
    kinds = {
        "float16": tensor.half(), "bfloat16": tensor.bfloat16(), "int8": (10 * tensor.clamp(-9, 9)).to(torch.int8),
        "int64": (10 * tensor).long(), "bool": tensor > 0, "uint8": (10 * tensor.abs().clamp(0, 9)).to(torch.uint8),
    }  # fmt: skip
    for name, given in kinds.items():
        host = given.double().numpy()
        found.same(
            name, partial(released, kind, settings, devices.put(given), y), partial(released, kind, settings, host, y)
        )
    expected = partial(released, kind, settings, X, y)
    layouts = {
        "transposed": devices.put(torch.from_numpy(np.ascontiguousarray(X.T))).T,
        "every other row": devices.put(np.repeat(X, 2, axis=0))[::2],
        "some columns": devices.put(np.hstack([X, X]))[:, :D],
        "with a gradient": devices.put(X).requires_grad_(),
    }
    for name, given in layouts.items():
        found.same(name, partial(released, kind, settings, given, y), expected)
    host_labels = torch.from_numpy(y)
    labels = {
        "floats on the GPU": devices.put(y.astype(float)), "bfloat16 on the GPU": devices.put(host_labels.bfloat16()),
        "an array": y, "a list": y.tolist(), "a tensor in host memory": host_labels,
    }  # fmt: skip
    for name, chosen in labels.items():
        found.same(f"labels: {name}", partial(released, kind, settings, devices.put(X), chosen), expected)
    people = {"rows_per_unit": 3} | settings
    found.same(
        "people",
        partial(released, kind, people, devices.put(X), devices.put(y), groups=devices.put(who)),
        partial(released, kind, people, X, y, groups=who),
    )
    model = fitted(kind, settings, X, y)
    for method in ("predict", "predict_proba", "decision_function"):
        ask = getattr(model, method)
        found.same(method, lambda ask=ask: ask(devices.put(X)).tobytes(), lambda ask=ask: ask(X).tobytes())
    found.same("score", lambda: model.score(devices.put(X), y), lambda: model.score(X, y))
    compare_files(X, y, devices.device, found)


def compare_files(X: Any, y: Any, device: str, found: Comparison) -> None:
    """Text files of which the encoded rows are held on the GPU."""
    columns = {f"x{j}": dp.Numeric(-4, 4) for j in range(D)}
    with tempfile.TemporaryDirectory() as folder:
        for k, part in enumerate(np.array_split(np.arange(len(X)), 3)):
            lines = [",".join([*columns, "y"])] + [",".join(map(repr, [*X[i].tolist(), int(y[i])])) for i in part]
            (Path(folder) / f"part-{k}.csv").write_text("\n".join(lines) + "\n")
        for solver in ("auto", "descent", "scaled_descent"):
            settings = {"schema": dp.Schema(columns | {"y": dp.Categorical([0, 1])}), "solver": solver}
            found.same(
                f"files, {solver}",
                partial(released, dp.LogisticRegression, settings, dp.CSV(folder, device=device), "y"),
                partial(released, dp.LogisticRegression, settings, dp.CSV(folder), "y"),
            )


def refusals(devices: Devices) -> tuple[dict[str, str], list[str]]:
    """What is said of tensors that are no rows; and which were taken, failed otherwise, or were charged."""
    X, targets, _ = made()
    rows, y = torch.from_numpy(X), targets["yes"]
    bad: dict[str, tuple[Any, Any]] = {
        "one dimension": (rows[:, 0], y), "three dimensions": (rows[:, :, None], y), "fewer rows": (rows[:-1], y),
        "no rows": (rows[:0], y[:0]), "no columns": (rows[:, :0], y), "complex": (rows.to(torch.complex64), y),
        "sparse": (rows.to_sparse(), y), "compressed rows": (rows.to_sparse_csr(), y),
        "targets of two columns": (rows, np.stack([y, y], 1)), "complex targets": (rows, y.astype(complex)),
        "no targets": (rows, None), "text": (rows, np.array(["a", "b"] * (N // 2))),
    }  # fmt: skip
    said, wrong = {}, []
    for name, (given, labels) in bad.items():
        if devices.device != "cuda" and given.layout != torch.strided:
            continue  # no subclass of a tensor is sparse
        ledger = dp.Ledger()
        try:
            labels = devices.put(labels) if name.endswith("targets of two columns") else labels
            fitted(dp.LogisticRegression, CLASSES | DESCENT | {"ledger": ledger}, devices.put(given), labels)
            wrong.append(f"{name} was taken")
        except InvalidInput as refusal:
            said[name] = str(refusal)
        except Exception as problem:
            wrong.append(f"{name}: {type(problem).__name__}: {problem}")
        if ledger.history():
            wrong.append(f"{name} was charged")
    return said, wrong


def timed(n: int, d: int) -> dict[str, Any]:
    """Seconds of a whole fit by descent, on the GPU and in host memory, and whether they released the same."""
    X = torch.randn((n, d), device="cuda") * 0.15
    y = (X[:, 0] + X[:, 1] > 0).long()
    settings, found, models = CLASSES | DESCENT, dict[str, Any](), []
    host_X, host_y = X.cpu().numpy(), y.cpu().numpy()
    for name, rows, labels in (("gpu", X, y), ("host", host_X, host_y)):
        begun = time.perf_counter()
        models.append(fitted(dp.LogisticRegression, settings, rows, labels))
        found[f"{name} seconds"] = time.perf_counter() - begun
    return found | {
        "rows": n, "columns": d, "steps": models[0].n_iter_, "same": bits_of(models[0]) == bits_of(models[1])
    }  # fmt: skip


def facts(device: str) -> dict[str, Any]:
    """Where this runs, and what is not the real thing there."""
    import numba

    packages = ("torch", "numpy", "scipy", "scikit-learn", "narwhals")
    versions = {name: metadata.version(name) for name in packages}
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "rehearsal",
        "stood in for": bare.stood_in_for(),
        "versions": versions | {"numba": getattr(numba, "__version__", "stand-in")},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the fit that is timed on a GPU")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    devices, found = Devices(arguments.device), Comparison()
    result, begun = facts(arguments.device), time.perf_counter()
    if "fits" in arguments.parts:
        compare_fits(devices, found)
    if "tensors" in arguments.parts:
        compare_tensors(devices, found)
        result["refused"], result["not refused"] = refusals(devices)
    if "time" in arguments.parts and arguments.device == "cuda":
        result["timed"] = timed(arguments.rows, 100)
    result |= {"compared": found.compared, "differing": found.differing, "sums on the GPU": found.on_device}
    print(json.dumps(result | {"seconds": time.perf_counter() - begun}))
    wrong = found.differing or result.get("not refused") or not result.get("timed", {"same": True})["same"]
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
