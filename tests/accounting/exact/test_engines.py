"""The two numerical accountants must agree, each within its own error bounds; where they do not, nothing is claimed."""

from __future__ import annotations

import math
import warnings

import flint
import numpy as np
import pytest

from discreet import accounting
from discreet.accounting import calibrate, curve, delta, epsilon, tradeoff
from discreet.accounting.bounds import Bounds, Contradiction, guarded, meet
from discreet.accounting.composed import ComposedLoss
from discreet.accounting.exact.contour import Contour
from discreet.accounting.exact.fourier import _SIZES, Fourier
from discreet.accounting.exact.gaussian import delta_bounds, epsilon_bounds
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.accounting.exact.pairs import DiscretePair, GaussianPair, LaplacePair
from discreet.accounting.exact.transform import on_contour
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import (
    ZCDP,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
)


def sampled(rate: float, sigma: float, times: int, beside: float) -> Event:
    return Compose([Repeat(Poisson(rate, Gaussian(sigma)), times), Gaussian(beside)])


# δ, relation and event of runs in which one factor decays along the contour and the other does not.
DECAYING = [
    (3.96e-23, "replace-one", sampled(3.976e-4, 1.1276, 3, 10.89)),
    (3e-20, "add-remove", sampled(1.365e-6, 0.2965, 17, 13.76)),
    (1.66e-24, "add-remove", sampled(1.6e-6, 1.047, 25, 16.1)),
    (3.354477997773148e-12, "add-remove", sampled(1.0979106931840944e-06, 0.4483353897341186, 78, 1.9669002251478998)),
    (3.106139802606382e-13, "replace-one", sampled(5.711681047317729e-06, 1.3800019137102886, 4, 34.30530153387147)),
]


def runs_of(event: Event, adjacency: str) -> list[ComposedLoss]:
    return [run for both in curve(event, adjacency)._histories() for run in both]


@pytest.mark.parametrize(("level", "adjacency", "event"), DECAYING)
def test_a_factor_that_decays_beside_one_that_does_not(level, adjacency, event) -> None:
    for run in runs_of(event, adjacency):
        contour, fourier = run.epsilon(level, "contour"), run.epsilon(level, "fourier")
        assert contour.lower <= contour.upper
        assert fourier.lower <= fourier.upper
        assert max(contour.lower, fourier.lower) <= min(contour.upper, fourier.upper)
        there = run.delta(fourier.upper, "contour")
        assert there.lower <= level


def random_run(generator: np.random.Generator) -> tuple[Event, str, float]:
    """A few sampled Gaussians beside one that is not sampled, and a δ from 1e-30 to 0.1."""
    parts: list[Event] = []
    for _ in range(int(generator.integers(1, 3))):
        rate, sigma = 10 ** -generator.uniform(0.1, 6.5), 10 ** generator.uniform(-0.6, 1.0)
        parts.append(Repeat(Poisson(rate, Gaussian(sigma)), int(10 ** generator.uniform(0, 2.5))))
    parts.append(Gaussian(10 ** generator.uniform(-0.3, 1.6)))
    return Compose(parts), str(generator.choice(["add-remove", "replace-one"])), 10 ** -generator.uniform(1, 30)


@pytest.mark.parametrize("seed", range(4))
def test_random_runs_have_intervals_that_meet(seed) -> None:
    """75 events a seed. The Fourier accountant answers from its coarsest lattice: fast, and wide but proved."""
    generator = np.random.default_rng(1000 + seed)
    answered = 0
    for _ in range(75):
        event, adjacency, level = random_run(generator)
        for run in runs_of(event, adjacency):
            try:
                contour = run.epsilon(level, "contour")
            except NotCertifiable:
                continue
            with np.errstate(all="ignore"):
                fourier = Fourier(run.parts)._epsilon(level, _SIZES[:1], lower=True)
            assert contour.lower <= contour.upper, (event, adjacency, level)
            assert max(contour.lower, fourier.lower) <= min(contour.upper, fourier.upper), (event, adjacency, level)
            answered += 1
    assert answered >= 90  # the contour refuses few


# What each factor of the contour sum is charged, against 60 digits.


def exact_ratio(pair: Mixture, c: float, omega: float, nodes: int = 4000) -> complex | flint.acb:
    """M(c + iω)/M(c) by the trapezoid rule at 200 bits, on steps far finer than needed."""
    arb, acb = flint.arb, flint.acb
    slope = {"remove": c + 1, "add": c * min(1.0, 2 * sum(pair.weights)), "replace": 2 * c + 1}[pair.kind]
    low, high = -16.0, slope * len(pair.weights) * pair.shift + 16
    rest = 1 - sum((arb(b) for b in pair.weights), arb(0))

    def ratio(t: flint.arb) -> flint.arb:
        nu = arb(pair.shift)
        terms = (b * (j * nu * t - (j * nu) ** 2 / 2).exp() for j, b in enumerate(map(arb, pair.weights), start=1))
        return sum(terms, rest).log()

    above = below = acb(0)
    for i in range(nodes + 1):
        t = arb(low) + (arb(high) - arb(low)) * i / nodes
        up, down = ratio(t), ratio(-t)
        loss = {"remove": up, "add": -down, "replace": up - down}[pair.kind]
        start = arb(0) if pair.kind == "add" else up
        term = (start + arb(c) * loss - t * t / 2).exp()
        below += term
        above += term * acb(0, arb(omega) * loss).exp()
    return above / below


@pytest.fixture
def digits():
    before, flint.ctx.prec = flint.ctx.prec, 200
    yield
    flint.ctx.prec = before


@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
@pytest.mark.parametrize(
    ("shift", "weights", "c", "omega"),
    [
        (0.9, (0.3,), 7.0, 40.0),
        (0.9, (4e-4,), 16.0, 3.0),
        (3.4, (1.4e-6,), 4.0, 30.0),
        (0.5, (0.999999,), 9.0, 12.0),
        (0.4, (0.4, 0.3, 0.2), 6.0, 25.0),
        (0.5, (1e-4,), 50.0, 1500.0),
        (1.0, (1e-5,), 15.0, 22000.0),
    ],
)
def test_the_charged_error_of_a_factor_holds(digits, kind, shift, weights, c, omega) -> None:
    pair = Mixture(shift, weights, kind)
    count = 64
    spacing = omega / 64
    found = pair.on_contour(c, spacing, count)
    for k in (1, 20, 63):
        truth = exact_ratio(pair, c, spacing * k)
        value = flint.acb(flint.arb(found.logs[k].real), flint.arb(found.logs[k].imag)).exp()
        allowed = found.errors[k] + abs(complex(value)) * math.expm1(found.slips[k])
        assert float(abs(truth - value).mid()) <= allowed
        assert allowed <= 1e-10


def test_orders_far_out_are_charged_right_where_a_unit_that_is_added_rarely_takes_part(digits) -> None:
    """Its loss is at most −log(1 − q), so that c may be 1e5 where sooner or later c·L' outgrows t for other pairs."""
    pair, c, spacing = Mixture(0.6, (2e-6,), "add"), 1e5, 2000.0
    found = pair.on_contour(c, spacing, 64)
    for k in (1, 63):
        truth = exact_ratio(pair, c, spacing * k)
        value = flint.acb(flint.arb(found.logs[k].real), flint.arb(found.logs[k].imag)).exp()
        allowed = found.errors[k] + abs(complex(value)) * math.expm1(found.slips[k])
        assert float(abs(truth - value).mid()) <= allowed <= 1e-9


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "level"),
    [(1e-5, 1.0, 1000, 1e-9), (1e-4, 2.0, 10_000, 1e-9), (3e-4, 1.3, 500, 1e-10), (4.5e-5, 1.08, 450, 1.4e-10)],
)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_rare_participation_goes_along_a_contour(rate, sigma, steps, level, adjacency) -> None:
    """One rare loss outweighs all others: the saddle point approximation is off by orders of magnitude there."""
    event = Repeat(Poisson(rate, Gaussian(sigma)), steps)
    found, other = epsilon(event, level, adjacency), epsilon(event, level, adjacency, method="fourier")
    assert found.upper - found.lower <= 1e-3 * found.upper
    assert max(found.lower, other.lower) <= min(found.upper, other.upper)
    there = delta(event, found.upper, adjacency)
    assert there.lower <= level <= delta(event, found.lower * (1 - 1e-9), adjacency).upper
    assert there.upper - there.lower <= 0.01 * there.upper


@pytest.mark.parametrize(
    ("x", "y"), [(-1.0, 1e-12), (-1 + 2**-50, -(2.0**-49)), (-0.9999999, 3e-9), (-0.3, 0.1), (-1.0, 0)]
)
def test_small_moduli_keep_their_logarithm(digits, x, y) -> None:
    found = on_contour(0.0, 0.0, np.array([complex(x, y)]), np.zeros(1))
    value = flint.acb(flint.arb(found.logs[0].real), flint.arb(found.logs[0].imag)).exp()
    truth = flint.acb(flint.arb(1) + flint.arb(x), flint.arb(y))
    allowed = found.errors[0] + abs(complex(value)) * math.expm1(found.slips[0])
    assert float(abs(truth - value).mid()) <= allowed
    assert allowed <= 1e-13 * max(abs(1 + x) + abs(y), 1e-280)


def test_every_pair_s_factor_starts_at_one_and_never_exceeds_it() -> None:
    atoms = DiscretePair(np.array([-0.5, 0.5]), np.array([0.3, 0.7]))
    for pair in (GaussianPair(0.3), LaplacePair(0.4), atoms, Mixture(0.7, (0.2,), "add")):
        found = pair.on_contour(3.0, 2.0**-6, 400)
        size = np.exp(found.logs.real)
        assert abs(found.logs[0]) <= 1e-12
        assert (size <= (1 + found.errors) * np.exp(found.slips)).all()


def test_normal_bins_are_as_accurate_as_they_say(digits) -> None:
    generator = np.random.default_rng(5)
    for width in (1e-6, 1e-3, 0.05, 0.9, 3.0):
        for start in generator.uniform(-37, 37, 12):
            edges = np.array([start, start + width])
            found = float(normal_bins(edges)[1])
            a, b = (flint.arb(float(e)) / flint.arb(2).sqrt() for e in edges)
            truth = ((-b).erfc() - (-a).erfc()) / 2 if start < 0 else (a.erfc() - b.erfc()) / 2
            assert float((abs(truth - flint.arb(found)) / truth).mid()) <= bin_error(float(np.abs(edges).max()))


# Contradictions.


def test_intervals_without_a_common_point_are_a_failure() -> None:
    assert meet(Bounds(0.0, 2.0), Bounds(1.0, 3.0), "both") == (1.0, 2.0)
    for one, two in [((0.0, 1.0), (1.5, 2.0)), ((1.0, 0.5), (0.0, 2.0)), ((math.nan, 1.0), (0.0, 2.0))]:
        with pytest.raises(Contradiction):
            meet(Bounds(*one), Bounds(*two), "both")


def test_accountants_that_exclude_each_other_leave_the_classical_bound(monkeypatch) -> None:
    event = sampled(0.01, 1.0, 100, 10.0)
    honest = epsilon(event, 1e-6, "add-remove")
    safe = epsilon(event, 1e-6, "add-remove", method="renyi").upper
    monkeypatch.setattr(Contour, "epsilon", lambda self, delta: Bounds(0.2 * honest.lower, 0.5 * honest.lower))
    monkeypatch.setattr(Contour, "delta", lambda self, at: Bounds(0.0, 1e-9))
    monkeypatch.setattr(ComposedLoss, "within", lambda self, epsilon, delta: False)
    privacy = curve(event, "add-remove")
    with pytest.warns(RuntimeWarning, match="Gaussian\\(noise_multiplier=10.0\\)"):
        found = privacy.epsilon(1e-6)
    assert found.lower == 0
    assert found.upper <= safe
    assert found.upper >= honest.upper
    with pytest.warns(RuntimeWarning, match="disagree"):
        assert privacy.upper(1e-6) == found.upper
    with pytest.warns(RuntimeWarning, match="disagree"):
        assert privacy.delta(honest.upper).upper >= 1e-6


@pytest.mark.parametrize("method", ["contour", "fourier"])
def test_an_inverted_interval_is_refused_and_names_the_event(monkeypatch, method) -> None:
    engine = {"contour": Contour, "fourier": Fourier}[method]
    monkeypatch.setattr(engine, "epsilon", lambda self, delta, **_: Bounds(1.1, 1.0))
    monkeypatch.setattr(engine, "delta", lambda self, at: Bounds(0.2, 0.1))
    event = sampled(0.01, 1.0, 100, 10.0)
    with pytest.raises(NotCertifiable, match="Poisson"):
        epsilon(event, 1e-6, "add-remove", method=method)
    with pytest.raises(NotCertifiable, match="Poisson"):
        delta(event, 1.0, "add-remove", method=method)


def test_one_engine_that_contradicts_itself_is_not_asked_again(monkeypatch) -> None:
    event = sampled(0.01, 1.0, 100, 10.0)
    fourier = epsilon(event, 1e-6, "add-remove", method="fourier")
    monkeypatch.setattr(Contour, "epsilon", lambda self, delta: Bounds(1.1, 1.0))
    found = epsilon(event, 1e-6, "add-remove")
    assert found.lower <= fourier.upper
    assert fourier.lower <= found.upper


# Nothing but declared errors.


def test_arithmetic_that_fails_is_not_certifiable() -> None:
    for failing in (lambda: math.log(0), lambda: math.exp(1e4), lambda: 1 / 0, lambda: np.arange(10)[20]):
        with pytest.raises(NotCertifiable, match="range"):
            guarded(failing)
    with pytest.raises(InvalidInput):
        guarded(lambda: epsilon(Gaussian(1.0), 2.0, "add-remove"))


@pytest.mark.parametrize("method", ["auto", "contour", "fourier"])
@pytest.mark.parametrize("at", [0.0, 1e-9, 0.3, 1.74725, 40.0, 1e5, 1e300])
def test_no_undeclared_error_leaves_an_accountant(method, at) -> None:
    for level, adjacency, event in DECAYING[:1] + DECAYING[3:]:
        try:
            found = delta(event, at, adjacency, method=method)
        except NotCertifiable:
            assert method != "auto"
            continue
        assert 0 <= found.lower <= found.upper <= 1, (level, event)


EXTREME: list[Event] = [
    *(Gaussian(10.0**k) for k in (-300, -160, -152, -150, -8, 8, 160, 300)),
    *(Repeat(Gaussian(1.0), 10**k) for k in (18, 300, 307, 400)),
    *(Poisson(0.5, Gaussian(10.0**k)) for k in (-160, -140, -3, 140)),
    *(Repeat(Poisson(1e-300, Gaussian(1.0)), 10**k) for k in (0, 18, 300)),
    Repeat(Poisson(0.1, Gaussian(1.0)), 10**18),
    *(Laplace(10.0**k) for k in (-300, -3, 300)),
    *(Repeat(Laplace(1.0), 10**k) for k in (18, 307, 400)),
    *(DiscreteLaplace(10.0**k, 1) for k in (-300, 300)),
    DiscreteGaussian(1e-3, 1),
    *(PureDP(10.0**k) for k in (-300, 300)),
    *(ZCDP(10.0**k) for k in (-300, 300)),
    Repeat(PureDP(1.0), 10**400),
    Selection(1e300),
    RandomizedResponse(800.0, 3),
    Repeat(ApproxDP(1.0, 1e-300), 10**301),
    Compose([Gaussian(1e-152), Laplace(1.0)]),
]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("event", EXTREME, ids=lambda e: repr(e)[:60])
def test_extreme_noise_and_counts_raise_nothing_undeclared(event, adjacency) -> None:
    for method in ("auto", "contour", "fourier", "renyi", "zcdp", "basic", "advanced"):
        for question in (
            lambda method=method: epsilon(event, 1e-6, adjacency, method=method),
            lambda method=method: delta(event, 1.0, adjacency, method=method),
        ):
            try:
                found = question()
            except (NotCertifiable, InvalidInput):
                continue
            assert found.lower <= found.upper


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    "event",
    [
        *(Gaussian(10.0**k) for k in (-300, -155, -152, -150, -149, -20)),
        *(Repeat(Gaussian(1.0), 10**k) for k in (40, 299, 301, 307)),
        Compose([Gaussian(1e-152), Laplace(1.0)]),
    ],
    ids=lambda e: repr(e)[:60],
)
def test_next_to_no_noise_protects_nothing(event, adjacency) -> None:
    assert epsilon(event, 1e-6, adjacency).upper > 1e39
    assert curve(event, adjacency).upper(1e-6) > 1e39
    assert delta(event, 100.0, adjacency).upper == 1.0
    assert tradeoff(event, adjacency)(0.1).lower == 0.0
    assert accounting.calibrate_steps(lambda n: Repeat(event, n), 1.0, 1e-6, adjacency) == 0


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("sigma", [1e-300, 1e-200, 1e-155, 1e-100, 1e-20])
def test_sampling_does_not_hide_that_there_is_no_noise(sigma, adjacency) -> None:
    event = Poisson(0.5, Gaussian(sigma))
    for question in (
        lambda: delta(event, 100.0, adjacency).upper >= 0.5,
        lambda: epsilon(event, 1e-6, adjacency).upper > 1e30,
        lambda: curve(event, adjacency).upper(1e-6) > 1e30,
    ):
        try:
            assert question()
        except NotCertifiable:
            assert sigma < 1e-149


@pytest.mark.parametrize("sigma", [1e140, 1e160, 1e200, 1e300])
def test_very_much_noise_still_costs_something(sigma) -> None:
    found = delta(Gaussian(sigma), 0.0, "add-remove")
    assert found.lower <= 1 / (sigma * math.sqrt(2 * math.pi)) <= found.upper
    assert delta(Repeat(Gaussian(sigma), 4), 0.0, "add-remove").lower > 1.9 * found.lower


@pytest.mark.parametrize("rate", [1e-20, 1e-17])
def test_a_rate_below_the_last_digit_of_one_is_not_no_rate(rate) -> None:
    privacy = curve(Poisson(rate, Gaussian(1.0)), "add-remove")
    add = privacy._histories()[0][1]
    assert add.top >= rate
    assert add.delta(0.0).upper >= 0.3 * rate


@pytest.mark.parametrize("mu", [1e-3, 0.5, 5.0, 40.0, 1e4, 1e7, 1e12, 1e100])
@pytest.mark.parametrize("level", [1e-30, 1e-6, 0.3, 1 - 2.0**-52])
def test_gaussian_bounds_enclose_each_other(mu, level) -> None:
    found = epsilon_bounds(level, mu)
    assert found.lower <= found.upper
    assert delta_bounds(found.upper, mu).lower <= level
    assert delta_bounds(found.lower, mu).upper >= min(level, delta_bounds(0.0, mu).lower)
    if mu < 1e7 and level < 0.9:
        assert found.upper - found.lower <= 1e-6 * found.upper


def test_calibration_stays_within_the_budget_where_contours_were_false() -> None:
    level, adjacency, _ = DECAYING[3]

    def make(sigma: float) -> Event:
        return sampled(1.0979106931840944e-06, sigma, 78, 1.9669002251478998)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noise = calibrate(make, 4.0, level, adjacency)
    for run in runs_of(make(noise), adjacency):
        assert run.epsilon(level, "fourier").lower <= 4.0


@pytest.mark.parametrize("steps", [2, 30, 1000])
@pytest.mark.parametrize(("sigma", "batch"), [(0.6, 3), (1.0, 100), (5.0, 900), (40.0, 999)])
@pytest.mark.parametrize("beside", [False, True])
def test_classical_bounds_of_batches_of_fixed_size_are_no_lower(steps, sigma, batch, beside) -> None:
    """They are not asked for: their divergences are those of the pair that is composed."""
    event: Event = Repeat(FixedSize(batch, 1000, Gaussian(sigma)), steps)
    if beside:
        event = Compose([event, Gaussian(3.0)])
    for level in (1e-3, 1e-9):
        found = epsilon(event, level, "replace-one").upper
        assert math.isfinite(found)
        for method in ("renyi", "basic"):
            try:
                assert found <= epsilon(event, level, "replace-one", method=method).upper
            except NotCertifiable:
                continue
