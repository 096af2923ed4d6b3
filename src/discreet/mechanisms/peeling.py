"""Peeling: release the s largest |v_j| of an integer vector, their places and their values.

Claim common to both: each row contributes to every coordinate of v at most C in absolute value, so between neighbours
every v_j, and with it every |v_j|, moves by at most Δ = C (add-remove) or 2C (replace-one).

`Peeling` draws s places one after another, each by the exponential mechanism among those left, with scale b (all at
once as the s largest of |v_j|/b + Gumbel noise: Durfee–Rogers 2019). Each draw is 2Δ/b-bounded-range, hence
(2Δ/b)²/8-zCDP (Dong–Durfee–Rogers 2020; Cesar–Rogers 2021). The values there, s numbers of joint ℓ2 sensitivity √s·Δ,
get Gaussian noise. Events: s × ``Selection(2Δ/b)``, then ``Gaussian``. No condition on ε, δ, s or d, and O(d) work.

`LaplacePeeling` is the printed algorithm: s rounds of report-noisy-max with fresh Laplace noise of scale
b = 2Δ·√(3s·ln(1/δ))/ε, then Laplace noise of the same scale on the values (Dwork–Su–Zhang 2021; noisy hard thresholding
of Cai–Wang–Zhang 2021). It is (ε, δ)-DP, proved for ε ≤ 0.5, δ ≤ 0.011, s ≥ 10 only, and refused elsewhere. Noise is
rounded to the grid. For values that is post-processing. For a maximum it is not, but the proof of report-noisy-max
needs only P(W ≥ k + m) ≥ e^(−m/b)·P(W ≥ k) at whole k, and P(W ≥ k) is the continuous tail at k − ½.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.mechanisms.base import check_multiplier, require_norm, scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Integers, Query
from discreet.units import Relation, Unit

__all__ = ["LaplacePeeling", "Peeling"]

_MOST_EPSILON, _MOST_DELTA, _LEAST_SPARSITY = 0.5, 0.011, 10


@dataclass(frozen=True)
class Peeling:
    """The s largest coordinates in absolute value by Gumbel-type selection, with Gaussian values; zeros elsewhere.

    Args:
        s: how many coordinates; all of them where there are fewer.
        selection_multiplier: b over the query's ℓ∞ bound C.
        noise_multiplier: standard deviation of the values' noise over √s·C. `balanced` makes both cost the same.

    Raises:
        InvalidInput: s < 1, or one multiplier is 0 and the other not.

    Example:
        >>> Peeling.balanced(4, 10.0)
        Peeling(s=4, selection_multiplier=20.0, noise_multiplier=10.0)
    """

    s: int
    selection_multiplier: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        _check_sparsity(self.s)
        check_multiplier(self.selection_multiplier)
        check_multiplier(self.noise_multiplier)
        if (self.selection_multiplier == 0) != (self.noise_multiplier == 0):
            raise InvalidInput("peeling without noise needs both multipliers 0, peeling with noise needs neither 0.")

    @classmethod
    def balanced(cls, s: int, noise_multiplier: float) -> Peeling:
        """Places and values at the same zCDP cost: Gumbel scale = Gaussian standard deviation."""
        return cls(s, math.sqrt(s) * noise_multiplier, noise_multiplier)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """s × ``Selection(2Δ/b)`` and ``Gaussian(noise_multiplier)``."""
        require_norm(query, "linf")
        if not self.noise_multiplier:
            return events.NonPrivate()
        epsilon = 2 * Unit(unit.relation).sensitivity(1.0) / self.selection_multiplier
        draws = events.Repeat(events.Selection(epsilon), _kept(self.s, query))
        return events.Compose([draws, events.Gaussian(self.noise_multiplier)])

    def perturb(self, integers: Integers, query: Query, bits: Bits) -> NDArray[np.float64]:
        """The noisy values at the chosen places, 0 elsewhere."""
        from discreet.noise import exponential_top, rounded_gaussian

        require_norm(query, "linf")
        vector, s = integers.ravel(), _kept(self.s, query)
        places = exponential_top(np.abs(vector), s, scale_in_steps(self.selection_multiplier, query), bits=bits)
        sigma = math.nextafter(math.sqrt(s) * scale_in_steps(self.noise_multiplier, query), math.inf)
        return _at(places, vector[places] + rounded_gaussian(sigma, s, bits=bits), query)

    def noiseless(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """The s largest coordinates, the rest 0."""
        return _largest(value, self.s)


@dataclass(frozen=True)
class LaplacePeeling:
    """The printed peeling with Laplace noise: (``epsilon``, ``delta``)-DP for one row under ``relation``.

    Raises:
        HypothesisViolated: ε > 0.5, δ > 0.011 or s < 10: the printed scale is not proved there. Use `Peeling`.

    Example:
        >>> round(LaplacePeeling(10, 0.5, 1e-6, "add-remove").noise_multiplier, 2)
        81.43
    """

    s: int
    epsilon: float
    delta: float
    relation: Relation

    def __post_init__(self) -> None:
        _check_sparsity(self.s)
        _ = Unit(self.relation)
        if not 0 < self.epsilon <= _MOST_EPSILON:
            raise HypothesisViolated(f"Laplace peeling is proved for 0 < ε ≤ 0.5, got {self.epsilon!r}; use Peeling.")
        if not 0 < self.delta <= _MOST_DELTA:
            raise HypothesisViolated(f"Laplace peeling is proved for 0 < δ ≤ 0.011, got {self.delta!r}; use Peeling.")
        if self.s < _LEAST_SPARSITY:
            raise HypothesisViolated(f"Laplace peeling is proved for s ≥ 10, got {self.s}; use Peeling.")

    @property
    def noise_multiplier(self) -> float:
        """b over the query's ℓ∞ bound."""
        factor = 2 * math.sqrt(3 * self.s * math.log(1 / self.delta)) / self.epsilon
        return math.nextafter(Unit(self.relation).sensitivity(factor), math.inf)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """``ApproxDP(epsilon, delta)``."""
        require_norm(query, "linf")
        if unit.relation != self.relation:
            raise InvalidInput(f"this peeling's noise is for {self.relation}, but {unit.relation} was asked for.")
        if math.prod(query.shape) <= self.s:
            raise HypothesisViolated(f"peeling {self.s} coordinates needs more of them, got {math.prod(query.shape)}.")
        return events.ApproxDP(self.epsilon, self.delta)

    def perturb(self, integers: Integers, query: Query, bits: Bits) -> NDArray[np.float64]:
        """The noisy values at the chosen places, 0 elsewhere."""
        from discreet.noise import rounded_laplace

        require_norm(query, "linf")
        vector, scale = integers.ravel(), scale_in_steps(self.noise_multiplier, query)
        size, left = np.abs(vector), np.ones(integers.size, np.bool_)
        places = np.empty(self.s, np.int64)
        for i in range(self.s):
            noisy = size + rounded_laplace(scale, size.shape, bits=bits)
            places[i] = np.argmax(np.where(left, noisy, np.iinfo(np.int64).min))
            left[places[i]] = False
        return _at(places, vector[places] + rounded_laplace(scale, self.s, bits=bits), query)

    def noiseless(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """The s largest coordinates, the rest 0."""
        return _largest(value, self.s)


def _check_sparsity(s: int) -> None:
    if isinstance(s, bool) or not isinstance(s, int) or s < 1:
        raise InvalidInput(f"peeling releases a positive whole number s of coordinates, got {s!r}.")


def _kept(s: int, query: Query) -> int:
    return min(s, math.prod(query.shape))


def _at(places: NDArray[np.int64], values: NDArray[np.int64], query: Query) -> NDArray[np.float64]:
    answer = np.zeros(math.prod(query.shape))
    answer[places] = query.grid * values.astype(np.float64)
    return answer.reshape(query.shape)


def _largest(value: NDArray[Any], s: int) -> NDArray[np.float64]:
    flat = np.asarray(value, dtype=np.float64).ravel()
    answer = np.zeros_like(flat)
    places = np.argsort(-np.abs(flat), kind="stable")[:s]
    answer[places] = flat[places]
    return answer.reshape(np.shape(value))
