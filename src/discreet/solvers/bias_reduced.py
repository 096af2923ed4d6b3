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

G_k is projected only at those levels where that is proved to help (`projecting_helps`): a public matter, so that the
sum telescopes all the same; if none is, ĝ is unbiased. Where none is to be (``projecting=False``) no leaf is needed:
the whole batch is one sum under one noise ν. The levels N come from a public seed by hashing: they are independent of
the rows and hide nothing, so anybody may know them. Rows are drawn by protective bits. How many steps fit is the
filter's decision, at run time; a share of its budget is left for the fits of offset and scale before and after them
(`discreet.solvers.parts.recalibration`), so that the run stops at the first step that would touch it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.events import Event
from discreet.geometry.base import Projectable
from discreet.losses import Domain
from discreet.measurements import FixedSizeSampling, Measurement, Noisy, PoissonSampling, SplitBatch
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.recalibration import Line
from discreet.solvers.sparse_descent import (
    checked_share,
    onto_balls,
    projecting_helps,
    public_uniform,
    squared_width,
    steepest,
)
from discreet.units import Unit

if TYPE_CHECKING:
    from discreet.accounting.filters import RenyiFilter

__all__ = ["BiasReduced", "default"]

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
        line_multiplier: noise of the fits of offset and scale, were they one release; 0: no fits.
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
    line_multiplier: float = 0.0
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
        from discreet.accounting.filters import RenyiFilter

        return RenyiFilter(self.order, self.budget, unit)

    def steps(self, problem: Problem) -> Steps:
        """One estimate a step until the filter refuses one, or would have to refuse the fits after it."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        line = Line(self.line_multiplier) if self.line_multiplier else None
        start = (yield from line.before(problem)) if line else problem.start
        theta = kept = np.asarray(problem.domain.project(start.ravel()))  # 0 is in no simplex
        travelled = 0.0
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
            travelled += self.step
        found = theta if self.iterate == "last" else kept
        if not problem.domain.convex:  # an average of sparse points is not sparse
            found = np.asarray(problem.domain.project(found))
        if line and travelled:
            # steps of size η/n on average along a row move its own score by at most η·radius²/n each
            found = yield from line.after(problem, found, travelled * problem.rows.radius**2)
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
        """Whether means of ``rows`` rows are projected."""
        return self.projecting and projecting_helps(problem, self.sparsity, self.clip, self.noise_std(rows))

    def error(self, problem: Problem, rows: int) -> float:
        """e ≥ √E‖G − mean of the batch‖² for ``rows`` rows: √(R·τ·E max|g|) if projected, R = C√s, else τ√d.

        Poisson batches are divided by their expected size b, so a "mean" may lie outside the balls by C(|B|/b − 1)₊,
        whose root mean square is at most C/√b: it is paid once in the projection and once in the comparison.
        """
        noise = self.noise_std(rows)
        if not self.projects(problem, rows):
            return math.sqrt(math.prod(problem.rows.shape)) * noise
        excess = 2 * self.clip / math.sqrt(rows) if self.batches == "poisson" else 0.0
        return math.sqrt(squared_width(problem, self.sparsity, self.clip, noise)) + excess

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

    def planned(self, problem: Problem, unit: Unit) -> BiasReduced:
        """The same without a filter: a plan of as many steps as the budget is expected to pay for."""
        if not self.budget:
            return self
        left = self.budget - (self.costs[-1] if self.costs else 0.0)
        count = math.floor(left / self.expected_cost(problem, unit))
        return replace(self, iterations=max(1, min(self.iterations, count)), budget=0.0, costs=())

    def expected_cost(self, problem: Problem, unit: Unit) -> float:
        """E over N of a step's Rényi divergence at the filter's order."""
        costs = self.level_costs(problem, unit)
        return math.fsum(self.probability(k) * costs[k] for k in range(self.levels))

    def level_costs(self, problem: Problem, unit: Unit) -> tuple[float, ...]:
        """A step's Rényi divergence at the filter's order for each N."""
        nowhere = np.broadcast_to(0.0, problem.rows.shape)  # no event depends on θ: a thousand candidates need no room
        asked = (next(self.estimate(problem, nowhere, k)) for k in range(self.levels))
        return tuple(_divergence(measurement.event(unit), self.order, unit) for measurement in asked)

    def _sampling(self, rows: int, n: float) -> FixedSizeSampling | PoissonSampling:
        if self.batches == "fixed-size":
            return FixedSizeSampling(rows, round(n))
        return PoissonSampling(rows / n)

    def _mean(self, total: NDArray[np.float64], rows: int, problem: Problem) -> NDArray[np.float64]:
        mean = np.asarray(total.ravel() / rows)
        return onto_balls(mean, problem, self.sparsity, self.clip) if self.projects(problem, rows) else mean


@lru_cache(maxsize=4096)
def _divergence(event: Event, order: float, unit: Unit) -> float:
    from discreet.accounting.renyi import divergence

    return divergence(event, order, unit)


_REACH, _REACH_OF_LINE = 3.0, 1.5
"""Scores up to about ±3 are sought, so a minimiser is about 3/radius long; half of that where scale and offset are
fitted afterwards. Public, the same for all data."""

_MOST_ITERATIONS, _LEVELS, _MOST_HALVINGS = 128, (2, 3, 4), 6
_EXACT_ITERATIONS = 2000
_LINE_SHARE = 0.08
_ROUNDING = 1e-9  # sums of many small costs may round up
_NOISES = tuple(2.0 ** (k / 2) for k in range(-2, 15))
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
    iterate: Iterate | None = None,
    seed: int = 0,
    projecting: bool | None = None,
    line_share: float | None = None,
) -> BiasReduced:
    """The solver whose filter is the guarantee, with the noise and batches of the least predicted excess risk.

    Two predictions compete. The proved bound, D√(V/T) + D·bias with V the second moment, is about every sparse loss;
    where d ≫ n it exceeds trivial ones and would ask for steps too short to leave θ = 0. A linear model feels an error
    of its gradient only in scores: if nothing is projected, T steps of size η move the score of a row by noise of
    variance η²·T·v·radius², v = `score_variance`, which costs ½·smoothness times that, and stopping early costs
    D²/(2ηT). The sum is least at (ηT)³ = D²T/(2β·v), with β = smoothness·radius². T is the filter's budget over a
    step's expected cost; the best of a grid of noises, batches and Rényi orders, projecting or not, is found without
    data. The bounds stay available: `bias_bound`, `second_moment_bound`.

    Args:
        problem: public facts.
        guarantee: what to keep; ε = ∞ runs without noise, filter and cuts, by default 2000 steps with all rows in each,
            so that it ends at the minimiser.
        sparsity: most non-zero entries of a row; by default nothing is assumed, and the ℓ2 ball alone projects.
        clip: ℓ2 bound on a row's gradient; by default that of the largest slope at θ = 0.
        noise_multiplier: noise of each leaf's sum over ``clip``.
        smallest: rows of a leaf.
        levels: number of doublings from a leaf to the largest batch, 2 to 4 by default (1 below 4 rows).
        step: step size.
        iterations: the most steps, at most 128 by default.
        iterate: ``"average"``, ``"last"`` or, for losses that are not convex, ``"random"``; by default the last where
            scale and offset are fitted, else the average.
        seed: public seed of the levels.
        projecting: whether means are projected where that is proved to help; by default what promises less risk.
        line_share: of the filter's budget for fits of offset and scale before and after; by default 0.08 without
            constraint or ridge on a loss of bounded curvature, else 0: no such fits.

    Raises:
        InvalidInput: pure DP was asked for, rows are unbounded, the budget admits no step, a sparsity without
            projections, or a share for fits that cannot be made.
    """
    rows = problem.rows
    if not rows.bounded:
        raise InvalidInput("bias-reduced descent needs rows of bounded length: give row_norm.")
    if guarantee.private and guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    if projecting is False and sparsity is not None:
        raise InvalidInput("sparsity only decides how means are projected, and projecting=False asks for none.")
    domain = Domain(score_bound=_REACH, target_low=-1.0, target_high=1.0)
    slope = steepest(problem, guarantee, _REACH)
    share = checked_share(problem, guarantee, line_share, _LINE_SHARE)
    kept = iterate or ("last" if share else "average")
    if clip is None:
        clip = rows.radius * slope if guarantee.private else math.inf
    sparsity = rows.dimension if sparsity is None else sparsity
    batches: Batches = "fixed-size" if guarantee.unit.relation == "replace-one" else "poisson"
    smoothness = problem.loss.smoothness(domain)
    longest = 1.0 / ((smoothness if math.isfinite(smoothness) else slope / 0.1) * rows.radius**2 + problem.ridge)
    if not guarantee.private and smallest is None and levels is None and not projecting:
        size, steps = longest if step is None else step, _EXACT_ITERATIONS if iterations is None else iterations
        half = math.ceil(problem.n / 2)  # two of them hold all rows
        return BiasReduced(
            0.0, steps, clip, size, half, 1, sparsity, batches, iterate or "last", seed=seed, projecting=False
        )
    most = _MOST_ITERATIONS if iterations is None else iterations
    distance = min(problem.domain.diameter(math.prod(rows.shape)), (_REACH_OF_LINE if share else _REACH) / rows.radius)

    def candidate(
        noise: float, base: int, doublings: int, order: float, budget: float, projects: bool
    ) -> tuple[float, BiasReduced]:
        """(predicted excess risk, solver)."""
        made = BiasReduced(
            noise, most, clip, longest, base, doublings, sparsity, batches, kept, order, budget, seed, projects
        )
        taken = float(most)
        if budget:
            taken = min(taken, budget * (1 - share) / made.expected_cost(problem, guarantee.unit))
        if taken < 1:
            return math.inf, made
        beta = 1 / longest
        if projects and made.bias_bound(problem):
            moment = made.second_moment_bound(problem)
            eta = (min(longest, distance / math.sqrt(taken * moment)) or longest) if step is None else step
            risk = distance**2 / (2 * eta * taken) + eta * moment / 2 + distance * made.bias_bound(problem)
        else:
            variance = made.score_variance()
            travel = (distance**2 * taken / (2 * beta * variance)) ** (1 / 3)
            eta = (min(longest, travel / taken) or longest) if step is None else step  # 0: a set of one point
            risk = distance**2 / (2 * eta * taken) + beta * eta**2 * taken * variance / 2
        return risk, replace(made, step=eta)

    leaf = max(1, int(problem.n) >> _MOST_HALVINGS)  # and its doubles, so that few batches are to be accounted for
    bases = [leaf << k for k in range(_MOST_HALVINGS)] if smallest is None else [smallest]
    few = problem.n < 1 << _LEVELS[0]  # rows: one doubling is all that fits
    doublings = (levels,) if levels is not None else (1,) if few else _LEVELS
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
    ways = [False, True] if projecting is None else [projecting]
    grid = itertools.product(noises, shapes, budgets, ways)
    found = [candidate(noise, *shape, *budget, way) for noise, shape, budget, way in grid]
    risk, best = min(found, key=lambda pair: pair[0])
    if math.isinf(risk):
        raise InvalidInput(
            f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g} on {problem.n:g} rows admits no step of this noise "
            "and these batches; ask for more noise or smaller batches."
        )
    if guarantee.private and noise_multiplier is None:
        best = _spending_all(best, 1 - share, problem, guarantee.unit)
    return _with_line(best, share, problem, guarantee) if share else best


def _spending_all(solver: BiasReduced, share: float, problem: Problem, unit: Unit) -> BiasReduced:
    """Less noise, down to the grid's next, where the most steps do not spend the budget."""

    def affords(noise: float) -> bool:
        cost = replace(solver, noise_multiplier=noise).expected_cost(problem, unit)
        return solver.iterations * cost <= share * solver.budget

    low, high = solver.noise_multiplier / math.sqrt(2), solver.noise_multiplier
    for _ in range(12 if affords(high) else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if affords(middle) else (middle, high)
    return replace(solver, noise_multiplier=high)


def _with_line(solver: BiasReduced, share: float, problem: Problem, guarantee: Guarantee) -> BiasReduced:
    """The solver that leaves ``share`` of its budget to `Line`, whose releases cost 1/ν² of what ν = 1 does."""
    reserve = share * solver.budget
    alone = _divergence(Line(1.0).event(), solver.order, guarantee.unit)
    steps = solver.level_costs(problem, guarantee.unit)
    return replace(solver, line_multiplier=math.sqrt(alone / reserve), costs=(*steps, reserve * (1 + _ROUNDING)))


def _budgets(guarantee: Guarantee) -> Iterator[tuple[float, float]]:
    """(α, τ) for each order that can prove the guarantee."""
    from discreet.accounting.filters import RenyiFilter

    for order in _ORDERS:
        try:
            budget = RenyiFilter.for_target(order, guarantee.epsilon, guarantee.delta, guarantee.unit)
        except InvalidInput:
            continue
        yield order, budget.budget
