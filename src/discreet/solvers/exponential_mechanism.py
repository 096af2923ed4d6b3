"""The exponential mechanism over declared candidates (McSherry–Talwar 2007).

Releases: one choice, candidate k with probability ∝ exp(−Σ clipped losses of θ_k / b), drawn exactly. The continuous
mechanism over a set would need a Markov chain whose distance from its limit is not protected by anything; a declared
finite grid needs none, and its excess risk is at most the grid's own plus 2Δ·ln(candidates)/ε.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.losses import Domain, Loss
from discreet.measurements import Noisy
from discreet.mechanisms import Choice
from discreet.queries.sums.candidate_scores import CandidateScores
from discreet.solvers.base import Problem, Steps

__all__ = ["MOST_AXES", "ExponentialMechanism", "default", "grid_radius", "product_grid"]

_MOST_CANDIDATES = 1 << 20
_FEW_CANDIDATES = 4096
MOST_AXES = 4
"""Beyond this dimension a grid of a few thousand points is too coarse to be useful."""
_UNCLIPPED = 1e290  # without privacy no loss is cut
_REACH = 5.0
"""The default grid reaches scores of about ±5, as far as all solvers travel. Public, the same for all data."""


@dataclass(frozen=True, eq=False)
class ExponentialMechanism:
    """One of ``candidates``, preferring small loss.

    Args:
        noise_multiplier: b over half of ``loss_bound``; 0 takes the best candidate.
        candidates: public parameters, one a row.
        loss_bound: losses of one row are clipped to [0, ``loss_bound``].
        mechanism: ``"exponential"`` or ``"permute-and-flip"``.
    """

    noise_multiplier: float
    candidates: NDArray[np.float64]
    loss_bound: float
    mechanism: Literal["exponential", "permute-and-flip"] = "exponential"

    def steps(self, problem: Problem) -> Steps:
        """One choice."""
        if problem.ridge:
            raise InvalidInput("the exponential mechanism takes no ridge; leave alpha at 0.")
        query = CandidateScores(problem.rows, problem.loss, self.candidates, self.loss_bound)
        chosen = yield Noisy(query, Choice(self.noise_multiplier, self.mechanism))
        return self.candidates[chosen].copy()


def product_grid(low: ArrayLike, high: ArrayLike, points: int | Sequence[int]) -> NDArray[np.float64]:
    """All points of a box's grid, one a row.

    Example:
        >>> product_grid([-1, 0], [1, 1], [3, 2]).tolist()
        [[-1.0, 0.0], [-1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    lows, highs = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
    counts = [points] * len(lows) if isinstance(points, int) else list(points)
    if len(counts) != len(lows) or len(highs) != len(lows) or min(counts) < 1:
        raise InvalidInput("low, high and points must have one entry an axis, and every axis at least one point.")
    if np.prod([float(count) for count in counts]) > _MOST_CANDIDATES:
        raise InvalidInput(
            f"a grid of {counts} points is more than {_MOST_CANDIDATES} candidates: the exponential mechanism is for "
            "few dimensions; choose a coarser grid or another solver."
        )
    axes = [np.linspace(a, b, count) for a, b, count in zip(lows, highs, counts, strict=True)]
    return np.array(list(itertools.product(*axes)))


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    candidates: ArrayLike | None = None,
    loss_bound: float | None = None,
    mechanism: Literal["exponential", "permute-and-flip"] = "permute-and-flip",
) -> ExponentialMechanism:
    """The mechanism at ε = 2Δ/b, pure DP whatever δ is.

    Args:
        problem: public facts, one output.
        guarantee: what to keep.
        candidates: public parameters, one a row, all in the domain; by default a grid on the cube of half-width
            5/radius (points outside the domain are projected on it, or left out where it has no projection), at most
            four dimensions.
        loss_bound: clip of one row's loss; by default the largest loss that a candidate can have, and without privacy
            none.
        mechanism: ``"permute-and-flip"``, never worse for one choice, or ``"exponential"``.

    Raises:
        InvalidInput: several outputs, unbounded rows, too many dimensions for a grid, or a candidate that is not in
            the domain.
    """
    rows = problem.rows
    if rows.outputs != 1:
        raise InvalidInput(
            f"the exponential mechanism chooses models with one score a row, not {rows.outputs}; use solver='descent'."
        )
    if not rows.bounded and (guarantee.private or candidates is None):
        raise InvalidInput("the exponential mechanism needs rows of bounded length: give row_norm or a schema.")
    if candidates is None:
        if rows.dimension > MOST_AXES:
            raise InvalidInput(
                f"a grid in {rows.dimension} dimensions is too coarse to be useful: declare candidates, or choose "
                "another solver."
            )
        found = _usual_grid(problem)
    else:
        found = _declared(candidates, problem)
    if loss_bound is None:
        longest = float(np.linalg.norm(found, axis=1).max())
        loss_bound = _largest_loss(problem.loss, rows.radius * longest) if guarantee.private else _UNCLIPPED
    scale = 0.0
    if guarantee.private:
        # each score moves by at most C = loss_bound/2 a row: ε = 2·(C or 2C)·rows/b
        scale = 2 * guarantee.unit.sensitivity(1.0) / guarantee.epsilon * (1 + 1e-12)
    return ExponentialMechanism(scale, found, loss_bound, mechanism)


def _usual_grid(problem: Problem) -> NDArray[np.float64]:
    """The cube of half-width 5/radius, projected on the domain."""
    rows, domain = problem.rows, problem.domain
    half = np.full(rows.dimension, _REACH / rows.radius)
    found = product_grid(-half, half, _points(rows.dimension))
    if isinstance(domain, Projectable):
        return np.unique([domain.project(theta) for theta in found], axis=0)
    return np.array([theta for theta in found if domain.contains(theta)])


def _points(axes: int) -> int:
    """Of an axis: odd, so that θ = 0 is a candidate."""
    points = int(_FEW_CANDIDATES ** (1 / axes))
    return points - (points + 1) % 2


def grid_radius(candidates: NDArray[np.float64], problem: Problem) -> float | None:
    """How far a point of the domain in the cube is from the nearest candidate at most; None if they are not the usual.

    Half a cell's diagonal, since a projection on a convex set does not expand; on any other set it at most doubles.
    """
    rows, domain = problem.rows, problem.domain
    if rows.dimension > MOST_AXES or not isinstance(domain, Projectable):
        return None
    if not np.array_equal(candidates, _usual_grid(problem)):
        return None
    half_a_cell = _REACH / rows.radius / (_points(rows.dimension) - 1) * math.sqrt(rows.dimension)
    return half_a_cell if domain.convex else 2 * half_a_cell


def _declared(candidates: ArrayLike, problem: Problem) -> NDArray[np.float64]:
    """The user's candidates as a matrix, all of them in the domain."""
    try:
        found = np.atleast_2d(np.asarray(candidates, dtype=np.float64))
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    d = problem.rows.dimension
    if found.ndim != 2 or found.shape[1] != d or not len(found) or not np.isfinite(found).all():
        raise InvalidInput(
            f"candidates must be a list of parameters with {d} finite numbers each (the intercept's last), got "
            f"{candidates!r}."
        )
    for place, theta in enumerate(found):
        if not problem.domain.contains(theta):
            raise InvalidInput(f"candidate {place}, {theta.tolist()}, is not in the domain {problem.domain}.")
    return found


def _largest_loss(loss: Loss, reach: float) -> float:
    """The loss is convex in the score: it is largest at an end of the interval, for targets at an end of [−1, 1]."""
    domain = Domain(score_bound=reach)
    ends = np.array([-domain.score_bound, domain.score_bound])
    targets = np.array([domain.target_low, domain.target_high])
    largest = float(np.max(loss.value(ends[:, None], targets[None, :])))
    return largest if largest > 0 else 1.0
