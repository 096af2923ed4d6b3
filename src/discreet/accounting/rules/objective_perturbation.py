"""The rule of objective perturbation, alone and beside Gaussian releases."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.accounting.exact.objective_perturbation import objective_profile
from discreet.accounting.rules.base import Pairs, Rule, from_profile, rule
from discreet.events import ObjectivePerturbation
from discreet.units import Unit

__all__: list[str] = []


@rule.register
def _(event: ObjectivePerturbation, unit: Unit) -> Rule:
    def beside(other: float) -> Pairs:
        mu = math.hypot(unit.sensitivity(1.0) / event.noise_multiplier, other)
        top = unit.rows_per_unit * event.log_det + mu * mu / 2 + 40 * (mu + event.deviation) + event.deviation**2
        return from_profile(objective_profile(event, unit, other), top)

    def dominated(other: float) -> Pairs | None:
        """None where a sum over several vertices would count the other releases several times."""
        one = bool(event.link) or (unit.sensitivity(1.0) == 1 and event.directions == 1)
        return beside(other) if one or other * event.noise_multiplier <= unit.sensitivity(1.0) else None

    return replace(beside(0.0), beside=dominated)
