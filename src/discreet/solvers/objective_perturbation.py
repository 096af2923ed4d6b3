"""Objective perturbation: minimise the regularised loss plus a random linear term over a set; release the minimiser.

Releases: one `PerturbedMinimum` (Chaudhuri–Monteleoni–Sarwate 2011; Kifer–Smith–Thakurta 2012; approximate minima:
Iyengar et al. 2019). The privacy profile and its proof are our own, in ``docs/maths/objective_perturbation.md``: for
logistic regression with λ ≥ R²/ε it is *exactly* that of one Gaussian release of a sum of gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry.base import Projectable
from discreet.geometry.long_projection import has_long_projection
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain, Logistic, Softmax
from discreet.measurements.perturbed_minimum import PerturbedMinimum, longest_tilt
from discreet.queries.minimiser.problem import project
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps

__all__ = ["CUT", "DRIFT", "ObjectivePerturbation", "default", "least_multiplier", "public_tolerance"]

_SHRINK, _SHRINK_WIDE, _SHRINK_ROWS, _SHRINK_NOISY = 0.3, 0.2, 3.0, 4.0
"""Classes: λ = ν·L·R·max(0.3 + 0.2·√x + 3·min(d/n, 1), 4s) at noise multiplier ν, with x = ν·min(d, n)/n, and
s = √min(d, n)·ν/n the noise in the mean gradient over a row's bound. In a direction of curvature h, noise σ = νL
against a coefficient θ_j asks for the ridge λ = σ²/(h·θ_j²) (Hoerl–Kennard 1970), and h is about n/d: that is λ ∝ σ·x.
Its root costs less where the offset of unequal classes is shrunk with the rest; d/n is for chance among few rows; 4s is
for so much noise that little but an offset can be learnt. Under little noise a coefficient of 3 log-odds a unit row is
shrunk by as much as the tilt moves it."""
_SHRINK_REGRESSION, _FAINT = 2.0, 0.05
"""Numbers: λ = 2·ν·L·R·(1 + s/0.05), s = √min(d, n)·ν/n: targets are coded to [−1, 1], so a unit row's score is about 1
at most. All constants were chosen on the problems of ``bench/synthetic.py``; ``bench/defaults.py`` sweeps them."""
CUT, _NOISY = 0.5, 1e-3
"""Logistic slopes are cut at their size at a score of 0 where the noise in the mean gradient, √d·ν/n, exceeds a
thousandth of its bound. The cut loss is a straight line on the wrong side of the boundary: its minimiser still has the
sign of the log-odds, and the noise halves. Under little noise nothing is cut, so that probabilities stay calibrated.
Constants are from ``bench/defaults.py``."""
DRIFT = 300.0
"""The certified point's deviation gets ε/300: with Gaussian noise this costs less than 0.1 % of the noise."""
_PURE_SHARE = 0.01
_RESIDUAL = 2.0**-38
"""Tolerance on the gradient for each row and unit of its bound: a thousandfold of float64's rounding errors."""


_LONGEST = 2.0**10
"""A tolerance allows for minimisers up to this long, for rows of length 1, in a set that is larger than that."""

Constraint = Literal["within", "after"]


@dataclass(frozen=True)
class ObjectivePerturbation:
    """θ̂ = argmin Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩ over the domain.

    Args:
        noise_multiplier: scale of b over the bound on a row's gradient; 0 is the minimiser itself.
        regularisation: λ, in units of the sum of losses; ``problem.ridge``·n is added to it.
        slope_bound: ℓ2 bound on a row's gradient for losses whose slope has none.
        deviation: neighbours' certified points may lie this much output noise apart.
        noise: ``"gaussian"`` or, for pure ε, ``"gamma"``.
        constraint: ``"within"`` minimises over the domain; ``"after"`` minimises without it and projects. Both cost the
            same. None is "within" for every set whose projections can be certified, "after" for others.
    """

    noise_multiplier: float
    regularisation: float
    slope_bound: float = math.inf
    deviation: float = 1e-3
    noise: Literal["gaussian", "gamma"] = "gaussian"
    constraint: Constraint | None = None

    def __post_init__(self) -> None:
        if self.constraint not in ("within", "after", None):
            raise InvalidInput(f"constraint must be 'within' or 'after', got {self.constraint!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One release; the output noise is projected away, which is post-processing."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(
                f"{type(problem.domain).__name__} has no projection, which the released minimiser needs."
            )
        theta = yield self.measurement(problem)
        return project(problem.domain, theta)

    def measurement(self, problem: Problem) -> PerturbedMinimum:
        """What is asked of the vault."""
        total = self.regularisation + problem.ridge * problem.n
        within = self.constraint == "within" or (self.constraint is None and has_long_projection(problem.domain))
        domain = problem.domain if within else WholeSpace()
        query = RidgeMinimiser(problem.rows, problem.loss, total, self.slope_bound, domain)
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier) if self.noise_multiplier else 0.0
        return PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance, self.noise)


def public_tolerance(query: RidgeMinimiser, n: float, noise_multiplier: float) -> float:
    """A bound on ‖∇J‖ that float64 can certify for about n rows, from public facts."""
    d = math.prod(query.rows.shape)
    reach = noise_multiplier * longest_tilt(d) * query.gradient_bound
    tolerance = max(_RESIDUAL * n * query.gradient_bound, 2 * query.least_tolerance(reach))
    if query.constrained:  # minimisers may be as long as the set is large, and scores err by d ulps of their length
        length = min(query.domain.radius_in(d), _LONGEST / query.rows.radius)
        tolerance = max(tolerance, 2.0**-51 * n * query.curvature_bound * (query.rows.dimension + 32) * length)
    return tolerance


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    regularisation: float | None = None,
    slope_bound: float | None = None,
    constraint: Constraint | None = None,
) -> ObjectivePerturbation:
    """The solver for a guarantee: least noise, and λ from public facts alone.

    λ balances the noise that it holds back against the shrinking that it causes: λ₀ = ν₀·L·R times a factor that
    grows with noise and dimension, where ν₀ is the noise multiplier of a Gaussian release (a coordinate's, for
    Gamma-norm noise). With a = λ/λ₀, the error of a coefficient whose curvature is λ₀ is proportional to
    ((ν/ν₀)² + a²)/(1 + a)², least at a = 1 unless log det makes ν grow as λ falls.

    Args:
        problem: public facts.
        guarantee: (ε, δ) and the unit; δ = 0 takes Gamma-norm noise; ε = ∞ no noise.
        regularisation: λ in units of the sum, instead of the choice above.
        slope_bound: ℓ2 bound on a row's gradient; by default the loss's own, half of it for a logistic loss under much
            noise, and for the squared loss that of residuals up to 1. Without privacy nothing is cut.
        constraint: whether the domain is minimised over ("within") or projected on ("after").

    Raises:
        HypothesisViolated: the loss has no bounded curvature; or no noise reaches ε at this ``regularisation``.
    """
    if not guarantee.private:
        bound = math.inf if slope_bound is None else slope_bound
        return ObjectivePerturbation(0.0, regularisation or 0.0, bound, constraint=constraint)
    noise: Literal["gaussian", "gamma"] = "gaussian" if guarantee.delta else "gamma"
    deviation = guarantee.epsilon / DRIFT if guarantee.delta else guarantee.epsilon * _PURE_SHARE
    guess = rough_multiplier(guarantee)
    if slope_bound is None:
        noisy = guess * math.sqrt(problem.rows.dimension) > _NOISY * problem.n
        cut = isinstance(problem.loss, Logistic) and noise == "gaussian" and noisy
        slope_bound = CUT * problem.rows.radius if cut else _natural(problem)

    def solver(multiplier: float, strength: float) -> ObjectivePerturbation:
        return ObjectivePerturbation(multiplier, strength, slope_bound, deviation, noise, constraint)

    def least(strength: float, guess: float, precision: float) -> float:
        return least_multiplier(lambda nu: solver(nu, strength).measurement(problem), guarantee, guess, precision)

    if regularisation is None:
        free = least(2.0**40 * problem.rows.radius**2, guess, 0.01)
        query, ridge = solver(free, problem.rows.radius**2).measurement(problem).query, problem.ridge * problem.n
        classifier = isinstance(problem.loss, Softmax) or problem.loss.slope_sign_fixed
        d = math.prod(problem.rows.shape)
        # Gamma-norm noise has a length of about d scales, so √d scales in each coordinate
        std = free * (1.0 if noise == "gaussian" else math.sqrt(d))
        scale = std * query.gradient_bound * problem.rows.radius
        faint = math.sqrt(min(d, problem.n)) * std / problem.n
        if classifier:
            share = min(d / problem.n, 1.0)
            scale *= max(_SHRINK + _SHRINK_WIDE * math.sqrt(std * share) + _SHRINK_ROWS * share, _SHRINK_NOISY * faint)
        else:
            scale *= _SHRINK_REGRESSION * (1 + faint / _FAINT)
        linked = noise == "gaussian" and query.link > 0 and query.directions == 1
        if linked:  # from here on log det is free, so a larger λ would only shrink
            scale = max(scale, guarantee.unit.sensitivity(1.0) * problem.rows.radius**2 / guarantee.epsilon)
        best = math.inf
        for a in [1.0] if linked else 2.0 ** np.arange(0.0, 8.0, 0.5):
            strength = max(a * scale - ridge, 0.0)
            try:
                ratio = least(strength, free, 0.01) / free if not linked else 1.0
            except HypothesisViolated:  # log det exceeds ε
                continue
            error = (ratio**2 + a * a) / (1 + a) ** 2
            if error >= best:
                break
            best, regularisation, guess = error, strength, ratio * free
        assert regularisation is not None  # log det falls below any ε as λ grows
    return solver(least(regularisation, guess, 1e-6), regularisation)


def _natural(problem: Problem) -> float:
    """No bound where slopes have one themselves; else that of residuals up to 1."""
    return math.inf if math.isfinite(problem.loss.lipschitz(Domain())) else problem.rows.radius


def least_multiplier(
    make: Callable[[float], PerturbedMinimum], guarantee: Guarantee, guess: float, precision: float = 1e-6
) -> float:
    """The least noise multiplier whose single release keeps the guarantee, to a relative ``precision`` from above.

    Raises:
        HypothesisViolated: log det alone exceeds ε, so that no noise is enough.
    """
    from scipy.optimize import brentq

    from discreet.accounting.perturbation import objective_profile
    from discreet.events import ObjectivePerturbation as Perturbed
    from discreet.events import PureDP

    target, unit = np.array([guarantee.epsilon]), guarantee.unit

    @cache
    def excess(log_multiplier: float) -> float:
        """Positive where the noise is too little; near enough to linear for a secant to find its zero fast."""
        event = make(math.exp(log_multiplier)).event(unit)
        if isinstance(event, PureDP):
            return event.epsilon * unit.rows_per_unit / guarantee.epsilon - 1
        assert isinstance(event, Perturbed)
        delta = float(objective_profile(event, unit)(target)[0])
        return math.sqrt(-math.log(guarantee.delta)) - math.sqrt(-math.log(max(delta, 1e-320)))

    low = high = math.log(guess)
    step = 0.02
    while excess(low) <= 0:
        high, low, step = low, low - step, 4 * step
    while excess(high) > 0:
        low, high, step = high, high + step, 4 * step
        if high > 80:
            raise HypothesisViolated(
                f"no noise reaches ε={guarantee.epsilon:g} with this regularisation: its log det is too large. "
                "Raise regularisation, or leave it out."
            )
    root = float(brentq(excess, low, high, xtol=precision / 4, rtol=1e-15)) if low < high else high
    while excess(root) > 0:
        root += precision / 4
    return math.exp(root)
