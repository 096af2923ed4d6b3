"""Descent on the subsampled bias-reduced gradient estimator, run to the stopping time of a privacy filter.

After Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024. G_k is the private sparse mean of b₀·2^k rows' gradients: their
noisy sum, projected on the balls that hold every mean of s-sparse gradients. The projection makes the error small and
*biased*, and the bias falls only with k. With P(N = k) = p_k ∝ 2^−k, k = 0 … M, and a batch of b₀·2^(N+1) rows,

    ĝ = (G_{N+1} − ½(G_N + G_N'))/p_N + mean of G_0, G_0', …

has the expectation of G at the *largest* batch: E ĝ = Σ_k (E G_{k+1} − E G_k) + E G_0 telescopes, while batches are
small on average. Here one noisy sum is released for each *leaf* of b₀ rows, under noise ν, and all G's of the batch are
made from them: a node of 2^k leaves has the noise √(2^k)·ν of its leaves. A row is in one leaf, so a step costs one
release and not two or three; and where the projection does nothing, the correction is exactly 0 and ĝ is the batch's
noisy mean: debiasing then adds no variance, whatever 1/p_N is.

G_k is projected only at those levels where that is proved to help (`projecting_helps`). That depends on public facts
alone, so the sum telescopes all the same; if none is projected, ĝ is unbiased. With ``projecting=False`` no leaf is
needed: the whole batch is one sum under one noise ν. The levels N come from a public seed by hashing: they are
independent of the rows, and no privacy depends on them. Rows are drawn by protective bits. The filter
decides at run time how many steps there are; a share of its budget is left for the fits of offset and scale before and
after them (`discreet.solvers.parts.recalibration`), and the run stops at the first step that would use it.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BudgetExceeded, InvalidInput
from discreet.geometry.base import Projectable
from discreet.measurements import FixedSizeSampling, Measurement, Noisy, PoissonSampling, SplitBatch
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.public_draws import public_uniform
from discreet.solvers.parts.recalibration import Recalibration
from discreet.solvers.parts.sparse_means import gradient_entries, project, projected_square, projecting_helps
from discreet.units import Unit

if TYPE_CHECKING:
    from discreet.accounting.adaptive.filters import RenyiFilter

__all__ = ["Batches", "BiasReduced", "Iterate"]

Batches = Literal["fixed-size", "poisson"]
Iterate = Literal["average", "last", "random"]


@dataclass(frozen=True)
class BiasReduced:
    """θ ← Π(θ − η·ĝ) until the filter stops it, at most ``iterations`` times.

    Args:
        noise_multiplier: noise ν of each leaf's sum over ``clip``; 0 is stochastic descent without privacy.
        iterations: the most steps.
        clip: ℓ2 bound C on a row's gradient.
        step: η.
        smallest: b₀, rows of a leaf.
        levels: M + 1; the largest batch has b₀·2^levels rows. A step takes 2^(N + 1) vectors of memory.
        sparsity: most non-zero entries of a row, a public fact that only the projection uses: rows with more cost
            accuracy, never privacy.
        batches: ``"fixed-size"`` (replace-one) or ``"poisson"`` of the same expected size.
        iterate: the ``"average"`` for convex losses; the ``"last"``; a uniformly ``"random"`` one, which is nearly
            stationary in expectation, for losses that are not convex.
        order: Rényi order of the filter.
        budget: the filter's Rényi divergence; 0 means no filter, the plan is then ``iterations`` steps.
        seed: public seed of the levels and of the random iterate.
        projecting: whether G_k are projected where that is proved to help; if not, ĝ is the mean of the batch.
        recalibration_multiplier: noise of the fits of offset and scale, were they one release; 0: no fits.
        costs: what a step of each level costs at the filter's order, and last what the fits cost; empty without them.
    """

    noise_multiplier: float
    iterations: int
    clip: float
    step: float
    smallest: int
    levels: int
    sparsity: int
    batches: Batches = "fixed-size"
    iterate: Iterate = "average"
    order: float = 8.0
    budget: float = 0.0
    seed: int = 0
    projecting: bool = True
    recalibration_multiplier: float = 0.0
    costs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("iterations", "smallest", "levels", "sparsity"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        if not (0 < self.step < math.inf and self.clip > 0 and (self.clip < math.inf or not self.noise_multiplier)):
            raise InvalidInput(f"step and clip must be positive and finite, got {self.step!r} and {self.clip!r}.")
        if self.batches not in get_args(Batches) or self.iterate not in get_args(Iterate):
            raise InvalidInput(
                "batches must be 'fixed-size' or 'poisson' and iterate 'average', 'last' or 'random', got "
                f"{self.batches!r} and {self.iterate!r}."
            )

    def filter(self, unit: Unit) -> RenyiFilter | None:
        """The fresh filter that a run is to be given, or None for a run with a fixed plan."""
        if not self.budget:
            return None
        from discreet.accounting.adaptive.filters import RenyiFilter

        return RenyiFilter(self.order, self.budget, unit)

    def steps(self, problem: Problem) -> Steps:
        """One gradient estimate a step until the filter refuses one, or would have to refuse the fits after it."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        fits = Recalibration(self.recalibration_multiplier) if self.recalibration_multiplier else None
        start = (yield from fits.before(problem)) if fits else problem.start
        theta = kept = np.asarray(problem.domain.project(start.ravel()))  # 0 is in no simplex
        path = 0.0  # step size × number of steps
        for t in self._affordable():
            level = self.level(t)
            try:
                gradient = yield from self.estimate(problem, theta, level)
            except BudgetExceeded:
                break
            if self.iterate == "average":
                kept = kept + (theta - kept) / (t + 1)
            elif self.iterate == "random" and public_uniform(self.seed, "iterate", t) * (t + 1) < 1:
                kept = theta  # each of t + 1 points is then the kept one with equal probability
            moved = theta - self.step * (gradient + problem.ridge * theta)
            theta = np.asarray(problem.domain.project(moved))
            path += self.step
        found = theta if self.iterate == "last" else kept
        if not problem.domain.convex:  # an average of sparse points is not sparse
            found = np.asarray(problem.domain.project(found))
        if fits and path:
            # steps of size η/n on average along a row move its own score by at most η·radius²/n each
            found = yield from fits.after(problem, found, path * problem.rows.radius**2)
        return found.reshape(problem.rows.shape)

    def _affordable(self) -> Iterator[int]:
        """0, 1, …, as long as what is left of the budget pays for the step and for the fits."""
        left = self.budget - self.costs[-1] if self.costs else math.inf
        for t in range(self.iterations):
            if self.costs:
                left -= self.costs[self.level(t)]
            if left < 0:
                return
            yield t

    def estimate(
        self, problem: Problem, theta: NDArray[np.float64], level: int
    ) -> Generator[Measurement, Any, NDArray[np.float64]]:
        """ĝ at θ, given N = ``level``."""
        query = GradientSum(problem.rows, problem.loss, theta.reshape(problem.rows.shape), self.clip)
        leaves, half, batch = 2 << level, self.smallest << level, self.smallest << (level + 1)
        if batch >= problem.n and not (self.noise_multiplier or self.projecting):  # all rows, and nothing to hide
            total = yield Noisy(query, Gaussian(0.0))
            return np.asarray(total.ravel() / problem.n)
        sampling = self._sampling(batch, problem.n)
        if not self.projecting:
            total = yield Noisy(query, Gaussian(self.noise_multiplier), sampling)
            return np.asarray(total.ravel() / batch)
        sums = yield SplitBatch(query, Gaussian(self.noise_multiplier), sampling, leaves)
        one, other = sum(sums[::2]), sum(sums[1::2])  # any cut in halves will do: leaves are alike
        change = self._mean(one + other, batch, problem)
        change -= (self._mean(one, half, problem) + self._mean(other, half, problem)) / 2
        base = sum(self._mean(leaf, self.smallest, problem) for leaf in sums) / leaves
        return np.asarray(change / self.probability(level) + base)

    def probability(self, level: int) -> float:
        """p_k = 2^−k / (2 − 2^−M)."""
        return float(2.0**-level / (2.0 - 2.0 ** (1 - self.levels)))

    def level(self, t: int) -> int:
        """N of step t: public."""
        left = public_uniform(self.seed, "level", t)
        for k in range(self.levels - 1):
            left -= self.probability(k)
            if left < 0:
                return k
        return self.levels - 1

    def noise_std(self, rows: int) -> float:
        """Noise of a mean of ``rows`` rows a coordinate: √(rows/b₀) leaves' noises over the rows, or of one part's."""
        noises = math.sqrt(rows / self.smallest) if self.projecting else 1.0
        return self.noise_multiplier * self.clip * noises / rows

    def projects(self, problem: Problem, rows: int) -> bool:
        """Whether means of ``rows`` rows are projected: where it is proved to help them *and* the largest batch.

        The estimate has the expectation of the largest batch's G. If that is not projected there is no bias to reduce,
        and projecting smaller batches would only add the variance of undoing it.
        """
        if not self.projecting:
            return False
        both = (rows, self.smallest << self.levels)
        return all(projecting_helps(problem, self.sparsity, self.clip, self.noise_std(b)) for b in both)

    def error(self, problem: Problem, rows: int) -> float:
        """e ≥ √E‖G − mean of the batch‖² for ``rows`` rows: √(R·τ·E max|g|) if projected, R = C√s, else τ√d.

        Poisson batches are divided by their expected size b, so a "mean" may lie outside the balls by C(|B|/b − 1)₊,
        whose root mean square is at most C/√b: it is paid once in the projection and once in the comparison.
        """
        noise = self.noise_std(rows)
        if not self.projects(problem, rows):
            return math.sqrt(math.prod(problem.rows.shape)) * noise
        excess = 2 * self.clip / math.sqrt(rows) if self.batches == "poisson" else 0.0
        return math.sqrt(projected_square(problem, self.sparsity, self.clip, noise)) + excess

    def bias_bound(self, problem: Problem) -> float:
        """‖E ĝ − ∇𝓛(θ)‖ ≤ e(largest batch), at every θ: the batch's mean is unbiased. 0 if that is not projected."""
        largest = self.smallest << self.levels
        return self.error(problem, largest) if self.projects(problem, largest) else 0.0

    def second_moment_bound(self, problem: Problem) -> float:
        """E‖ĝ‖² ≤ (√Σ_k (e(b_{k+1}) + e(b_k))²/p_k + B)², b_k = b₀2^k, over the levels of which one is projected.

        The halves' means average to the batch's, so that without any projection the correction is 0. B is C, or for
        leaves that are not projected C·√(1 + 1/b₀) and their noise.
        """
        b = [self.smallest << k for k in range(self.levels + 1)]
        changes = (
            (self.error(problem, b[k + 1]) + self.error(problem, b[k])) ** 2 / self.probability(k)
            for k in range(self.levels)
            if self.projects(problem, b[k + 1]) or self.projects(problem, b[k])
        )
        base = self.clip
        if not self.projects(problem, b[0]):
            base = self.clip * math.sqrt(1 + 1 / b[0]) + self.error(problem, b[0])
        return (math.sqrt(math.fsum(changes)) + base) ** 2

    def score_variance(self) -> float:
        """Variance that a step of size 1 gives the score of a unit row where nothing is projected: noise and sampling.

        There ĝ is the mean of a batch of b rows, of noise `noise_std` a coordinate, and a sampled gradient is at most C
        long in the row's direction.
        """
        batches = [self.smallest << (k + 1) for k in range(self.levels)]
        return math.fsum(
            self.probability(k) * (self.noise_std(b) ** 2 + self.clip**2 / b) for k, b in enumerate(batches)
        )

    def _sampling(self, rows: int, n: float) -> FixedSizeSampling | PoissonSampling:
        if self.batches == "fixed-size":
            return FixedSizeSampling(rows, round(n))
        return PoissonSampling(rows / n)

    def _mean(self, total: NDArray[np.float64], rows: int, problem: Problem) -> NDArray[np.float64]:
        mean, entries = np.asarray(total.ravel() / rows), gradient_entries(problem, self.sparsity)
        return project(mean, self.clip, entries) if self.projects(problem, rows) else mean
