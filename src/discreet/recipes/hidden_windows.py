"""Which last steps of a hidden run with sampled batches are accounted for by composition, and with how much noise.

Every window and share is valid (`discreet.measurements.hidden_batches.SampledBatches`); here those are chosen that
are likely to need the least noise, by the central limit theorem of Gaussian differential privacy (Dong, Roth and Su
2022), which is only an approximation. What is charged comes from the accountant.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from discreet.accounting.reductions.last_iterate import absorbed_distance
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.measurements import FixedSizeSampling, PoissonSampling
from discreet.measurements.hidden_batches import SampledBatches

__all__ = ["likely_noise", "sampled_batches"]

_SHARES = (0.5, 0.75, 0.9, 0.97, 0.99)


def sampled_batches(
    sampling: PoissonSampling | FixedSizeSampling,
    n: float,
    guarantee: Guarantee,
    steps: int,
    contraction: float,
    diameter: float,
    rounding: float,
) -> SampledBatches:
    """The window (a power of two or the whole run) and share that are likely to need the least noise.

    Args:
        sampling: of the batches.
        n: number of rows.
        guarantee: what to keep.
        steps: of the run.
        contraction: c of a step.
        diameter: of the set, in units of how far a step moves between neighbours.
        rounding: in the same units.
    """
    windows = sorted({min(2**j, steps) for j in range(steps.bit_length() + 1)})
    ways = [SampledBatches(sampling, window, share) for window in windows for share in _SHARES]
    return min(ways, key=lambda way: likely_noise(way, n, guarantee, steps, contraction, diameter, rounding))


def likely_noise(
    way: SampledBatches,
    n: float,
    guarantee: Guarantee,
    steps: int,
    contraction: float,
    diameter: float,
    rounding: float,
) -> float:
    """The noise multiplier at which the run's approximate μ is that of one release that keeps the guarantee."""
    rate, unit = way.expected(n) / n, guarantee.unit.sensitivity(1.0)
    distance = absorbed_distance(steps, way.window, contraction, diameter=diameter, rounding=rounding)
    target = (unit / gaussian_multiplier(guarantee)) ** 2

    def spent(noise: float) -> float:
        sampled = way.window * rate**2 * _sampled_variance(unit / (noise * math.sqrt(way.share)))
        return sampled + (unit * distance / noise) ** 2 / (1 - way.share)

    low, high = 1e-3, 1e12
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if spent(middle) > target else (low, middle)
    return high


def _sampled_variance(mu: float) -> float:
    """The limit of μ² a step over rate², for a replaced row and Gaussian noise of this μ."""
    if mu > 25:
        return math.inf
    if mu < 1e-4:
        return mu * mu
    cdf = NormalDist().cdf
    return 2 * (math.exp(mu * mu) * cdf(1.5 * mu) + 3 * cdf(-0.5 * mu) - 2)
