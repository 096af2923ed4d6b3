"""Newton's method for a ridge-regularised objective without constraints, until the gradient is certified.

Only the gradient at the end has to be of all rows. The method begins on few of them, and its Hessian is that of every
k-th row, corrected by the curvature between two gradients (Byrd et al. 2011; BFGS on top of it: Nocedal 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from discreet.queries.minimiser.objective import Objective
from discreet.queries.minimiser.problem import Array

__all__ = ["MOST_STEPS", "line_search", "minimise_anywhere"]

MOST_STEPS = 100
_FLAT = 1e-10
"""Without a ridge, columns that repeat others leave directions without curvature, along which a step has no length but
what rounding gives it. There the Hessian that makes the steps (not the gradient) is this much of its largest entry."""
_ENOUGH = 0.7  # a factored Hessian is kept for as long as steps shrink the gradient this much
_ROWS_PER_COLUMN = (4, 32)
"""Rows that coarser objectives have for each column: few to find the region, more for a Hessian to go on with."""
_COARSE = 0.01  # a coarse objective's gradient falls to this share; then more rows are taken
_MOST_REFRESHED = 4  # Hessians of some of the rows, before those of all are taken

Solve = Callable[[Array], Array]


def minimise_anywhere(objective: Objective, tolerance: float) -> tuple[Array, bool]:
    """(θ, whether ‖∇J(θ)‖ ≤ tolerance is certified), by Newton's method from 0 until then or until ∇J stops falling."""
    theta = np.zeros(objective.problem.rows.shape)
    thinned = objective.thinned(_strides(objective))
    for coarse in thinned:
        theta = _newton_steps(coarse, theta, coarse, share=_COARSE)[0]
    return _newton_steps(objective, theta, thinned[-1] if thinned else objective, tolerance=tolerance)


def line_search(objective: Objective, theta: Array, gradient: Array, step: Array) -> tuple[Array, Array]:
    """θ + t·step and the gradient there, for the first t whose slope along the step is at most half what it was."""
    downhill = -float(np.vdot(gradient, step))
    t = 1.0
    for _ in range(40):
        moved = theta + t * step
        after = objective.gradient(moved)
        uphill = float(np.vdot(after, step))
        if uphill <= 0.5 * downhill or downhill <= 0:
            break
        t *= max(0.1, downhill / (downhill + uphill))  # where a straight line between the two slopes meets 0
    return moved, after


def _strides(objective: Objective) -> list[int]:
    """Strides k of the coarse objectives: every k-th row, so many that they determine a Hessian of d columns."""
    if not (objective.small and objective.ridge):  # without a ridge, a column of zeros in those rows would be flat
        return []
    d = math.prod(objective.problem.rows.shape)
    return [stride for rows in _ROWS_PER_COLUMN if (stride := objective.n // (rows * d)) > 1]


def _newton_steps(
    objective: Objective, theta: Array, model: Objective, *, tolerance: float = 0.0, share: float = 0.0
) -> tuple[Array, bool]:
    """Steps with the model's Hessian until the gradient is certified, or falls to a share of what it was."""
    gradient = objective.gradient(theta)
    goal = share * float(np.linalg.norm(gradient))
    stalled, refreshed, solve = 0, 0, None
    pairs: list[tuple[Array, Array]] = []
    for _ in range(MOST_STEPS):
        size = float(np.linalg.norm(gradient))
        if objective.certified(gradient, theta, tolerance):
            return theta, True
        if size <= goal:
            break  # near enough; or 0, the minimiser as far as float64 can tell
        if solve is None:
            if model is not objective and refreshed == _MOST_REFRESHED:
                model = objective  # the Hessian of few rows is too far from that of all
            if model is not objective:
                model.gradient(theta)
            solve, pairs, refreshed = _solver(model), [], refreshed + 1
        moved, after = line_search(objective, theta, gradient, _bfgs(solve, pairs, -gradient))
        if objective.small and float(np.vdot(moved - theta, after - gradient)) > 0:
            pairs.append((moved - theta, after - gradient))
        theta = moved
        shrunk = float(np.linalg.norm(after)) / size
        near = size < 1e3 * max(tolerance, objective.rounding_error(theta))
        stalled = stalled + 1 if shrunk > 0.9 and near else 0
        if stalled > 3:
            break
        if shrunk > _ENOUGH or not objective.small:
            solve = None
        gradient = after
    return theta, objective.certified(gradient, theta, tolerance)


def _bfgs(solve: Solve, pairs: list[tuple[Array, Array]], target: Array) -> Array:
    """H⁻¹·target for the matrix that BFGS makes of a factored Hessian and pairs (step, change of the gradient)."""
    residual, shares = target, []
    for step, change in reversed(pairs):
        shares.append(float(step @ residual) / float(step @ change))
        residual = residual - shares[-1] * change
    found = np.asarray(solve(residual))
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        found = found + (share - float(change @ found) / float(step @ change)) * step
    return found


def _solver(objective: Objective) -> Solve:
    """g ↦ (∇²J)⁻¹g at the last gradient's θ: by Cholesky's factors, or conjugate gradients in many dimensions."""
    by_products = partial(_conjugate_gradients, objective)
    if not objective.small:
        return by_products
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    steepest = objective.weight * objective.n * objective.problem.curvature_bound
    coarse = steepest * 1e-6 < objective.ridge  # float32 would lose λ otherwise
    for kind in (np.float32, np.float64) if coarse else (np.float64,):
        try:
            hessian = objective.hessian(kind)
            hessian.flat[:: len(hessian) + 1] += max(0.0, _FLAT * float(hessian.diagonal().max()) - objective.ridge)
            factors = cho_factor(hessian, overwrite_a=True, check_finite=False)
            return lambda g: np.asarray(cho_solve(factors, g, check_finite=False))
        except LinAlgError:
            continue
    return by_products


def _conjugate_gradients(objective: Objective, target: Array) -> Array:
    """(∇²J)⁻¹·target by conjugate gradients, preconditioned by the diagonal, to a residual of 5 % or better."""
    diagonal = objective.diagonal()
    x, residual = np.zeros_like(target), target.copy()
    z = residual / diagonal
    direction, inner = z, float(np.vdot(residual, z))
    goal = 0.05 * float(np.linalg.norm(target))
    for _ in range(200):
        if float(np.linalg.norm(residual)) <= goal or inner == 0:
            break
        image = objective.product(direction)
        bend = float(np.vdot(direction, image))
        if not bend > abs(inner) * 1e-250:
            break  # no curvature left along it: a flat objective without regularisation
        alpha = inner / bend
        x += alpha * direction
        residual -= alpha * image
        z = residual / diagonal
        inner, last = float(np.vdot(residual, z)), inner
        direction = z + (inner / last) * direction
    square = float(np.vdot(target, target))  # 0 where columns are constant or equal and nothing is left to solve
    if x.any() or not square:
        return x
    # flat along the gradient: a step that changes scores by about one, which the line search shortens
    return target * (objective.n / square)
