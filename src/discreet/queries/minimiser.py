"""The minimiser of a ridge-regularised sum of losses, found on the trusted side and certified.

Claim: for rows on the grid, whatever they contain, the function minimised is

    J(θ) = Σ_i ℓ_i(⟨x_i, θ⟩) + (λ/2)‖θ‖² + ⟨b, θ⟩,

with ℓ_i convex, ‖slope·x_i‖₂ ≤ `gradient_bound` and curvature·‖x_i‖² ≤ `curvature_bound`, and the point returned is
within tolerance/λ of its minimiser, always: ‖∇J(θ)‖₂ ≤ tolerance *in exact arithmetic* is verified, and J is λ-strongly
convex. Slopes are cut at gradient_bound/‖x_i‖, which makes the squared loss a Huber loss and keeps it convex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.data.threads import on_all_cores
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.losses import Domain, Logistic, Loss, Softmax
from discreet.rows import MOST_ROWS, RowSpec

if TYPE_CHECKING:
    from discreet.queries.ridge_parts import Part

__all__ = ["RidgeMinimiser"]

Array = NDArray[np.float64]

_UNIT = 2.0**-53
_MOST_STEPS = 100
_LARGEST_HESSIAN = 640  # parameters; beyond, Newton steps are found by conjugate gradients
_ENOUGH = 0.2  # a factored Hessian is kept for as long as steps shrink the gradient fivefold


@dataclass(frozen=True, eq=False)
class RidgeMinimiser:
    """argmin Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩.

    Args:
        rows: public facts about the rows.
        loss: pointwise smooth loss; to be protected, one with a bounded curvature.
        regularisation: λ, in units of the *sum* of losses.
        slope_bound: ℓ2 bound on a row's gradient, enforced by cutting slopes. Losses with bounded slopes need none.

    Raises:
        HypothesisViolated: the loss has a kink, or softmax slopes were to be cut.
    """

    rows: RowSpec
    loss: Loss
    regularisation: float
    slope_bound: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.regularisation < math.inf:
            raise InvalidInput(f"regularisation must be finite and non-negative, got {self.regularisation!r}.")
        if not self.slope_bound > 0:
            raise InvalidInput(f"slope_bound must be positive, got {self.slope_bound!r}.")
        if not self.loss.smooth:
            raise HypothesisViolated(
                f"{type(self.loss).__name__} has a kink, where Newton's method finds no minimiser: use a smoothed loss "
                "(Huber, SmoothedHinge, Quantile with a width) or a gradient solver."
            )
        if isinstance(self.loss, Softmax) and self.slope_bound < self._natural_bound:
            raise HypothesisViolated(
                f"cutting softmax slopes at {self.slope_bound:g} < {self._natural_bound:g} does not leave the gradient "
                "of a convex loss: leave slope_bound out."
            )

    @property
    def _natural_bound(self) -> float:
        return self.loss.lipschitz(Domain()) * self.rows.radius

    @property
    def gradient_bound(self) -> float:
        """L: ℓ2 bound on one row's gradient."""
        return min(self.slope_bound, self._natural_bound)

    @property
    def curvature_bound(self) -> float:
        """β: bound on curvature·‖x‖²."""
        return self.loss.smoothness(Domain()) * self.rows.radius**2

    @property
    def log_det(self) -> float:
        """The most by which one more row raises log det ∇²J.

        A softmax's curvature diag(p) − ppᵀ has K − 1 positive eigenvalues that sum to at most 1 − 1/K, and log is
        concave; every other row adds a matrix of rank one.
        """
        if isinstance(self.loss, Softmax):
            k = self.loss.classes
            return (k - 1) * math.log1p(self.rows.radius**2 / (k * self.regularisation))
        return math.log1p(self.curvature_bound / self.regularisation)

    @property
    def directions(self) -> int:
        """How many vectors, with 0, span the hull of a row's possible gradients."""
        if isinstance(self.loss, Softmax):
            return self.loss.classes - 1
        return 1 if self.loss.slope_sign_fixed else 2

    @property
    def link(self) -> float:
        """R²/λ when curvature = |slope|(1 − |slope|) for every slope up to 1, else 0."""
        uncut = isinstance(self.loss, Logistic) and self.slope_bound >= self._natural_bound
        return self.rows.radius**2 / self.regularisation if uncut else 0.0

    def require_bounded_curvature(self) -> None:
        """Refuse a loss whose minimiser can be found, but not protected.

        Raises:
            HypothesisViolated: the loss has unbounded curvature.
        """
        if not math.isfinite(self.loss.smoothness(Domain())):
            raise HypothesisViolated(
                f"{type(self.loss).__name__} has unbounded curvature, so its perturbed minimiser has no privacy bound: "
                "use a smoothed loss (Huber, SmoothedHinge, Quantile with a width) or a gradient solver."
            )

    def least_tolerance(self, tilt_length: float) -> float:
        """Below this, doubles are too coarse to hold a point within tolerance/λ for up to `MOST_ROWS` rows."""
        return 2.0**-51 * (MOST_ROWS * self.gradient_bound + tilt_length)

    def minimise(self, data: Dataset, tilt: Array, tolerance: float) -> Array:
        """A point within tolerance/λ, by Newton's method; in longer arithmetic where float64 cannot certify it."""
        self.require_bounded_curvature()
        if not (self.rows.bounded and math.isfinite(self.gradient_bound)):
            raise InvalidInput("a private minimiser needs a finite row_norm and bounded slopes; give slope_bound.")
        objective = _Objective(self, data, tilt, rounded=True)
        theta, certified = objective.descend(tolerance)
        if certified:
            return theta
        from discreet.queries.long_minimiser import minimise_long

        return minimise_long(self, data, tilt, theta, tolerance)

    def unrounded(self, data: Dataset) -> Array:
        """The minimiser without tilt, of rows that are not rounded, as well as float64 can: for runs without noise."""
        objective = _Objective(self, data, np.zeros(self.rows.shape), rounded=False)
        return objective.descend(1e-12 * max(1, len(data)))[0]


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn

    return ThreadpoolController()


def _hessian(kind: Any, part: Part) -> Array:
    return part.hessian(kind)


def _product(direction: Array, part: Part) -> Array:
    return part.product(direction)


class _Objective:
    """J on prepared rows: its gradient with an error bound, and Newton steps."""

    def __init__(self, query: RidgeMinimiser, data: Dataset, tilt: Array, *, rounded: bool) -> None:
        from discreet.queries.ridge_parts import held

        self.query, self.tilt, self.ridge = query, tilt, query.regularisation
        self.parts = data.map_blocks(lambda block: held(block, query.loss, query.slope_bound, rounded=rounded))
        self.n = sum(part.n for part in self.parts)
        self.unit = query.rows.unit
        self.smoothness = query.loss.smoothness(Domain())

    def gradient(self, theta: Array) -> Array:
        """∇J(θ), and the curvature there for the Newton steps that follow."""
        from discreet.queries.ridge_parts import two_sum

        high, low = np.zeros_like(theta), np.zeros_like(theta)
        for part_high, part_low in on_all_cores(lambda part: part.gradient(theta), self.parts):
            two_sum(high, low, part_high)
            low += part_low
        return self.unit * (high + low) + (self.ridge * theta + self.tilt)

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
        """Newton's method from 0 until the gradient is certified, or stops falling."""
        theta = np.zeros(self.query.rows.shape)
        gradient = self.gradient(theta)
        stalled, solve = 0, None
        for _ in range(_MOST_STEPS):
            if self.certified(gradient, theta, tolerance):
                return theta, True
            size = float(np.linalg.norm(gradient))
            if size == 0:
                break  # the minimiser, as far as float64 can tell
            if solve is None:
                solve = self._newton()
            step = solve(-gradient)
            theta, after = self._search(theta, gradient, step)
            shrunk = float(np.linalg.norm(after)) / size
            stalled = stalled + 1 if shrunk > 0.9 and size < 1e3 * max(tolerance, self.rounding_error(theta)) else 0
            if stalled > 3:
                break
            if shrunk > _ENOUGH or self.query.rows.outputs > 1 or theta.size > _LARGEST_HESSIAN:
                solve = None
            gradient = after
        return theta, self.certified(gradient, theta, tolerance)

    def _search(self, theta: Array, gradient: Array, step: Array) -> tuple[Array, Array]:
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

    def _newton(self) -> Any:
        """g ↦ (∇²J)⁻¹g at the last gradient's θ: by Cholesky's factors, or conjugate gradients in many dimensions."""
        if self.query.rows.outputs > 1 or math.prod(self.query.rows.shape) > _LARGEST_HESSIAN:
            return self._conjugate_gradients
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        scale = self.unit**2
        coarse = self.n * self.query.curvature_bound * 1e-6 < self.ridge  # float32 would lose λ otherwise
        for kind in (np.float32, np.float64) if coarse else (np.float64,):
            with _blas().limit(limits=1, user_api="blas"):  # the rows are shared out among threads already
                hessian = scale * np.sum(on_all_cores(partial(_hessian, kind), self.parts), axis=0)
            hessian.flat[:: len(hessian) + 1] += self.ridge
            try:
                factors = cho_factor(hessian, overwrite_a=True, check_finite=False)
                return lambda g: cho_solve(factors, g, check_finite=False)
            except LinAlgError:
                continue
        return self._conjugate_gradients

    def _conjugate_gradients(self, target: Array) -> Array:
        """Preconditioned by the Hessian's diagonal, to a tenth of the gradient or better."""
        scale = self.unit**2
        diagonal = scale * np.sum([part.diagonal() for part in self.parts], axis=0) + max(self.ridge, 1e-300)
        x, residual = np.zeros_like(target), target.copy()
        z = residual / diagonal
        direction, inner = z, float(np.vdot(residual, z))
        goal = 0.05 * float(np.linalg.norm(target))
        for _ in range(200):
            if float(np.linalg.norm(residual)) <= goal or inner == 0:
                break
            products = on_all_cores(partial(_product, direction), self.parts)
            image = scale * np.sum(products, axis=0) + self.ridge * direction
            bend = float(np.vdot(direction, image))
            if not bend > abs(inner) * 1e-250:
                break  # no curvature left along it: a flat objective without regularisation
            alpha = inner / bend
            x += alpha * direction
            residual -= alpha * image
            z = residual / diagonal
            inner, last = float(np.vdot(residual, z)), inner
            direction = z + (inner / last) * direction
        # flat along the gradient: a step that changes scores by about one, which the line search shortens
        return x if x.any() else target * (self.n / float(np.vdot(target, target)))
