"""The minimiser of a ridge-regularised objective in decimal arithmetic, for when float64 cannot certify a gradient.

It is slow and meant to be needed never; it is here because a point that is not certified must not be released, and an
exception would tell about the rows. How long it takes tells about them too: the threat model does not cover time.
It ends always: with M ⪰ ∇²J everywhere, θ ← θ − M⁻¹∇J(θ) lowers J by at least ½∇JᵀM⁻¹∇J at every step, so the number of
steps is bounded by the public ‖M‖/λ and the tolerance; over a set accelerated projected gradients converge linearly
(Nesterov 2004, section 2.2.4).
In few dimensions a Newton step comes before each of them, without which next to no regularisation would take ages; it
goes only as far as J falls, so that the steps after it lower J as much as they would alone.
The arithmetic has digits to spare: 60, and more where regularisation is so faint that minimisers are longer than 10^20.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.data.base import Block, Dataset
from discreet.data.steps import chunks
from discreet.errors import InvalidInput
from discreet.geometry.long_projection import project_long
from discreet.losses import CappedPoisson, Domain, Huber, Logistic, Loss, Quantile, SmoothedHinge, Softmax, Squared
from discreet.queries.kernels.slope_caps import slope_caps
from discreet.queries.minimiser.problem import Array, RidgeProblem
from discreet.queries.whitened import stretches

__all__ = ["minimise_in_decimals"]

_DIGITS = 60
_FEW, _BISECTIONS = 40, 200  # columns for Newton's steps in decimals; places tried along one
_LARGEST_MATRIX = 4000  # columns; beyond, M is a multiple of I, so that no exception for want of memory tells of rows
Gradient = Callable[[list[Decimal]], list[Decimal]]
Newton = Callable[[list[Decimal], list[Decimal]], list[Decimal] | None]
_ROW = tuple[list[int], list[int], float, Decimal, Decimal]  # columns, steps, target, cap on the slope, stretch


def minimise_in_decimals(problem: RidgeProblem, data: Dataset, tilt: Array, start: Array, tolerance: float) -> Array:
    """A point within tolerance/λ of the minimiser: the double nearest to one that is within tolerance/2λ.

    With θ₀ the point of the set nearest to 0 the minimiser is no longer than 2‖θ₀‖ + (nL + ‖b‖)/λ, so taking the
    nearest double adds less than tolerance/2λ for every tolerance from `least_tolerance` on.
    """
    rows = [row for part in data.map_blocks(lambda block: _rows(block, problem)) for row in part]
    with localcontext(Context(prec=_digits(problem, len(rows), tilt, tolerance))):
        b = [Decimal(float(v)) for v in tilt.ravel()]
        theta = [Decimal(float(v)) for v in np.nan_to_num(start.ravel())]
        gradient = partial(_gradient, problem, rows, b)
        goal = Decimal(tolerance) / 2
        found = (
            _within(problem, len(rows), gradient, theta, goal)
            if problem.constrained
            else _anywhere(_majorised(problem, rows), partial(_newton, problem, rows), gradient, theta, goal)
        )
        return np.array([float(t) for t in found]).reshape(start.shape)


def _digits(problem: RidgeProblem, n: int, tilt: Array, tolerance: float) -> int:
    """So many that gradients at the longest minimiser, (nL + ‖b‖)/λ, are told to 10^−30 of the tolerance."""
    steepest = n * problem.gradient_bound + float(np.linalg.norm(tilt))
    orders = math.log10(steepest * (n * problem.curvature_bound + problem.regularisation) + 1e-300)
    orders -= math.log10(problem.regularisation) + math.log10(tolerance)
    return _DIGITS + max(0, math.ceil(orders) - _DIGITS // 2)


def _anywhere(step: Any, newton: Newton, gradient: Gradient, theta: list[Decimal], goal: Decimal) -> list[Decimal]:
    """A point with ‖∇J‖ ≤ goal."""
    while True:
        slope = gradient(theta)
        size = _length(slope)
        if size <= goal:
            return theta
        if (move := newton(theta, slope)) is not None:
            theta = _not_uphill(gradient, theta, slope, move)
            slope = gradient(theta)
            size = _length(slope)
            if size <= goal:
                return theta
        # scaled to size 1, so that the float64 solver of the step meets no tiny numbers
        move = step(np.array([float(g / size) for g in slope]))
        theta = [t - size * Decimal(float(m)) for t, m in zip(theta, move, strict=True)]


def _not_uphill(gradient: Gradient, theta: list[Decimal], slope: list[Decimal], move: list[Decimal]) -> list[Decimal]:
    """θ + t·move where J still falls along the move, or stands, but at most half as fast: t = 1, or by bisection.

    Where nothing is known from below t falls fast: flat objectives have steps of any number of digits too long.
    """
    steepest = _inner(slope, move)
    low, high, t, kept = Decimal(0), None, Decimal(1), theta
    for _ in range(_BISECTIONS):
        found = [v + t * m for v, m in zip(theta, move, strict=True)]
        falling = _inner(gradient(found), move)
        if falling > 0:
            high = t
        else:
            low, kept = t, found
            if high is None or falling >= steepest / 2:
                break
        if high is not None:
            t = (low + high) / 2 if low else high / 2**16
    return kept


def _inner(a: list[Decimal], b: list[Decimal]) -> Decimal:
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))


def _within(problem: RidgeProblem, n: int, gradient: Gradient, theta: list[Decimal], goal: Decimal) -> list[Decimal]:
    """A point with (2B + λ)·‖θ − Π(θ − ∇J/B)‖ ≤ goal: the certificate of `discreet.queries.minimiser.constrained`."""
    bound, ridge = Decimal(problem.lipschitz(n)), Decimal(problem.regularisation)
    momentum = (bound.sqrt() - ridge.sqrt()) / (bound.sqrt() + ridge.sqrt())
    last = theta
    while True:
        slope = gradient(theta)
        new = project_long(problem.domain, [t - g / bound for t, g in zip(theta, slope, strict=True)])
        if (2 * bound + ridge) * _length([t - p for t, p in zip(theta, new, strict=True)]) <= goal:
            return theta
        theta, last = [p + momentum * (p - q) for p, q in zip(new, last, strict=True)], new


def _length(vector: list[Decimal]) -> Decimal:
    return _inner(vector, vector).sqrt()


def _gradient(problem: RidgeProblem, rows: list[_ROW], tilt: list[Decimal], theta: list[Decimal]) -> list[Decimal]:
    outputs, d, unit = problem.rows.outputs, problem.rows.dimension, Decimal(problem.rows.unit)
    gradient = [Decimal(problem.regularisation) * t + v for t, v in zip(theta, tilt, strict=True)]
    for columns, steps, y, cap, t in rows:
        z = [unit * t * sum(x * theta[k * d + j] for j, x in zip(columns, steps, strict=True)) for k in range(outputs)]
        for k, a in enumerate(_slopes(problem.loss, z, y, cap * t)):
            for j, x in zip(columns, steps, strict=True):
                gradient[k * d + j] += a / t * unit * x
    return gradient


def _rows(block: Block, problem: RidgeProblem) -> list[_ROW]:
    cap = np.empty(len(block.y))
    slope_caps(block.squared_length, problem.slope_bound / block.rows.unit, cap)
    stretch = stretches(block) if problem.weighted else np.ones(len(block.y))
    out: list[_ROW] = []
    for part, piece in chunks(block):
        rows = sp.csr_array(piece)
        for i in range(rows.shape[0]):
            within = slice(rows.indptr[i], rows.indptr[i + 1])
            steps = [int(v) for v in rows.data[within]]
            last = float(block.y[part][i]), Decimal(float(cap[part][i])), Decimal(float(stretch[part][i]))
            out.append((rows.indices[within].tolist(), steps, *last))
    return out


def _majorised(problem: RidgeProblem, rows: list[_ROW]) -> Any:
    """g ↦ M⁻¹g for M = smoothness·Σxxᵀ + λ, a little enlarged; the same for each class."""
    from scipy.linalg import cho_factor, cho_solve

    d, smoothness = problem.rows.dimension, problem.loss.smoothness(Domain())
    if d > _LARGEST_MATRIX:
        trace = problem.rows.unit**2 * float(sum(x * x for _, steps, *_ in rows for x in steps))
        largest = 1.001 * (smoothness * trace + problem.regularisation)
        return lambda g: g / largest
    total = np.zeros((d, d))
    for columns, steps, *_ in rows:
        x = problem.rows.unit * np.array(steps, dtype=np.float64)
        total[np.ix_(columns, columns)] += np.outer(x, x)
    matrix = smoothness * total + problem.regularisation * np.eye(d)
    factors = cho_factor(matrix * 1.001 + 1e-9 * np.trace(matrix) * np.eye(d))
    return lambda g: cho_solve(factors, g.reshape(-1, d).T).T.ravel()


def _newton(
    problem: RidgeProblem, rows: list[_ROW], theta: list[Decimal], slope: list[Decimal]
) -> list[Decimal] | None:
    """−(∇²J)⁻¹∇J by elimination; None for several outputs, many columns, or a singular Hessian."""
    d, square = problem.rows.dimension, Decimal(problem.rows.unit) ** 2
    if problem.rows.outputs > 1 or d > _FEW:
        return None
    hessian = [[Decimal(problem.regularisation) if i == j else Decimal(0) for j in range(d)] for i in range(d)]
    for columns, steps, y, cap, t in rows:
        z = Decimal(problem.rows.unit) * t * sum(x * theta[j] for j, x in zip(columns, steps, strict=True))
        weight = square * _curvature(problem.loss, _slopes(problem.loss, [z], y, cap * t)[0], z, cap * t)
        for i, a in zip(columns, steps, strict=True) if weight else ():
            for j, x in zip(columns, steps, strict=True):
                hessian[i][j] += weight * a * x
    right = [-g for g in slope]
    for i in range(d):  # positive definite: no pivoting
        if not hessian[i][i] > 0:
            return None
        for k in range(i + 1, d):
            if factor := hessian[k][i] / hessian[i][i]:
                hessian[k] = [a - factor * b for a, b in zip(hessian[k], hessian[i], strict=True)]
                right[k] -= factor * right[i]
    for i in reversed(range(d)):
        right[i] = (right[i] - sum(hessian[i][j] * right[j] for j in range(i + 1, d))) / hessian[i][i]
    return right


def _curvature(loss: Loss, slope: Decimal, score: Decimal, cap: Decimal) -> Decimal:
    """The derivative of the cut slope, 0 where it is cut or at a kink."""
    size = abs(slope)
    if size == 0 or size >= cap:
        return Decimal(0)
    match loss:
        case Logistic():
            small = (-abs(score)).exp()
            return small / (1 + small) ** 2
        case SmoothedHinge(width):
            return 1 / Decimal(width) if size < 1 else Decimal(0)
        case Huber(width):
            return Decimal(size < Decimal(width))
        case Quantile():
            level, band = Decimal(loss.parameter), Decimal(loss.smoothing)
            return 1 / band if -level < slope < 1 - level else Decimal(0)
        case CappedPoisson():
            return _counted(loss, score)[1]
    return Decimal(1)


def _counted(loss: CappedPoisson, score: Decimal) -> tuple[Decimal, Decimal]:
    """E min(Y, cap) and e^z·P(Y < cap)/κ for Poisson counts Y of mean e^z; beyond a score of 7 the cap and 0."""
    mean = min(max(score, Decimal(-700)), Decimal(7)).exp()
    term, short, below = (-mean).exp(), Decimal(0), Decimal(0)
    for j in range(loss.cap):
        short, below = short + (loss.cap - j) * term, below + term
        term *= mean / (j + 1)
    bend = mean * below / Decimal(loss.largest_curvature) if score <= 7 else Decimal(0)
    return loss.cap - short, bend


def _slopes(loss: Loss, z: list[Decimal], y: float, cap: Decimal) -> list[Decimal]:
    """The slopes of one row by the rules of the compiled kernels; 0 where the target is unknown."""
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
            small = (-abs(score)).exp()  # of the larger score decimals, too, would overflow
            a = -target * (small if target * score > 0 else one) / (one + small)
        case SmoothedHinge(width):
            a = -target * min(max((one - target * score) / Decimal(width), zero), one)
        case Huber(width):
            a = min(max(score - target, -Decimal(width)), Decimal(width))
        case Squared():
            a = score - target
        case Quantile():
            level, band = Decimal(loss.parameter), Decimal(loss.smoothing)
            a = min(max((score - target) / band + Decimal("0.5") - level, -level), one - level)
        case CappedPoisson():
            seen = min(max(target, zero), Decimal(int(loss.cap)))
            a = (_counted(loss, score)[0] - seen) / Decimal(loss.largest_curvature)
        case _:
            raise InvalidInput(f"{type(loss).__name__} has no minimiser in longer arithmetic.")
    return [min(max(a, -cap), cap)]
