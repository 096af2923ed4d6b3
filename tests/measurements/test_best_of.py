"""The best of a random number of runs: the number is geometric, one value is shown, and every run keeps to its plan."""

from __future__ import annotations

import numpy as np
import pytest

from discreet import events
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput, PlanViolation
from discreet.losses import Logistic
from discreet.measurements import BestOf, Noisy
from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.units import Unit

UNIT = Unit("replace-one")
ROWS = RowSpec(2, 1.0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)) / 3
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
DATA = in_memory(X, Y, ROWS)


def counting(calls, scores=None):
    """A program that notes each run and returns its number."""

    def program(run):
        calls.append(run)
        yield Noisy(GradientSum(ROWS, Logistic(), np.zeros(2), 1.0), Gaussian(5.0))
        return np.array([float(run)]), float(run if scores is None else scores[run % len(scores)])

    return program


def test_the_number_of_runs_is_geometric_and_the_best_is_shown():
    bits, counts = Bits.seeded(1), []
    for _ in range(2000):
        calls = []
        value = BestOf(counting(calls), 3.0).sample(DATA, UNIT, bits)
        real = calls[1:]  # the first is the rehearsal
        assert value[0] == max(real) == len(real) - 1
        counts.append(len(real))
    expected = 2000 * np.array([1 / 3 * (2 / 3) ** k for k in range(8)] + [(2 / 3) ** 8])
    found = np.bincount(np.minimum(counts, 9), minlength=10)[1:]
    assert (((found - expected) ** 2) / expected).sum() < 31.8  # 8 degrees of freedom: exceeded with probability 1e-4


def test_the_event_is_the_selection_of_one_run():
    event = BestOf(counting([]), 4.0).event(UNIT)
    assert event == events.PrivateSelection(events.Gaussian(5.0), 4.0, "geometric")
    assert BestOf(counting([]), 4.0).blank().tolist() == [0.0]
    with pytest.raises(InvalidInput, match="at least 1"):
        BestOf(counting([]), 0.5)


def test_a_run_that_asks_for_more_is_not_answered():
    def program(run):
        first = yield Noisy(GradientSum(ROWS, Logistic(), np.zeros(2), 1.0), Gaussian(5.0))
        yield Noisy(GradientSum(ROWS, Logistic(), np.zeros(2), 1.0), Gaussian(1.0 if np.any(first) else 5.0))
        return np.zeros(1), 0.0

    with pytest.raises(PlanViolation, match="was charged"):
        BestOf(program, 2.0).sample(DATA, UNIT, Bits.seeded(0))
