"""Disjoint parts: each row in one, whatever the others are. Heavy tails are cut, and one bad row costs one row."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from discreet import events, theory
from discreet.accounting import epsilon
from discreet.accounting.classical import zcdp_epsilon_upper
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput, PlanViolation
from discreet.events import compose
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.measurements import Noisy, SampleSplitting
from discreet.mechanisms import Gaussian, LaplacePeeling, Peeling
from discreet.noise.bits import Bits
from discreet.queries.sums.moments import CrossMoment
from discreet.rows import RowSpec
from discreet.solvers import Problem, heavy_tailed
from discreet.solvers.heavy_tailed import HeavyTailed
from discreet.units import Unit
from discreet.vault import Vault

_spec = importlib.util.spec_from_file_location("attacks", Path(__file__).with_name("attacks.py"))
attacks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(attacks)

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(1, 1.0)


class Seen:
    """A measurement that returns the targets of the rows it was given: which rows a part holds."""

    def __init__(self, cost=1.0):
        self.cost = cost

    def event(self, unit):
        return events.Gaussian(self.cost)

    def sample(self, data, unit, bits):
        return np.concatenate(data.map_blocks(lambda block: block.y))

    def blank(self):
        return np.zeros(0)


def numbered(n):
    return in_memory(np.zeros((n, 1)), np.arange(n, dtype=float), ROWS)


def parts_of(n, parts, unit, seed):
    """Part of each row, and how often it was seen."""
    part, times = np.full(n, -1), np.zeros(n, int)

    def program():
        for k in range(parts):
            rows = (yield Seen()).astype(int)
            part[rows] = k
            times[rows] += 1
        return np.zeros(1)

    SampleSplitting(program, parts).sample(numbered(n), unit, Bits.seeded(seed))
    return part, times


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE], ids=str)
def test_every_row_is_in_exactly_one_part(unit):
    part, times = parts_of(1000, 7, unit, 0)
    assert (times == 1).all()
    sizes = np.bincount(part, minlength=7)
    if unit == REPLACE_ONE:
        assert sizes.max() - sizes.min() <= 1
    else:  # independent uniform draws: fails with probability 1e-6, and equal sizes would be suspicious
        assert chisquare(sizes).pvalue > 1e-6
        assert sizes.max() - sizes.min() > 1


def test_a_further_row_leaves_the_parts_of_the_others_alone():
    for seed in range(20):
        fewer, _ = parts_of(60, 4, ADD_REMOVE, seed)
        more, _ = parts_of(61, 4, ADD_REMOVE, seed)
        assert (fewer == more[:60]).all()


def test_parts_compose_in_parallel_for_units_of_one_row_only():
    def program():
        yield Seen(2.0)
        yield Seen(3.0)
        return np.zeros(1)

    plan = [events.Gaussian(2.0), events.Gaussian(3.0)]
    assert SampleSplitting(program, 2).event(ADD_REMOVE) == events.Parallel(plan)
    assert SampleSplitting(program, 2).event(Unit("add-remove", 2)) == events.Compose(plan)
    assert epsilon(events.Parallel(plan), 1e-5, ADD_REMOVE).upper == epsilon(plan[0], 1e-5, ADD_REMOVE).upper
    with pytest.raises(InvalidInput, match="2 measurements"):
        SampleSplitting(program, 1).event(ADD_REMOVE)
    with pytest.raises(InvalidInput, match="one part or more"):
        SampleSplitting(program, 0)


def test_a_program_may_not_deviate_from_its_rehearsal():
    def cheaper_then_dearer():
        rows = yield Seen(2.0)
        yield Seen(2.0 if len(rows) == 0 else 1.0)  # blank answers are empty, real ones are not
        return np.zeros(1)

    measurement = SampleSplitting(cheaper_then_dearer, 2)
    assert measurement.event(ADD_REMOVE) == events.Parallel([events.Gaussian(2.0)] * 2)
    with pytest.raises(PlanViolation, match="not charged"):
        measurement.sample(numbered(50), ADD_REMOVE, Bits.seeded(0))


def _attack(noise, runs=6000, delta=0.01):
    """One row more or less, Gaussian sums over two parts. The row is in either part: an even mixture of two ratios."""
    query = CrossMoment(ROWS, 1.0)
    one = in_memory(np.ones((1, 1)), np.ones(1), ROWS)
    none = one.take(np.empty(0, np.int64))

    def program():
        first = yield Noisy(query, Gaussian(noise))
        second = yield Noisy(query, Gaussian(noise))
        return np.concatenate([first, second])

    bits = Bits.seeded(3)
    measurement = SampleSplitting(program, 2)

    def statistic(data):
        ratios = (measurement.sample(data, ADD_REMOVE, bits) - 0.5) / noise**2
        return np.logaddexp(*ratios)

    return attacks.proved_epsilon(*([statistic(data) for _ in range(runs)] for data in (one, none)), delta)


def test_the_claim_survives_an_attack_that_halved_noise_does_not():
    """The upper assertion fails with probability at most 1e-3 if the claim holds."""
    claimed = epsilon(events.Parallel([events.Gaussian(1.5)] * 2), 0.01, ADD_REMOVE).upper
    assert 0.1 * claimed < _attack(1.5) <= claimed
    assert _attack(0.75) > claimed


def heavy(n, d, s, seed=0):
    """Student-t features with 5 degrees of freedom (infinite sixth moment), unit variance, and heavy noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, (n, d)) / math.sqrt(5 / 3)
    theta = np.zeros(d)
    theta[:s] = rng.choice([-1.0, 1.0], s) * 0.5
    return X, X @ theta + 0.3 * rng.standard_t(5, n), theta


def run(solver, X, y, *, unit=ADD_REMOVE, seed=0):
    rows = RowSpec(X.shape[1], math.inf)
    problem = Problem(rows, Squared(), float(len(y)))
    return Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(seed)).run(solver, problem)


def test_the_twin_without_noise_takes_one_gradient_step_on_each_part():
    X, y, truth = heavy(3000, 10, 2)
    solver = HeavyTailed(Peeling(2, 0.0, 0.0), 12, math.inf, 0.5, 5.0)
    theta = run(solver, X, y, unit=REPLACE_ONE)
    assert np.flatnonzero(theta).tolist() == [0, 1]
    np.testing.assert_allclose(theta[:2], truth[:2], atol=0.15)
    # with one part it is one step of hard thresholding on all rows, in closed form
    once = run(HeavyTailed(Peeling(2, 0.0, 0.0), 1, math.inf, 0.5, 5.0), X, y)
    gradient = -0.5 * (X.T @ -y) / len(y)
    expected = np.where(np.abs(gradient) >= np.sort(np.abs(gradient))[-2], gradient, 0.0)
    np.testing.assert_allclose(once, expected, atol=1e-6)


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE], ids=str)
def test_private_regression_finds_the_support_under_heavy_tails(unit):
    X, y, truth = heavy(60_000, 50, 2)
    X[0], y[1] = 1e300, -1e300  # rows that would move any unbounded sum
    problem = Problem(RowSpec(50, math.inf), Squared(), 60_000.0)
    solver = heavy_tailed.default(
        problem, Guarantee(2.0, 1e-6, unit), sparsity=2, radius=3.0, step=0.5, entry_bound=4.0
    )
    theta = run(solver, X, y, unit=unit)
    assert np.flatnonzero(theta).tolist() == [0, 1]
    assert np.linalg.norm(theta - truth) < 0.3 * np.linalg.norm(truth)


def test_defaults_keep_the_guarantee_with_one_part_s_cost():
    problem = Problem(RowSpec(200, math.inf), Squared(), 10_000.0)
    solver = heavy_tailed.default(problem, Guarantee(0.8, 1e-6, REPLACE_ONE), sparsity=5, radius=2.0)
    assert solver.parts == math.ceil(math.log(10_000))
    plan = compose(rehearse(solver, problem, REPLACE_ONE))
    assert isinstance(plan, events.Parallel)
    assert len(plan.events) == solver.parts
    assert 0.799 < zcdp_epsilon_upper(plan, 1e-6, REPLACE_ONE) <= 0.8
    dearer = heavy_tailed.default(problem, Guarantee(0.8, 1e-6, Unit("replace-one", 2)), sparsity=5, radius=2.0)
    assert dearer.peeling.noise_multiplier > 2 * math.sqrt(solver.parts) * 0.99 * solver.peeling.noise_multiplier


def test_shrinkage_and_step_are_those_of_the_error_bound():
    """The default K has the least bound of all K within a twentieth; the default step contracts on Gaussian columns."""
    n, d, s, moment = 1e6, 200, 5, 3.0
    problem = Problem(RowSpec(d, math.inf), Squared(), n)
    for epsilon_ in (0.3, 1.0, 8.0):
        solver = heavy_tailed.default(
            problem, Guarantee(epsilon_, 1e-6, ADD_REMOVE), sparsity=s, radius=1.0, moment=moment
        )
        assert solver.step == pytest.approx(1 / math.sqrt(3))

        def bound(entry_bound, solver=solver):
            return theory.heavy_tailed(
                distance=1.0,
                s=s,
                target_sparsity=s,
                d=d,
                strong_convexity=1.0,  # variance 1 and kurtosis 3
                smoothness=1.0,
                step=solver.step,
                parts=solver.parts,
                rows=n / solver.parts,
                moment=moment,
                entry_bound=entry_bound,
                radius=1.0,
                selection_multiplier=solver.peeling.selection_multiplier,
                value_multiplier=solver.peeling.noise_multiplier,
            ).value

        chosen = bound(solver.entry_bound)
        assert chosen < 1.05 * min(bound(solver.entry_bound * 1.1**k) for k in range(-20, 21))
        assert chosen < 0.8 * min(bound(solver.entry_bound / 2), bound(solver.entry_bound * 2))
        with pytest.raises(HypothesisViolated, match="contraction"):
            bound(solver.entry_bound, replace(solver, step=solver.step / 2))
    declared = heavy_tailed.default(
        problem, Guarantee(1.0, 1e-6, ADD_REMOVE), sparsity=s, radius=1.0, moment=moment, smoothness=0.8
    )
    assert declared.step == 1 / 0.8


def test_without_privacy_nothing_is_shrunk():
    problem = Problem(RowSpec(20, math.inf), Squared(), 1000.0)
    solver = heavy_tailed.default(problem, Guarantee(math.inf, 0.0, ADD_REMOVE), sparsity=2, radius=1.0)
    assert solver.entry_bound == math.inf


@pytest.mark.parametrize(("eps", "delta", "s"), [(0.5, 1e-6, 10), (2.0, 0.05, 3), (1.0, 0.0, 2)])
def test_laplace_noise_is_the_accountant_s_for_every_guarantee(eps, delta, s):
    """Also for pure DP, and without the hypotheses of the printed scale."""
    problem = Problem(RowSpec(200, math.inf), Squared(), 10_000.0)
    for unit in (ADD_REMOVE, REPLACE_ONE, Unit("add-remove", 2)):
        solver = heavy_tailed.default(
            problem, Guarantee(eps, delta, unit), sparsity=s, radius=2.0, mechanism="laplace", parts=3
        )
        assert isinstance(solver.peeling, LaplacePeeling)
        plan = compose(rehearse(solver, problem, unit))
        assert 0.9999 * eps < epsilon(plan, delta, unit).upper <= eps
    free = Guarantee(math.inf, 0.0, ADD_REMOVE)
    quiet = heavy_tailed.default(problem, free, sparsity=s, radius=2.0, mechanism="laplace")
    assert quiet.peeling == LaplacePeeling(s, 0.0)
    assert quiet.entry_bound == math.inf


def test_pure_privacy_takes_laplace_noise_unless_it_is_told_otherwise():
    problem = Problem(RowSpec(3, math.inf), Squared(), 100.0)
    pure = Guarantee(1.0, 0.0, ADD_REMOVE)
    solver = heavy_tailed.default(problem, pure, sparsity=2)
    assert isinstance(solver.peeling, LaplacePeeling)
    assert epsilon(compose(rehearse(solver, problem, ADD_REMOVE)), 0.0, ADD_REMOVE).upper <= 1.0
    assert isinstance(heavy_tailed.default(problem, Guarantee(1.0, 1e-6, ADD_REMOVE), sparsity=2).peeling, Peeling)
    with pytest.raises(InvalidInput, match="mechanism='laplace'"):
        heavy_tailed.default(problem, pure, sparsity=2, mechanism="gumbel")


def test_bad_input():
    problem = Problem(RowSpec(3, math.inf), Squared(), 10.0)
    guarantee = Guarantee(1.0, 1e-6, ADD_REMOVE)
    with pytest.raises(InvalidInput, match="squared loss"):
        rehearse(HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 1.0, 1.0), Problem(ROWS, Logistic(), 10.0), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="hard_threshold"):  # before a sparsity is asked for
        heavy_tailed.default(Problem(ROWS, Logistic(), 10.0), guarantee)
    with pytest.raises(InvalidInput, match="step"):
        HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 0.0, 1.0)
    with pytest.raises(InvalidInput, match="moment"):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, moment=0.0)
    with pytest.raises(InvalidInput, match="smoothness"):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, smoothness=-1.0)
    with pytest.raises(InvalidInput, match="mechanism"):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, mechanism="gauss")
    with pytest.raises(InvalidInput, match="needs a sparsity"):
        heavy_tailed.default(problem, guarantee)
    with pytest.raises(TypeError):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, wrong=1)


@pytest.mark.parametrize("given", [{"step": 0.1, "smoothness": 1.0}, {"step": 0.1, "entry_bound": 1.0, "moment": 3.0}])
def test_what_would_have_no_effect_is_refused(given) -> None:
    problem, guarantee = Problem(RowSpec(4, math.inf), Squared(), 100.0), Guarantee(1.0, 1e-6, ADD_REMOVE)
    settled = dict(list(given.items())[:-1])
    heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, **settled)
    with pytest.raises(InvalidInput, match=list(given)[-1]):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, **given)
