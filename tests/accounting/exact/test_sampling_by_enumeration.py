"""Sampled events against every batch of a tiny dataset: no pair of neighbours may exceed the bound.

Rows are numbers in [−1, 1]; a batch's sum is released with Gaussian or Laplace noise; the law of the answer is the
mixture over all batches, on a fine grid. Both relations, units of one and two rows, three ways to sample.
"""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import accounting
from discreet.accounting.upper.renyi import divergence
from discreet.accounting.upper.stated import pure_epsilon
from discreet.events import FixedSize, Gaussian, Laplace, Poisson, Repeat, WithReplacement
from discreet.units import Unit

SCALE = 2.0
GRID = np.linspace(-45, 45, 3601)
STEP = GRID[1] - GRID[0]


def density(kind, mean):
    if kind is Gaussian:
        return np.exp(-((GRID - mean) ** 2) / (2 * SCALE**2)) / (SCALE * math.sqrt(2 * math.pi))
    return np.exp(-np.abs(GRID - mean) / SCALE) / (2 * SCALE)


def poisson(rows, rate):
    for inside in product([0, 1], repeat=len(rows)):
        yield math.prod(rate if i else 1 - rate for i in inside), sum(x for x, i in zip(rows, inside, strict=True) if i)


def fixed_size(rows, batch):
    chosen = list(combinations(rows, batch))
    for part in chosen:
        yield 1 / len(chosen), sum(part)


def with_replacement(rows, batch):
    for part in product(rows, repeat=batch):
        yield len(rows) ** -batch, sum(part)


def law(kind, batches):
    total = np.zeros_like(GRID)
    for weight, mean in batches:
        total += weight * density(kind, mean)
    return total


def found(p, q, order):
    keep = q > 0
    return math.log(np.sum(q[keep] * (p[keep] / q[keep]) ** order) * STEP) / (order - 1)


rows = st.lists(st.sampled_from([-1.0, -0.4, 0.0, 0.7, 1.0]), min_size=4, max_size=4)
units = st.tuples(st.sampled_from(["add-remove", "replace-one"]), st.sampled_from([1, 2]))


def neighbours(data, others, relation, k):
    """Rows of the unit come last; n counts them, so add-remove takes them away."""
    return (data[:-k] + others[:k]) if relation == "replace-one" else data[:-k]


@settings(max_examples=80, deadline=None)
@given(
    data=rows,
    others=rows,
    unit=units,
    order=st.sampled_from([1.5, 2.0, 5.0]),
    kind=st.sampled_from([Gaussian, Laplace]),
)
def test_poisson_batches(data, others, unit, order, kind):
    rate = 0.3
    other = neighbours(data, others, *unit)
    p, q = law(kind, poisson(data, rate)), law(kind, poisson(other, rate))
    event = Poisson(rate, kind(SCALE))
    bound = divergence(event, order, Unit(*unit))
    assert max(found(p, q, order), found(q, p, order)) <= bound * (1 + 1e-6) + 1e-9
    if kind is Laplace:
        assert np.abs(np.log(p / q)).max() <= pure_epsilon(event, Unit(*unit)) + 1e-9


@settings(max_examples=80, deadline=None)
@given(
    data=rows,
    others=rows,
    unit=units,
    order=st.sampled_from([1.5, 2.0, 5.0]),
    kind=st.sampled_from([Gaussian, Laplace]),
)
def test_batches_of_fixed_size(data, others, unit, order, kind):
    batch = 2
    other = neighbours(data, others, *unit)
    p, q = law(kind, fixed_size(data, batch)), law(kind, fixed_size(other, batch))
    event = FixedSize(batch, len(data), kind(SCALE))
    bound = divergence(event, order, Unit(*unit))
    assert max(found(p, q, order), found(q, p, order)) <= bound * (1 + 1e-6) + 1e-9
    if kind is Laplace:
        assert np.abs(np.log(p / q)).max() <= pure_epsilon(event, Unit(*unit)) + 1e-9


@settings(max_examples=80, deadline=None)
@given(
    data=rows,
    others=rows,
    unit=units,
    order=st.sampled_from([1.5, 2.0, 5.0]),
    kind=st.sampled_from([Gaussian, Laplace]),
)
def test_draws_with_replacement(data, others, unit, order, kind):
    batch = 2
    other = neighbours(data, others, *unit)
    p, q = law(kind, with_replacement(data, batch)), law(kind, with_replacement(other, batch))
    event = WithReplacement(batch, len(data), kind(SCALE))
    bound = divergence(event, order, Unit(*unit))
    assert max(found(p, q, order), found(q, p, order)) <= bound * (1 + 1e-6) + 1e-9
    if kind is Laplace:
        assert np.abs(np.log(p / q)).max() <= pure_epsilon(event, Unit(*unit)) + 1e-9


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_poisson_gaussian_bound_is_reached(relation):
    """The worst neighbours: all of the unit's rows at 1, against none, or against all at −1."""
    data = [0.0, 0.0, 1.0, 1.0]
    other = [0.0, 0.0] if relation == "add-remove" else [0.0, 0.0, -1.0, -1.0]
    p, q = law(Gaussian, poisson(data, 0.3)), law(Gaussian, poisson(other, 0.3))
    worst = max(found(p, q, 4.0), found(q, p, 4.0))
    assert divergence(Poisson(0.3, Gaussian(SCALE)), 4.0, Unit(relation, 2)) == pytest.approx(worst, rel=1e-8)


def hockey_stick(p, q, epsilon):
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)) * STEP)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [2, 3])
def test_several_rows_in_batches_of_fixed_size(relation, rows) -> None:
    """δ of every pair of neighbours is within the upper bound, and that of the extreme ones is the lower bound."""
    unit, n, batch = Unit(relation, rows), 6, 2
    event = FixedSize(batch, n, Gaussian(SCALE))
    levels = (0.0, 0.2, 0.7, 1.5)
    bounds = [accounting.delta(event, level, unit) for level in levels]
    rng, most = np.random.default_rng(4), [0.0] * len(levels)
    for trial in range(120):
        others = [-1.0] * (n - rows) if trial == 0 else rng.choice([-1.0, -0.3, 0.5, 1.0], n - rows).tolist()
        mine = [1.0] * rows if trial == 0 else rng.choice([-1.0, 0.0, 0.6, 1.0], rows).tolist()
        theirs = [-1.0] * rows if trial == 0 else rng.choice([-1.0, 0.0, 1.0], rows).tolist()
        p = law(Gaussian, fixed_size(others + mine, batch))
        q = law(Gaussian, fixed_size(others if relation == "add-remove" else others + theirs, batch))
        for i, level in enumerate(levels):
            found = max(hockey_stick(p, q, level), hockey_stick(q, p, level))
            assert found <= bounds[i].upper * (1 + 1e-4)  # the grid's own error at a kink
            most[i] = max(most[i], hockey_stick(p, q, level))
            if trial == 0:
                assert hockey_stick(p, q, level) == pytest.approx(bounds[i].lower, rel=1e-4)
    if relation == "add-remove":
        for bound, reached in zip(bounds, most, strict=True):
            assert bound.upper == pytest.approx(reached, rel=1e-4)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_several_rows_cost_no_more_than_one_after_the_other(relation) -> None:
    run = Repeat(FixedSize(100, 10_000, Gaussian(1.0)), 1000)
    found = accounting.epsilon(run, 1e-6, Unit(relation, 2))
    assert 30.3 < found.lower <= found.upper < 42  # group privacy: 63.8
