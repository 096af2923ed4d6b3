"""Losses of one's own: any object with the `Loss` protocol, read on public numbers alone.

Code that is not the library's must not see rows: it could keep them, raise errors that depend on them, or let the slope
of one row depend on another, against which no bound on a row's gradient helps. So the slope is tabulated on a public
grid of scores and targets before anything is charged, and what a fit uses is the table. Every constant is then a fact
about the table, and what the object declares is compared with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.losses.base import Array, Domain, Loss
from discreet.losses.capped_poisson import CappedPoisson
from discreet.losses.hinge import SmoothedHinge
from discreet.losses.huber import Huber
from discreet.losses.logistic import Logistic
from discreet.losses.poisson import Poisson
from discreet.losses.quantile import Quantile
from discreet.losses.sigmoid import Sigmoid
from discreet.losses.softmax import Softmax
from discreet.losses.squared import Squared
from discreet.losses.tabulated import LARGEST_SCORE, SPACING, Tabulated
from discreet.losses.tukey import Tukey
from discreet.losses.welsch import Welsch

__all__ = ["OWN", "tabulated"]

OWN: frozenset[type] = frozenset(
    {
        Squared,
        Logistic,
        Huber,
        SmoothedHinge,
        Poisson,
        CappedPoisson,
        Quantile,
        Softmax,
        Welsch,
        Tukey,
        Sigmoid,
        Tabulated,
    }
)
"""The losses whose arithmetic is the library's: no other code is ever given a row's score."""
_SLACK = 1e-9  # rounding of the object's own arithmetic, relative to what it declares
_NEEDED = ("value", "slope", "lipschitz", "smoothness")


def tabulated(loss: Any, *, labels: bool) -> Loss:
    """A loss as a fit may use it: the library's own as it is, any other by its table.

    Checked by search over the table, before anything is charged: slopes and values are finite and the same when asked
    twice; the slope is the derivative of the value; no slope exceeds the declared Lipschitz constant, no change of it
    the declared smoothness; slopes increase where ``convex`` is declared, and have one sign a label where
    ``slope_sign_fixed`` is. Slopes finer than 1/128 in the score are smoothed over that width.

    Args:
        loss: an object with the methods ``value(z, y)``, ``slope(z, y)``, ``lipschitz(domain)``, ``smoothness(domain)``
            and, where they are not true, the attributes ``convex``, ``smooth`` and ``slope_sign_fixed`` (false unless
            declared), as in `discreet.losses.Loss`.
        labels: whether targets are −1 and +1; else they are numbers in [−1, 1].

    Raises:
        InvalidInput: something of the protocol is missing, or a declaration is false. Nothing was released.

    Example:
        >>> class Cauchy:
        ...     convex = False
        ...     def value(self, z, y):
        ...         return 0.5 * np.log1p((z - y) ** 2)
        ...     def slope(self, z, y):
        ...         return (z - y) / (1 + (z - y) ** 2)
        ...     def lipschitz(self, domain):
        ...         return 0.5
        ...     def smoothness(self, domain):
        ...         return 1.0
        >>> loss = tabulated(Cauchy(), labels=False)
        >>> round(float(loss.slope(1.0, 0.0)), 6), round(loss.smoothness(Domain()), 3)
        (0.5, 1.0)
    """
    if type(loss) in OWN:
        return loss
    name = type(loss).__name__
    missing = [method for method in _NEEDED if not callable(getattr(loss, method, None))]
    if missing:
        raise InvalidInput(f"{name} is no loss: it has no method {missing[0]}(…), see discreet.losses.Loss.")
    scores = np.arange(-LARGEST_SCORE, LARGEST_SCORE + SPACING / 2, SPACING)
    targets = np.array([-1.0, 1.0]) if labels else np.arange(-1.0, 1.0 + SPACING / 2, SPACING)
    slopes, values = (_asked(loss, method, scores, targets) for method in ("slope", "value"))
    smoothness = _declared(loss, "smoothness", labels)
    convex, fixed = bool(getattr(loss, "convex", True)), labels and bool(getattr(loss, "slope_sign_fixed", False))
    _check_slopes(name, slopes, _declared(loss, "lipschitz", labels), smoothness, convex)
    _check_values(name, slopes, values, smoothness)
    if fixed and ((slopes * targets[:, None]) > _SLACK * np.abs(slopes).max()).any():
        raise InvalidInput(f"{name} declares slopes of one sign for each label, and has others. Nothing was released.")
    smooth = bool(getattr(loss, "smooth", True)) and math.isfinite(smoothness)
    start = values[:, len(scores) // 2]
    return Tabulated(name, targets, slopes, start, convex, smooth, fixed)


def _asked(loss: Any, method: str, scores: Array, targets: Array) -> Array:
    """The table of a method, asked for twice."""
    name = type(loss).__name__

    def ask() -> Array:
        try:
            with np.errstate(all="ignore"):
                answer = np.asarray(getattr(loss, method)(scores[None, :], targets[:, None]), dtype=np.float64)
            return np.array(np.broadcast_to(answer, (len(targets), len(scores))))
        except Exception as problem:  # code of others: whatever it raises, its numbers were public
            raise InvalidInput(f"{name}.{method} fails on arrays of scores and targets: {problem!r}.") from problem

    first = ask()
    if not np.isfinite(first).all():
        raise InvalidInput(f"{name}.{method} is not finite at scores within ±{LARGEST_SCORE:g}. Nothing was released.")
    if not np.array_equal(first, ask()):
        raise InvalidInput(f"{name}.{method} answers differently when asked again. Nothing was released.")
    return first


def _declared(loss: Any, method: str, labels: bool) -> float:
    """A declared constant over the scores of the table."""
    name = type(loss).__name__
    try:
        constant = float(getattr(loss, method)(Domain(LARGEST_SCORE, -1.0, 1.0)))
    except Exception as problem:
        raise InvalidInput(f"{name}.{method} must give a number for a domain: {problem!r}.") from problem
    if not constant >= 0:
        raise InvalidInput(f"{name}.{method} must be at least 0, got {constant!r}.")
    return constant


def _check_slopes(name: str, slopes: Array, lipschitz: float, smoothness: float, convex: bool) -> None:
    """Refuse constants that the table contradicts."""
    steepest = float(np.abs(slopes).max())
    if steepest > lipschitz * (1 + _SLACK):
        raise InvalidInput(
            f"{name} declares slopes of at most {lipschitz:.6g}, and has one of {steepest:.6g}. Nothing was released."
        )
    changes = np.diff(slopes, axis=1)
    rounding = _SLACK * max(steepest, 1e-300)
    sharpest = float(np.abs(changes).max())
    if sharpest > smoothness * SPACING * (1 + _SLACK) + rounding:
        raise InvalidInput(
            f"{name} declares a smoothness of {smoothness:.6g}, and its slope changes at a rate of "
            f"{sharpest / SPACING:.6g}. Nothing was released."
        )
    if convex and float(changes.min()) < -rounding:
        raise InvalidInput(f"{name} declares itself convex, and its slope falls somewhere. Nothing was released.")


def _check_values(name: str, slopes: Array, values: Array, smoothness: float) -> None:
    """Refuse a slope that is not the derivative of the value.

    A slope that changes at a rate of at most β differs from its chord by at most β·spacing/4, so that the area under
    it differs from the trapezoid by at most β·spacing²/4; and by at most spacing × (largest − least slope) in any case.
    """
    areas = (slopes[:, 1:] + slopes[:, :-1]) * (SPACING / 2)
    allowed = SPACING * min(float(slopes.max() - slopes.min()), smoothness * SPACING / 4)
    allowed += _SLACK * (1 + float(np.abs(values).max()) + float(np.abs(slopes).max()))
    if float(np.abs(np.diff(values, axis=1) - areas).max()) > allowed:
        raise InvalidInput(f"{name}.slope is not the derivative of {name}.value. Nothing was released.")
