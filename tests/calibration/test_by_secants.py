"""Noise found by a few looks at δ(ε) keeps the guarantee, and is nearly the least that does."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from discreet.accounting import delta
from discreet.calibration import Guarantee
from discreet.calibration.by_secants import NEARLY_ALL, calibrated_by_secants
from discreet.events import Compose, Event, Gaussian, Selection
from discreet.losses import Squared
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit


@dataclass(frozen=True)
class Asked:
    """A measurement with a given event."""

    made: Event

    def event(self, unit: Unit) -> Event:
        return self.made

    def sample(self, data: Any, unit: Unit, bits: Any) -> float:
        return 0.0

    def blank(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Mixed:
    """A Gaussian release and a selection, whose noise grows in proportion."""

    noise: float

    def steps(self, problem: Problem) -> Generator[Any, Any, Any]:
        yield Asked(Gaussian(self.noise))
        return (yield Asked(Selection(0.5 / self.noise)))


PROBLEM = Problem(RowSpec(1, 1.0), Squared(), 10.0)


@pytest.mark.parametrize("near", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("unit", [Unit("add-remove"), Unit("replace-one")])
def test_nearly_all_of_delta_is_used_and_no_more(near: float, unit: Unit) -> None:
    guarantee = Guarantee(1.0, 1e-5, unit)
    found = calibrated_by_secants(Mixed, PROBLEM, guarantee, near)
    event = Compose([Gaussian(found.noise), Selection(0.5 / found.noise)])
    used = delta(event, 1.0, unit).upper / 1e-5
    assert NEARLY_ALL - 1e-9 <= used <= 1


def test_without_privacy_there_is_no_noise() -> None:
    assert calibrated_by_secants(Mixed, PROBLEM, Guarantee(math.inf, 0.0, Unit("add-remove")), 1.0).noise == 0
