"""What a guarantee means for one person, as an attacker's best chances; all from the certified trade-off curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from discreet.accounting.curve import Curve, curve
from discreet.accounting.tradeoff import Tradeoff
from discreet.errors import NotCertifiable
from discreet.events import Event
from discreet.units import Unit

__all__ = ["FALSE_ALARMS", "Risks"]

FALSE_ALARMS = (0.001, 0.01, 0.1)
"""The shares of wrong accusations at which an attacker's hits are stated."""


@dataclass(frozen=True)
class Risks:
    """How well anyone can tell whether one person took part, whatever they know and however they compute.

    ``event`` was released about people of whom one ``unit`` is in question. Every figure is a proved upper bound.
    """

    event: Event
    unit: Unit

    @cached_property
    def _curve(self) -> Curve:
        return curve(self.event, self.unit).tabulated()

    @cached_property
    def _tradeoff(self) -> Tradeoff:
        return Tradeoff(self._curve)

    def hits(self, false_alarms: float) -> float:
        """The most that a test can detect, which accuses wrongly with probability ``false_alarms``."""
        try:
            return min(1.0, self._tradeoff.true_positive_rate(false_alarms).upper)
        except NotCertifiable:
            return 1.0

    @cached_property
    def advantage(self) -> float:
        """The most by which hits can exceed false alarms: δ at ε = 0, the total variation distance."""
        try:
            return min(1.0, self._curve.delta(0.0).upper)
        except NotCertifiable:
            return 1.0

    def reconstruction(self, guess: float) -> float:
        """The most that the chance of guessing a secret right can rise to, from ``guess`` without the release.

        A guess that is right with probability κ before is a test with κ false alarms (Hayes–Mahloujifar–Balle 2023,
        theorem 2; Kaissis et al. 2023).
        """
        return self.hits(guess)

    @property
    def in_words(self) -> str:
        """One sentence for a board."""
        one, ten = self.hits(0.01), self.reconstruction(0.1)
        if one >= 1:
            return "This release protects nobody: whether a person took part may be told with certainty."
        return (
            f"Someone who may be wrong about 1 in 100 innocent people finds at most {_percent(one)} of those who took "
            f"part, and a secret that anyone would guess with a chance of 10 % is guessed with at most {_percent(ten)}."
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values."""
        return {
            "hits_at_false_alarms": {f"{rate:g}": self.hits(rate) for rate in FALSE_ALARMS},
            "membership_advantage": self.advantage,
            "reconstruction_from_10_percent": self.reconstruction(0.1),
            "in_words": self.in_words,
        }


def _percent(value: float) -> str:
    return f"{math.ceil(value * 1000 - 1e-9) / 10:g} %"
