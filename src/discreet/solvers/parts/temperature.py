"""The temperature of probabilities of several classes: one private release, all else is post-processing.

Noise in scores makes probabilities too sure, and a descent that ends early leaves them not sure enough. All scores of a
public θ are multiplied by one number α (1/α is the temperature of Guo et al. 2017), which changes no predicted class. α
is where the slope of the mean loss by α is 0. Slopes at α = ½, 1 and 2 are released (`ScaleSlopes`) and taken to be
linear in u = log α in between and beyond. Three things come from theory:

* *Clip.* Among rows whose probabilities are right, a slope beyond B has a chance of about e^−B, so that clipping there
  changes the mean slope by e^−B. The noise in it is in proportion to B·ν/n. They are equal where B·e^B = n/ν.
* *Noise.* A slope with noise of deviation τ that is found at the right α is normal about 0. With a normal prior for u
  of deviation log 2, about 0 (scores as they are), the likeliest u minimises (slope at u)²/τ² + u²/(log 2)².
* *Optimism.* θ was found from the same labels: the sum of losses is too low by α times the trace of H(H + 1/t)⁻¹ (Efron
  2004) after a path of length t, H the Hessian of the mean loss, which is the number of parameters after a long path.
  The trace of H is at most the mean squared length of rows times the mean squared slope v = 1 − Σ_k p_k². Given its
  trace, that is largest if all curvatures are equal: 1/(1/parameters + 1/(t·trace)). Where gradients are clipped to
  slopes of s, rows move by no more than such slopes, and v is √v·min(√v, s).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Softmax
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.scale_slopes import SCALES, ScaleSlopes
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.recalibration import NUMBERS
from discreet.tuned import current

__all__ = ["fits_temperature", "found_scale", "slope_clip", "tempered"]

Array = NDArray[np.float64]

_DEVIATION = math.log(2.0)  # of log α before anything is known
_OCTAVES = np.linspace(-2.0, 2.0, 801)  # log₂ α that are compared


def fits_temperature(problem: Problem) -> bool:
    """Whether scores may be multiplied: several classes, and θ free of a set and a ridge."""
    free = isinstance(problem.domain, WholeSpace) and problem.ridge == 0 and problem.rows.bounded
    return isinstance(problem.loss, Softmax) and problem.rows.outputs > 1 and free


def tempered(
    problem: Problem, theta: Array, multiplier: float, leverage: float, largest_slope: float = math.inf
) -> Steps:
    """α·θ: one release.

    Args:
        problem: public facts; several classes.
        theta: public.
        multiplier: noise over the bound of `ScaleSlopes`.
        leverage: at most what rows' own slopes moved their own scores, added up over rows, for slopes of 1.
        largest_slope: to which gradients were clipped, for rows of the mean length.

    Raises:
        InvalidInput: not several classes, or θ is not free of a set and a ridge.
    """
    if not fits_temperature(problem):
        raise InvalidInput("a temperature is for several classes without a constraint or a ridge.")
    query = ScaleSlopes(problem.rows, theta, slope_clip(problem.n, multiplier))
    answer = np.asarray((yield Noisy(query, Gaussian(multiplier))), dtype=np.float64) / problem.n
    spread = min(max(2 * float(answer[3]) / query.clip, 0.0), 1 - 1 / problem.rows.outputs)
    parameters = (problem.rows.outputs - 1) * problem.rows.dimension
    moved = leverage * math.sqrt(spread) * min(math.sqrt(spread), largest_slope)
    optimism = current(NUMBERS).optimism * _freedom(parameters, moved) / problem.n
    return found_scale(answer[:3] + optimism, multiplier * query.bound * query.grid / problem.n) * theta


def slope_clip(n: float, multiplier: float) -> float:
    """B with B·e^B = n/ν, at most that of n/ν = 2^20.

    Example:
        >>> round(slope_clip(1000.0, 10.0), 3), round(slope_clip(1000.0, 0.0), 3)
        (3.386, 11.427)
    """
    from scipy.special import lambertw

    return float(lambertw(min(n / multiplier, 2.0**20) if multiplier else 2.0**20).real)


def found_scale(slopes: Array, noise: float) -> float:
    """α, between ¼ and 4, from mean slopes at `SCALES` and the standard deviation of their noise.

    Example:
        >>> round(found_scale(np.array([-0.5, 0.5, 1.0]), 0.0), 3), found_scale(np.array([-0.5, 0.5, 1.0]), 1e9)
        (0.707, 1.0)
    """
    rising = _rising(slopes)
    places = np.log2(SCALES)
    inside = np.interp(_OCTAVES, places, rising)
    below, above = np.minimum(_OCTAVES - places[0], 0.0), np.maximum(_OCTAVES - places[-1], 0.0)
    at = inside + below * (rising[1] - rising[0]) + above * (rising[2] - rising[1])
    cost = at**2 + (noise / _DEVIATION * math.log(2.0) * _OCTAVES) ** 2
    return float(2.0 ** _OCTAVES[int(np.argmin(cost))])


def _rising(slopes: Array) -> Array:
    """The nearest three slopes that do not fall, as without noise they never do."""
    low, middle, high = (float(slope) for slope in slopes)
    if low <= middle <= high:
        return slopes
    mean = (low + middle + high) / 3
    if low > middle and (low + middle) / 2 <= high:
        return np.array([(low + middle) / 2, (low + middle) / 2, high])
    if middle > high and low <= (middle + high) / 2:
        return np.array([low, (middle + high) / 2, (middle + high) / 2])
    return np.full(3, mean)


def _freedom(parameters: float, moved: float) -> float:
    """1/(1/parameters + 1/moved)."""
    return parameters * moved / (parameters + moved) if moved > 0 else 0.0
