"""Large losses that are counted apart, against the contour accountant, which knows nothing of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.accounting import curve
from discreet.accounting.exact.contour import Contour
from discreet.accounting.exact.guess import rough_epsilon
from discreet.accounting.exact.lattice import lower_law, upper_law
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import DiscretePair, GaussianPair
from discreet.accounting.exact.rare import RareLosses
from discreet.accounting.exact.window import Window
from discreet.errors import NotCertifiable
from discreet.events import Gaussian, Poisson, Repeat
from discreet.units import Unit


def cut_at(parts: list[tuple[Mixture, int]], reach: float) -> RareLosses:
    """The accountant with a reach that it would not choose."""
    accountant = RareLosses(parts)
    accountant.reach = reach
    return accountant


def composed(accountant: RareLosses, c: float = 2.0):
    """Its laws above and below of the sum."""
    window = Window(c, -12.0, 12.0, above=1.0, below=1.0, margin=8.0)
    return accountant._both(window, -60.0, 1 << 14)


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize("reach", [0.1, 0.4, 1.0, 2.5])
def test_both_bounds_hold_wherever_losses_are_cut_off(kind, reach) -> None:
    parts = [(Mixture(1.0, (0.2,), kind), 5)]
    above, below = composed(cut_at(parts, reach))
    assert above.large is not None
    assert below is not None
    assert below.large is not None or kind == "add"  # of which no loss is large
    for epsilon in (0.0, 0.02, 0.09, 0.3, 0.8, 2.0):
        if epsilon >= parts[0][0].top * 5:  # δ is 0 beyond the sum of the greatest losses
            assert below.delta(epsilon, upper=False) == 0
            continue
        truth = Contour(parts).delta(max(epsilon, 1e-9))
        assert above.delta(epsilon, upper=True) >= truth.lower * (1 - 1e-7)
        assert below.delta(epsilon, upper=False) <= truth.upper * (1 + 1e-7)


def test_a_large_loss_that_small_ones_make_up_for_is_charged() -> None:
    """Without what Q(A, S ≤ ε) leaves of a large loss the bound would be false here."""
    parts = [(Mixture(1.0, (0.3,), "replace"), 12)]
    above, _ = composed(cut_at(parts, 1.5))
    truth = Contour(parts).delta(1.2).lower
    assert above.large is not None
    assert above.delta(1.2, upper=True) >= truth
    careless = replace(above, large=replace(above.large, moments=((0.0, -1e9, 0.0),)))
    assert careless.delta(1.2, upper=True) < 0.9 * truth


def test_what_is_cut_off_counts_fully_beyond_its_reach() -> None:
    """At an ε that one large loss need not exceed, nothing is given back for it."""
    above, _ = composed(cut_at([(Mixture(1.0, (0.2,), "remove"), 5)], 0.5))
    assert above.large is not None
    assert above.large.returned(0.5, upper=True) == 0
    assert above.large.returned(0.1, upper=False) >= math.exp(0.1) * above.large.probability


def test_a_law_that_is_cut_off_keeps_all_mass() -> None:
    pair = Mixture(1.5, (1e-3,), "remove")
    for law, side in ((upper_law(pair, 1e-5, -60.0, 0.01), 1), (lower_law(pair, 1e-5, -60.0, 0.01), -1)):
        assert law.cut is not None
        assert law.cut.below < 1e-12
        assert law.losses[-1] < 0.011
        mass = law.infinite + float(law.probabilities.sum())
        other = law.cut.above + float((law.probabilities * np.exp(-law.losses)).sum())
        assert -1e-14 <= side * (mass - 1) < 1e-9
        assert abs(other - 1) < 1e-6
        assert law.cut.above > 1e-3


def rare_settings(count: int) -> list[tuple[float, float, int, float, str]]:
    rng = np.random.default_rng(3)
    return [
        (
            float(10 ** rng.uniform(-5.5, -3)),
            float(0.6 * 5 ** rng.random()),
            int(10 ** rng.uniform(1, 3.3)),
            float(10 ** rng.uniform(-10, -6)),
            str(rng.choice(["add-remove", "replace-one"])),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "relation"), rare_settings(10))
def test_rare_participation_agrees_with_the_contour(rate, sigma, steps, delta, relation) -> None:
    event = Repeat(Poisson(rate, Gaussian(sigma)), steps)
    parts = curve(event, relation)._histories()[0][0].parts
    truth = Contour(parts).epsilon(delta)  # type: ignore[arg-type]
    found = RareLosses(parts).epsilon(delta)
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    assert found.upper - found.lower <= 0.02 * found.upper
    assert 0.7 * truth.upper <= rough_epsilon(parts, delta) <= 1.05 * truth.upper


def test_several_rows_and_a_release_beside_them() -> None:
    event = Repeat(Poisson(2e-5, Gaussian(0.8)), 300)
    parts = [*curve(event, Unit("replace-one", 2))._histories()[0][0].parts, (GaussianPair(1e-3), 1)]
    truth, found = Contour(parts).epsilon(1e-9), RareLosses(parts).epsilon(1e-9)  # type: ignore[arg-type]
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    assert RareLosses(parts).within(found.upper * 1.02, 1e-9)
    assert not RareLosses(parts).within(found.lower * 0.98, 1e-9)


def test_atoms_are_left_to_others() -> None:
    atoms = DiscretePair(np.array([-0.5, 0.5]), np.array([0.4, 0.6]))
    with pytest.raises(NotCertifiable, match="guessed"):
        RareLosses([(atoms, 10)]).epsilon(1e-6)
    with pytest.raises(NotCertifiable, match="for a given δ"):
        RareLosses([(atoms, 10)]).delta(0.1)
