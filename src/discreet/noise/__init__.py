"""Exact randomness: cryptographic bits, and samplers on the integers that have precisely the claimed distribution.

Everything here is loaded on first use: the samplers need numba, whose import is slow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.noise.ball import ball_limit, rounded_gamma_ball
    from discreet.noise.bits import Bits, process_bits
    from discreet.noise.coins import bernoulli, bernoulli_exp, uniform_integers
    from discreet.noise.gaussian import GAUSSIAN_LIMIT, MAX_SIGMA, discrete_gaussian, rounded_gaussian
    from discreet.noise.laplace import LAPLACE_LIMIT, MAX_SCALE, discrete_laplace, rounded_laplace
    from discreet.noise.piecewise import MOST_POSITIONS, exponential_position
    from discreet.noise.selection import exponential_select, exponential_top, permute_and_flip
    from discreet.noise.subsets import fixed_size_sample, permutation, poisson_sample, with_replacement_sample

__all__ = [
    "GAUSSIAN_LIMIT",
    "LAPLACE_LIMIT",
    "MAX_SCALE",
    "MAX_SIGMA",
    "MOST_POSITIONS",
    "Bits",
    "ball_limit",
    "bernoulli",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "exponential_position",
    "exponential_select",
    "exponential_top",
    "fixed_size_sample",
    "permutation",
    "permute_and_flip",
    "poisson_sample",
    "process_bits",
    "rounded_gamma_ball",
    "rounded_gaussian",
    "rounded_laplace",
    "uniform_integers",
    "with_replacement_sample",
]

_HOME = {
    "ball_limit": "ball",
    "rounded_gamma_ball": "ball",
    "Bits": "bits",
    "process_bits": "bits",
    "GAUSSIAN_LIMIT": "gaussian",
    "MAX_SIGMA": "gaussian",
    "discrete_gaussian": "gaussian",
    "rounded_gaussian": "gaussian",
    "LAPLACE_LIMIT": "laplace",
    "MAX_SCALE": "laplace",
    "discrete_laplace": "laplace",
    "rounded_laplace": "laplace",
    "bernoulli": "coins",
    "bernoulli_exp": "coins",
    "uniform_integers": "coins",
    "MOST_POSITIONS": "piecewise",
    "exponential_position": "piecewise",
    "fixed_size_sample": "subsets",
    "permutation": "subsets",
    "poisson_sample": "subsets",
    "with_replacement_sample": "subsets",
    "exponential_select": "selection",
    "exponential_top": "selection",
    "permute_and_flip": "selection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'discreet.noise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"discreet.noise.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
