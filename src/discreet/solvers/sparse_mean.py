"""Means of sparse rows: one noisy sum, and what post-processing makes of it.

After Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024. Rows have length ≤ L and at most s entries, so every mean lies
in the ball ‖·‖₁ ≤ L√s and in the ball ‖·‖₂ ≤ L, on which a noisy mean is projected: see
`discreet.solvers.parts.sparse_means`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian, Laplace
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.sketch import Sketch, SketchedSum
from discreet.queries.sums.sparse_sum import SparseSum
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.l1_recovery import recover
from discreet.solvers.parts.shrinkage import best_threshold, soft
from discreet.solvers.parts.sparse_means import project

__all__ = ["NoisyMean", "RecoveredMean"]


@dataclass(frozen=True)
class NoisyMean:
    """The sum of trimmed rows plus Gaussian (ℓ2) or Laplace (ℓ1) noise, over n.

    Args:
        noise_multiplier: noise scale over the bound on a row.
        sparsity: entries kept of a row.
        noise: the kind.
        finish_by: ``"nothing"``; ``"projection"`` on the balls that hold every mean; or ``"threshold"``: soft
            thresholding first, at the level that the noisy mean itself shows to be best.
    """

    noise_multiplier: float
    sparsity: int
    noise: Literal["gaussian", "laplace"] = "gaussian"
    finish_by: Literal["nothing", "projection", "threshold"] = "projection"

    def steps(self, problem: Problem) -> Steps:
        """One release; the rest is post-processing."""
        answer = yield self.measurement(problem.rows)
        return self.finish(answer, problem.rows, problem.n)

    def measurement(self, rows: RowSpec) -> Noisy:
        """The one release."""
        if self.noise == "gaussian":
            return Noisy(SparseSum(rows, self.sparsity, "l2"), Gaussian(self.noise_multiplier))
        return Noisy(SparseSum(rows, self.sparsity, "l1"), Laplace(self.noise_multiplier))

    def finish(self, answer: NDArray[np.float64], rows: RowSpec, n: float) -> NDArray[np.float64]:
        """Post-processing."""
        mean = np.asarray(answer, dtype=np.float64) / n
        if self.finish_by == "threshold" and self.noise_multiplier:
            query = self.measurement(rows).query
            scale = self.noise_multiplier * query.bound * query.grid / n
            mean = soft(mean, best_threshold(mean, scale, self.noise))
        return mean if self.finish_by == "nothing" else project(mean, rows.norm, self.sparsity)


@dataclass(frozen=True)
class RecoveredMean:
    """The sum of the rows' sketches plus Gaussian noise, over n; then ℓ1 recovery and projection.

    Only as many numbers are released as the sketch has rows, and the noise is drawn for as many.

    Args:
        noise_multiplier: noise scale over the bound on a row's sketch.
        sparsity: entries kept of a row.
        sketch: a Gaussian matrix, for which there is a bound (`discreet.theory.l1_recovery`), or a hashed one.
    """

    noise_multiplier: float
    sparsity: int
    sketch: Sketch | GaussianSketch

    def steps(self, problem: Problem) -> Steps:
        """One release; the rest is post-processing."""
        answer = yield self.measurement(problem.rows)
        return self.finish(answer, problem.rows, problem.n)

    def _query(self, rows: RowSpec) -> SketchedSum:
        return SketchedSum(rows, self.sparsity, self.sketch)

    def measurement(self, rows: RowSpec) -> Noisy:
        """The one release."""
        return Noisy(self._query(rows), Gaussian(self.noise_multiplier))

    def finish(self, answer: NDArray[np.float64], rows: RowSpec, n: float) -> NDArray[np.float64]:
        """Post-processing. Without noise the penalty is a thousandth of the longest mean's entry."""
        query = self._query(rows)
        b = np.asarray(answer, dtype=np.float64) / n
        noise_std = self.noise_multiplier * query.bound * query.grid / n
        if noise_std > 0:
            penalty = noise_std * math.sqrt(2 * math.log(max(2, rows.n_features)))
        else:
            penalty = 1e-3 * float(np.abs(b).max(initial=0.0)) or 1.0
        radius = rows.norm * math.sqrt(self.sparsity)
        return project(recover(self.sketch, b, penalty, radius), rows.norm, self.sparsity)
