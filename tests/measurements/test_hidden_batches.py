"""Hidden runs on batches: steps on any batch are contractions, the law of the last iterate, and what is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import discreet as dp
from discreet.accounting.reductions.last_iterate import last_iterate_mu
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.estimators.planned import planned
from discreet.events import Compose, Gaussian, Poisson, Repeat
from discreet.geometry import L2Ball, WholeSpace
from discreet.losses import Logistic, Squared
from discreet.measurements import FixedSizeSampling, PoissonSampling
from discreet.measurements.hidden_batches import AllRows, CyclicBatches, SampledBatches
from discreet.measurements.last_iterate import LastIterate, contraction, displacement, usual_precision
from discreet.noise.bits import Bits
from discreet.planning.predicted import predicted_bound
from discreet.queries.sums.fine_gradient import FineGradientSum
from discreet.rows import RowSpec
from discreet.units import Unit

UNIT = Unit("replace-one")
SCHEMES = [
    AllRows(),
    CyclicBatches(7),
    SampledBatches(PoissonSampling(0.25), 3, 0.9),
    SampledBatches(FixedSizeSampling(8, 40), 3, 0.9),
]


def run(batches, loss=None, n=40, rows=None, step=0.2, ridge=0.1, clip=0.6, noise=5.0, steps=6, domain=None):
    rows, loss, domain = rows or RowSpec(3, 1.5, 0.7), loss or Logistic(), domain or WholeSpace()
    radius = min(domain.radius_in(rows.dimension), 100.0)
    given = usual_precision(rows, loss, batches.most(n), clip, radius, noise, domain.diameter(rows.dimension))
    facts = (rows, loss, float(n), np.zeros(rows.shape))
    return LastIterate(*facts, noise, steps, clip, step, ridge, domain, given, batches)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(getattr(s, "sampling", s)).__name__)
def test_no_batch_is_larger_than_stated_and_places_alone_decide(scheme):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.choice([-1.0, 1.0], 40)
    other = X.copy()
    other[5] = 100.0
    rows = RowSpec(3, 1.5, 0.7)
    drawn = [list(itertools.islice(scheme.draw(in_memory(A, y, rows), Bits.seeded(3)), 14)) for A in (X, other)]
    for one, two in zip(*drawn, strict=True):
        assert len(one) == len(two) <= scheme.most(40)
        assert np.count_nonzero((one.X != two.X).any(axis=1)) <= 1
    if isinstance(scheme, CyclicBatches):
        assert [len(batch) for batch in drawn[0][:7]] == [len(batch) for batch in drawn[0][7:]]
        assert sum(len(batch) for batch in drawn[0][:7]) == 40


@pytest.mark.parametrize("scheme", SCHEMES[1:3], ids=["cyclic", "poisson"])
def test_a_step_on_the_largest_batch_is_the_stated_contraction(scheme):
    """All rows may be in a Poisson batch: with the mean loss's own smoothness, the stated inequality would be false."""
    n, rows, ridge, clip = 41, RowSpec(1, 1.0), 0.05, 50.0
    crowding = scheme.most(n) / scheme.expected(n)
    step = 1.99 / (rows.radius**2 * crowding + ridge)
    most = scheme.most(n)
    data = in_memory(np.ones((most, 1)), np.zeros(most), rows)
    given = usual_precision(rows, Squared(), most, clip, 5.0, 100.0, math.inf)
    query = FineGradientSum(rows, Squared(), np.zeros(1), clip, given.slope_bits, most)
    grid = Fraction(step) * Fraction(clip) / (query.bound * Fraction(scheme.expected(n)))
    theta = [round(Fraction(v) / grid) for v in (0.5, 0.9)]
    after = []
    for t in theta:
        total = int(replace(query, theta=np.array([float(t * grid)])).integers(data)[0])
        after.append(t - round(Fraction(step) * Fraction(ridge) * t) - total)
    apart, before = abs(after[0] - after[1]) / query.bound, abs(theta[0] - theta[1]) / query.bound
    rounding = displacement(rows, Squared(), most, clip, given)
    assert apart <= (contraction(rows, Squared(), step, ridge, crowding) * before + 2 * rounding) * (1 + 1e-12)
    assert apart > contraction(rows, Squared(), step, ridge) * before + 2 * rounding


def test_the_cyclic_claim_holds_and_is_broken_by_half_the_noise():
    """Slopes clipped at every θ: a chain that drifts in every fourth step. 400 coordinates without rows show the noise.

    Four standard errors of the deviation are 14 %.
    """
    n, rows, count, steps = 20, RowSpec(401, 1.0), 4, 42

    def distance(noise):
        worst, deviation = 0.0, 1.0
        for place in range(6):  # the row is in one batch or another
            X, ends = np.zeros((n, 401)), []
            X[:, 0] = 1.0
            for sign in (1.0, -1.0):
                y = np.full(n, 1e6)
                y[place] *= sign
                made = run(CyclicBatches(count), Squared(), n, rows, 0.7, 0.3, 0.5, noise, steps)
                ends.append(made.sample(in_memory(X, y, rows), UNIT, Bits.seeded(5)))
            worst, deviation = max(worst, abs(float(ends[0][0] - ends[1][0]))), float(np.std(ends[0][1:]))
        return worst / deviation, made.event(UNIT)

    found, event = distance(8.0)
    assert event.batches == count
    claimed = 2 * last_iterate_mu(steps, 1.0, 8.0, event.contraction, rounding=event.rounding, batches=count)
    assert 0.7 * claimed < found < 1.14 * claimed
    assert distance(4.0)[0] > 1.2 * claimed


def test_events_of_schemes():
    noise, n = 5.0, 40
    for scheme in SCHEMES[2:]:
        event = run(scheme).event(UNIT)
        assert isinstance(event, Compose)
        repeat, rest = event.events
        assert repeat.times == 3
        assert repeat.event == scheme.sampling.event(repeat.event.event, UNIT)
        assert repeat.event.event.noise_multiplier == pytest.approx(noise * math.sqrt(0.9), rel=1e-6)
        assert isinstance(rest, Gaussian)
    bounded = run(SCHEMES[1], domain=L2Ball(0.2)).event(UNIT)
    assert bounded.diameter == pytest.approx(0.4 / (0.2 * 0.6 * 2 / (n / 7)), rel=1e-9)
    for scheme in SCHEMES:
        with pytest.raises(HypothesisViolated, match="replace-one"):
            run(scheme).event(Unit("add-remove"))
    with pytest.raises(HypothesisViolated, match="2/β"):
        run(SampledBatches(PoissonSampling(0.01), 3, 0.9), step=0.5)
    with pytest.raises(InvalidInput, match="share"):
        SampledBatches(PoissonSampling(0.1), 3, 1.0)
    with pytest.raises(InvalidInput, match="at least one batch"):
        CyclicBatches(0)


MODEL = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.0, "classes": [0, 1], "solver": "descent", "alpha": 0.02}


@pytest.mark.parametrize("options", [{"cyclic": 10}, {"batch_size": 1000}, {"rate": 0.5, "iterations": 300}])
def test_descent_hides_its_iterates_on_batches(options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 3))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (X[:, 0] + 0.2 * rng.normal(size=10_000) > 0).astype(int)
    asked = {"iterate": "last", **options}
    model = dp.LogisticRegression(**MODEL, solver_options=asked, random_state=0).fit(X, y)
    event = model.privacy_.event
    assert not any(isinstance(event, kind) for kind in (Repeat, Poisson))
    assert model.privacy_.epsilon <= 1.0
    assert model.score(X, y) > 0.85
    infinite = dp.LogisticRegression(**MODEL | {"epsilon": math.inf, "delta": None}, solver_options=asked).fit(X, y)
    np.testing.assert_allclose(model.coef_, infinite.coef_, atol=0.7)


@pytest.mark.parametrize("options", [{"cyclic": 10}, {"batch_size": 1000}, {"rate": 0.5, "iterations": 300}])
def test_no_bound_for_all_rows_is_stated_for_batches(options):
    """Gradients of a batch are not those of the loss: a bound for full batches would be false of these runs."""
    plan = planned(dp.LogisticRegression(**MODEL, solver_options={"iterate": "last", **options}), 10_000, 3)
    with pytest.raises(HypothesisViolated, match="full batches"):
        predicted_bound(plan.solver, plan.problem)


def test_sampled_batches_need_less_noise_hidden_after_many_steps():
    options = {"iterate": "last", "rate": 0.5, "iterations": 2000}
    hidden = planned(dp.LogisticRegression(**MODEL, solver_options=options), 20_000, 5)
    shown = planned(dp.LogisticRegression(**MODEL, solver_options=options | {"accounting": "composition"}), 20_000, 5)
    assert hidden.solver.noise_multiplier < 0.5 * shown.solver.noise_multiplier
    assert 0.999 < hidden.epsilon.upper <= 1.0


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batches": 10, "iterate": "last", "accounting": "last-iterate"}, HypothesisViolated, "no theorem"),
        ({"cyclic": 10}, InvalidInput, "last iterate alone"),
        ({"cyclic": 10, "iterate": "last", "accounting": "composition"}, InvalidInput, "last iterate alone"),
        ({"cyclic": 5001, "iterate": "last"}, InvalidInput, "some would be empty"),
        ({"cyclic": 10, "rate": 0.1, "iterate": "last"}, InvalidInput, "one of the four"),
        ({"cyclic": 10, "iterate": "last", "update": "momentum"}, HypothesisViolated, "plain steps"),
        ({"rate": 0.1, "iterate": "last", "step": 2.0, "accounting": "last-iterate"}, HypothesisViolated, "2/β"),
    ],
)
def test_what_is_refused(options, error, words):
    with pytest.raises(error, match=words):
        planned(dp.LogisticRegression(**MODEL, solver_options=options), 5000, 3)
