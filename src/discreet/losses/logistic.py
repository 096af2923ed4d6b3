"""Logistic loss: ℓ = log(1 + exp(−yz)), labels ±1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float, check_label_domain

__all__ = ["Logistic", "sigmoid"]


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic regression with labels y ∈ {−1, +1}, ℓ(z, y) = log(1 + exp(−yz)).

    Example:
        >>> float(Logistic().slope(0.0, 1.0))
        -0.5
        >>> Logistic().lipschitz(Domain()), Logistic().smoothness(Domain())
        (1.0, 0.25)
    """

    kind: ClassVar[int] = 1
    slope_sign_fixed: ClassVar[bool] = True

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """log(1 + exp(−yz))."""
        return np.logaddexp(0.0, -as_float(y) * as_float(z))

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """−y σ(−yz): the label's sign times the probability of the other label."""
        label = as_float(y)
        return -label * sigmoid(-label * as_float(z))

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """y² σ(yz) σ(−yz)."""
        label = as_float(y)
        margin = label * as_float(z)
        return label * label * sigmoid(margin) * sigmoid(-margin)

    def lipschitz(self, domain: Domain) -> float:
        """σ(B): the slope is largest for the score that is most wrong."""
        check_label_domain("Logistic", domain)
        return 1.0 / (1.0 + math.exp(-domain.score_bound))

    def smoothness(self, domain: Domain) -> float:
        """1/4, attained at z = 0."""
        check_label_domain("Logistic", domain)
        return 0.25

    def mean(self, z: ArrayLike) -> Array:
        """P(y = +1) = σ(z)."""
        return sigmoid(as_float(z))


def sigmoid(z: Array) -> Array:
    """1/(1 + exp(−z)), accurate in both tails: exp overflows to inf exactly where the quotient underflows to 0."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-z))
