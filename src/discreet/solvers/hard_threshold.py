"""Iterative hard thresholding: gradient descent over the s-sparse vectors.

`HardThreshold` releases one Gaussian gradient sum a step and keeps the s largest entries of θ − ηĝ: thresholding is
post-processing. `PeeledThreshold` releases only s coordinates a step: the vector v = θ − η·g, whose gradient part has
an ℓ∞ bound, is peeled (s private selections and s noisy values). The noise of the first is proportional to the ℓ2
length of a row, that of the second to √s times its largest entry, which is √(d/s) times less for rows with d entries
of one size.

Jain–Tewari–Kar 2014 (without privacy); Wang–Gu 2019 and Cai–Wang–Zhang 2021 (with it): under restricted strong
convexity the error contracts by about 1 − 1/κ a step, so T = κ·ln n steps are enough. Steps of size η ∝ 1/κ with
noise ∝ √T leave an error that does not depend on κ: many short steps cost time, not accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.geometry.sparse_set import SparseSet
from discreet.geometry.whole_space import WholeSpace
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.mechanisms.peeling import Peeling
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps

__all__ = ["HardThreshold", "PeeledThreshold", "sparse_domain"]


@dataclass(frozen=True)
class HardThreshold:
    """θ ← top_s(θ − η·noisy gradient), ``iterations`` times.

    Args:
        noise_multiplier: Gaussian noise over ``clip``; 0 is iterative hard thresholding without privacy.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient.
        step: η.
        sparsity: s.
        radius: ℓ2 bound on θ; None for none.
    """

    noise_multiplier: float
    iterations: int
    clip: float
    step: float
    sparsity: int
    radius: float | None = None

    def __post_init__(self) -> None:
        _check(self.iterations, self.step)

    def steps(self, problem: Problem) -> Steps:
        """One noisy gradient a step; thresholding costs nothing."""
        domain = sparse_domain(problem, self.sparsity, self.radius)
        theta = problem.start
        for _ in range(self.iterations):
            query = GradientSum(problem.rows, problem.loss, theta, self.clip)
            total = yield Noisy(query, Gaussian(self.noise_multiplier))
            theta = domain.project(theta - self.step * (total / problem.n + problem.ridge * theta))
        return theta


@dataclass(frozen=True)
class PeeledThreshold:
    """θ ← peel_s(θ − η·gradient), ``iterations`` times.

    Args:
        noise_multiplier: Gaussian noise of the values over √s × the ℓ∞ bound; selections cost the same. 0: no noise.
        iterations: number of steps.
        entry_bound: every entry of a row is shrunk to ± this.
        slope_bound: every slope is clipped to ± this, so a row's gradient has entries of at most their product.
        step: η.
        sparsity: s.
        radius: ℓ2 bound on θ; None for none.
        target_bound: targets are clipped to ± this.
    """

    noise_multiplier: float
    iterations: int
    entry_bound: float
    slope_bound: float
    step: float
    sparsity: int
    radius: float | None = None
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _check(self.iterations, self.step)

    def steps(self, problem: Problem) -> Steps:
        """One peeling a step."""
        domain = sparse_domain(problem, self.sparsity, self.radius)
        peeling = Peeling.balanced(self.sparsity, self.noise_multiplier)
        rate = self.step / problem.n
        theta = problem.start
        for _ in range(self.iterations):
            # −(n/η)(θ − η·ridge·θ) + Σ gradients = −(n/η)·v, and the largest entries of v are sought
            start = -(1 - self.step * problem.ridge) / rate * theta
            query = EntrywiseGradientSum(
                problem.rows, problem.loss, theta, self.entry_bound, self.slope_bound, self.target_bound, start
            )
            peeled = yield Noisy(query, peeling)
            theta = domain.project(-rate * peeled)
        return theta


def _check(iterations: int, step: float) -> None:
    if iterations < 1:
        raise InvalidInput(f"iterations must be at least 1, got {iterations}.")
    if not 0 < step < math.inf:
        raise InvalidInput(f"step must be positive and finite, got {step!r}.")


def sparse_domain(problem: Problem, sparsity: int, radius: float | None) -> SparseSet:
    """The set of the iterates: vectors with at most ``sparsity`` non-zero entries and a length of at most ``radius``.

    Raises:
        InvalidInput: several outputs, or a problem whose own set does not contain this one.
    """
    if problem.rows.outputs != 1:
        raise InvalidInput(f"hard thresholding fits one output, got {problem.rows.outputs}.")
    domain, declared = SparseSet(sparsity, radius), problem.domain
    if isinstance(declared, WholeSpace):
        return domain
    if not isinstance(declared, SparseSet):
        raise InvalidInput(
            f"hard thresholding works over a SparseSet, but the problem has {type(declared).__name__}; use "
            "solver='descent'."
        )
    if sparsity > declared.s or (declared.radius is not None and (radius is None or radius > declared.radius)):
        raise InvalidInput(f"hard thresholding over {domain} would leave the problem's set {declared}.")
    return domain
