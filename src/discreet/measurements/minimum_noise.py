"""Parts of both releases of a certified minimiser: checks of their settings, and noise on an output grid."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.floats import ROUNDED_UP
from discreet.mechanisms.base import check_multiplier
from discreet.noise.bits import Bits
from discreet.queries.minimiser.problem import RidgeProblem

__all__ = [
    "Noise",
    "add_output_noise",
    "check_hypotheses",
    "check_noise",
    "check_tolerance",
    "draw_noise",
    "on_output_grid",
    "output_grid",
]

Noise: TypeAlias = Literal["gaussian", "gamma"]
"""Gaussian, or of density ∝ exp(−‖·‖₂/scale), whose length has a Gamma distribution: the latter for pure ε."""

_MOST_STEPS = 2.0**60


def check_noise(noise_multiplier: float, noise: Noise) -> None:
    """Refuse a multiplier or a law of noise that does not exist."""
    check_multiplier(noise_multiplier)
    if noise not in ("gaussian", "gamma"):
        raise InvalidInput(f"noise must be 'gaussian' or 'gamma', got {noise!r}.")


def check_hypotheses(problem: RidgeProblem, method: str, why_regularised: str) -> None:
    """Refuse an objective whose minimiser has no bounded sensitivity.

    Raises:
        HypothesisViolated: no regularisation, unbounded slopes or unbounded curvature.
    """
    problem.require_bounded_curvature()
    if not problem.regularisation > 0:
        raise HypothesisViolated(f"{method} needs regularisation > 0: {why_regularised}.")
    if not math.isfinite(problem.gradient_bound):
        raise HypothesisViolated(f"{method} needs bounded slopes: give a finite slope_bound.")


def check_tolerance(problem: RidgeProblem, tilt_length: float, tolerance: float) -> None:
    """Refuse a bound on ‖∇J‖ that doubles are too coarse to reach, for tilts of up to ``tilt_length``."""
    least = problem.least_tolerance(tilt_length)
    if not least <= tolerance < math.inf:
        raise InvalidInput(f"tolerance must be at least {least:.3g} for float64 to hold it, got {tolerance!r}.")


def add_output_noise(
    theta: NDArray[np.float64], error: float, sensitivity: float, ratio: float, noise: Noise, bits: Bits
) -> NDArray[np.float64]:
    """θ on a grid plus noise of scale Δ/``ratio``, Δ a bound on the distance of neighbours' points on the grid.

    Neighbours' exact points are at most ``sensitivity`` from each other, and each computed one at most ``error`` from
    its exact one: Δ = sensitivity + 2·error + grid·√d, the grid so fine that rounding moves θ by less than ``error``.
    """
    d = theta.size
    steps, grid = on_output_grid(theta, error)
    scale = (sensitivity + 2 * error + grid * math.sqrt(d)) / ratio * ROUNDED_UP
    return (grid * (steps + draw_noise(noise, scale / grid, d, bits)).astype(np.float64)).reshape(theta.shape)


def on_output_grid(theta: NDArray[np.float64], error: float) -> tuple[NDArray[np.int64], float]:
    """θ in whole steps of a public grid, and the grid: a power of two so small that rounding moves θ by < ``error``."""
    grid = output_grid(theta.size, error)
    # clipping increases no distance between two points, so it needs no bound on θ
    return np.clip(np.rint(theta.ravel() / grid), -_MOST_STEPS, _MOST_STEPS).astype(np.int64), grid


def output_grid(d: int, error: float) -> float:
    """The step of the grid on which ``d`` coefficients are released: rounding to it moves them by < ``error``."""
    return float(2.0 ** (math.frexp(error / math.sqrt(d))[1] - 1))


def draw_noise(noise: Noise, scale: float, d: int, bits: Bits) -> NDArray[np.int64]:
    """A vector of noise of the given law and scale, each entry rounded to the nearest whole number."""
    from discreet.noise import rounded_gamma_ball, rounded_gaussian

    return rounded_gaussian(scale, d, bits=bits) if noise == "gaussian" else rounded_gamma_ball(scale, d, bits=bits)
