"""The minimiser of a ridge-regularised objective over a convex set 𝒞: a proximal Newton method, and its certificate.

The certificate needs no exact projection.

Claim. Let g be the computed gradient at θ, which errs by at most e, B the Lipschitz constant of ∇J, and
p = Π_𝒞(θ − g/t). Then t(θ − p) − g is normal to 𝒞 at p, so that p satisfies the optimality condition of

    J(·) − ⟨r, ·⟩ over 𝒞,   r = ∇J(p) − g + t(θ − p),   ‖r‖ ≤ (B + t)·‖θ − p‖ + e,

and by λ-strong convexity lies within ‖r‖/λ of the minimiser θ̂ of J over 𝒞: with tolerance ≥ (B + t + λ)·‖θ − p‖ + e,
‖θ − θ̂‖ ≤ tolerance/λ. ‖θ − p‖ is taken in decimal arithmetic, so θ need not lie in 𝒞 itself, only near it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext

import numpy as np

from discreet.geometry.long_projection import project_long
from discreet.queries.minimiser.newton import MOST_STEPS, line_search
from discreet.queries.minimiser.objective import Objective
from discreet.queries.minimiser.problem import Array, project

__all__ = ["certified_within", "minimise_within"]

_DIGITS = 60
_INNER_STEPS = 3000
_SHRINK = 0.03
"""A model's minimiser is found to this share of the residual that it started from: outer steps then gain as much."""


def certified_within(objective: Objective, gradient: Array, theta: Array, tolerance: float) -> bool:
    """Whether θ is within tolerance/λ of the minimiser over the set, in exact arithmetic."""
    problem = objective.problem
    bound = problem.lipschitz(objective.n)
    if not (math.isfinite(bound) and np.isfinite(gradient).all()):
        return False
    with localcontext(Context(prec=_DIGITS)):
        t = Decimal(bound)
        here = [Decimal(v) for v in theta.ravel().tolist()]
        ahead = [x - Decimal(g) / t for x, g in zip(here, gradient.ravel().tolist(), strict=True)]
        moved = project_long(problem.domain, ahead)
        # the projection's own error, with room to spare: r ≤ ‖p‖₁, or else the projection is the identity
        size = sum((abs(x) + abs(a) + abs(p) for x, a, p in zip(here, ahead, moved, strict=True)), Decimal(0))
        squares = ((x - p) ** 2 for x, p in zip(here, moved, strict=True))
        distance = sum(squares, Decimal(0)).sqrt() + size * Decimal("1e-45")
        most = (2 * t + Decimal(problem.regularisation)) * distance + Decimal(objective.rounding_error(theta))
        return most <= Decimal(tolerance)


def minimise_within(objective: Objective, tolerance: float) -> tuple[Array, bool]:
    """(θ, whether it is certified), by proximal Newton steps from the point of the set nearest to 0.

    They end when one is certified, or when the residual stops falling.
    """
    problem = objective.problem
    domain = problem.domain
    theta = project(domain, np.zeros(problem.rows.shape))
    gradient = objective.gradient(theta)
    bound = problem.lipschitz(objective.n)
    best, stalled = math.inf, 0
    for _ in range(MOST_STEPS):
        model = _Model(objective, theta, gradient)
        if not math.isfinite(bound):  # rows without bounds, where nothing is certified
            bound = model.steepness
        residual = 2 * bound * float(np.linalg.norm(theta - project(domain, theta - gradient / bound)))
        if residual <= tolerance and (
            certified_within(objective, gradient, theta, tolerance) or not problem.rows.bounded
        ):
            return theta, True
        near = residual < 1e3 * max(tolerance, objective.rounding_error(theta))
        stalled = stalled + 1 if near and residual > 0.7 * best else 0
        if residual == 0 or stalled > 5:
            break
        best = min(best, residual)
        theta, gradient = line_search(objective, theta, gradient, model.minimiser(_SHRINK) - theta)
    return theta, certified_within(objective, gradient, theta, tolerance)


class _Model:
    """q(x) = ⟨g, x − θ⟩ + ½(x − θ)ᵀH(x − θ) over the set, H = ∇²J(θ)."""

    def __init__(self, objective: Objective, theta: Array, gradient: Array) -> None:
        self.domain, self.theta, self.gradient = objective.problem.domain, theta, gradient
        self.product: Callable[[Array], Array] = objective.product
        if objective.small:
            self.product = objective.hessian(np.float64).__matmul__
        self.steepness = self._steepness()

    def _steepness(self) -> float:
        """An estimate of the largest eigenvalue of H by the power method; `minimiser` raises it where it is too low."""
        direction = self.gradient + 1e-3 * np.linalg.norm(self.gradient) + 1e-300
        for _ in range(8):
            direction = direction / np.linalg.norm(direction)
            image = self.product(direction)
            direction = image if image.any() else np.ones_like(image)
        return max(1.05 * float(np.linalg.norm(direction)), 1e-300)

    def minimiser(self, share: float) -> Array:
        """Accelerated projected gradients, restarted when momentum points uphill (O'Donoghue–Candès 2015).

        Ends when the projected gradient's residual is at most ``share`` of the first. H times every point is known by
        linearity from H times the points before it, so a step costs one product.
        """
        x, hx = self.theta, np.zeros_like(self.theta)
        y, hy, momentum, first = x, hx, 1.0, math.inf
        for _ in range(_INNER_STEPS):
            new = project(self.domain, y - (self.gradient + hy) / self.steepness)
            step = new - y
            length = float(np.linalg.norm(step))
            if first == math.inf:
                first = self.steepness * length
            if self.steepness * length <= share * first or length == 0:
                return new
            h_new = self.product(new - self.theta)
            bend = float(np.vdot(step, h_new - hy)) / length**2
            if bend > self.steepness * 1.0001:
                self.steepness = 1.1 * bend
                y, hy, momentum = x, hx, 1.0
                continue
            if float(np.vdot(step, new - x)) < 0:
                momentum = 1.0
            following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
            weight = (momentum - 1) / following
            y, hy = new + weight * (new - x), h_new + weight * (h_new - hx)
            x, hx, momentum = new, h_new, following
        return x
