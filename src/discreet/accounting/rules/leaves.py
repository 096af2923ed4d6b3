"""Rules of single mechanisms: noisy sums, randomised response, private choices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import quotient_up, sum_up
from discreet.accounting.exact.pairs import DiscretePair, LaplacePair
from discreet.accounting.exact.sampling import UpperOnly
from discreet.accounting.exchange import require_presence
from discreet.accounting.rules.base import (
    LEAST_BEYOND,
    MOST_LOSS,
    NOTHING,
    Mu,
    Rho,
    Rule,
    Unbounded,
    both,
    from_profile,
    rule,
    two_atoms,
)
from discreet.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NonPrivate,
    RandomizedResponse,
    Selection,
)
from discreet.floats import UNIT_ROUNDOFF
from discreet.units import Unit

__all__: list[str] = []

Array = NDArray[Any]
_MOST_ATOMS = 2_000_000
_MOST_SQUARE = 2000.0  # of μ of discrete Gaussian noise: larger losses are rounded by more than a profile is granted


@rule.register
def _(event: NonPrivate, unit: Unit) -> Rule:
    return Unbounded(math.inf)


@rule.register
def _(event: Gaussian, unit: Unit) -> Rule:
    return Mu(event.mu(unit))


@rule.register
def _(event: Laplace, unit: Unit) -> Rule:
    loss = quotient_up(unit.sensitivity(1.0), event.noise_multiplier)
    return Unbounded(LEAST_BEYOND) if loss > MOST_LOSS else both(LaplacePair(loss))


@rule.register
def _(event: DiscreteGaussian, unit: Unit) -> Rule:
    """P(x) ∝ e^{−x²/2σ²} against the same moved by Δ: L(x) = (Δ² − 2xΔ)/2σ². The family is log-concave, so the largest
    move dominates. Beyond 40σ less than the smallest double is left; that much is charged as failure.
    """
    mu = unit.sensitivity(1.0) / event.noise_multiplier
    if mu * mu > MOST_LOSS:
        return Unbounded(LEAST_BEYOND)
    many = event.bound > _MOST_ATOMS or 80 * event.noise_multiplier * event.bound > _MOST_ATOMS
    if many or mu * mu > _MOST_SQUARE:
        return Rho(mu * mu / 2)  # Canonne–Kamath–Steinke 2020, Theorem 4
    sensitivity, sigma = unit.sensitivity(event.bound), event.noise_multiplier * event.bound
    reach = math.ceil(40 * sigma) + 1
    x = np.arange(-reach, reach + 1, dtype=float)
    weight = np.exp(-((x / sigma) ** 2) / 2)
    keep = weight > 0
    losses = (sensitivity**2 - 2 * x * sensitivity) / (2 * sigma**2)
    return both(
        DiscretePair(
            losses[keep][::-1].copy(),
            (weight / weight.sum())[keep][::-1].copy(),
            infinite=5e-324,
            anchor=sensitivity**2 / (2 * sigma**2),
            lattice=sensitivity / sigma**2,
            error=1e-15 * (800 + math.log2(2 * reach)),
        )
    )


@rule.register
def _(event: DiscreteLaplace, unit: Unit) -> Rule:
    """P(x) ∝ e^{−|x|/b} against the same moved by Δ: L(x) = (|x − Δ| − |x|)/b, ±Δ/b on the two half-lines."""
    loss = quotient_up(unit.sensitivity(1.0), event.noise_multiplier)
    if loss > MOST_LOSS:
        return Unbounded(LEAST_BEYOND)
    if event.bound > _MOST_ATOMS or unit.sensitivity(event.bound) > _MOST_ATOMS:
        return both(two_atoms(loss))
    sensitivity, scale = int(unit.sensitivity(event.bound)), event.noise_multiplier * event.bound
    x = np.arange(1, sensitivity, dtype=float)
    outer = 1 / (1 + math.exp(-1 / scale))
    losses = np.concatenate([[-loss], (sensitivity - 2 * x[::-1]) / scale, [loss]])
    middle = math.tanh(0.5 / scale) * np.exp(-x[::-1] / scale)
    mass = np.concatenate([[math.exp(-sensitivity / scale) * outer], middle, [outer]])
    lattice = 2 * loss if sensitivity == 1 else 2 / scale
    # a probability is e to an exponent of at most 745, which scale and quotient round by 3 units of itself
    error = UNIT_ROUNDOFF * (8 + 3 * min(sensitivity / scale, 745.0))
    return both(DiscretePair(losses, mass, anchor=loss, lattice=lattice, error=error))


@rule.register
def _(event: RandomizedResponse, unit: Unit) -> Rule:
    """Truth has loss ε, a given lie −ε, any other answer 0. A unit of k rows answers k times, an absent one never."""
    require_presence(unit)
    if event.epsilon == 0:
        return NOTHING
    if event.epsilon > MOST_LOSS:
        return Unbounded(LEAST_BEYOND)
    if event.categories == 2:
        return both(two_atoms(event.epsilon), unit.rows_per_unit)
    others = event.categories - 1
    truth = 1 / (1 + others * math.exp(-event.epsilon))
    lie = truth * math.exp(-event.epsilon)
    mass = np.array([lie, (others - 1) * lie, truth])
    losses = np.array([-event.epsilon, 0.0, event.epsilon])
    return both(DiscretePair(losses, mass, anchor=event.epsilon, lattice=event.epsilon), unit.rows_per_unit)


@rule.register
def _(event: Selection, unit: Unit) -> Rule:
    """Exponential: losses in a window of length η, wherever it lies (bounded range, Dong–Durfee–Rogers 2020). The
    worst pair with
    losses {t, t − η} at each ε has t = (η + ε)/2, hence δ(ε) ≤ (1 − e^{(ε−η)/2})²/(1 − e^{−η}). Every t in (0, η)
    occurs: all scores of one group of candidates rise by Δ, all others fall, and base scores say how likely the group
    is. Permute-and-flip: no worse than Laplace noise (McKenna–Sheldon 2020; Ding et al. 2021); nor is the noisy
    maximum.
    """
    eta = sum_up([(event.epsilon, unit.rows_per_unit)])
    if eta == 0:
        return NOTHING
    if eta > MOST_LOSS:
        return Unbounded(LEAST_BEYOND if event.mechanism == "exponential" else 0.0)
    if event.mechanism != "exponential":
        return both(UpperOnly(LaplacePair(eta)))

    def bound(epsilon: Array) -> Array:
        return np.expm1((np.minimum(epsilon, eta) - eta) / 2) ** 2 / -math.expm1(-eta)

    def reached(share: float) -> DiscretePair:
        """Losses t and t − η for t = ``share``·η."""
        t = share * eta
        upper = math.expm1(t - eta) / math.expm1(-eta)
        lower = math.exp(t - eta) * math.expm1(-t) / math.expm1(-eta)
        return DiscretePair(np.array([t - eta, t]), np.array([lower, upper]), 0.0, t, eta, error=1e-14)

    known = from_profile(bound, eta, attained=two_atoms(eta / 2), family=reached, pure=True)
    return both(replace(known.remove, bounded_range=eta))  # type: ignore[type-var]
