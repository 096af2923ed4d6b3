"""What the rules of ``solver="auto"`` ask about a problem and a guarantee: public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.geometry import WholeSpace
from discreet.losses import Domain
from discreet.solvers import Problem

__all__ = ["Facts"]


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
    def free(self) -> bool:
        """Whether the problem has neither a constraint nor a ridge."""
        return isinstance(self.problem.domain, WholeSpace) and not self.problem.ridge

    @property
    def two_classes(self) -> bool:
        """Whether labels are −1 and +1 and nothing constrains the model."""
        one_score = self.problem.loss.slope_sign_fixed and self.problem.rows.outputs == 1
        return bool(one_score and self.free and self.problem.rows.bounded)

    @property
    def count_noise(self) -> float:
        """ν/n: the noise in a count over n, were it the only release."""
        return rough_multiplier(self.guarantee) / self.problem.n

    @property
    def noise_share(self) -> float:
        """√min(d, n)·ν/n: the noise in a mean gradient over its bound."""
        return math.sqrt(min(self.problem.rows.dimension, self.problem.n)) * self.count_noise
