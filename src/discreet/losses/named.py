"""Losses by their names: ``"welsch"``, or with its parameter ``"welsch:0.5"``."""

from __future__ import annotations

from collections.abc import Callable

from discreet.errors import InvalidInput, did_you_mean
from discreet.losses.base import Loss
from discreet.losses.hinge import SmoothedHinge
from discreet.losses.huber import Huber
from discreet.losses.logistic import Logistic
from discreet.losses.quantile import Quantile
from discreet.losses.sigmoid import Sigmoid
from discreet.losses.squared import Squared
from discreet.losses.tukey import Tukey
from discreet.losses.welsch import Welsch
from discreet.text import read_number

__all__ = ["HUBER_WIDTH", "LABEL_LOSSES", "NUMBER_LOSSES", "SMOOTHING", "named_loss"]

HUBER_WIDTH = 0.25
"""The width of the Huber loss in half-ranges of the target where the spread of the residuals is not estimated."""
SMOOTHING = 0.05
"""The smoothing of the pinball loss in half-ranges of the target, in the same place."""

LABEL_LOSSES: dict[str, Callable[[float | None], Loss]] = {
    "logistic": lambda _: Logistic(),
    "hinge": lambda width: SmoothedHinge(1.0 if width is None else width),
    "sigmoid": lambda steepness: Sigmoid(1.0 if steepness is None else steepness),
}
"""Losses of two classes. The parameter: of the hinge its width, of the sigmoid its steepness."""

# Widths at which a robust loss is 95 % as efficient as least squares under normal noise of deviation 1 are 1.345
# (Huber), 2.985 (Welsch) and 4.685 (Tukey): the others are wide in proportion to Huber's.
NUMBER_LOSSES: dict[str, Callable[[float | None], Loss]] = {
    "squared": lambda _: Squared(),
    "huber": lambda width: Huber(HUBER_WIDTH if width is None else width),
    "quantile": lambda level: Quantile(0.5 if level is None else level, SMOOTHING),
    "welsch": lambda width: Welsch(HUBER_WIDTH * 2.985 / 1.345 if width is None else width),
    "tukey": lambda width: Tukey(HUBER_WIDTH * 4.685 / 1.345 if width is None else width),
}
"""Losses of numbers, whose targets are coded to [−1, 1]. The parameter: a width, of the pinball loss its level."""


def named_loss(words: str, *, labels: bool) -> Loss:
    """The loss of this name, with the parameter after a colon if there is one.

    Args:
        words: such as ``"tukey"`` or ``"tukey:0.8"``.
        labels: whether targets are the labels ±1, and not numbers.

    Raises:
        InvalidInput: there is no such loss for these targets, or its parameter is none.

    Example:
        >>> named_loss("welsch:0.5", labels=False), named_loss("sigmoid", labels=True)
        (Welsch(width=0.5), Sigmoid(steepness=1.0))
    """
    known = LABEL_LOSSES if labels else NUMBER_LOSSES
    name, colon, number = words.partition(":")
    if name not in known:
        targets = "two classes" if labels else "numbers"
        raise InvalidInput(
            f"there is no loss {name!r} for {targets}; there are {', '.join(known)}, and losses of your own by the "
            f"protocol discreet.losses.Loss.{did_you_mean(name, known)}"
        )
    if colon and name in ("squared", "logistic"):
        raise InvalidInput(f"the loss {name!r} has no parameter, got {words!r}.")
    return known[name](read_number(number, words) if colon else None)
