"""Columns that can be told apart, and coordinates in which they have one scale, from a noisy second moment.

Post-processing of one release. Columns of a partition (indicators of levels, knots of a curve) and the constant column
are linearly dependent, so one level of each is the reference, whose coefficient is 0. A level that cannot be told from
an empty one is joined with the one before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.queries.whitened import Whitening
from discreet.rows import RowSpec
from discreet.solvers.base import Problem

__all__ = ["Coordinates", "design", "whitened"]

Array = NDArray[np.float64]

_STANDARD_DEVIATIONS = 3.0  # of its noise, below which a level's second moment is taken for that of an empty one


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Rows z = W·S·x of mean square length d, divided by a radius R: what is longer than R gets less weight.

    Args:
        whitening: the map from given rows to z/R, of row norm 1.
        design: S, of shape (d, given dimension): one row of zeros and ones for each coefficient that is estimated.
        matrix: W/R.
        radius: R.
    """

    whitening: Whitening
    design: Array
    matrix: Array
    radius: float

    @property
    def size(self) -> int:
        """d, the number of coefficients that are estimated."""
        return len(self.design)

    def given(self, theta: Array) -> Array:
        """The coefficients of the given columns: 0 for references, the same for levels that are joined."""
        return np.asarray(self.design.T @ (self.matrix @ theta))

    def given_covariance(self, covariance: Array) -> Array:
        """The covariance of `given` for a covariance in these coordinates."""
        back = self.design.T @ self.matrix
        return np.asarray(back @ covariance @ back.T)

    def constant(self, score: float) -> Array:
        """The θ whose score is the same for every row, as the intercept's column makes it; 0 without one."""
        rows = self.whitening.given
        if not rows.intercept:
            return np.zeros(self.size)
        intercept = self.design[:, -1] * (score / (rows.constant * rows.unit))
        return np.asarray(np.linalg.solve(self.matrix, intercept))


def whitened(problem: Problem, moment: Array, noise: float, noise_norm: float) -> Coordinates:
    """Coordinates from a noisy Σxxᵀ.

    Args:
        problem: public facts.
        moment: Σxxᵀ with noise.
        noise: standard deviation of the noise in a diagonal entry; 0 without privacy.
        noise_norm: spectral norm of the noise. Eigenvalues below half of it are raised to that.

    A row's squared length has the mean d, and for normal rows the variance 2d: R² = d + √(2d).
    """
    chosen = design(problem, moment, noise)
    values, vectors = np.linalg.eigh(chosen @ moment @ chosen.T)
    floor = max(noise_norm / 2, 1e-12 * float(np.max(np.abs(values))), 1e-300)
    root = (vectors / np.sqrt(np.maximum(values, floor) / problem.n)) @ vectors.T
    size = len(chosen)
    radius = math.sqrt(size + math.sqrt(2 * size)) if noise else 1.0
    matrix = root / radius
    made = RowSpec(size, 1.0 if noise else math.inf)
    return Coordinates(Whitening(problem.rows, made, matrix @ chosen), chosen, matrix, radius)


def design(problem: Problem, moment: Array, noise: float) -> Array:
    """S: which columns are estimated, and which are joined; at least one."""
    rows = problem.rows
    held, within = np.diagonal(moment), np.zeros(rows.dimension, dtype=int)
    chosen: list[Array] = []
    free = not rows.intercept  # without a constant column the first partition keeps all its levels
    for place, partition in enumerate(problem.partitions, start=1):
        if partition.stop > rows.n_features:  # an outline of the problem with fewer columns
            continue
        columns = np.arange(partition.start, partition.stop)
        within[columns] = place
        groups = _groups(columns, held[columns] > _STANDARD_DEVIATIONS * noise)
        chosen += [_indicator(group, rows.dimension) for group in (groups if free else groups[1:])]
        free = False
    chosen += [_indicator([int(j)], rows.dimension) for j in np.flatnonzero(within == 0)]
    order = sorted(chosen, key=lambda row: int(np.argmax(row)))
    return np.array(order) if order else _indicator([0], rows.dimension)[None]


def _groups(columns: NDArray[np.intp], strong: NDArray[np.bool_]) -> list[list[int]]:
    """Levels, those that are not ``strong`` joined with the one before; the first is the reference.

    Levels before the first strong one are joined with that. There are none where none is strong.
    """
    found = [[int(j)] for j in columns[strong]]
    if not found:
        return []
    for j in columns[~strong]:
        before = [group for group in found if group[0] < j]
        (before[-1] if before else found[0]).append(int(j))
    return found


def _indicator(columns: list[int], dimension: int) -> Array:
    row = np.zeros(dimension)
    row[columns] = 1.0
    return row
