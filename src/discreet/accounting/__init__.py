"""Event tree → privacy curve, proved from both sides. Accounting never sees a row.

`epsilon`, `delta`, `curve` and `tradeoff` read an event; `calibrate`, `calibrate_steps` and `calibrate_rate` find one.
`rule` is the registry of how events are accounted. From top to bottom:

- `calibrate`, `tradeoff`, `adaptive` (filters for fully adaptive runs), `textbook`, `plots`, `interop`;
- `curve`: δ(ε) and ε(δ) of an event, the worst over its `histories`, each a sum of privacy losses (`composed`);
- `rules`: one leaf of an event in the terms of `exact`;
- `exact`: privacy losses and their sums from both sides; `upper`: classical and Rényi bounds from above;
- `exchange`, `histories`, `reductions`: how events are read; `bounds`: certified intervals.

`upper`, `adaptive`, `interop`, `plots` and `textbook` are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import Any

from discreet.accounting import selection_profile as _selection_profile  # noqa: F401 - registers its rule
from discreet.accounting.bounds import Bounds
from discreet.accounting.calibrate import calibrate, calibrate_rate, calibrate_steps
from discreet.accounting.curve import Curve, curve, delta, epsilon
from discreet.accounting.rules import Mu, Pairs, Rho, Unbounded, from_profile, rule
from discreet.accounting.tradeoff import Tradeoff, tradeoff
from discreet.events import BandedMatrix, LastIterate

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

_LOADED_ON_FIRST_USE = {
    "classical": "upper.classical",
    "filters": "adaptive",
    "interop": "interop",
    "last_iterate": "reductions.last_iterate",
    "matrix": "reductions.matrix",
    "plots": "plots",
    "renyi": "upper.renyi",
    "textbook": "textbook",
}


def __getattr__(name: str) -> Any:
    if name in _LOADED_ON_FIRST_USE:
        return importlib.import_module(f"discreet.accounting.{_LOADED_ON_FIRST_USE[name]}")
    raise AttributeError(f"module 'discreet.accounting' has no attribute {name!r}")
