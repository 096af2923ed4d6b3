"""The banded matrix mechanism (DP-FTRL): noise that later steps partly cancel, as one event.

Gradients G (one row a step) are released as C·G + Z, Z Gaussian, C lower triangular, Toeplitz and banded: step t sees
noise (C⁻¹Z)_t, correlated so that *sums* of gradients are far more accurate than with independent noise. Privacy is
that of a single Gaussian whose sensitivity is the largest ‖Σ_j c_{t_j} ⊗ g_j‖ over the steps t_1 < t_2 < … in which one
row may take part, c_t the columns of C and ‖g_j‖ ≤ 1 (Denisov et al. 2022; Choquette-Choo et al. 2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import Event, Gaussian, Poisson, Repeat
from discreet.events.runs import coefficients_of, participation_scheme

__all__ = [
    "matrix_sensitivity",
    "optimised_bands",
    "prefix_error",
    "sampled_bands",
    "square_root_bands",
]

Array = NDArray[np.float64]


def matrix_sensitivity(
    coefficients: Sequence[float], steps: int, participations: int = 1, separation: int | None = None
) -> float:
    """How far C·G moves when one row's gradients, each of norm ≤ 1, are taken out.

    Three cases: columns that cannot overlap (bands ≤ separation) add their squares, exactly; non-negative,
    non-increasing coefficients are worst when all gradients agree and the row takes part at 0, b, 2b, …
    (Kalinin–Lampert 2024, theorem 2), exactly; for any others ‖Σ‖² ≤ Σ_{i,j} |r|(|i − j|·b), |r|(d) the largest
    autocorrelation of the coefficients at lag d or more.

    Args:
        coefficients: first column of C, c_0 > 0 first.
        steps: T.
        participations: the most steps in which one row takes part.
        separation: b, the least number of steps from one to the next; needed when there are several.

    Example:
        >>> round(matrix_sensitivity([1.0, 0.5], steps=100, participations=4, separation=25), 6)  # √(4·1.25)
        2.236068
    """
    c = np.array(coefficients_of(coefficients)[:steps])
    gap, times = participation_scheme(len(c), steps, participations, separation)
    starts = gap * np.arange(times)
    if len(c) <= gap:
        return math.sqrt(math.fsum(float(np.sum(c[: steps - t] ** 2)) for t in starts)) * (1 + 1e-15)
    if np.all(c >= 0) and np.all(np.diff(c) <= 0):
        total = np.zeros(steps)
        for t in starts:
            total[t : t + len(c)] += c[: steps - t]
        return float(np.linalg.norm(total)) * (1 + 1e-12)
    lags = np.abs(np.correlate(np.abs(c), np.abs(c), "full")[len(c) - 1 :])
    largest = np.maximum.accumulate(lags[::-1])[::-1]
    lag = gap * np.arange(1, times)
    lag = lag[lag < len(c)]
    pairs = math.fsum((times - i - 1) * float(largest[d]) for i, d in enumerate(lag))
    return math.sqrt(times * float(lags[0]) + 2 * pairs) * (1 + 1e-12)


def sampled_bands(noise_multiplier: float, coefficients: Sequence[float], steps: int, parts: int, rate: float) -> Event:
    """A banded run on Poisson batches, as private as ⌈T/parts⌉ sampled Gaussians of sensitivity ‖c‖.

    Rows are split into at least as many parts as bands by a public rule, and step t samples part t mod ``parts``. A
    row can only take part in steps so far apart that its columns of C are orthogonal (Choquette-Choo et al. 2023,
    theorem 4).

    Args:
        noise_multiplier: noise over the bound on one row.
        coefficients: first column of C.
        steps: T.
        parts: number of parts.
        rate: probability with which a row of the current part enters its batch.

    Raises:
        HypothesisViolated: there are fewer parts than bands, so columns overlap and sampling no longer helps this way.

    Example:
        >>> sampled_bands(2.5, [1.0, 0.75], steps=100, parts=4, rate=0.2)
        Repeat(event=Poisson(rate=0.2, event=Gaussian(noise_multiplier=2.0)), times=25)
    """
    c = np.array(coefficients_of(coefficients))
    if steps < 1 or parts < len(c):
        raise HypothesisViolated(
            f"sampling a banded run needs steps ≥ 1 and at least as many parts as bands, got steps={steps}, "
            f"parts={parts}, bands={len(c)}."
        )
    return Repeat(Poisson(rate, Gaussian(noise_multiplier / float(np.linalg.norm(c)))), -(-steps // parts))


def square_root_bands(bands: int) -> tuple[float, ...]:
    """The first coefficients of (1 − x)^{−1/2}, the square root of the prefix-sum matrix (Fichtenberger et al. 2023).

    Example:
        >>> square_root_bands(4)
        (1.0, 0.5, 0.375, 0.3125)
    """
    if bands < 1:
        raise InvalidInput(f"a strategy needs at least one band, got {bands}.")
    c = [1.0]
    for k in range(1, bands):
        c.append(c[-1] * (2 * k - 1) / (2 * k))
    return tuple(c)


def prefix_error(coefficients: Sequence[float], steps: int, objective: Literal["mean", "max"] = "mean") -> float:
    """Root mean (or largest) squared error of all prefix sums at unit noise and unit single-epoch sensitivity.

    Example:
        >>> round(prefix_error([1.0], 100), 3)  # independent noise: √((T + 1)/2)
        7.106
    """
    c = np.array(coefficients_of(coefficients))
    return math.sqrt(_error_and_gradient(c, steps, objective)[0])


def optimised_bands(steps: int, bands: int, objective: Literal["mean", "max"] = "mean") -> tuple[float, ...]:
    """The Toeplitz strategy of ``bands`` bands with least prefix-sum error at fixed sensitivity, by L-BFGS from √A.

    With bands ≤ separation the sensitivity of repeated participation is the same multiple of the first column's norm
    for all strategies up to the last columns, so the single-epoch objective serves both schemes.

    Example:
        >>> c = optimised_bands(64, 8)
        >>> prefix_error(c, 64) < prefix_error(square_root_bands(8), 64)
        True
    """
    from scipy.optimize import minimize

    start = np.array(square_root_bands(min(bands, steps)))

    def log_error(tail: Array) -> tuple[float, Array]:
        error, gradient = _error_and_gradient(np.concatenate([[1.0], tail]), steps, objective)
        return math.log(error), gradient[1:] / error

    if len(start) == 1:
        return (1.0,)
    found = minimize(log_error, start[1:], jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * (len(start) - 1))
    better = found.fun <= log_error(start[1:])[0]
    return (1.0, *(float(x) for x in (found.x if better else start[1:])))


def _error_and_gradient(c: Array, steps: int, objective: Literal["mean", "max"]) -> tuple[float, Array]:
    """Squared error Σ_l ω_l·w_l²·‖c‖², w the series 1/((1 − x)·c(x)), and its gradient in c."""
    from scipy.signal import fftconvolve, lfilter

    impulse = np.zeros(steps)
    impulse[0] = 1.0
    inverse = lfilter([1.0], c, impulse)
    noise = np.cumsum(inverse)
    weight = (steps - np.arange(steps)) / steps if objective == "mean" else np.ones(steps)
    error = float(np.sum(weight * noise**2))
    norm = float(np.sum(c[:steps] ** 2))
    spread = fftconvolve(inverse, noise)[:steps]  # −∂w_l/∂c_k = spread_{l−k}
    pull = fftconvolve(2 * weight * noise, spread[::-1])[steps - 1 :]
    gradient = np.zeros(len(c))
    gradient[: min(len(c), steps)] = -pull[: min(len(c), steps)]
    return error * norm, gradient * norm + error * 2 * np.where(np.arange(len(c)) < steps, c, 0.0)
