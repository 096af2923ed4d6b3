"""Losses, one file each, pointwise in the score z = ⟨x, θ⟩.

The gradient of a generalised linear model at one row is slope(z, y)·x, so everything that privacy needs to know about a
loss is scalar: how large the slope can be (Lipschitz), how fast it can change (smoothness), and whether its sign
depends on the label alone. The maths of each is in ``docs/maths/losses.md``.
"""

from discreet.losses.base import Array, Domain, Loss
from discreet.losses.capped_poisson import CappedPoisson
from discreet.losses.hinge import SmoothedHinge
from discreet.losses.huber import Huber
from discreet.losses.logistic import Logistic
from discreet.losses.poisson import Poisson
from discreet.losses.quantile import Quantile
from discreet.losses.softmax import Softmax
from discreet.losses.squared import Squared

__all__ = [
    "Array",
    "CappedPoisson",
    "Domain",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Quantile",
    "SmoothedHinge",
    "Softmax",
    "Squared",
]
