"""A problem and a guarantee, with what the rules of "auto" ask about them: public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.geometry import WholeSpace
from discreet.losses import Domain, Logistic, Squared, Tabulated
from discreet.recipes.shared import NUMBERS as SHARED
from discreet.solvers import Problem
from discreet.tuned import current

__all__ = ["Facts", "trivial_risk"]


@dataclass(frozen=True)
class Facts:
    """A problem and a guarantee, with what the rules ask about them."""

    problem: Problem
    guarantee: Guarantee

    @property
    def coordinates(self) -> int:
        """The number of coefficients, over all outputs."""
        return math.prod(self.problem.rows.shape)

    @property
    def private(self) -> bool:
        """Whether ε is finite."""
        return self.guarantee.private

    @property
    def gaussian(self) -> bool:
        """Whether ε is finite and δ > 0, so that Gaussian noise can keep the guarantee."""
        return self.private and self.guarantee.delta > 0

    @property
    def pure(self) -> bool:
        """Whether pure differential privacy is asked for."""
        return self.private and self.guarantee.delta == 0

    @cached_property
    def bounded_curvature(self) -> bool:
        """Whether the loss has a bounded second derivative."""
        return math.isfinite(self.problem.loss.smoothness(Domain()))

    @property
    def perturbable(self) -> bool:
        """Whether a perturbed minimiser can be private: the loss is convex, and one of the library's own."""
        return self.problem.loss.convex and not isinstance(self.problem.loss, Tabulated)

    @property
    def free(self) -> bool:
        """Whether the problem has neither a constraint nor a ridge."""
        return isinstance(self.problem.domain, WholeSpace) and not self.problem.ridge

    @property
    def two_classes(self) -> bool:
        """Whether labels are −1 and +1 and nothing constrains the model."""
        one_score = self.problem.loss.slope_sign_fixed and self.problem.rows.outputs == 1
        return bool(one_score and self.free and self.problem.rows.bounded)

    @property
    def crossable(self) -> bool:
        """Whether interactions may be chosen: two classes or least squares, of at least two columns of a table.

        There are at most half as many features as make rows wide, so that pairs of them do not.
        """
        p = self.problem
        if 2 * self.coordinates > current(SHARED).many_columns:
            return False
        possible = isinstance(p.loss, Squared) or (isinstance(p.loss, Logistic) and self.two_classes)
        known = len(p.columns) > 1 and p.rows.bounded and p.rows.intercept > 0 and p.rows.outputs == 1
        return possible and known and self.free and not self.pure

    @property
    def count_noise(self) -> float:
        """ν/n: the noise in a count over n, were it the only release."""
        return rough_multiplier(self.guarantee) / self.problem.n

    @property
    def noise_share(self) -> float:
        """√min(d, n)·ν/n: the noise in a mean gradient over its bound."""
        return math.sqrt(min(self.problem.rows.dimension, self.problem.n)) * self.count_noise


def trivial_risk(problem: Problem) -> float:
    """The excess risk that no point of the set exceeds: slopes times its diameter, and the ridge's whole share.

    Example:
        >>> from discreet.geometry import L2Ball
        >>> from discreet.losses import Huber
        >>> from discreet.rows import RowSpec
        >>> trivial_risk(Problem(RowSpec(3, 1.0), Huber(0.5), 100.0, L2Ball(2.0)))
        2.0
    """
    d = math.prod(problem.rows.shape)
    radius = problem.domain.radius_in(d)
    scores = Domain(score_bound=problem.rows.radius * radius, target_low=-1.0, target_high=1.0)
    slopes = problem.loss.lipschitz(scores) * problem.rows.radius * problem.domain.diameter(d)
    return math.inf if math.isinf(radius) else slopes + problem.ridge / 2 * radius**2
