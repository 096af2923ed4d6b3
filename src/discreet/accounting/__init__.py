"""Event tree → privacy curve, proved from both sides. Accounting never sees a row.

`epsilon`, `delta`, `curve` and `tradeoff` read an event; `calibrate`, `calibrate_steps` and `calibrate_rate` find one.
`rule` is the registry by which other rooms say how their events are accounted. Loaded on first use: `renyi` and
`classical` (bounds from above), `filters` (fully adaptive runs), `textbook`, `interop`, `plots`.
"""

from __future__ import annotations

import importlib
from typing import Any

from discreet.accounting import best_of as _best_of  # noqa: F401 - registers its rule
from discreet.accounting import perturbation as _perturbation  # noqa: F401 - registers its rule
from discreet.accounting.bounds import Bounds
from discreet.accounting.calibrate import calibrate, calibrate_rate, calibrate_steps
from discreet.accounting.curve import Curve, curve, delta, epsilon
from discreet.accounting.rules import Mu, Pairs, Rho, Unbounded, from_profile, rule
from discreet.accounting.tradeoff import Tradeoff, tradeoff

__all__ = [
    "BandedMatrix",
    "Bounds",
    "Curve",
    "LastIterate",
    "Mu",
    "Pairs",
    "Rho",
    "Tradeoff",
    "Unbounded",
    "calibrate",
    "calibrate_rate",
    "calibrate_steps",
    "curve",
    "delta",
    "epsilon",
    "from_profile",
    "rule",
    "tradeoff",
]

_MODULES = ("classical", "filters", "interop", "plots", "renyi", "textbook")
_EVENTS = {"BandedMatrix": "matrix", "LastIterate": "last_iterate"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"discreet.accounting.{name}")
    if name in _EVENTS:
        return getattr(importlib.import_module(f"discreet.accounting.{_EVENTS[name]}"), name)
    raise AttributeError(f"module 'discreet.accounting' has no attribute {name!r}")
