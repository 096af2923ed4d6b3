"""Sparse regression with heavy tails: shrink, split, peel (Hu–Ni–Xiao–Wang 2022).

Entries are shrunk to |x_ij| ≤ K and targets to |y| ≤ K, so that heavy tails cost a bias of order M/K² (M bounds fourth
moments) instead of privacy. The rows are split into T disjoint parts of about m = n/T; step t peels
v = θ − (η/m)·Σ_{part t} gradient, whose neighbours differ in every entry by at most 2(η/m)·K·slope. θ is s-sparse and
at most C long, hence |⟨x, θ⟩| ≤ K‖θ‖₁ ≤ K√s·C and slope ≤ K(√s·C + 1). Here ‖θ‖₁ of the current, released θ bounds it,
which is never larger, and the query enforces it in integers. Fresh rows at each step keep θ independent of the rows
that move it. Parts compose in parallel: T steps cost as much as one.

Each part's size is private under add-remove; sums are divided by the public m.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.by_zcdp import calibrated_by_zcdp
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import foresee
from discreet.errors import InvalidInput
from discreet.events import Event, compose
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.measurements.base import Measurement
from discreet.measurements.sample_splitting import SampleSplitting
from discreet.mechanisms.peeling import LaplacePeeling, Peeling
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.hard_threshold import declared_sparsity, sparse_domain

__all__ = ["HeavyTailed", "balanced_entry_bound", "default"]


@dataclass(frozen=True)
class HeavyTailed:
    """θ ← peel_s(θ − (η/m)·gradient of one part of the rows), a part a step.

    Args:
        peeling: the mechanism of each step; it carries s and the noise.
        parts: T, the number of steps and of disjoint parts.
        entry_bound: K, to which entries and targets are shrunk; inf only without noise.
        step: η.
        radius: ℓ2 bound C on θ.
    """

    peeling: Peeling | LaplacePeeling
    parts: int
    entry_bound: float
    step: float
    radius: float

    def __post_init__(self) -> None:
        if not 0 < self.step < math.inf:
            raise InvalidInput(f"step must be positive and finite, got {self.step!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One measurement: the whole run over disjoint parts."""
        if not isinstance(problem.loss, Squared):
            raise InvalidInput(f"heavy-tailed regression has squared loss, not {type(problem.loss).__name__}.")
        theta = yield SampleSplitting(lambda: self._over_parts(problem), self.parts)
        return np.asarray(theta, dtype=np.float64)

    def _over_parts(self, problem: Problem) -> Generator[Measurement, Any, NDArray[np.float64]]:
        domain = sparse_domain(problem, self.peeling.s, self.radius)
        rate = self.step / (problem.n / self.parts)
        bound = self.entry_bound
        theta = problem.start
        for _ in range(self.parts):
            slope = bound * (float(np.abs(theta).sum()) + 1)
            start = -(1 - self.step * problem.ridge) / rate * theta
            query = EntrywiseGradientSum(problem.rows, problem.loss, theta, bound, slope, bound, start)
            peeled = yield Noisy(query, self.peeling)
            theta = domain.project(-rate * peeled)
        return theta


_EXPANSION = (1 + math.sqrt(5)) / 2
"""Keeping s of d entries moves a point away from an s-sparse target by at most this factor (Shen–Li 2018)."""


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    radius: float | None = None,
    moment: float | None = None,
    smoothness: float | None = None,
    mechanism: Literal["gumbel", "laplace"] | None = None,
    parts: int | None = None,
    entry_bound: float | None = None,
    step: float | None = None,
) -> HeavyTailed:
    """Heavy-tailed sparse regression with the least noise that keeps the guarantee.

    K and η are those of the error bound (`discreet.theory.heavy_tailed`). In it shrinkage costs 2M/K² a coordinate, and
    both the peeling's noise and the size of shrunken gradients are in proportion to K²: see `balanced_entry_bound`. A
    step contracts if 1 − 1/φ < η·(restricted eigenvalues of E xxᵀ) < 1 + 1/φ, φ the golden ratio.

    Args:
        problem: squared loss.
        guarantee: what must be kept.
        sparsity: s; None takes the problem's `SparseSet`.
        radius: ℓ2 bound C on θ; None takes the problem's set, or 1.
        moment: public bound M on E[x_ij⁴] and E[y⁴]; None takes 1.
        smoothness: public bound on the eigenvalues of E[xxᵀ] along sparse directions; None takes √M, which bounds
            E[x_ij²], so that columns without correlation contract if their kurtosis is below 6.8.
        mechanism: ``"gumbel"`` for `Peeling`; ``"laplace"`` for `LaplacePeeling`, which is pure DP and what None
            takes where δ = 0.
        parts: T; None takes ⌈ln n⌉.
        entry_bound: K; None takes `balanced_entry_bound`, without privacy none.
        step: η; None takes 1/smoothness.

    Raises:
        InvalidInput: a moment or smoothness that is not positive or would have no effect, an unknown mechanism, or
            δ = 0 without Laplace noise.
    """
    if not isinstance(problem.loss, Squared):
        raise InvalidInput(
            f"heavy-tailed regression has squared loss, not {type(problem.loss).__name__}; use solver='hard_threshold'."
        )
    if smoothness is not None and step is not None:
        raise InvalidInput("smoothness chooses the step, which was given too: leave one out.")
    if moment is not None and entry_bound is not None and (step is not None or smoothness is not None):
        raise InvalidInput("moment chooses entry_bound and the step, which were both settled otherwise: leave it out.")
    moment = 1.0 if moment is None else moment
    s, declared = declared_sparsity(problem, sparsity, radius)
    reach = 1.0 if declared is None else declared
    if not 0 < moment < math.inf:
        raise InvalidInput(f"moment must be positive and finite, got {moment!r}.")
    if smoothness is not None and not 0 < smoothness < math.inf:
        raise InvalidInput(f"smoothness must be positive and finite, got {smoothness!r}.")
    if mechanism not in ("gumbel", "laplace", None):
        raise InvalidInput(f"mechanism must be 'gumbel' or 'laplace', got {mechanism!r}.")
    pure = guarantee.private and guarantee.delta == 0
    if mechanism == "gumbel" and pure:
        raise InvalidInput("delta = 0 asks for pure DP, which Gaussian values cannot give; use mechanism='laplace'.")
    steps = max(1, math.ceil(math.log(max(problem.n, 2)))) if parts is None else parts
    eta = 1 / (math.sqrt(moment) if smoothness is None else smoothness) if step is None else step

    def make(peeling: Peeling | LaplacePeeling, bound: float = 1.0) -> HeavyTailed:
        return HeavyTailed(peeling, steps, bound, eta, reach)

    peeling: Peeling | LaplacePeeling
    if mechanism == "laplace" or pure:
        peeling = LaplacePeeling(s, _least_laplace(make, problem, guarantee, s))
        scale = peeling.noise_multiplier
    else:  # what it costs is in the multipliers alone, so K can wait for them
        found = calibrated_by_zcdp(lambda noise: make(Peeling.balanced(s, noise)), problem, guarantee).peeling
        assert isinstance(found, Peeling)
        peeling, scale = found, found.selection_multiplier
    if entry_bound is None:
        rows = problem.n / steps
        entry_bound = (
            balanced_entry_bound(moment, rows, problem.rows.dimension, scale) if guarantee.private else math.inf
        )
    return make(peeling, entry_bound)


def _least_laplace(
    make: Callable[[LaplacePeeling], HeavyTailed], problem: Problem, guarantee: Guarantee, s: int
) -> float:
    """The least noise multiplier of Laplace peeling that keeps the guarantee."""
    if not guarantee.private:
        return 0.0
    from discreet.accounting import calibrate

    def plan(noise: float) -> Event:
        return compose(foresee(make(LaplacePeeling(s, noise)), problem, guarantee.unit))

    return calibrate(plan, guarantee.epsilon, guarantee.delta, guarantee.unit)


def balanced_entry_bound(moment: float, rows: float, d: int, selection_multiplier: float) -> float:
    """The K that balances the bias of shrinkage with the noise that K lets in, at least M^¼.

    A step errs by c·2M/K² through shrinkage, c = φ√(3s), and, with b the multiplier of the selection, by K²/m times
    (2/3)·c·ℓ through the size of m shrunken gradients and b·((φ√(3s) + √s)·ℓ + √s) through the choice of places and the
    noise of values, ℓ = ln d + 2 covering the largest of d exponentials. A/K² + B·K² is least at K⁴ = A/B, where √s
    cancels:

        K⁴ = 2√3·φ·M·m / ((2/√3)·φ·ℓ + b·((√3·φ + 1)·ℓ + 1)).

    Example:
        >>> [round(balanced_entry_bound(3.0, rows, 100, 20.0), 1) for rows in (1e4, 1e6)]
        [4.2, 13.3]
    """
    log, width = math.log(d) + 2, math.sqrt(3) * _EXPANSION
    fourth = 2 * width * moment * rows / (2 / 3 * width * log + selection_multiplier * ((width + 1) * log + 1))
    return float(max(moment, fourth) ** 0.25)
