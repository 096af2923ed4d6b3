"""Models in one file: numbers as npz arrays, all else as JSON. No pickle, no training data."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from discreet.data.encoding import Encoder
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.estimators.features import Features
from discreet.estimators.targets import Bounded
from discreet.report.certificate import Certificate

__all__ = ["load", "save"]

_FORMAT = 1
_PARAMETERS = (
    "smoothing",
    "width",
    "quantile",
    "epsilon",
    "delta",
    "adjacency",
    "rows_per_unit",
    "fit_intercept",
    "radius",
    "feature_bound",
    "sparsity",
)


def save(model: Any, path: str | Path) -> None:
    """Write a fitted model."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "coef_")
    features: Features = model._features
    facts = {
        "format": _FORMAT,
        "model": type(model).__name__,
        "parameters": {name: _number(getattr(model, name)) for name in _PARAMETERS if hasattr(model, name)},
        "row_norm": _number(features.row_norm),
        "names": list(features.names if features.encoder else getattr(model, "feature_names_in_", ())),
        "schema": features.encoder.schema.to_dict() if features.encoder else None,
        "target": features.encoder.target if features.encoder else None,
        "n_features_in": model.n_features_in_,
        "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        "target_coding": [_number(v) for v in vars(model._coding).values()] if hasattr(model, "_coding") else None,
        "certificate": json.loads(model.privacy_.to_json()),
    }
    with Path(path).open("wb") as file:
        np.savez(
            file,
            coef=model.coef_,
            intercept=np.asarray(model.intercept_),
            facts=np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8),
        )


def load(path: str | Path) -> Any:
    """Read a model back, ready to predict.

    Raises:
        InvalidInput: the file is not a model written by `save`.
    """
    from discreet import estimators

    try:
        # through memory: numpy leaves a broken file open
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as arrays:
            coef, intercept = arrays["coef"], arrays["intercept"]
            facts = json.loads(arrays["facts"].tobytes().decode())
        kind = getattr(estimators, facts["model"])
        if facts["format"] != _FORMAT:
            raise InvalidInput(f"{path} has format {facts['format']}; this version reads format {_FORMAT}.")
    except (OSError, ValueError, KeyError, AttributeError, EOFError, TypeError, BadZipFile) as problem:
        if isinstance(problem, OSError | InvalidInput):
            raise
        raise InvalidInput(f"{path} is not a model saved by discreet.") from None
    parameters = {name: float(v) if v == "inf" else v for name, v in facts["parameters"].items()}
    schema = Schema.from_dict(facts["schema"]) if facts["schema"] else None
    model = kind(**parameters, schema=schema, row_norm=None if schema else float(facts["row_norm"]))
    encoder = Encoder(schema, target=facts["target"]) if schema else None
    model._features = Features(float(facts["row_norm"]), tuple(facts["names"]), encoder)
    model.n_features_in_ = facts["n_features_in"]
    if facts["names"] and encoder is None:
        model.feature_names_in_ = np.array(facts["names"], dtype=object)
    model.coef_, model.intercept_ = coef, intercept if intercept.ndim else float(intercept)
    if facts["classes"] is not None:
        model.classes_ = np.asarray(facts["classes"])
    if facts["target_coding"] is not None:
        model._coding = Bounded(*(float(v) for v in facts["target_coding"]))
    model.privacy_ = Certificate.from_json(json.dumps(facts["certificate"]))
    return model


def _number(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value
