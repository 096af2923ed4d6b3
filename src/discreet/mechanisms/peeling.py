"""Peeling: release the s largest |v_j| of an integer vector, their places and their values.

Claim common to both: each row contributes to every coordinate of v at most C in absolute value, so between neighbours
every v_j, and with it every |v_j|, moves by at most Δ = C (add-remove) or 2C (replace-one).

`Peeling` draws s places one after another, each by the exponential mechanism among those left, with scale b (all at
once as the s largest of |v_j|/b + Gumbel noise: Durfee–Rogers 2019). Each draw is 2Δ/b-bounded-range, hence
(2Δ/b)²/8-zCDP (Dong–Durfee–Rogers 2020; Cesar–Rogers 2021). The values there, s numbers of joint ℓ2 sensitivity √s·Δ,
get Gaussian noise. Events: s × ``Selection(2Δ/b)``, then ``Gaussian``. No condition on ε, δ, s or d, and O(d) work.

`LaplacePeeling` is s rounds of report-noisy-max with fresh Laplace noise of scale b, then Laplace noise of the same
scale on the values (Dwork–Su–Zhang 2021; noisy hard thresholding of Cai–Wang–Zhang 2021). A round is no worse than
Laplace noise on a number that moves by 2Δ (proof in ``docs/maths/sparse_regression.md``), a value is Laplace noise on
one that moves by Δ. Events: s × ``Selection(2Δ/b, "noisy-max")``, s × ``Laplace``: pure DP, composed by the
accountant. The printed scale 2Δ·√(3s·ln(1/δ))/ε is 1.4 to 2.5 times what that asks for, and was proved for ε ≤ 0.5, δ
≤ 0.011, s ≥ 10 only; `discreet.accounting.textbook` keeps it. Noise is rounded to the grid. For values that is post-
processing. For a maximum it is not: there one grid step is added to 2Δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.errors import InvalidInput
from discreet.mechanisms.base import check_multiplier, require_norm, scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Integers, Query
from discreet.units import Unit

__all__ = ["LaplacePeeling", "Peeling"]


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
        object.__setattr__(self, "s", _checked_sparsity(self.s))
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
    """The s largest coordinates by report-noisy-max, with Laplace values; zeros elsewhere.

    Args:
        s: how many coordinates; all of them where there are fewer.
        noise_multiplier: b, the scale of all noise, over the query's ℓ∞ bound C.

    Raises:
        InvalidInput: s < 1, or a multiplier that is negative or not finite.

    Example:
        >>> LaplacePeeling(4, 10.0)
        LaplacePeeling(s=4, noise_multiplier=10.0)
    """

    s: int
    noise_multiplier: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "s", _checked_sparsity(self.s))
        check_multiplier(self.noise_multiplier)

    def event(self, query: Query, unit: Unit) -> events.Event:
        """s × ``Selection((2Δ + 1)/b, "noisy-max")``, Δ in grid steps, and s × ``Laplace(noise_multiplier)``."""
        require_norm(query, "linf")
        if not self.noise_multiplier:
            return events.NonPrivate()
        steps = 2 * Unit(unit.relation).sensitivity(query.bound) + 1
        place = events.Selection(steps / (self.noise_multiplier * query.bound), "noisy-max")
        times = _kept(self.s, query)
        return events.Compose(
            [events.Repeat(place, times), events.Repeat(events.Laplace(self.noise_multiplier), times)]
        )

    def perturb(self, integers: Integers, query: Query, bits: Bits) -> NDArray[np.float64]:
        """The noisy values at the chosen places, 0 elsewhere."""
        from discreet.noise import rounded_laplace

        require_norm(query, "linf")
        vector, scale = integers.ravel(), scale_in_steps(self.noise_multiplier, query)
        size, left = np.abs(vector), np.ones(integers.size, np.bool_)
        places = np.empty(_kept(self.s, query), np.int64)
        for i in range(len(places)):
            noisy = size + rounded_laplace(scale, size.shape, bits=bits)
            places[i] = np.argmax(np.where(left, noisy, np.iinfo(np.int64).min))
            left[places[i]] = False
        return _at(places, vector[places] + rounded_laplace(scale, len(places), bits=bits), query)

    def noiseless(self, value: NDArray[Any]) -> NDArray[np.float64]:
        """The s largest coordinates, the rest 0."""
        return _largest(value, self.s)


def _checked_sparsity(s: int) -> int:
    if isinstance(s, bool) or not isinstance(s, int | np.integer) or s < 1:
        raise InvalidInput(f"peeling releases a positive whole number s of coordinates, got {s!r}.")
    return int(s)


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
