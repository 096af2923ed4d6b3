"""Iterative hard thresholding: gradient descent over the s-sparse vectors.

`HardThreshold` releases one Gaussian gradient sum a step and keeps the s largest entries of θ − ηĝ: thresholding is
post-processing. `PeeledThreshold` releases only s coordinates a step: the vector v = θ − η·g, whose gradient part has
an ℓ∞ bound, is peeled (s private selections and s noisy values). The first pays with noise in the ℓ2 length of a
row, the second with √s times its largest entry: for rows with d entries of one size that is √(d/s) times less noise.

Jain–Tewari–Kar 2014 (without privacy); Wang–Gu 2019 and Cai–Wang–Zhang 2021 (with it): under restricted strong
convexity the error contracts by about 1 − 1/κ a step, so T = κ·ln n steps are enough. Steps of size η ∝ 1/κ with
noise ∝ √T leave an error that does not depend on κ: many short steps cost time, not accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.by_zcdp import calibrated_by_zcdp
from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.sparse_set import SparseSet
from discreet.geometry.whole_space import WholeSpace
from discreet.losses.base import Domain
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.mechanisms.peeling import Peeling
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps

__all__ = ["HardThreshold", "PeeledThreshold", "default", "slope_at_zero", "sparse_domain"]

_EXACT_ITERATIONS = 2000  # without noise steps are free
_MOST_ITERATIONS = 200
_SHORT_OF_DROWNING = 1 / 6
"""Places are chosen at every step, by gradients that share the budget: long before the noise is as long as the model it
hides small coefficients. From simulated rows of signs, uniform entries and correlated columns."""


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
    """The set the iterates live in; a problem with a set of its own must hold all of it."""
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


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    peel: bool | None = None,
    target_bound: float | None = None,
    entry_bound: float | None = None,
    radius: float | None = None,
    iterations: int | None = None,
    smoothness: float | None = None,
    condition: float | None = None,
    clip: float | None = None,
) -> HardThreshold | PeeledThreshold:
    """Hard thresholding with the least noise that keeps the guarantee.

    The step is 1/smoothness. Rows that are all one vector of ±entry_bound attain the default smoothness, so from row
    bounds alone no much larger one is safe; a declared ``condition`` κ gives more, because the least restricted
    eigenvalue is at most the least diagonal entry of the Hessian, hence at most a = β·min(r²/d, entry_bound²), and the
    largest at most κ·a.

    The number of steps is (smoothness/a)·ln n, which theory asks for at least: between 2·ln n and 200, and no more than
    a sixth of what it takes until the noise of all steps together, (T/smoothness)·σ√(2s·ln d) for noise σ of a single
    release, is as long as a minimiser, target_bound/√a.

    Args:
        problem: any smooth loss with one output.
        guarantee: what must be kept.
        sparsity: s; None takes the problem's `SparseSet`.
        peel: release s coordinates a step instead of all; None compares the two noise levels, √(2s)·(largest entry)
            against the length of a row.
        target_bound: public bound on |y|; None takes 1, or clips nothing without privacy.
        entry_bound: public bound on |x_ij|; None takes the bound on a row's length.
        radius: ℓ2 bound on θ; None takes the problem's set.
        iterations: None takes the number above, without privacy 2000.
        smoothness: public bound on the mean loss's smoothness along 2s-sparse directions; None takes
            β·min(r², 2s·entry_bound²), which always holds. The step is its inverse.
        condition: public bound on the ratio of the largest to the least eigenvalue along such directions. The error
            bound needs it below φ³ = 4.2 where the target is as dense as s, φ the golden ratio.
        clip: bound on a row's gradient (its ℓ∞ norm if peeled, else ℓ2); None takes slope × entry or row bound, the
            slope being the largest at θ = 0.

    Raises:
        InvalidInput: the loss is not smooth, the rows have no bound, the target_bound is not one, or smoothness and
            condition are both given.
    """
    s, radius = declared_sparsity(problem, sparsity, radius)
    beta = problem.loss.smoothness(Domain())
    if not math.isfinite(beta):
        raise InvalidInput(f"{type(problem.loss).__name__} loss has no smoothness, from which the step would come.")
    length = problem.rows.radius
    entry = length if entry_bound is None else max(entry_bound, problem.rows.intercept)
    weakest = beta * min(length**2 / problem.rows.dimension, entry**2)
    if condition is not None and (smoothness is not None or not 1 <= condition < math.inf):
        raise InvalidInput(f"condition must be at least 1 and excludes smoothness, got {condition!r}, {smoothness!r}.")
    if smoothness is None:
        smoothness = min(
            beta * min(length**2, 2 * s * entry**2), math.inf if condition is None else condition * weakest
        )
    if not 0 < smoothness < math.inf:
        raise InvalidInput("rows without a bound give no step size: declare row_norm, entry_bound or smoothness.")
    if peel is None:
        peel = entry * math.sqrt(2 * s) < length
    if not peel and clip is not None and target_bound is not None:
        raise InvalidInput("without peeling target_bound only chooses the clip, which was given too: leave one out.")
    targets = target_bound if target_bound is not None else 1.0 if guarantee.private else math.inf
    slope = slope_at_zero(problem, targets) if guarantee.private else math.inf
    eta = 1 / (smoothness + problem.ridge)

    def peeled(noise: float, steps: int) -> PeeledThreshold:
        entries = entry if guarantee.private else math.inf
        slopes = slope if clip is None else clip / entry
        return PeeledThreshold(noise, steps, entries, slopes, eta, s, radius, targets)

    def gaussian(noise: float, steps: int) -> HardThreshold:
        return HardThreshold(noise, steps, slope * length if clip is None else clip, eta, s, radius)

    def solver(steps: int) -> HardThreshold | PeeledThreshold:
        if peel:
            return calibrated_by_zcdp(lambda noise: peeled(noise, steps), problem, guarantee)
        return calibrated(lambda noise: gaussian(noise, steps), problem, guarantee)

    if iterations is not None or not guarantee.private:
        return solver(_EXACT_ITERATIONS if iterations is None else iterations)
    once = solver(1)
    bound = once.clip if isinstance(once, HardThreshold) else math.sqrt(s) * once.entry_bound * once.slope_bound
    noise = once.noise_multiplier * bound / problem.n * math.sqrt(2 * s * math.log(max(problem.rows.dimension, 2)))
    drowned = _SHORT_OF_DROWNING * targets / math.sqrt(weakest) * smoothness / noise
    return solver(_steps(problem.n, smoothness / weakest, drowned))


def declared_sparsity(problem: Problem, sparsity: int | None, radius: float | None) -> tuple[int, float | None]:
    """The sparsity and radius asked for, or else those of the problem's set."""
    if isinstance(problem.domain, SparseSet):
        if sparsity not in (None, problem.domain.s):
            raise InvalidInput(f"sparsity={sparsity} contradicts the problem's set of sparsity {problem.domain.s}.")
        return problem.domain.s, problem.domain.radius if radius is None else radius
    if sparsity is None:
        raise InvalidInput("a sparse model needs a sparsity: give the option sparsity=…, or a SparseSet as domain.")
    return sparsity, radius


def _steps(n: float, condition: float, drowned: float) -> int:
    """κ·ln n steps, between 2·ln n and 200, no more than ``drowned`` where that is above the least."""
    log = math.log(max(n, 2))
    return max(1, math.ceil(min(_MOST_ITERATIONS, max(2 * log, min(condition * log, drowned)))))


def slope_at_zero(problem: Problem, target_bound: float) -> float:
    """The largest |slope| at θ = 0 over targets in ±target_bound: a fit starts there, and residuals only shrink."""
    if not 0 < target_bound < math.inf:
        raise InvalidInput(f"target_bound must be positive and finite, got {target_bound!r}.")
    return problem.loss.lipschitz(Domain(0.0, -target_bound, target_bound))
