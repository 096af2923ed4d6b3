"""Coordinates that were released: what a descent needs to know of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.measurements import Measurement
from discreet.queries.base import Query
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem

__all__ = ["Array", "Coordinates"]

Array: TypeAlias = NDArray[np.float64]


class Coordinates(ABC):
    """Public coordinates θ of a linear model. Nothing here reads a row; `query` is answered by a vault.

    Attributes:
        problem: public facts.
        target_scale: scale of the targets in which clips and the mean offset are measured; 1 is their public bound.
    """

    problem: Problem
    target_scale: float = 1.0

    @property
    def start(self) -> Array:
        """Where a descent begins."""
        return self.problem.start

    def query(self, theta: Array, clip: float) -> Query:
        """The sum of rows' gradients at θ, each clipped to ℓ2 norm ``clip`` times the scale of the targets."""
        return GradientSum(self.problem.rows, self.problem.loss, theta, clip * self.target_scale)

    @abstractmethod
    def direction(self, gradient: Array, theta: Array) -> Array:
        """The direction in which θ is moved, from a noisy mean gradient; the user's ridge is added here."""

    def refined(self, step: int, theta: Array) -> Generator[Measurement, Any, tuple[Coordinates, Array]]:
        """Before the step of this number: coordinates for it and those that follow, and where they begin."""
        return self, theta
        yield  # a generator without releases

    def finished(self, theta: Array) -> Generator[Measurement, Any, Array]:
        """What the model ends with, from coefficients of the user's columns."""
        return theta
        yield  # a generator without releases

    def coefficients(self, theta: Array) -> Array:
        """The coefficients of the user's columns that θ stands for, in the user's set."""
        return theta

    def anchor(self, coefficients: Array) -> float:
        """The score about which others lie: that of a row of zeros, or of the mean row where rows are centred."""
        return float(coefficients[-1]) * self.problem.rows.intercept

    @property
    @abstractmethod
    def leverage(self) -> float:
        """Σ_i ⟨x_i, direction of x_i⟩/n over rows in these coordinates, as far as it is public.

        A step of size η along the mean gradient moves the rows' own scores by η times this altogether, for slopes of 1.
        """
