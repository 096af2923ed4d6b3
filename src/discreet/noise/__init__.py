"""Exact randomness: cryptographic bits, and samplers on the integers that have precisely the claimed distribution.

Everything here is loaded on first use: the samplers need numba, whose import is slow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.noise.bits import Bits
    from discreet.noise.gaussian import GAUSSIAN_REACH, MAX_SIGMA, discrete_gaussian, rounded_gaussian
    from discreet.noise.laplace import LAPLACE_REACH, MAX_SCALE, discrete_laplace, rounded_laplace

__all__ = [
    "GAUSSIAN_REACH",
    "LAPLACE_REACH",
    "MAX_SCALE",
    "MAX_SIGMA",
    "Bits",
    "discrete_gaussian",
    "discrete_laplace",
    "rounded_gaussian",
    "rounded_laplace",
]

_HOME = {
    "Bits": "bits",
    "GAUSSIAN_REACH": "gaussian",
    "MAX_SIGMA": "gaussian",
    "discrete_gaussian": "gaussian",
    "rounded_gaussian": "gaussian",
    "LAPLACE_REACH": "laplace",
    "MAX_SCALE": "laplace",
    "discrete_laplace": "laplace",
    "rounded_laplace": "laplace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'discreet.noise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"discreet.noise.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
