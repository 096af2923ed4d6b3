"""Differentially private optimisation: models from sensitive data, with a certificate.

Everything public hangs off this module and is loaded on first use, so that ``import discreet`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import Any

from discreet._version import __version__

_MODULES = (
    "accounting",
    "datasets",
    "errors",
    "events",
    "geometry",
    "losses",
    "mechanisms",
    "noise",
    "solvers",
    "theory",
    "torch",
    "updates",
)
_NAMES = {
    "Boolean": "discreet.data.columns",
    "CSV": "discreet.data.scans",
    "Categorical": "discreet.data.columns",
    "Certificate": "discreet.report",
    "Encoder": "discreet.data.encoding",
    "HuberRegression": "discreet.estimators",
    "Ignore": "discreet.data.columns",
    "Lasso": "discreet.estimators",
    "Ledger": "discreet.ledger",
    "LinearRegression": "discreet.estimators",
    "LinearSVC": "discreet.estimators",
    "LogisticRegression": "discreet.estimators",
    "MeanEstimator": "discreet.estimators",
    "Numeric": "discreet.data.columns",
    "Parquet": "discreet.data.scans",
    "Person": "discreet.data.columns",
    "PoissonRegression": "discreet.estimators",
    "PrivacyWarning": "discreet.estimators",
    "PrivateSearchCV": "discreet.estimators",
    "QuantileRegression": "discreet.estimators",
    "Schema": "discreet.data.schema",
    "SparseLinearRegression": "discreet.estimators",
    "TorchClassifier": "discreet.torch.tabular",
    "TorchRegressor": "discreet.torch.tabular",
    "Unit": "discreet.units",
    "check": "discreet.estimators",
    "evaluate": "discreet.estimators",
    "largest_sums": "discreet.estimators",
    "load": "discreet.estimators",
    "private_bounds": "discreet.estimators",
    "quantile": "discreet.estimators",
    "read_table": "discreet.data.frames",
}

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"discreet.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
