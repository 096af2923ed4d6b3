"""The minimiser of a ridge-regularised sum of losses, found on the trusted side and certified.

Claim: for rows on the grid, whatever they contain, the function J minimised is that of
`discreet.queries.minimiser.problem`, and the point returned is within tolerance/λ of its minimiser, always:
‖∇J(θ)‖₂ ≤ tolerance *in exact arithmetic* is verified, and J is λ-strongly convex. Over a convex set it is the residual
of the projected gradient that is verified (`discreet.queries.minimiser.constrained`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.queries.mapped import MappedRows
from discreet.queries.minimiser.problem import Array, RidgeProblem

__all__ = ["RidgeMinimiser"]


@dataclass(frozen=True, eq=False)
class RidgeMinimiser(RidgeProblem):
    """argmin Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩ over a convex set; the fields are those of `RidgeProblem`.

    Example:
        >>> from discreet.data.memory import in_memory
        >>> from discreet.losses import Squared
        >>> from discreet.rows import RowSpec
        >>> rows = RowSpec(1, 1.0)
        >>> data = in_memory(np.ones((3, 1)), np.ones(3), rows)
        >>> query = RidgeMinimiser(rows, Squared(), regularisation=3.0, slope_bound=1.0)
        >>> query.minimise(data, np.zeros(1), 1e-6).round(4)
        array([0.5])
    """

    def minimise(self, data: Dataset, tilt: Array, tolerance: float) -> Array:
        """A point within tolerance/λ, by Newton's method; in longer arithmetic where float64 cannot certify it."""
        self.require_bounded_curvature()
        if not (self.rows.bounded and math.isfinite(self.gradient_bound)):
            raise InvalidInput("a private minimiser needs a finite row_norm and bounded slopes; give slope_bound.")
        data = self._seen(data, rounded=True)
        theta, certified = self._in_doubles(data, tilt, tolerance, rounded=True)
        if certified:
            return theta
        from discreet.queries.minimiser.extended_precision import minimise_in_decimals

        return minimise_in_decimals(self, data, tilt, theta, tolerance)

    def unrounded(self, data: Dataset) -> Array:
        """The minimiser without tilt, of rows that are not rounded, as well as float64 can: for runs without noise."""
        data = self._seen(data, rounded=False)
        return self._in_doubles(data, np.zeros(self.rows.shape), 1e-12 * max(1, len(data)), rounded=False)[0]

    def _seen(self, data: Dataset, *, rounded: bool) -> Dataset:
        """The rows that the problem is about; refuses others, for which its bounds would not hold."""
        seen = data if self.through is None else MappedRows(data, self.through, rounded)
        if seen.rows != self.rows:
            raise InvalidInput(f"the minimiser is about {self.rows}, but these are {seen.rows}. Nothing was released.")
        return seen

    def _in_doubles(self, data: Dataset, tilt: Array, tolerance: float, *, rounded: bool) -> tuple[Array, bool]:
        """The point that float64 finds, and whether it is certified."""
        from discreet.queries.minimiser.constrained import minimise_within
        from discreet.queries.minimiser.newton import minimise_anywhere
        from discreet.queries.minimiser.objective import Objective

        objective = Objective(self, data, tilt, rounded=rounded)
        return (minimise_within if self.constrained else minimise_anywhere)(objective, tolerance)
