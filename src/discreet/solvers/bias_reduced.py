"""Descent on the subsampled bias-reduced gradient estimator, run to the stopping time of a privacy filter.

After Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024. G_b is the private sparse mean of b rows' gradients: a noisy
sum, projected on the balls that hold every mean of s-sparse gradients. The projection makes the error small and
*biased*, and the bias falls only with b. With P(N = k) = p_k ∝ 2^−k, k = 0 … M, and a batch of b₀·2^(N+1) rows cut in
halves,

    ĝ = (G_batch − ½(G_half + G_other half))/p_N + G_{b₀}

has the expectation of G at the *largest* batch: E ĝ = Σ_k (E G_{b₀2^(k+1)} − E G_{b₀2^k}) + E G_{b₀} telescopes, while
batches are small on average. The levels N come from a public seed by hashing: they are independent of the rows and hide
nothing, so anybody may know them. Rows are drawn by protective bits.

Releases: each step `Halves` and one noisy sum of b₀ rows. How many steps fit is the filter's decision, at run time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BudgetExceeded, InvalidInput
from discreet.geometry import L1Ball, L2Ball
from discreet.geometry.base import Projectable
from discreet.losses import Domain
from discreet.measurements import FixedSizeSampling, Halves, Measurement, Noisy, PoissonSampling, Together
from discreet.mechanisms import Gaussian
from discreet.queries.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.planning import PURE_REFUSED, Guarantee
from discreet.units import Unit

if TYPE_CHECKING:
    from discreet.accounting.filters import RenyiFilter

__all__ = ["BiasReduced", "default"]

Batches = Literal["fixed-size", "poisson"]


@dataclass(frozen=True)
class BiasReduced:
    """θ ← Π(θ − η·ĝ) until the filter stops it, at most ``iterations`` times.

    Args:
        noise_multiplier: noise of each sum over ``clip``; 0 is stochastic descent without privacy.
        iterations: the most steps.
        clip: ℓ2 bound C on a row's gradient.
        step: η.
        smallest: b₀, rows of the smallest batch.
        levels: M + 1; the largest batch has b₀·2^levels rows.
        sparsity: most non-zero entries of a row, a public fact that only the projection uses: rows with more cost
            accuracy, never privacy.
        batches: ``"fixed-size"`` (replace-one) or ``"poisson"`` of the same expected size.
        iterate: the ``"average"`` for convex losses; a uniformly ``"random"`` one, which is nearly stationary in
            expectation, for others.
        order: Rényi order of the filter.
        budget: the filter's Rényi divergence; 0 means no filter, the plan is then ``iterations`` steps.
        seed: public seed of the levels and of the random iterate.
    """

    noise_multiplier: float
    iterations: int
    clip: float
    step: float
    smallest: int
    levels: int
    sparsity: int
    batches: Batches = "fixed-size"
    iterate: Literal["average", "random"] = "average"
    order: float = 8.0
    budget: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("iterations", "smallest", "levels", "sparsity"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        if not (0 < self.step < math.inf and 0 < self.clip < math.inf):
            raise InvalidInput(f"step and clip must be positive and finite, got {self.step!r} and {self.clip!r}.")
        if self.batches not in ("fixed-size", "poisson") or self.iterate not in ("average", "random"):
            raise InvalidInput(
                "batches must be 'fixed-size' or 'poisson' and iterate 'average' or 'random', got "
                f"{self.batches!r} and {self.iterate!r}."
            )

    def filter(self, unit: Unit) -> RenyiFilter | None:
        """The fresh filter that a run is to be given, or None for a run with a fixed plan."""
        if not self.budget:
            return None
        from discreet.accounting.filters import RenyiFilter

        return RenyiFilter(self.order, self.budget, unit)

    def steps(self, problem: Problem) -> Steps:
        """One estimate a step; a refusal by the filter ends the run."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = np.asarray(problem.domain.project(problem.start.ravel()))  # 0 is in no simplex
        kept = theta
        for t in range(self.iterations):
            try:
                gradient = yield from self.estimate(problem, theta, self.level(t))
            except BudgetExceeded:
                break
            if self.iterate == "average":
                kept = kept + (theta - kept) / (t + 1)
            elif public_uniform(self.seed, "iterate", t) * (t + 1) < 1:
                kept = theta  # each of t + 1 points is then the kept one with equal probability
            moved = theta - self.step * (gradient + problem.ridge * theta)
            theta = np.asarray(problem.domain.project(moved))
        if not problem.domain.convex:  # an average of sparse points is not sparse
            kept = np.asarray(problem.domain.project(kept))
        return kept.reshape(problem.rows.shape)

    def estimate(
        self, problem: Problem, theta: NDArray[np.float64], level: int
    ) -> Generator[Measurement, Any, NDArray[np.float64]]:
        """ĝ at θ, given N = ``level``."""
        query = GradientSum(problem.rows, problem.loss, theta.reshape(problem.rows.shape), self.clip)
        noise = Gaussian(self.noise_multiplier)
        small, half, batch = self.smallest, self.smallest << level, self.smallest << (level + 1)
        sums, single = yield Together(
            [
                Halves(query, noise, self._sampling(batch, problem.n)),
                Noisy(query, noise, self._sampling(small, problem.n)),
            ]
        )
        of_batch, one, other = (
            self._mean(total, rows, problem) for total, rows in zip(sums, (batch, half, half), strict=True)
        )
        change = of_batch - (one + other) / 2
        return change / self.probability(level) + self._mean(single, small, problem)

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

    def error(self, problem: Problem, rows: int) -> float:
        """e(b) ≥ √E‖G_b − mean of the batch‖²: √min(R·τ·E max|g|, dτ², 4C²), τ = noise·C/b, R = C√s.

        Poisson batches are divided by their expected size b, so a "mean" may lie outside the balls by C(|B|/b − 1)₊,
        whose root mean square is at most C/√b: it is paid once in the projection and once in the comparison.
        """
        d = math.prod(problem.rows.shape)
        noise = self.noise_multiplier * self.clip / rows
        width = self._l1_radius(problem) * noise * _largest_of(d)
        excess = 2 * self.clip / math.sqrt(rows) if self.batches == "poisson" else 0.0
        return math.sqrt(min(width, d * noise**2, 4 * self.clip**2)) + excess

    def bias_bound(self, problem: Problem) -> float:
        """‖E ĝ − ∇𝓛(θ)‖ ≤ e(largest batch), at every θ: the batch's mean is unbiased."""
        return self.error(problem, self.smallest << self.levels)

    def second_moment_bound(self, problem: Problem) -> float:
        """E‖ĝ‖² ≤ (√Σ_k (e(2b_k) + e(b_k))²/p_k + C)², b_k = b₀2^k: the halves' means average to the batch's."""
        changes = (
            (self.error(problem, self.smallest << (k + 1)) + self.error(problem, self.smallest << k)) ** 2
            / self.probability(k)
            for k in range(self.levels)
        )
        return (math.sqrt(math.fsum(changes)) + self.clip) ** 2

    def expected_cost(self, problem: Problem, unit: Unit) -> float:
        """E over N of a step's Rényi divergence at the filter's order."""
        from discreet.accounting.renyi import divergence

        start = problem.start.ravel()
        costs = (
            self.probability(k) * divergence(next(self.estimate(problem, start, k)).event(unit), self.order, unit)
            for k in range(self.levels)
        )
        return math.fsum(costs)

    def _l1_radius(self, problem: Problem) -> float:
        entries = (self.sparsity + (problem.rows.intercept > 0)) * problem.rows.outputs
        return self.clip * math.sqrt(min(entries, math.prod(problem.rows.shape)))

    def _sampling(self, rows: int, n: float) -> FixedSizeSampling | PoissonSampling:
        if self.batches == "fixed-size":
            return FixedSizeSampling(rows, round(n))
        return PoissonSampling(rows / n)

    def _mean(self, total: NDArray[np.float64], rows: int, problem: Problem) -> NDArray[np.float64]:
        mean = total.ravel() / rows
        return np.asarray(L2Ball(self.clip).project(L1Ball(self._l1_radius(problem)).project(mean)))


@lru_cache(maxsize=64)
def _largest_of(d: int) -> float:
    """E max |g_i| over d standard normals."""
    return L1Ball(1.0).gaussian_width(d).value


def public_uniform(seed: int, purpose: str, t: int) -> float:
    """A number in [0, 1) that anybody can compute: 53 bits of a hash.

    Example:
        >>> public_uniform(0, "level", 3) == public_uniform(0, "level", 3) != public_uniform(0, "level", 4)
        True
    """
    digest = hashlib.sha256(f"discreet {purpose} {seed} {t}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


_REACH = 5.0
"""Scores up to about ±5 are reachable, so a minimiser is about 5/radius long. Public, the same for all data."""

_MOST_ITERATIONS = 400
_NOISES = tuple(2.0**k for k in range(1, 7))
_ORDERS = tuple(1.0 + 2.0**k for k in range(8))


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    clip: float | None = None,
    noise_multiplier: float | None = None,
    smallest: int | None = None,
    levels: int | None = None,
    step: float | None = None,
    iterations: int | None = None,
    iterate: Literal["average", "random"] = "average",
    seed: int = 0,
) -> BiasReduced:
    """The solver whose filter is the guarantee, with noise and batches of the least predicted excess risk.

    Stochastic descent with second moment V and bias B over T steps of size D/√(VT) has an excess risk of at most
    D√(V/T) + DB. T is the filter's budget over a step's expected cost; both bounds are the solver's own, so the best of
    a grid of noises, batches and Rényi orders is found without data.

    Args:
        problem: public facts.
        guarantee: what to keep; ε = ∞ runs without noise and filter.
        sparsity: most non-zero entries of a row; by default nothing is assumed, and the ℓ2 ball alone projects.
        clip: ℓ2 bound on a row's gradient; by default the largest gradient of a row.
        noise_multiplier: noise of each sum over ``clip``.
        smallest: rows of the smallest batch.
        levels: number of doublings from the smallest to the largest batch.
        step: step size.
        iterations: the most steps, at most 400 by default.
        iterate: ``"average"`` or, for losses that are not convex, ``"random"``.
        seed: public seed of the levels.

    Raises:
        InvalidInput: pure DP was asked for, rows are unbounded, or the budget admits no step.
    """
    rows = problem.rows
    if not rows.bounded:
        raise InvalidInput("bias-reduced descent needs rows of bounded length: give row_norm.")
    if guarantee.private and guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    domain = Domain(score_bound=_REACH, target_low=-1.0, target_high=1.0)
    slope = min(problem.loss.lipschitz(domain), 1.0) if rows.outputs == 1 else math.sqrt(2.0)
    clip = rows.radius * slope if clip is None else clip
    sparsity = rows.dimension if sparsity is None else sparsity
    batches: Batches = "fixed-size" if guarantee.unit.relation == "replace-one" else "poisson"
    smoothness = problem.loss.smoothness(domain)
    longest = 1.0 / ((smoothness if math.isfinite(smoothness) else slope / 0.1) * rows.radius**2 + problem.ridge)
    most = _MOST_ITERATIONS if iterations is None else iterations

    def candidate(noise: float, base: int, doublings: int, order: float, budget: float) -> tuple[float, BiasReduced]:
        """(predicted excess risk, solver)."""
        made = BiasReduced(noise, most, clip, longest, base, doublings, sparsity, batches, iterate, order, budget, seed)
        budgeted = budget / made.expected_cost(problem, guarantee.unit) if budget else math.inf
        taken = min(float(most), budgeted)
        if taken < 1:
            return math.inf, made
        distance, moment = _REACH / rows.radius, made.second_moment_bound(problem)
        eta = min(longest, distance / math.sqrt(moment * taken)) if step is None else step
        risk = distance**2 / (2 * eta * taken) + eta * moment / 2 + distance * made.bias_bound(problem)
        return risk, replace(made, step=eta)

    largest = max(1, math.floor(math.log2(max(2.0, problem.n / 2))))
    bases = [1 << k for k in range(0, largest, 2)] if smallest is None else [smallest]
    doublings = range(1, largest + 1) if levels is None else [levels]
    shapes = [(b, m) for b in bases for m in doublings if (b << m) <= problem.n]
    if not shapes:
        raise InvalidInput(f"a batch of smallest·2^levels rows must fit in n = {problem.n:g}; ask for smaller ones.")
    if not guarantee.private:
        noises, budgets = [0.0], [(_ORDERS[0], 0.0)]
        shapes = [max(shapes, key=lambda shape: (shape[0] << shape[1], shape[0]))]
    else:
        noises = list(_NOISES) if noise_multiplier is None else [noise_multiplier]
        budgets = list(_budgets(guarantee))
        if not budgets:
            raise InvalidInput(
                f"no Rényi filter keeps ε = {guarantee.epsilon:g} at δ = {guarantee.delta:g}: ask for a larger ε or δ, "
                "or use solver='descent'."
            )
    found = [candidate(nu, b, m, order, tau) for nu in noises for b, m in shapes for order, tau in budgets]
    risk, best = min(found, key=lambda pair: pair[0])
    if math.isinf(risk):
        raise InvalidInput(
            f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g} on {problem.n:g} rows admits no step of this noise "
            "and these batches; ask for more noise or smaller batches."
        )
    return best


def _budgets(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    """(α, τ) for each order that can prove the guarantee."""
    from discreet.accounting.filters import RenyiFilter

    for order in _ORDERS:
        try:
            budget = RenyiFilter.for_target(order, guarantee.epsilon, guarantee.delta, guarantee.unit)
        except InvalidInput:
            continue
        yield order, budget.budget
