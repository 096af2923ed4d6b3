"""One release: the last iterate of noisy gradient descent, and nothing before it.

Claim. Let c ≤ 1 and s, ϱ be such that for all neighbours D, D' and all θ, θ' the noiseless steps satisfy ‖φ_D(θ) −
φ_D'(θ')‖ ≤ c‖θ − θ'‖ + s + 2ϱ, and let a step be θ ← Π(φ_D(θ) + ν·Z), where Π depends on its argument alone and is
within ϱ' of a map that lengthens no distance. Then the last iterate is as private as `events.LastIterate` with the
rounding ϱ + ϱ' says (Bok, Su and Altschuler 2024; ``docs/maths/last_iterate.md``, where each hypothesis is proved for
the numbers that are computed here). No answer but the last iterate leaves this file.

θ is a vector of whole multiples of q = η·clip/(bound·n), n the number of rows or the expected size of a batch
(`discreet.measurements.hidden_batches`), in unbounded integers, so that a step is

    θ ← Π(θ − round(ηλ·θ) − S(θ) + round(σZ)) = Π(round(φ(θ) + σZ)),    S the integer sum of `FineGradientSum`,

and what follows the noise is a function of φ(θ) + σZ alone, as the theorem asks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.accounting.reductions.last_iterate import contraction_of
from discreet.data.base import Dataset
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.floats import ROUNDED_UP
from discreet.geometry import Box, L2Ball, WholeSpace
from discreet.geometry.base import Geometry
from discreet.losses import Domain, Huber, Logistic, Loss, Quantile, SmoothedHinge, Squared
from discreet.measurements.hidden_batches import AllRows, Batches
from discreet.mechanisms.base import check_multiplier, scale_in_steps
from discreet.noise.bits import Bits
from discreet.noise.gaussian import MAX_SIGMA
from discreet.queries.sums.fine_gradient import FLOAT_ERROR, MOST_SLOPE_BITS, FineGradientSum
from discreet.rows import ROW_BITS, RowSpec
from discreet.units import Unit

__all__ = ["LastIterate", "Precision", "usual_precision"]

_CONVEX: frozenset[type] = frozenset({Squared, Logistic, Huber, SmoothedHinge, Quantile})
"""Losses whose slopes are monotone, and computed within `FLOAT_ERROR`; with a kink a smoothness is missing."""


@dataclass(frozen=True)
class Precision:
    """With which precision a hidden run is computed: public settings on which its guarantee rests.

    Args:
        slope_bits: of a slope, see `FineGradientSum`.
        radius: no iterate is longer: a bound that the set gives, or else one that is enforced and never met.
        rounding: a bound on how far all roundings of a step displace an iterate, in units of (step·clip/n).
        diameter: of the set that iterates are projected on; inf where there is none.
    """

    slope_bits: int
    radius: float
    rounding: float
    diameter: float = math.inf


@dataclass(frozen=True, eq=False)
class LastIterate:
    """θ_T of θ ← Π(θ − η·(noisy mean gradient + λθ)) over all rows or a batch, T times from a public start.

    Args:
        rows: public facts about the rows.
        loss: convex and smooth: squared, logistic, Huber, smoothed hinge or smoothed quantile.
        n: the number of rows, public and verified.
        start: θ_0.
        noise_multiplier: noise over ``clip`` in each sum of gradients.
        iterations: T.
        clip: ℓ2 bound on a row's gradient.
        step: η ≤ 2/β, the same at every step.
        ridge: λ.
        domain: all θ, a ball or a box.
        precision: of the arithmetic.
        batches: which rows each step takes.

    Raises:
        HypothesisViolated: the theorem does not cover the run.
        InvalidInput: numbers that are none.
    """

    rows: RowSpec
    loss: Loss
    n: float
    start: NDArray[np.float64]
    noise_multiplier: float
    iterations: int
    clip: float
    step: float
    ridge: float
    domain: Geometry
    precision: Precision
    batches: Batches = field(default_factory=AllRows)

    def __post_init__(self) -> None:
        check_multiplier(self.noise_multiplier)
        require_hypotheses(self.rows, self.loss, self.n, self.step, self.ridge, self.domain, self._crowding)
        if self.iterations < 1 or not self.noise_multiplier > 0 or self.start.shape != self.rows.shape:
            raise InvalidInput("a hidden run needs a step, noise and a start of the rows' shape.")
        needed = displacement(self.rows, self.loss, self.batches.most(self.n), self.clip, self.precision)
        if not self.precision.rounding >= needed:
            raise HypothesisViolated(
                f"last-iterate accounting needs a rounding of at least {needed:.3g}, got {self.precision.rounding!r}."
            )
        d, given = self.rows.dimension, self.precision
        if not (given.radius >= self.domain.radius_in(d) or isinstance(self.domain, WholeSpace)):
            raise HypothesisViolated(f"the set is longer than a radius of {given.radius!r}.")
        if not given.diameter >= self.domain.diameter(d):
            raise HypothesisViolated(f"the set is wider than a diameter of {given.diameter!r}.")
        if self.noise_multiplier * self._query(self.start).bound > MAX_SIGMA / 2:
            raise InvalidInput(f"noise_multiplier {self.noise_multiplier:g} is too large for integer sums.")

    def event(self, unit: Unit) -> events.Event:
        """``LastIterate`` with the contraction of a step, the set's diameter, and what rounding displaces.

        Sampled batches have their own (`discreet.measurements.hidden_batches`).

        Raises:
            HypothesisViolated: under add-remove, or where the rows of persons are bounded, the number of rows, and with
                it the smoothness, is not public.
        """
        if unit.relation != "replace-one":
            raise HypothesisViolated(
                "last-iterate accounting needs replace-one: under add-remove the number of rows is private, and with "
                "it the smoothness of their mean loss, of which a step must be at most 2 over."
            )
        if unit.enforced:
            raise HypothesisViolated(
                "last-iterate accounting needs a public number of rows: of the rows of a person some are left out."
            )
        moved = unit.sensitivity(1.0)  # of the sum, over the clip
        rows = self.batches.expected(self.n)
        diameter: float | None = self.precision.diameter / self.step / self.clip * rows / moved * ROUNDED_UP
        if diameter == math.inf:
            diameter = None
        run = events.LastIterate(
            self.noise_multiplier,
            self.iterations,
            contraction(self.rows, self.loss, self.step, self.ridge, self._crowding),
            diameter,
            self.precision.rounding / moved * ROUNDED_UP,
        )
        return self.batches.event(run, unit)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Take all steps; show the last iterate."""
        from discreet.noise import rounded_gaussian

        if data.rows != self.rows or len(data) != self.n:
            raise InvalidInput(f"the run was planned for {self.n:.0f} rows, and other ones. Nothing was released.")
        query = self._query(self.start)
        expected = Fraction(self.batches.expected(self.n))
        unit_of_theta = Fraction(self.step) * Fraction(self.clip) / (query.bound * expected)
        top, bottom = (Fraction(self.step) * Fraction(self.ridge)).as_integer_ratio()
        sigma = scale_in_steps(self.noise_multiplier, query)
        project = self._projection(unit_of_theta)
        theta = project([round(Fraction(value) / unit_of_theta) for value in self.start.tolist()])
        for _, batch in zip(range(self.iterations), self.batches.draw(data, bits), strict=False):
            total = self._query(_as_floats(theta, unit_of_theta)).integers(batch)
            noisy = total + rounded_gaussian(sigma, total.shape, bits=bits)
            theta = project([t - _rounded(t * top, bottom) - g for t, g in zip(theta, noisy.tolist(), strict=True)])
        return _as_floats(theta, unit_of_theta)

    def blank(self) -> NDArray[np.float64]:
        """The start."""
        return self.start.copy()

    @property
    def query(self) -> FineGradientSum:
        """The sum of clipped gradients that the first step asks for."""
        return self._query(self.start)

    @property
    def _crowding(self) -> float:
        """The largest size of a batch over the one that sums are divided by."""
        return self.batches.most(self.n) / self.batches.expected(self.n)

    def _query(self, theta: NDArray[np.float64]) -> FineGradientSum:
        most = self.batches.most(self.n)
        return FineGradientSum(self.rows, self.loss, theta, self.clip, self.precision.slope_bits, most)

    def _projection(self, unit: Fraction) -> _IntegerBox | _IntegerBall:
        """The nearest point of the set, in whole multiples of ``unit``."""
        d = self.rows.dimension
        if isinstance(self.domain, Box):
            low, high = (np.broadcast_to(end, d).tolist() for end in (self.domain.low, self.domain.high))
            return _IntegerBox(
                [math.ceil(Fraction(end) / unit) for end in low], [math.floor(Fraction(end) / unit) for end in high]
            )
        radius = self.domain.radius if isinstance(self.domain, L2Ball) else self.precision.radius
        return _IntegerBall(math.floor(Fraction(radius) / unit))


@dataclass(frozen=True)
class _IntegerBox:
    """Clips every coordinate: exactly the projection on the box of these corners."""

    low: list[int]
    high: list[int]

    def __call__(self, theta: list[int]) -> list[int]:
        return [min(max(t, a), b) for t, a, b in zip(theta, self.low, self.high, strict=True)]


@dataclass(frozen=True)
class _IntegerBall:
    """Scales a longer vector back, each coordinate rounded toward 0: within 2√d of the projection, and in the ball."""

    radius: int

    def __call__(self, theta: list[int]) -> list[int]:
        square = sum(t * t for t in theta)
        if square <= self.radius * self.radius:
            return theta
        length = math.isqrt(square) + 1
        return [t * self.radius // length if t >= 0 else -(-t * self.radius // length) for t in theta]


def _rounded(top: int, bottom: int) -> int:
    """The whole number nearest to top/bottom."""
    return (2 * top + bottom) // (2 * bottom)


def _as_floats(theta: list[int], unit: Fraction) -> NDArray[np.float64]:
    """Each coordinate as the nearest double."""
    top, bottom = unit.numerator, unit.denominator
    return np.array([t * top / bottom for t in theta], dtype=np.float64)


def require_hypotheses(
    rows: RowSpec, loss: Loss, n: float, step: float, ridge: float, domain: Geometry, crowding: float = 1.0
) -> None:
    """Refuse a run that the theorem does not cover; ``crowding`` is the largest over the expected size of a batch.

    Raises:
        HypothesisViolated: which hypothesis fails.
    """
    needs = "last-iterate accounting needs"
    if type(loss) not in _CONVEX or not math.isfinite(loss.smoothness(Domain())):
        raise HypothesisViolated(f"{needs} a convex loss of bounded curvature, not {type(loss).__name__}.")
    if rows.outputs != 1 or not rows.bounded:
        raise HypothesisViolated(f"{needs} one output and rows of bounded length.")
    if type(domain) not in (WholeSpace, L2Ball, Box):
        raise HypothesisViolated(
            f"{needs} a projection in whole numbers: all θ, a ball or a box, not {type(domain).__name__}."
        )
    if not float(n).is_integer():
        raise HypothesisViolated(f"{needs} a public number of rows, got {n!r}.")
    contraction(rows, loss, step, ridge, crowding)


def contraction(rows: RowSpec, loss: Loss, step: float, ridge: float, crowding: float = 1.0) -> float:
    """c of a step: clipping a slope leaves it monotone and no steeper, so rows have the loss's smoothness at most.

    The sum over a batch is divided by its expected size, and the batch may have ``crowding`` times as many rows.
    """
    smoothness = loss.smoothness(Domain()) * rows.radius**2 * crowding * ROUNDED_UP + ridge
    return min(1.0, contraction_of(step, smoothness, ridge) * ROUNDED_UP)


def displacement(rows: RowSpec, loss: Loss, n: float, clip: float, precision: Precision) -> float:
    """A bound on how far all roundings of a step of at most n rows move an iterate, in units of step·clip/divisor.

    Of n rows, each by half a slope step (times a row of at most 2^ROW_BITS steps) and by what doubles lose; of the
    ridge's term and the noise half a grid step a coordinate, of the projection two.
    """
    grid = 2.0 ** -(ROW_BITS + precision.slope_bits)
    bend = loss.smoothness(Domain()) * rows.radius * (rows.radius * precision.radius + 2.0) / clip
    floats = FLOAT_ERROR * (1.0 + bend) + math.sqrt(rows.dimension) * 2.0**-60 * bend
    by_rows = n * (2.0 ** -(precision.slope_bits + 1) + floats)
    return (by_rows + 4 * math.sqrt(rows.dimension) * grid) * ROUNDED_UP


def usual_precision(
    rows: RowSpec, loss: Loss, n: float, clip: float, radius: float, most_noise: float, diameter: float
) -> Precision:
    """As many bits as sums of n rows and noise of up to ``most_noise``·clip can hold, and what they displace."""
    by_rows = 61 - ROW_BITS - math.ceil(math.log2(max(n, 2.0)))
    by_noise = 55 - ROW_BITS - math.ceil(math.log2(max(most_noise, 1.0)))
    slope_bits = max(1, min(MOST_SLOPE_BITS, by_rows, by_noise))
    found = Precision(slope_bits, radius, 0.0, diameter)
    return replace(found, rounding=displacement(rows, loss, n, clip, found))
