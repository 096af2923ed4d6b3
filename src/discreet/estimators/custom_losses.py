"""Which loss an estimator fits: its own, another of the library's by name, or one that the user wrote."""

from __future__ import annotations

import math
from typing import Any

from sklearn.base import is_classifier

from discreet.errors import InvalidInput
from discreet.losses import Loss, Poisson, Softmax, Tabulated, tabulated
from discreet.losses.named import named_loss

__all__ = ["CUSTOM", "chosen_loss"]

CUSTOM = "custom"
"""What a saved model says of a loss that was an object: it predicts, and does not fit anew."""


def chosen_loss(model: Any, usual: Loss) -> Loss:
    """The loss that ``model.loss`` names or is, for the targets that the model codes.

    Args:
        model: an estimator whose targets have been declared.
        usual: the loss that it has of its own.

    Raises:
        InvalidInput: no loss, one for other targets, or one whose declarations are false. Nothing was released.
    """
    labels = is_classifier(model)
    name = type(model).__name__
    if isinstance(usual, Softmax):
        raise InvalidInput(f"loss={model.loss!r} is for two classes, and there are {usual.classes}; leave it out.")
    if isinstance(usual, Poisson):
        raise InvalidInput(f"{name} has the loss of counts with a log link: leave loss out, or use LinearRegression.")
    if model.loss == CUSTOM:
        raise InvalidInput("this model was fitted with a loss of its user's own: give it again as loss=….")
    if isinstance(model.loss, str):
        return named_loss(model.loss, labels=labels)
    if isinstance(model.loss, type):
        raise InvalidInput(
            f"loss must be an object, and {model.loss.__name__} is a class: give {model.loss.__name__}()."
        )
    found = tabulated(model.loss, labels=labels)
    _check_targets(found, labels)
    if isinstance(found, Tabulated) and not labels and not math.isfinite(model._coding.high):
        raise InvalidInput("a loss of your own needs target_bounds, over which it is tabulated. Nothing was released.")
    return found


def _check_targets(loss: Loss, labels: bool) -> None:
    """Refuse one of the library's losses that is for other targets."""
    if isinstance(loss, Tabulated):
        return
    if isinstance(loss, Softmax | Poisson):
        raise InvalidInput(f"{type(loss).__name__} has an estimator of its own; it cannot be given as loss.")
    if labels != loss.slope_sign_fixed:  # of the library's, those of labels have slopes of one sign for each
        targets = "numbers" if labels else "two classes"
        raise InvalidInput(f"{type(loss).__name__} is a loss for {targets}; this estimator has other targets.")
