"""What every loss can do, and the domain over which its constants are claimed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput

__all__ = ["Array", "Domain", "Loss", "as_float", "check_label_domain", "check_positive"]

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Domain:
    """Where a loss is evaluated: scores |z| ≤ ``score_bound`` and targets in [``target_low``, ``target_high``].

    For a linear model with rows ‖x‖ ≤ r and parameters ‖θ‖ ≤ R the score bound is rR. It is public knowledge (a
    declaration that the caller enforces by clipping), never a maximum read off the data.

    Raises:
        InvalidInput: the score bound is negative or NaN, or the targets are not an interval of finite numbers.

    Example:
        >>> Domain(score_bound=2.0, target_low=0.0, target_high=1.0).largest_target
        1.0
    """

    score_bound: float = math.inf
    target_low: float = -1.0
    target_high: float = 1.0

    def __post_init__(self) -> None:
        if not self.score_bound >= 0:
            raise InvalidInput(f"score_bound must be at least 0, got {self.score_bound}.")
        if not (math.isfinite(self.target_low) and math.isfinite(self.target_high)):
            raise InvalidInput(
                f"target bounds must be finite, got [{self.target_low}, {self.target_high}]: "
                "declare an interval and clip targets to it."
            )
        if self.target_low > self.target_high:
            raise InvalidInput(f"target_low {self.target_low} exceeds target_high {self.target_high}.")

    @property
    def largest_target(self) -> float:
        """The largest |y|."""
        return max(abs(self.target_low), abs(self.target_high))

    @property
    def largest_residual(self) -> float:
        """The largest |z − y|."""
        return self.score_bound + self.largest_target


class Loss(ABC):
    """A loss ℓ(z, y) of the score z.

    Scores and targets are arrays that broadcast against each other; finite input never gives NaN nor a warning (a value
    beyond the largest float is ±inf). ``kind``, ``parameter`` and ``smoothing`` describe the same loss to the compiled
    kernels (`discreet.losses._kernels.slope_of`).

    Attributes:
        kind: the integer that names the loss inside compiled kernels.
        convex: whether ℓ is convex in z, on which the privacy of perturbed minimisers and last iterates rests.
        slope_sign_fixed: whether the sign of the slope depends on y alone. Objective perturbation's privacy loss is
            then that of one Gaussian release cut at zero.
    """

    kind: ClassVar[int]
    convex: ClassVar[bool] = True
    slope_sign_fixed: ClassVar[bool] = False

    @property
    def smooth(self) -> bool:
        """Whether the slope is Lipschitz in z on every bounded domain."""
        return True

    @property
    def parameter(self) -> float:
        """The first parameter of the compiled kernel (0 when there is none)."""
        return 0.0

    @property
    def smoothing(self) -> float:
        """The second parameter of the compiled kernel (0 when there is none)."""
        return 0.0

    @property
    def slope_rounding(self) -> float:
        """A bound on the rounding error of the compiled slope at an exact score, in units of 2^-53."""
        return 16.0

    @abstractmethod
    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """ℓ(z, y)."""

    @abstractmethod
    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """∂ℓ/∂z, or a subgradient where ℓ has a kink."""

    @abstractmethod
    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """∂²ℓ/∂z², or the smaller one-sided value where the slope has a kink."""

    @abstractmethod
    def lipschitz(self, domain: Domain) -> float:
        """The largest |slope| over the domain (inf where there is none)."""

    @abstractmethod
    def smoothness(self, domain: Domain) -> float:
        """The Lipschitz constant of the slope in z over the domain (inf where there is none)."""

    def mean(self, z: ArrayLike) -> Array:
        """The prediction at score z: the inverse link (the identity unless the loss says otherwise)."""
        return as_float(z)


def as_float(values: ArrayLike) -> Array:
    """The values as a floating array: float32 stays float32, everything else that is not floating becomes float64."""
    array = np.asarray(values)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_positive(name: str, value: float) -> None:
    """Refuse a parameter that is not a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be a positive finite number, got {value}.")


def check_label_domain(loss: str, domain: Domain) -> None:
    """Refuse a domain whose targets cannot be the labels −1 and +1."""
    if not {domain.target_low, domain.target_high} <= {-1.0, 1.0}:
        raise InvalidInput(
            f"{loss} takes labels −1 and +1, but the domain allows targets in "
            f"[{domain.target_low}, {domain.target_high}]: code the labels as ±1."
        )
