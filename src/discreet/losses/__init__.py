"""Losses, one file each, pointwise in the score z = ⟨x, θ⟩.

Convex: `Squared`, `Logistic`, `Huber`, `SmoothedHinge`, `Quantile`, `Poisson`, `Softmax`. Robust and not convex:
`Welsch`, `Tukey`, `Sigmoid`. Losses of one's own enter by `tabulated`.

The gradient of a generalised linear model at one row is slope(z, y)·x, so everything that privacy needs to know about a
loss is scalar: how large the slope can be (Lipschitz), how fast it can change (smoothness), and whether its sign
depends on the label alone. The maths of each is in ``docs/maths/losses.md``.
"""

from discreet.losses.base import Array, Domain, Loss
from discreet.losses.capped_poisson import CappedPoisson
from discreet.losses.custom import OWN, tabulated
from discreet.losses.hinge import SmoothedHinge
from discreet.losses.huber import Huber
from discreet.losses.logistic import Logistic
from discreet.losses.poisson import Poisson
from discreet.losses.quantile import Quantile
from discreet.losses.sigmoid import Sigmoid
from discreet.losses.softmax import Softmax
from discreet.losses.squared import Squared
from discreet.losses.tabulated import Tabulated
from discreet.losses.tukey import Tukey
from discreet.losses.welsch import Welsch

__all__ = [
    "OWN",
    "Array",
    "CappedPoisson",
    "Domain",
    "Huber",
    "Logistic",
    "Loss",
    "Poisson",
    "Quantile",
    "Sigmoid",
    "SmoothedHinge",
    "Softmax",
    "Squared",
    "Tabulated",
    "Tukey",
    "Welsch",
    "tabulated",
]
