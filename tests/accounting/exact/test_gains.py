"""Laws of gains, by which rare participation is accounted, against exact sums, mpmath and the contour accountant."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from discreet.accounting import curve, epsilon
from discreet.accounting.exact import rare
from discreet.accounting.exact.contour import Contour
from discreet.accounting.exact.gains import GainLaw, first_above, first_below, product_above, product_below
from discreet.accounting.exact.guess import rough_epsilon
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import DiscretePair, GaussianPair
from discreet.accounting.exact.rare import RareLosses
from discreet.errors import NotCertifiable
from discreet.events import Gaussian, Poisson, Repeat
from discreet.units import Unit


def hockey_stick(law: GainLaw, at: float) -> float:
    """E(G − g)₊ of a law."""
    return float((law.masses * np.maximum(law.points - at, 0.0)).sum())


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize(("rate", "shift"), [((1e-9,), 0.3), ((2e-5,), 2.0), ((0.02, 3e-4), 1.0)])
def test_bins_of_a_step_against_mpmath(kind, rate, shift) -> None:
    """Masses of P and of P − Q, and the gains at the ends of bins, are within their stated errors."""
    pair, t = Mixture(shift, rate, kind), np.linspace(-6.0, 9.0, 13)
    cells = pair.gains(t)
    with mpmath.workdps(50):
        sides = {"remove": (1, 0), "add": (0, -1), "replace": (1, -1)}[kind]

        def mass(side: int, low: mpmath.mpf, high: mpmath.mpf) -> mpmath.mpf:
            weights = [1 - sum(mpmath.mpf(b) for b in rate), *(mpmath.mpf(b) for b in rate)]
            s = -1 if high > 0 else 1  # the nearer tail
            means = [side * j * mpmath.mpf(shift) for j in range(len(weights))]
            parts = zip(weights, means, strict=True)
            return s * sum(w * (mpmath.ncdf(s * (high - m)) - mpmath.ncdf(s * (low - m))) for w, m in parts)

        ends = [mpmath.mpf("-40"), *(mpmath.mpf(float(x)) for x in t), mpmath.mpf("40")]
        for i, (low, high) in enumerate(itertools.pairwise(ends)):
            p, q = (mass(side, low, high) for side in sides)
            assert abs(float(p - mpmath.mpf(float(cells.masses[i])))) <= cells.masses_error[i] + 1e-300
            assert abs(float(p - q - mpmath.mpf(float(cells.differences[i])))) <= cells.differences_error[i] + 1e-300
            assert cells.differences_error[i] <= 1e-11 * (float(abs(p - q)) + float(sum(rate)) * float(p) + 1e-16)
        for i, x in enumerate(ends[1:-1]):
            tiny = mpmath.mpf("1e-25")
            p, q = (mass(side, x - tiny, x + tiny) for side in sides)
            assert abs(float(1 - q / p - mpmath.mpf(float(cells.gains[i])))) <= cells.gains_error[i] + 1e-15 * sum(rate)


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
def test_laws_of_a_step_are_on_either_side_of_it(kind) -> None:
    """δ of one step, exactly: the law above is above and the one below is below, and both are near."""
    pair = Mixture(1.5, (1e-3,), kind)
    t = np.linspace(-8.0, 10.0, 400)
    above, below = first_above(pair, t), first_below(pair, t)
    nothing = GainLaw(np.array([0.0, 1e-300]), np.array([1.0, 0.0]))
    for at in (0.0, 1e-4, 1e-3, 0.02, 0.3, 2.0):
        truth = float(pair.profile(np.array([at]))[0])
        high, low = above.delta(nothing, at, upper=True), below.delta(nothing, at, upper=False)
        assert low <= truth * (1 + 1e-10)
        assert high >= truth * (1 - 1e-10) - 1e-18
        assert high - low <= 2e-2 * truth + 1e-12


def random_law(rng: np.random.Generator, size: int, scale: float) -> GainLaw:
    points = np.sort(rng.normal(0.0, scale, size)).clip(-1.0, 0.99)
    masses = rng.dirichlet(np.ones(size))
    return GainLaw(points - float(points @ masses), masses)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.1])
def test_products_are_moved_up_and_down_in_convex_order(scale) -> None:
    """Against all pairs of outcomes; the mean, which is what Q has, stays in both."""
    rng = np.random.default_rng(5)
    for same in (False, True):
        a = random_law(rng, 30, scale)
        b = a if same else random_law(rng, 17, scale)
        gains = (a.points[:, None] + b.points[None, :] - a.points[:, None] * b.points[None, :]).ravel()
        masses = np.outer(a.masses, b.masses).ravel()
        order = np.argsort(gains)
        exact = GainLaw(gains[order], masses[order])
        grid = np.append(np.linspace(gains.min(), gains.max(), 25), 1.0)
        above, below = product_above(a, b, grid), product_below(a, b, grid)
        assert abs(float(above.points @ above.masses) - float(exact.points @ exact.masses)) < 1e-12 * scale
        assert abs(float(below.points @ below.masses) - float(exact.points @ exact.masses)) < 1e-12 * scale
        for at in np.linspace(-2 * scale, 3 * scale, 41):
            truth = hockey_stick(exact, at)
            assert hockey_stick(above, at) >= truth * (1 - 1e-12)
            assert hockey_stick(below, at) <= truth * (1 + 1e-12) + 1e-13 * scale
        for at in (0.3 * scale, scale):
            whole = a.delta(b, at, upper=True), a.delta(b, at, upper=False)
            truth = float((masses * np.maximum(-math.expm1(at) + math.exp(at) * gains, 0.0)).sum())
            assert whole[1] <= truth * (1 + 1e-12)
            assert whole[0] >= truth * (1 - 1e-12)
            assert whole[0] - whole[1] <= 1e-9 * scale


def test_gains_below_the_grid_are_raised_to_it() -> None:
    """They must not make up for larger ones in the same bin: the law would be too small there."""
    a = GainLaw(np.array([-0.5, 0.4]), np.array([0.5, 0.5]))
    above = product_above(a, a, np.array([-0.6, 0.9, 1.0]))
    exact = GainLaw(np.array([-1.25, 0.1, 0.64]), np.array([0.25, 0.5, 0.25]))
    for at in (-0.6, -0.2, 0.0, 0.3, 0.6):
        assert hockey_stick(above, at) >= hockey_stick(exact, at) * (1 - 1e-12)


def test_points_that_are_left_out_count_as_failure_or_not_at_all() -> None:
    rng = np.random.default_rng(6)
    a, b = random_law(rng, 20, 0.1), random_law(rng, 20, 0.1)
    grid = np.append(np.linspace(-0.9, 0.9, 60), 1.0)
    above, below = product_above(a, b, grid, 0.02), product_below(a, b, grid, 0.02)
    full = product_above(a, b, grid)
    assert len(above.points) < len(full.points)
    assert abs(float(above.masses.sum()) - 1) < 1e-12
    assert float(below.masses.sum()) < 1
    assert above.masses[-1] > 0


def rare_settings(count: int, seed: int) -> list[tuple[float, float, int, float, str]]:
    rng = np.random.default_rng(seed)
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


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta", "relation"), rare_settings(12, 3))
def test_rare_participation_agrees_with_the_contour(rate, sigma, steps, delta, relation) -> None:
    event = Repeat(Poisson(rate, Gaussian(sigma)), steps)
    for loss in curve(event, relation)._histories()[0]:
        truth = Contour(loss.parts).epsilon(delta)  # type: ignore[arg-type]
        found = RareLosses(loss.parts).epsilon(delta)
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper
        assert found.upper - found.lower <= 0.01 * found.upper
    first = curve(event, relation)._histories()[0][0].parts
    assert 0.7 * found.lower <= rough_epsilon(first, delta) <= 1.3 * truth.upper or relation == "add-remove"


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta", "relation"),
    [
        (2.5e-8, 0.987, 729_981, 3.8e-14, "add-remove"),
        (7.6e-9, 0.84, 209_152, 2.7e-14, "replace-one"),
        (2.1e-9, 7.65, 22_315, 2.7e-10, "add-remove"),
        (1.0e-9, 0.4, 1_000_000, 1e-15, "replace-one"),
        (9.9e-5, 0.415, 11, 1.4e-14, "replace-one"),
        (2.7e-9, 0.67, 50, 6.7e-8, "add-remove"),
    ],
)
def test_intervals_are_narrow_however_rare(rate, sigma, steps, delta, relation) -> None:
    """Settings in which neither a contour nor a lattice proved anything within a per cent."""
    found = epsilon(Repeat(Poisson(rate, Gaussian(sigma)), steps), delta, relation)
    assert found.upper - found.lower <= 0.01 * found.upper
    assert found.upper < math.inf


def test_one_large_gain_is_what_it_is() -> None:
    """Where a unit almost surely never takes part ε is that of one step with δ over their number, but for a little."""
    rate, steps, delta = 1e-9, 1000, 1e-13
    pair = Mixture(2.0, (rate,), "remove")
    found = RareLosses([(pair, steps)]).epsilon(delta)
    alone = found.lower
    assert float(pair.profile(np.array([alone]))[0]) * steps == pytest.approx(delta, rel=0.02)


def test_several_rows_and_a_release_beside_them() -> None:
    event = Repeat(Poisson(2e-5, Gaussian(0.8)), 300)
    parts = [*curve(event, Unit("replace-one", 2))._histories()[0][0].parts, (GaussianPair(1e-3), 1)]
    truth, found = Contour(parts).epsilon(1e-9), RareLosses(parts).epsilon(1e-9)  # type: ignore[arg-type]
    assert found.lower <= truth.upper
    assert truth.lower <= found.upper
    assert RareLosses(parts).within(found.upper * 1.02, 1e-9)
    assert not RareLosses(parts).within(found.lower * 0.98, 1e-9)


def test_a_law_that_is_a_little_too_small_is_found_out(monkeypatch) -> None:
    """Outcomes that go to the nearer point of the grid, in place of both, make bounds that the contour excludes."""
    careful = rare.product_above

    def careless(a, b, grid, cut=0.0):  # type: ignore[no-untyped-def]
        found = careful(a, b, grid, cut)
        return replace(found, points=np.append(found.points[:-1] - 0.5 * np.diff(found.points), found.points[-1]))

    parts = [(Mixture(0.4, (1e-4,), "remove"), 4000)]
    truth = Contour(parts).epsilon(1e-8)
    monkeypatch.setattr(rare, "product_above", careless)
    monkeypatch.setattr(rare, "meet", lambda one, two, what: two)
    assert RareLosses(parts).epsilon(1e-8).upper < truth.lower


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_losses_of_hundreds_are_not_taken_for_none(relation) -> None:
    """Gains round to 1 from losses of 37 on, at many points of a law: beyond any ε they all count, not only the last.

    A unit that takes part is told apart by a loss of 1250 ± 50; of two steps it does in one with 2·10⁻³.
    """
    law = GainLaw(np.array([0.0, 1.0, 1.0]), np.array([0.7, 0.2, 0.1]))
    assert law.delta(law, 700.0, upper=True) >= 0.6
    for loss in curve(Repeat(Poisson(1e-3, Gaussian(0.02)), 2), relation)._histories()[0]:
        if loss.top < 1:  # a unit that is added is never seen for certain
            continue
        for level in (590.0, 601.0, 650.0, 1000.0):
            assert not RareLosses(loss.parts).within(level, 1e-6)
    found = epsilon(Repeat(Poisson(1e-3, Gaussian(0.02)), 2), 1e-6, relation)
    assert found.upper > 1250


def test_what_it_does_not_know_is_left_to_others() -> None:
    atoms = DiscretePair(np.array([-0.5, 0.5]), np.array([0.4, 0.6]))
    with pytest.raises(NotCertifiable, match="are not known"):
        RareLosses([(atoms, 10)]).epsilon(1e-6)
    pair = Mixture(1.0, (1e-6,), "remove")
    with pytest.raises(NotCertifiable, match="closed form"):
        RareLosses([(pair, 1)])
    with pytest.raises(NotCertifiable, match="range of products"):
        RareLosses([(pair, 10)]).epsilon(1e-120)
    with pytest.raises(NotCertifiable, match="for a given δ"):
        RareLosses([(pair, 10)]).delta(0.1)
    with pytest.raises(NotCertifiable, match="rounding"):
        RareLosses([(pair, 10**12)]).epsilon(1e-6)
