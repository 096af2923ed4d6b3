"""The same minimiser in decimal arithmetic: what is left when float64 cannot certify a gradient.

It is slow and meant to be needed never; it is here because a point that is not certified must not be released, and an
exception would tell about the rows. It ends always: with M ⪰ ∇²J everywhere, θ ← θ − M⁻¹∇J(θ) lowers J by at least
½∇JᵀM⁻¹∇J at every step; over a set accelerated projected gradients converge linearly (Nesterov 2004, section 2.2.4).
The arithmetic has digits to spare beyond any tolerance that float64 can express.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.data.steps import chunks
from discreet.errors import InvalidInput
from discreet.geometry.long_projection import project_long
from discreet.losses import Domain, Huber, Logistic, Loss, Quantile, SmoothedHinge, Softmax, Squared
from discreet.queries.constrained_minimiser import lipschitz

if TYPE_CHECKING:
    from discreet.queries.minimiser import RidgeMinimiser

__all__ = ["minimise_long"]

Array = NDArray[np.float64]
_DIGITS = 60
Gradient = Callable[[list[Decimal]], list[Decimal]]
_ROW = tuple[list[int], list[int], float, float]  # columns, steps, target, cap on the slope


def minimise_long(query: RidgeMinimiser, data: Dataset, tilt: Array, start: Array, tolerance: float) -> Array:
    """A point within tolerance/λ of the minimiser: the double nearest to one that is within tolerance/2λ.

    With θ₀ the point of the set nearest to 0 the minimiser is no longer than 2‖θ₀‖ + (nL + ‖b‖)/λ, so taking the
    nearest double adds less than tolerance/2λ for every tolerance from `least_tolerance` on.
    """
    rows = [row for part in data.map_blocks(lambda block: _rows(block, query)) for row in part]
    with localcontext(Context(prec=_DIGITS)):
        b = [Decimal(float(v)) for v in tilt.ravel()]
        theta = [Decimal(float(v)) for v in start.ravel()]
        gradient = partial(_gradient, query, rows, b)
        goal = Decimal(tolerance) / 2
        found = (
            _within(query, len(rows), gradient, theta, goal)
            if query.constrained
            else _anywhere(_majorised(query, rows), gradient, theta, goal)
        )
        return np.array([float(t) for t in found]).reshape(start.shape)


def _anywhere(step: Any, gradient: Gradient, theta: list[Decimal], goal: Decimal) -> list[Decimal]:
    """A point with ‖∇J‖ ≤ goal."""
    while True:
        slope = gradient(theta)
        size = _length(slope)
        if size <= goal:
            return theta
        # scaled to size 1, so that the float64 solver of the step meets no tiny numbers
        move = step(np.array([float(g / size) for g in slope]))
        theta = [t - size * Decimal(float(m)) for t, m in zip(theta, move, strict=True)]


def _within(query: RidgeMinimiser, n: int, gradient: Gradient, theta: list[Decimal], goal: Decimal) -> list[Decimal]:
    """A point with (2B + λ)·‖θ − Π(θ − ∇J/B)‖ ≤ goal: the certificate of `discreet.queries.constrained_minimiser`."""
    bound, ridge = Decimal(lipschitz(query, n)), Decimal(query.regularisation)
    momentum = (bound.sqrt() - ridge.sqrt()) / (bound.sqrt() + ridge.sqrt())
    last = theta
    while True:
        slope = gradient(theta)
        new = project_long(query.domain, [t - g / bound for t, g in zip(theta, slope, strict=True)])
        if (2 * bound + ridge) * _length([t - p for t, p in zip(theta, new, strict=True)]) <= goal:
            return theta
        theta, last = [p + momentum * (p - q) for p, q in zip(new, last, strict=True)], new


def _length(vector: list[Decimal]) -> Decimal:
    return sum((v * v for v in vector), Decimal(0)).sqrt()


def _gradient(query: RidgeMinimiser, rows: list[_ROW], tilt: list[Decimal], theta: list[Decimal]) -> list[Decimal]:
    outputs, d, unit = query.rows.outputs, query.rows.dimension, Decimal(query.rows.unit)
    gradient = [Decimal(query.regularisation) * t + v for t, v in zip(theta, tilt, strict=True)]
    for columns, steps, y, cap in rows:
        z = [unit * sum(x * theta[k * d + j] for j, x in zip(columns, steps, strict=True)) for k in range(outputs)]
        for k, a in enumerate(_slopes(query.loss, z, y, cap)):
            for j, x in zip(columns, steps, strict=True):
                gradient[k * d + j] += a * unit * x
    return gradient


def _rows(block: Block, query: RidgeMinimiser) -> list[_ROW]:
    from discreet.queries.minimiser_kernels import longest_slopes

    cap = np.empty(len(block.y))
    longest_slopes(block.squared_length, query.slope_bound / block.rows.unit, cap)
    out: list[_ROW] = []
    for part, piece in chunks(block):
        rows = sp.csr_array(piece)
        for i in range(rows.shape[0]):
            within = slice(rows.indptr[i], rows.indptr[i + 1])
            steps = [int(v) for v in rows.data[within]]
            out.append((rows.indices[within].tolist(), steps, float(block.y[part][i]), float(cap[part][i])))
    return out


def _majorised(query: RidgeMinimiser, rows: list[_ROW]) -> Any:
    """g ↦ M⁻¹g for M = smoothness·Σxxᵀ + λ, a little enlarged; the same for each class."""
    from scipy.linalg import cho_factor, cho_solve

    d = query.rows.dimension
    total = np.zeros((d, d))
    for columns, steps, _, _ in rows:
        x = query.rows.unit * np.array(steps, dtype=np.float64)
        total[np.ix_(columns, columns)] += np.outer(x, x)
    matrix = query.loss.smoothness(Domain()) * total + query.regularisation * np.eye(d)
    factors = cho_factor(matrix * 1.001 + 1e-9 * np.trace(matrix) * np.eye(d))
    return lambda g: cho_solve(factors, g.reshape(-1, d).T).T.ravel()


def _slopes(loss: Loss, z: list[Decimal], y: float, cap: float) -> list[Decimal]:
    """The slopes of one row; 0 where the target is unknown. The same rules as the compiled kernels."""
    zero, one = Decimal(0), Decimal(1)
    if isinstance(loss, Softmax):
        if y not in range(loss.classes):
            return [zero] * loss.classes
        weights = [(v - max(z)).exp() for v in z]
        return [w / sum(weights) - (k == y) for k, w in enumerate(weights)]
    score = z[0]
    if (isinstance(loss, Logistic | SmoothedHinge) and y not in (1.0, -1.0)) or not abs(y) < np.inf:
        return [zero]
    target = Decimal(y)
    match loss:
        case Logistic():
            a = -target / (one + (target * score).exp())
        case SmoothedHinge(width):
            a = -target * min(max((one - target * score) / Decimal(width), zero), one)
        case Huber(width):
            a = min(max(score - target, -Decimal(width)), Decimal(width))
        case Squared():
            a = score - target
        case Quantile():
            level, band = Decimal(loss.parameter), Decimal(loss.smoothing)
            a = min(max((score - target) / band, -level), one - level)
        case _:
            raise InvalidInput(f"{type(loss).__name__} has no minimiser in longer arithmetic.")
    bound = Decimal(cap)
    return [min(max(a, -bound), bound)]
