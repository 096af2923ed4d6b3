"""Our risks beside those of riskcal (Kulynych and Gomez et al. 2024), which reads them from a discretised privacy loss.

riskcal's figures come from dp_accounting's pessimistic distributions with losses rounded up to multiples of 1e-4; ours
are proved from the trade-off curve. Both are upper bounds of the same number: an attacker's best chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from discreet.events import Event, Gaussian, Laplace, Poisson, Repeat
from discreet.report.risks import FALSE_ALARMS, Risks
from discreet.units import Unit

riskcal = pytest.importorskip("riskcal.analysis")

FINE = {"value_discretization_interval": 1e-4}
CASES: list[tuple[Event, Callable[[], Any]]] = [
    (Repeat(Gaussian(10.0), 50), lambda: pld.from_gaussian_mechanism(10.0, **FINE).self_compose(50)),
    (Gaussian(0.8), lambda: pld.from_gaussian_mechanism(0.8, **FINE)),
    (Laplace(2.0), lambda: pld.from_laplace_mechanism(2.0, **FINE)),
    (
        Repeat(Poisson(0.02, Gaussian(1.2)), 300),
        lambda: pld.from_gaussian_mechanism(1.2, sampling_prob=0.02, **FINE).self_compose(300),
    ),
]


@pytest.mark.parametrize(("event", "peer"), CASES)
def test_hits_advantage_and_reconstruction_agree(event: Event, peer: Callable[[], Any]) -> None:
    losses, ours = peer(), Risks(event, Unit("add-remove"))
    for rate in FALSE_ALARMS:
        theirs = 1 - float(riskcal.get_beta_from_pld(losses, alpha=rate))
        assert ours.hits(rate) == pytest.approx(theirs, rel=0.01)
    assert ours.advantage == pytest.approx(float(riskcal.get_advantage_from_pld(losses)), rel=1e-3)
    guess = 1 - float(riskcal.get_beta_from_pld(losses, alpha=0.1))  # a guess that is right by itself in 10 %
    assert ours.reconstruction(0.1) == pytest.approx(guess, rel=0.01)


def test_a_gaussian_release_is_no_less_than_the_truth_and_riskcal_agrees() -> None:
    ours = Risks(Gaussian(1.25), Unit("add-remove"))
    for rate in FALSE_ALARMS:
        exact = 1 - float(riskcal.get_beta_from_gdp(0.8, alpha=rate))
        assert exact * (1 - 1e-12) <= ours.hits(rate) <= exact * 1.01
    assert ours.advantage == pytest.approx(float(riskcal.get_advantage_from_gdp(0.8)), rel=1e-9)
