"""Differentially private training of PyTorch models: exact sums, exact noise, one charge. Needs the extra ``torch``.

Names are loaded on first use, so that a saved network predicts where torch is not installed.
"""

from __future__ import annotations

import importlib
from typing import Any

from discreet.errors import InvalidInput

_NAMES = {
    "Adafactor": "discreet.torch.adafactor",
    "Adam": "discreet.torch.adam",
    "Batch": "discreet.torch.rows",
    "Clip": "discreet.torch.engine",
    "ExampleGradients": "discreet.torch.engine",
    "QuantileBound": "discreet.torch.clipping",
    "Svrg": "discreet.torch.svrg",
    "TorchClassifier": "discreet.torch.tabular",
    "TorchRegressor": "discreet.torch.tabular",
    "Trainer": "discreet.torch.trainer",
    "check_model": "discreet.torch.engine",
    "check_slots": "discreet.torch.engine",
    "fix": "discreet.torch.engine",
    "privatize": "discreet.torch.privatizing",
    "resume": "discreet.torch.resuming",
}

__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'discreet.torch' has no attribute {name!r}")
    try:
        found = importlib.import_module(_NAMES[name])
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise InvalidInput(f"{name} needs PyTorch: pip install 'discreet[torch]'.") from None
    return getattr(found, name)


def __dir__() -> list[str]:
    return sorted(__all__)
