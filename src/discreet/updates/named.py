"""Update rules by name, as the command line and Python's ``update=`` take them: ``"adam"``, ``"adam:0.1"``."""

from __future__ import annotations

from discreet.errors import InvalidInput
from discreet.text import read_number
from discreet.updates.adafactor import Adafactor
from discreet.updates.adam import Adam, AdamW
from discreet.updates.base import Update
from discreet.updates.momentum import Momentum
from discreet.updates.sgd import Sgd
from discreet.updates.svrg import Svrg

__all__ = ["SVRG_PERIOD", "UPDATES", "named_update"]

UPDATES: dict[str, type[Update]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adam": Adam,
    "adamw": AdamW,
    "adafactor": Adafactor,
    "svrg": Svrg,
}
SVRG_PERIOD = 10
"""Steps that an anchor of SVRG serves where none is given: nine of ten steps take a batch."""


def named_update(words: str, usual_step: float, period: int = SVRG_PERIOD) -> Update:
    """The rule of a name, with the numbers that follow it, or else with ``usual_step``.

    Args:
        words: a name, and after colons the step and what the rule takes next: ``"adam:0.1"``, ``"svrg:0.1:10"``.
        usual_step: step size where none is given.
        period: of SVRG, where none is given.

    Raises:
        InvalidInput: an unknown name, or what the rule does not take.

    Example:
        >>> named_update("momentum:0.1", 1.0)
        Momentum(step=0.1, decay=0.9, nesterov=False)
        >>> named_update("svrg", 0.5)
        Svrg(step=0.5, period=10)
    """
    name, *rest = words.split(":")
    if name not in UPDATES:
        raise InvalidInput(
            f"update must be one of {', '.join(UPDATES)}, with or without a step (adam:0.1); got {words!r}."
        )
    numbers: list[float] = [read_number(word, words) for word in rest] or [usual_step]
    if name == "svrg":  # its second number counts steps
        numbers = [numbers[0], *(int(n) if n.is_integer() else n for n in numbers[1:] or [float(period)])]
    try:
        return UPDATES[name](*numbers)
    except TypeError:
        raise InvalidInput(f"update {name} does not take {len(numbers)} numbers; write for example adam:0.1.") from None
