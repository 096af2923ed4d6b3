"""The statement of a ridge-regularised minimisation, and the public bounds that follow from it.

    J(θ) = Σ_i ℓ_i(⟨x_i, θ⟩) + (λ/2)‖θ‖² + ⟨b, θ⟩,

with ℓ_i convex, ‖slope·x_i‖₂ ≤ `RidgeProblem.gradient_bound` and curvature·‖x_i‖² ≤ `RidgeProblem.curvature_bound` for
rows on the grid, whatever they contain. Slopes are cut at gradient_bound/‖x_i‖, which makes the squared loss a Huber
loss and keeps it convex. Where rows are *weighted*, a row that was shortened to the row norm by a factor 1/t stands for
the whole row with weight 1/t²: ℓ_i(s) = ℓ(t·s, y_i)/t², of slope a/t and curvature κ where ℓ has a and κ; t ≥ 1, so
both bounds hold for it, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.floats import ROUNDED_UP
from discreet.geometry.base import Geometry, Projectable
from discreet.geometry.l1_ball import L1Ball
from discreet.geometry.l2_ball import L2Ball
from discreet.geometry.long_projection import has_long_projection
from discreet.geometry.simplex import Simplex
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import OWN, Domain, Logistic, Loss, Softmax, Tabulated
from discreet.queries.mapped import RowMap
from discreet.queries.whitened import Whitening
from discreet.rows import MOST_ROWS, RowSpec

__all__ = ["Array", "RidgeProblem", "project"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """argmin Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩ over a convex set.

    Args:
        rows: public facts about the rows.
        loss: pointwise smooth loss; to be protected, one with a bounded curvature.
        regularisation: λ, in units of the *sum* of losses.
        slope_bound: ℓ2 bound on a row's gradient, enforced by cutting slopes. Losses with bounded slopes need none.
        domain: the set, one whose projection is known in decimal arithmetic.
        through: a public map that makes the rows from the given ones, each from one alone.
        weighted: whether rows that the map has shortened are weighted, so that no row's score is changed.

    Raises:
        HypothesisViolated: the loss is not convex or has a kink, or softmax slopes were to be cut.
        InvalidInput: the set is not convex, or nothing could certify its projections.
    """

    rows: RowSpec
    loss: Loss
    regularisation: float
    slope_bound: float = math.inf
    domain: Geometry = WholeSpace()  # noqa: RUF009 - a frozen value
    through: RowMap | None = None
    weighted: bool = False

    def __post_init__(self) -> None:
        if self.weighted and not isinstance(self.through, Whitening):
            raise InvalidInput("rows are weighted by how much a whitening map shortens them; there is no such map.")
        if self.through is not None and self.through.rows != self.rows:
            raise InvalidInput("the map makes other rows than the minimiser is about, so its bounds would not hold.")
        if not 0 <= self.regularisation < math.inf:
            raise InvalidInput(f"regularisation must be finite and non-negative, got {self.regularisation!r}.")
        if not self.slope_bound > 0:
            raise InvalidInput(f"slope_bound must be positive, got {self.slope_bound!r}.")
        if self.constrained and not has_long_projection(self.domain):
            raise InvalidInput(
                f"a minimiser over {type(self.domain).__name__} cannot be certified: minimise without it and project, "
                "or use a ball, a box or a simplex."
            )
        if not self.loss.convex:
            raise HypothesisViolated(
                f"{type(self.loss).__name__} is not convex, so one row may move its minimiser by any distance and its "
                "perturbed minimiser has no privacy bound: use a gradient solver, such as descent."
            )
        if type(self.loss) not in OWN or isinstance(self.loss, Tabulated):
            raise HypothesisViolated(
                "minimisers are certified in long arithmetic for the library's own losses alone: use a gradient "
                "solver, such as descent, for a loss of your own."
            )
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
    def constrained(self) -> bool:
        """Whether the minimiser is sought over a set, and not over all θ."""
        return not isinstance(self.domain, WholeSpace)

    @property
    def _natural_bound(self) -> float:
        return self.loss.lipschitz(Domain()) * self.rows.radius

    @property
    def gradient_bound(self) -> float:
        """L: ℓ2 bound on one row's gradient."""
        return min(self.slope_bound, self._natural_bound)

    @property
    def curvature_bound(self) -> float:
        """β: bound on curvature·‖x‖².

        A logistic slope s has the curvature s(1 − s), so with t = s‖x‖ ≤ L it is t(‖x‖ − t) ≤ L(R − L) for L ≤ R/2. The
        slope of a weighted row is smaller than s, so that this does not hold for it.
        """
        cut, radius = self.gradient_bound, self.rows.radius
        if isinstance(self.loss, Logistic) and cut < radius / 2 and not self.weighted:
            return cut * (radius - cut) * ROUNDED_UP
        return self.loss.smoothness(Domain()) * radius**2

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
        """The number of vectors that, with 0, span the hull of a row's possible gradients."""
        if isinstance(self.loss, Softmax):
            return self.loss.classes - 1
        return 1 if self.loss.slope_sign_fixed else 2

    @property
    def link(self) -> float:
        """R²/λ when curvature = |slope|(1 − |slope|) for every slope up to 1, or diag(p) − ppᵀ; else 0.

        Of a weighted row the slope is a share 1/t of what it is there, which the theorem allows: it needs log det ≤
        log(1 + R²/λ·s(1 − s)) at a gradient of s times a fixed vector of length at most L.
        """
        uncut = isinstance(self.loss, Logistic | Softmax) and self.slope_bound >= self._natural_bound
        return self.rows.radius**2 / self.regularisation if uncut else 0.0

    def lipschitz(self, n: int) -> float:
        """Lipschitz constant of ∇J for n rows: n·curvature_bound + λ, rounded up."""
        return (n * self.curvature_bound + self.regularisation) * ROUNDED_UP

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
        """Below this, doubles are too coarse to hold a point within tolerance/λ for up to `MOST_ROWS` rows.

        With θ₀ the point of the set nearest to 0, the minimiser is within (nL + ‖b‖ + λ‖θ₀‖)/λ of it.
        """
        nearest = 2 * self.regularisation * _distance_from_zero(self.domain, self.rows.shape)
        return 2.0**-51 * (MOST_ROWS * self.gradient_bound + tilt_length + nearest)


@lru_cache(maxsize=4)
def _distance_from_zero(domain: Geometry, shape: tuple[int, ...]) -> float:
    """The length of the set's point nearest to 0. It is remembered, since calibration asks for it a hundred times."""
    if isinstance(domain, WholeSpace | L1Ball | L2Ball):  # they hold 0
        return 0.0
    if isinstance(domain, Simplex):  # its centre is nearest
        return domain.radius / math.sqrt(math.prod(shape))
    return float(np.linalg.norm(project(domain, np.zeros(shape))))


def project(domain: Geometry, theta: Array) -> Array:
    """The point of the set nearest to θ, a vector or a matrix, in float64."""
    if not isinstance(domain, Projectable):
        raise InvalidInput(f"{type(domain).__name__} has no projection.")
    return np.asarray(domain.project(theta.ravel())).reshape(theta.shape)
