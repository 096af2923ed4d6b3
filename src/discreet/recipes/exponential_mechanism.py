"""Settings of the exponential mechanism over candidates (`discreet.solvers.exponential_mechanism`) from public facts.

Without declared candidates they are the points of a grid on the cube of half-width 5/radius, the same for all data:
scores up to about ±5 on the longest row. A grid of a few thousand points is too coarse to be useful beyond four axes.
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
from discreet.losses import Domain, Loss, Tabulated
from discreet.recipes import shared
from discreet.solvers.base import Problem
from discreet.solvers.exponential_mechanism import ExponentialMechanism
from discreet.tuned import Tuned, current, tuned

__all__ = ["MOST_AXES", "NUMBERS", "ExponentialMechanismNumbers", "grid_radius", "product_grid", "recipe"]

MOST_AXES = 4
"""Most dimensions in which a grid is laid: with five axes 4096 points are five an axis, and more is refused."""
_MOST_CANDIDATES = 1 << 20  # more do not fit into memory
_UNCLIPPED = 1e290  # without privacy no loss is clipped


@dataclass(frozen=True)
class ExponentialMechanismNumbers(Tuned):
    """The grid of candidates."""

    grid_points: int = tuned(
        4096, "about so many points in all", "judgement: their logarithm is the price, and 4096 are scored in no time"
    )


NUMBERS = ExponentialMechanismNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    candidates: ArrayLike | None = None,
    loss_bound: float | None = None,
    mechanism: Literal["exponential", "permute-and-flip"] = "permute-and-flip",
) -> ExponentialMechanism:
    """The exponential mechanism with scale b = 2Δ/ε, which is pure ε-DP whatever δ is.

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
    found = _usual_grid(problem) if candidates is None else _declared(candidates, problem)
    if loss_bound is None:
        longest = float(np.linalg.norm(found, axis=1).max())
        loss_bound = _largest_loss(problem.loss, rows.radius * longest) if guarantee.private else _UNCLIPPED
    scale = 0.0
    if guarantee.private:
        # each score moves by at most C = loss_bound/2 a row: ε = 2·(C or 2C)·rows/b
        scale = 2 * guarantee.unit.sensitivity(1.0) / guarantee.epsilon * (1 + 1e-12)
    return ExponentialMechanism(scale, found, loss_bound, mechanism)


def product_grid(low: ArrayLike, high: ArrayLike, points: int | Sequence[int]) -> NDArray[np.float64]:
    """All points of a grid on a box, one a row.

    Args:
        low: least value on each axis.
        high: largest value on each axis.
        points: number of points on each axis, or one number for all.

    Raises:
        InvalidInput: sizes that do not match, or more than 2^20 points.

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


def _usual_grid(problem: Problem) -> NDArray[np.float64]:
    """A grid on the cube of half-width 5/radius, projected on the domain."""
    rows, domain = problem.rows, problem.domain
    if rows.dimension > MOST_AXES:
        raise InvalidInput(
            f"a grid in {rows.dimension} dimensions is too coarse to be useful: declare candidates, or choose another "
            "solver."
        )
    half = np.full(rows.dimension, current(shared.NUMBERS).score_bound / rows.radius)
    found = product_grid(-half, half, _points(rows.dimension))
    if isinstance(domain, Projectable):
        return np.unique([domain.project(theta) for theta in found], axis=0)
    return np.array([theta for theta in found if domain.contains(theta)])


def _points(axes: int) -> int:
    """The number of points of an axis: odd, so that θ = 0 is a candidate."""
    points = int(current(NUMBERS).grid_points ** (1 / axes))
    return points - (points + 1) % 2


def grid_radius(candidates: NDArray[np.float64], problem: Problem) -> float | None:
    """The largest distance of a point of the domain, inside the cube, from the nearest point of the recipe's grid.

    Half a cell's diagonal, since a projection on a convex set does not expand; on any other set it at most doubles.
    None for other candidates than the recipe's.
    """
    rows, domain = problem.rows, problem.domain
    if rows.dimension > MOST_AXES or not isinstance(domain, Projectable):
        return None
    if not np.array_equal(candidates, _usual_grid(problem)):
        return None
    half_a_cell = (
        current(shared.NUMBERS).score_bound / rows.radius / (_points(rows.dimension) - 1) * math.sqrt(rows.dimension)
    )
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


def _largest_loss(loss: Loss, score_bound: float) -> float:
    """The largest loss of scores in ±score_bound and targets in [−1, 1]; if convex, it is at ends of both.

    Of the library's losses that are not convex too; any other is searched. A loss beyond it is clipped.
    """
    domain = Domain(score_bound=score_bound)
    points = 1025 if isinstance(loss, Tabulated) else 2
    ends = np.linspace(-domain.score_bound, domain.score_bound, points)
    targets = np.array([domain.target_low, domain.target_high])
    largest = float(np.max(loss.value(ends[:, None], targets[None, :])))
    return largest if largest > 0 else 1.0
