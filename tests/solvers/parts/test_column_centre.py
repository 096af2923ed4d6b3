"""A centre of the columns is found wherever it is, also under bounds that are far too wide, and not where it is 0."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.noise.bits import Bits
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.column_centre import NUMBERS, column_centre
from discreet.units import Unit
from discreet.vault import Vault

D = 30


class Centred:
    """Releases a centre, as a solver, so that a vault adds the noise."""

    def __init__(self, multiplier, width):
        self.multiplier, self.width = multiplier, width

    def steps(self, problem):
        return (yield from column_centre(problem, self.multiplier, self.width))


def found(X, norm, multiplier, ledger=None):
    rows = RowSpec(D, norm)
    vault = Vault(in_memory(X, np.zeros(len(X)), rows), Unit("replace-one"), ledger or Ledger(), Bits.seeded(5))
    return vault.run(Centred(multiplier, 3.0), Problem(rows, Squared(), float(len(X))))


@pytest.mark.parametrize("too_wide", [1.0, 1e3])
def test_a_centre_is_found_under_any_bound(too_wide):
    """The last sum has noise of about .009 and rows' own means of .009: .15 is beyond ten deviations of both.

    Columns whose rows lie on both sides of 0 alike stay at 0, but for a chance of 8 % that noise takes one further.
    """
    rng = np.random.default_rng(0)
    means = np.where(np.arange(D) < 10, 30.0 * (-1.0) ** np.arange(D), 0.0)
    half = rng.standard_t(5, (10_000, D))
    X = means + np.concatenate([half, -half])
    ledger = Ledger()
    centre = found(X, too_wide * 200.0, 10.0, ledger)
    assert len(ledger.history()) == 1
    np.testing.assert_allclose(centre, means, atol=0.15)
    assert not centre[10:].any()


def test_much_noise_leaves_the_columns_where_they_are():
    """No entry of the centre is the work of noise: each is above what the largest of d normal numbers usually is."""
    rng = np.random.default_rng(1)
    assert not found(rng.standard_normal((50, D)), 8.0, 30.0).any()


def test_without_noise_the_centre_is_the_mean():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (500, D)) + np.arange(D) / 3
    np.testing.assert_allclose(found(X, 100.0, 0.0), X.mean(axis=0), atol=1e-9)
    assert NUMBERS.releases > 1
