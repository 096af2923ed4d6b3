"""Events of one mechanism each: noisy sums, perturbed minimisers, randomised response, private choices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from discreet.errors import InvalidInput
from discreet.events.base import Event, count, number, positive
from discreet.units import Unit

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Gaussian",
    "Laplace",
    "NonPrivate",
    "ObjectivePerturbation",
    "RandomizedResponse",
    "Selection",
]


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without protection: ε = ∞. The event of every non-private baseline."""


@dataclass(frozen=True)
class Gaussian(Event):
    """A sum of rows of ℓ2 norm ≤ C released with Gaussian noise of standard deviation ``noise_multiplier``·C.

    Args:
        noise_multiplier: noise over C.
        replace_one_factor: the contributions of any two rows are at most this many times C from each other: 2, or less
            where more is known of them than their length. Never below 1: a row may contribute nothing, as one missing
            from a batch does. In JSON its key is "apart".

    Example:
        >>> Gaussian(4.0).mu(Unit("replace-one")), Gaussian(4.0, replace_one_factor=1.0).mu(Unit("replace-one"))
        (0.5, 0.25)
    """

    noise_multiplier: float
    replace_one_factor: float = 2.0
    _stored_names: ClassVar[dict[str, str]] = {"replace_one_factor": "apart"}

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")
        number(self, "replace_one_factor", lambda a: 1 <= a <= 2, "between 1 and 2")

    def __repr__(self) -> str:
        factor = "" if self.replace_one_factor == 2 else f", replace_one_factor={self.replace_one_factor!r}"
        return f"Gaussian(noise_multiplier={self.noise_multiplier!r}{factor})"

    def mu(self, unit: Unit) -> float:
        """The distance between the sums of neighbours, in standard deviations of the noise."""
        return unit.sensitivity(1.0, self.replace_one_factor) / self.noise_multiplier


@dataclass(frozen=True)
class Laplace(Event):
    """A scalar sum of rows in [−C, C] released with Laplace noise of scale ``noise_multiplier``·C."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """A scalar sum of integer rows in [−bound, bound] plus discrete Gaussian noise, P(k) ∝ exp(−k²/2σ²).

    σ = ``noise_multiplier``·``bound`` in grid steps (Canonne–Kamath–Steinke 2020).
    """

    noise_multiplier: float
    bound: int = 1

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")
        count(self, "bound", 1)


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """A scalar sum of integer rows in [−bound, bound] plus discrete Laplace noise, P(k) ∝ exp(−|k|/b).

    b = ``noise_multiplier``·``bound`` in grid steps.
    """

    noise_multiplier: float
    bound: int = 1

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")
        count(self, "bound", 1)


@dataclass(frozen=True)
class ObjectivePerturbation(Event):
    """The minimiser of Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩, with b Gaussian of standard deviation ``noise_multiplier``·C.

    C bounds one row's gradient. Its accounting is in `discreet.accounting.exact.objective_perturbation`.

    Args:
        noise_multiplier: standard deviation of b over C.
        log_det: c, the most by which one more row raises log det ∇²J: log(1 + β/λ) for curvature·‖x‖² ≤ β.
        directions: a row's gradient lies in the hull of 0 and this many vectors, fixed by the row, of norm ≤ C: 1 when
            the label fixes the slope's sign, 2 for slopes of any sign (a vector and its negative), K − 1 for a softmax
            over K classes (whose vectors are (e_j − e_y)⊗x).
        link: R²/λ where the curvature vanishes at the hull's vertices: for the logistic loss, |slope|(1 − |slope|), and
            with ``directions`` above 1 for a softmax, diag(p) − ppᵀ; 0 where no such relation is known.
        deviation: the released point is N(θ̃, s²I) with ‖θ̃ − θ‖ ≤ s·deviation/2 for the exact minimiser θ.
    """

    noise_multiplier: float
    log_det: float
    directions: int = 1
    link: float = 0.0
    deviation: float = 0.0

    def __post_init__(self) -> None:
        number(self, "noise_multiplier", positive, "positive and finite")
        number(self, "log_det", lambda c: 0 <= c < math.inf, "non-negative and finite")
        count(self, "directions", 1)
        number(self, "link", lambda u: 0 <= u < math.inf, "non-negative and finite")
        number(self, "deviation", lambda e: 0 <= e < math.inf, "non-negative and finite")


@dataclass(frozen=True)
class RandomizedResponse(Event):
    """One row's category, told truthfully with probability e^ε/(e^ε + k − 1), else another uniformly at random.

    A guarantee under replace-one only. An absent row sends no answer, so that under add-remove its absence is seen:
    there the event is refused. Where absent rows answer at random, state the release as ``PureDP(epsilon)``.
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        count(self, "categories", 2)


@dataclass(frozen=True)
class Selection(Event):
    """A private choice among candidates.

    ``exponential``: the exponential mechanism / Gumbel noisy max, ε-bounded-range (Dong–Durfee–Rogers 2020), so
    ε-DP and ε²/8-zCDP. ``permute-and-flip``: ε-DP, dominated by the Laplace mechanism at ε (McKenna–Sheldon 2020).
    ``noisy-max``: the largest score plus Laplace noise of scale 2Δ/ε, dominated by the Laplace mechanism at ε as well
    (``docs/maths/sparse_regression.md``).
    """

    epsilon: float
    mechanism: Literal["exponential", "permute-and-flip", "noisy-max"] = "exponential"

    def __post_init__(self) -> None:
        number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        if self.mechanism not in ("exponential", "permute-and-flip", "noisy-max"):
            raise InvalidInput(
                f"Selection.mechanism must be 'exponential', 'permute-and-flip' or 'noisy-max', got {self.mechanism!r}."
            )
