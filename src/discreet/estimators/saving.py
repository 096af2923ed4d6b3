"""Models written to one file: numbers as npz arrays, all else as JSON. No pickle, no training data.

`discreet.estimators.loading` reads such files. Of a model's parameters only those that predictions need are written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from discreet.data.refined_encoder import RefinedEncoder
from discreet.errors import InvalidInput
from discreet.estimators.custom_losses import CUSTOM
from discreet.estimators.features import Features
from discreet.text import checked_path

__all__ = ["FORMAT", "MODELS", "NETWORKS", "PARAMETERS", "save"]

FORMAT = 1
MODELS = (
    "HuberRegression",
    "Lasso",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PoissonRegression",
    "QuantileRegression",
    "SparseLinearRegression",
)
NETWORKS = ("TorchClassifier", "TorchRegressor")
"""Models that are saved with a hidden layer beside their coefficients."""
PARAMETERS = (
    "smoothing",
    "width",
    "quantile",
    "fit_intercept",
    "radius",
    "feature_bound",
    "sparsity",
    "inference",
    "robust",
)


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model.

    Raises:
        InvalidInput: it is not a model of this library that can be saved, or the path cannot be used.
    """
    name = type(model).__name__
    if name not in MODELS and name not in NETWORKS:
        raise InvalidInput(f"{name} cannot be saved: models are {', '.join((*MODELS, *NETWORKS))}.")
    check_is_fitted(model, "coef_" if name in MODELS else "coefs_")
    features: Features = model._features
    facts = {
        "format": FORMAT,
        "model": name,
        "parameters": {name: _number(getattr(model, name)) for name in PARAMETERS if hasattr(model, name)}
        | ({"loss": model.loss if isinstance(model.loss, str) else CUSTOM} if _has_loss(model) else {}),
        "row_norm": _number(features.row_norm),
        "names": list(features.names if features.encoder else getattr(model, "feature_names_in_", ())),
        "schema": features.encoder.schema.to_dict() if features.encoder else None,
        "target": features.encoder.target if features.encoder else None,
        "encoding": features.encoder.encoding if features.encoder else None,
        "refinement": features.encoder.refinement.to_list() if isinstance(features.encoder, RefinedEncoder) else None,
        "n_features_in": model.n_features_in_,
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "target_coding": [_number(v) for v in vars(model._coding).values()] if hasattr(model, "_coding") else None,
        "certificate": model.privacy_.to_dict(),
    }
    if hasattr(model, "released_"):
        facts["released"] = model.released_.to_dict()
    with checked_path(path).open("wb") as file:
        arrays: dict[str, Any] = {name: np.asarray(value, dtype="<f8") for name, value in _arrays(model).items()}
        np.savez(file, facts=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8), **arrays)


def _arrays(model: Any) -> dict[str, Any]:
    if type(model).__name__ in MODELS:
        return {"coef": model.coef_, "intercept": model.intercept_}
    direct, inner, outer = model.coefs_
    offset, intercept = model.intercepts_
    return {"coef": direct.T, "intercept": intercept, "inner": inner, "outer": outer, "offset": offset}


def _has_loss(model: Any) -> bool:
    return getattr(model, "loss", None) is not None


def _number(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
