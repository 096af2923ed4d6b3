"""Soft thresholding of a noisy vector, the threshold read off the noisy vector itself.

The noise is public, so an unbiased estimate of every threshold's squared error is a function of the noisy vector: mere
post-processing. With ξ the noise, y = m + ξ and η_t soft thresholding, ‖η_t − m‖² = ‖η_t − y‖² + 2⟨ξ, η_t⟩ + ‖ξ‖² −
2⟨ξ, y⟩, and E⟨ξ, η_t⟩ is

* Gaussian: σ²·E #{|y_i| > t}                       (Stein 1981; Donoho–Johnstone 1995, SureShrink),
* Laplace:  2b²·Σ P(|y_i + ξ'_i| > t), ξ' fresh     (the Laplace density is the kernel of (1 − b²∂²)⁻¹).

Where few entries exceed t the estimate is mostly chance, so a multiple of its standard deviation is added
(`ShrinkageNumbers.caution`): the threshold falls to the size of an entry only if that reduces the risk significantly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "ShrinkageNumbers", "best_threshold", "risk_estimate", "soft"]

Noise = Literal["gaussian", "laplace"]

_THRESHOLDS = 61  # as many as make the grid finer than what the estimates can distinguish
_BEYOND = 1.5  # where the vector is noise alone, a threshold beyond all of it must be among those tried


@dataclass(frozen=True)
class ShrinkageNumbers(Tuned):
    """Tuned numbers of `best_threshold`."""

    caution: float = tuned(
        5.0,
        "standard deviations that are added to the estimated risk of a threshold",
        "judgement: the estimate is a maximum over thresholds, and five deviations are exceeded by next to none",
    )


NUMBERS = ShrinkageNumbers()


def soft(y: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Each entry moved toward 0 by ``threshold``, or to 0.

    Example:
        >>> soft(np.array([3.0, -1.5, 0.5]), 1.0).tolist()
        [2.0, -0.5, 0.0]
    """
    shrunk: NDArray[np.float64] = np.copysign(np.maximum(np.abs(y) - threshold, 0.0), y)
    shrunk += 0.0  # −0 is 0
    return shrunk


def risk_estimate(
    sizes: NDArray[np.float64], thresholds: NDArray[np.float64], scale: float, noise: Noise
) -> NDArray[np.float64]:
    """Unbiased estimate of E‖η_t(y) − m‖² for each t from the sorted ``sizes`` = |y|; ``scale`` is σ or b.

    Sums over the entries below and above each t are read off running sums: one pass for all thresholds.
    """
    below = np.searchsorted(sizes, thresholds, side="right")  # entries ≤ t come first
    above = sizes.size - below
    kept = _running(sizes**2)[below] + above * thresholds**2
    if noise == "gaussian":
        return np.asarray(kept + scale**2 * (2 * above - sizes.size))
    # P(|y + ξ'| > t) is half of e^(−|z − t|/b) below t, 1 less that above it, and half of e^(−(z + t)/b) more
    inside = int(below.max(initial=0))
    rising, falling = _running(np.exp(sizes[:inside] / scale)), _running(np.exp(-sizes / scale))
    out, beyond = np.exp(-thresholds / scale), falling[-1] - falling[below]
    exceeding = above + (rising[below] * out - beyond / out + falling[-1] * out) / 2
    return np.asarray(kept + 2 * scale**2 * (2 * exceeding - sizes.size))


def _running(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([[0.0], np.cumsum(values)])


def best_threshold(y: NDArray[np.float64], scale: float, noise: Noise) -> float:
    """The threshold of least estimated risk plus caution, between 0 and 1½ times the largest noise among d entries.

    Args:
        y: noisy vector.
        scale: σ of Gaussian or b of Laplace noise, the same for all entries.
        noise: which.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = np.concatenate([np.full(10, 50.0), np.zeros(9990)]) + rng.normal(size=10_000)
        >>> 2.0 < best_threshold(y, 1.0, "gaussian") < 4.3
        True
    """
    sizes = np.sort(np.abs(y))
    log = math.log(max(2, sizes.size))
    largest = scale * (math.sqrt(2 * log) if noise == "gaussian" else log)
    thresholds = np.linspace(0.0, _BEYOND * largest, _THRESHOLDS)
    above = sizes.size - np.searchsorted(sizes, thresholds, side="right")
    # beyond t, y² − t² is about exponential
    spread = 2 * scale**2 if noise == "gaussian" else 2 * scale * (thresholds + scale)
    cautious = risk_estimate(sizes, thresholds, scale, noise) + current(NUMBERS).caution * spread * np.sqrt(above)
    return float(thresholds[int(np.argmin(cautious))])
