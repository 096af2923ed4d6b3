"""A ridge-regularised sum of losses on prepared rows: gradients with error bounds, curvature, Newton's method."""

from __future__ import annotations

import math
from copy import copy
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.data.threads import on_all_cores
from discreet.losses import Domain

if TYPE_CHECKING:
    from discreet.queries.minimiser import RidgeMinimiser
    from discreet.queries.ridge_parts import Part

__all__ = ["MOST_STEPS", "Objective"]

Array = NDArray[np.float64]

MOST_STEPS = 100
_UNIT = 2.0**-53
_FLAT = 1e-10
"""Without a ridge, columns that repeat others leave directions without curvature, along which a step has no length but
what rounding gives it. There the Hessian that makes the steps (not the gradient) is this much of its largest entry."""
_LARGEST_HESSIAN = 640  # parameters; beyond, Newton steps are found by conjugate gradients
_ENOUGH = 0.7  # a factored Hessian is kept for as long as steps shrink the gradient this much
_ROWS_PER_COLUMN = (4, 32)
"""Rows that coarser objectives have for each column: few to find the region, more for a Hessian to go on with."""
_COARSE = 0.01  # a coarse objective's gradient falls to this share; then more rows tell more
_MOST_REFRESHED = 4  # Hessians of some of the rows, before those of all are taken


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn

    return ThreadpoolController()


def _hessian(kind: Any, part: Part) -> Array:
    return part.hessian(kind)


def _corrected(solve: Any, pairs: list[tuple[Array, Array]], target: Array) -> Array:
    """H⁻¹·target for the matrix that BFGS makes of a factored Hessian and pairs (step, change of the gradient)."""
    residual, shares = target, []
    for step, change in reversed(pairs):
        shares.append(float(step @ residual) / float(step @ change))
        residual = residual - shares[-1] * change
    found = np.asarray(solve(residual))
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        found = found + (share - float(change @ found) / float(step @ change)) * step
    return found


def _product(direction: Array, part: Part) -> Array:
    return part.product(direction)


class Objective:
    """J on prepared rows: its gradient with an error bound, and Newton steps."""

    def __init__(self, query: RidgeMinimiser, data: Dataset, tilt: Array, *, rounded: bool) -> None:
        from discreet.queries.ridge_parts import held

        self.query, self.tilt, self.ridge = query, tilt, query.regularisation
        self.parts = data.map_blocks(lambda block: held(block, query.loss, query.slope_bound, rounded=rounded))
        self.n = sum(part.n for part in self.parts)
        self.unit = query.rows.unit
        self.weight = 1.0  # of each row
        self.smoothness = query.loss.smoothness(Domain())

    def gradient(self, theta: Array) -> Array:
        """∇J(θ), and the curvature there for the Newton steps that follow."""
        from discreet.queries.ridge_parts import two_sum

        high, low = np.zeros_like(theta), np.zeros_like(theta)
        for part_high, part_low in on_all_cores(lambda part: part.gradient(theta), self.parts):
            two_sum(high, low, part_high)
            low += part_low
        return self.weight * self.unit * (high + low) + (self.ridge * theta + self.tilt)

    def rounding_error(self, theta: Array) -> float:
        """A bound on ‖computed ∇J(θ) − ∇J(θ)‖.

        A dot product of m terms errs by m·u·‖x‖‖θ‖ in any order; scaling and subtracting the target by two more
        roundings; the slope function by 16 u; each of these reaches the gradient through the smoothness of the loss,
        times ‖x‖ ≤ R, for n rows. A sum over at most 1024 rows errs by 1024·u·Σ‖a·x‖, and the sums of those not at all.
        """
        from discreet.queries.ridge_parts import CHUNK

        radius, length = self.query.rows.radius, float(np.linalg.norm(theta))
        target = max((part.largest_target for part in self.parts), default=0.0)
        entries = max((part.most_entries for part in self.parts), default=0)
        reach = radius * length + target + 1
        slope_error = _UNIT * (self.smoothness * ((entries + 6) * radius * length + 4 * reach) + 16)
        rows = self.n * (radius * slope_error + (CHUNK + 16) * _UNIT * self.query.gradient_bound)
        ends = 8 * _UNIT * (self.n * self.query.gradient_bound + self.ridge * length + float(np.linalg.norm(self.tilt)))
        return 1.01 * (rows + ends)

    def certified(self, gradient: Array, theta: Array, tolerance: float) -> bool:
        """Whether ‖∇J(θ)‖ ≤ tolerance in exact arithmetic."""
        return float(np.linalg.norm(gradient)) * (1 + gradient.size * _UNIT) + self.rounding_error(theta) <= tolerance

    def descend(self, tolerance: float) -> tuple[Array, bool]:
        """Newton's method until the gradient is certified, or stops falling.

        Only the gradient at the end has to be of all rows. The way there begins on few of them, and the Hessian is that
        of every k-th row, corrected by what two gradients tell about the curvature between them (Byrd et al. 2011;
        BFGS on top of it: Nocedal 1980).
        """
        theta = np.zeros(self.query.rows.shape)
        strides = self._strides()
        for stride in strides:
            coarse = self.thinned(stride)
            theta = coarse._newton_steps(theta, coarse, share=_COARSE)[0]
        return self._newton_steps(theta, self.thinned(strides[-1]) if strides else self, tolerance=tolerance)

    def _strides(self) -> list[int]:
        """Which rows to begin with: every k-th, so many that a Hessian of d columns can be told from them."""
        if not (self.small and self.ridge):  # a column that no row of some has would be flat without a ridge
            return []
        d = math.prod(self.query.rows.shape)
        return [stride for rows in _ROWS_PER_COLUMN if (stride := self.n // (rows * d)) > 1]

    def thinned(self, stride: int) -> Objective:
        """About the same function, from every k-th row."""
        coarse = copy(self)
        coarse.parts = [part.thinned(stride) for part in self.parts]
        coarse.n = sum(part.n for part in coarse.parts)
        coarse.weight = self.weight * stride
        return coarse

    def _newton_steps(
        self, theta: Array, model: Objective, *, tolerance: float = 0.0, share: float = 0.0
    ) -> tuple[Array, bool]:
        """Steps with the model's Hessian until the gradient is certified, or down to a share of what it was."""
        gradient = self.gradient(theta)
        goal = share * float(np.linalg.norm(gradient))
        stalled, refreshed, solve = 0, 0, None
        pairs: list[tuple[Array, Array]] = []
        for _ in range(MOST_STEPS):
            size = float(np.linalg.norm(gradient))
            if self.certified(gradient, theta, tolerance):
                return theta, True
            if size <= goal:
                break  # near enough; or 0, the minimiser as far as float64 can tell
            if solve is None:
                if model is not self and refreshed == _MOST_REFRESHED:
                    model = self  # the few rows tell too little about the rest
                if model is not self:
                    model.gradient(theta)
                solve, pairs, refreshed = model._newton(), [], refreshed + 1
            step = _corrected(solve, pairs, -gradient)
            moved, after = self.search(theta, gradient, step)
            if self.small and float(np.vdot(moved - theta, after - gradient)) > 0:
                pairs.append((moved - theta, after - gradient))
            theta = moved
            shrunk = float(np.linalg.norm(after)) / size
            stalled = stalled + 1 if shrunk > 0.9 and size < 1e3 * max(tolerance, self.rounding_error(theta)) else 0
            if stalled > 3:
                break
            if shrunk > _ENOUGH or not self.small:
                solve = None
            gradient = after
        return theta, self.certified(gradient, theta, tolerance)

    def search(self, theta: Array, gradient: Array, step: Array) -> tuple[Array, Array]:
        """θ + t·step and the gradient there, for the first t whose slope along the step is at most half what it was."""
        downhill = -float(np.vdot(gradient, step))
        t = 1.0
        for _ in range(40):
            moved = theta + t * step
            after = self.gradient(moved)
            uphill = float(np.vdot(after, step))
            if uphill <= 0.5 * downhill or downhill <= 0:
                break
            t *= max(0.1, downhill / (downhill + uphill))  # where a straight line between the two slopes meets 0
        return moved, after

    @property
    def small(self) -> bool:
        """Whether the Hessian is worth forming."""
        return self.query.rows.outputs == 1 and math.prod(self.query.rows.shape) <= _LARGEST_HESSIAN

    def hessian(self, kind: Any) -> Array:
        """∇²J at the last gradient's θ, its sums over rows in working precision ``kind``."""
        with _blas().limit(limits=1, user_api="blas"):  # the rows are shared out among threads already
            total = self.weight * self.unit**2 * np.sum(on_all_cores(partial(_hessian, kind), self.parts), axis=0)
        total.flat[:: len(total) + 1] += self.ridge
        return np.asarray(total, dtype=np.float64)

    def product(self, direction: Array) -> Array:
        """∇²J at the last gradient's θ, times a direction."""
        products = on_all_cores(partial(_product, direction), self.parts)
        return np.asarray(self.weight * self.unit**2 * np.sum(products, axis=0) + self.ridge * direction)

    def _newton(self) -> Any:
        """g ↦ (∇²J)⁻¹g at the last gradient's θ: by Cholesky's factors, or conjugate gradients in many dimensions."""
        if not self.small:
            return self._conjugate_gradients
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        coarse = self.weight * self.n * self.query.curvature_bound * 1e-6 < self.ridge  # float32 would lose λ otherwise
        for kind in (np.float32, np.float64) if coarse else (np.float64,):
            try:
                hessian = self.hessian(kind)
                hessian.flat[:: len(hessian) + 1] += max(0.0, _FLAT * float(hessian.diagonal().max()) - self.ridge)
                factors = cho_factor(hessian, overwrite_a=True, check_finite=False)
                return lambda g: cho_solve(factors, g, check_finite=False)
            except LinAlgError:
                continue
        return self._conjugate_gradients

    def _conjugate_gradients(self, target: Array) -> Array:
        """Preconditioned by the Hessian's diagonal, to a tenth of the gradient or better."""
        scale = self.weight * self.unit**2
        diagonal = scale * np.sum([part.diagonal() for part in self.parts], axis=0) + max(self.ridge, 1e-300)
        x, residual = np.zeros_like(target), target.copy()
        z = residual / diagonal
        direction, inner = z, float(np.vdot(residual, z))
        goal = 0.05 * float(np.linalg.norm(target))
        for _ in range(200):
            if float(np.linalg.norm(residual)) <= goal or inner == 0:
                break
            image = self.product(direction)
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
        return target * (self.n / square)
