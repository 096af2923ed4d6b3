"""Losses of one's own: what is declared is searched, and what is fitted is the table."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dp
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.losses import Domain, Huber, Logistic, Poisson, Squared, Tabulated, Welsch, tabulated
from discreet.losses.named import LABEL_LOSSES, NUMBER_LOSSES, named_loss
from discreet.losses.tabulated import LARGEST_SCORE
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec


class Cauchy:
    """½·log(1 + r²): robust, not convex, |slope| ≤ ½, |curvature| ≤ 1."""

    def __init__(self, lipschitz=0.5, smoothness=1.0, convex=False):
        self.constants, self.convex = (lipschitz, smoothness), convex

    def value(self, z, y):
        return 0.5 * np.log1p((z - y) ** 2)

    def slope(self, z, y):
        return (z - y) / (1 + (z - y) ** 2)

    def lipschitz(self, domain):
        return self.constants[0]

    def smoothness(self, domain):
        return self.constants[1]


class Margin(Cauchy):
    """1/(1 + e^m) of a margin m: |slope| ≤ ¼, |curvature| ≤ 0.0963."""

    slope_sign_fixed = True

    def value(self, z, y):
        return 1 / (1 + np.exp(y * z))

    def slope(self, z, y):
        return -y * np.exp(-np.abs(z)) / (1 + np.exp(-np.abs(z))) ** 2


@pytest.mark.parametrize("loss", [Cauchy(), Cauchy(math.inf, math.inf)])
def test_the_table_is_the_loss_to_its_spacing(loss):
    found = tabulated(loss, labels=False)
    rng = np.random.default_rng(0)
    z, y = rng.uniform(-5, 5, 4000), rng.uniform(-1, 1, 4000)
    # third derivatives are at most 2: linear interpolation errs by spacing²/4 in z and as much in y
    np.testing.assert_allclose(found.slope(z, y), loss.slope(z, y), atol=2.0**-15)
    np.testing.assert_allclose(found.value(z, y), loss.value(z, y), atol=1e-4)
    step = 1e-5
    difference = (found.value(z + step, y) - found.value(z - step, y)) / (2 * step)
    np.testing.assert_allclose(found.slope(z, y), difference, atol=2e-5)
    assert found.lipschitz(Domain()) <= 0.5
    assert found.smoothness(Domain()) <= 1.0 or not math.isfinite(loss.smoothness(None))
    assert not found.convex
    assert found.largest_gap() == pytest.approx(0.5 * math.log(2), rel=1e-4)


def test_beyond_the_table_the_slope_stays_and_the_value_is_straight():
    found = tabulated(Cauchy(), labels=False)
    end = float(found.slope(LARGEST_SCORE, 0.5))
    assert found.slope([20.0, 1e300], 0.5).tolist() == [end, end]
    rise = float(found.value(LARGEST_SCORE + 3, 0.5) - found.value(LARGEST_SCORE, 0.5))
    assert rise == pytest.approx(3 * end)
    for method in (found.value, found.slope, found.curvature):
        assert not np.isnan(method(np.array([-1e308, 0.0, 1e308, np.inf]), 0.2)).any()


def test_labels_have_two_tables_and_other_labels_none():
    found = tabulated(Margin(0.25, 0.1), labels=True)
    assert found.slope_sign_fixed
    np.testing.assert_allclose(found.slope([0.3, 0.3], [1.0, -1.0]), [-0.2445, 0.2445], atol=1e-4)
    assert np.isnan(found.slope(0.3, [0.5, np.nan])).all()


def test_the_library_s_own_are_taken_as_they_are():
    for loss in (Squared(), Huber(0.3), Welsch(0.5)):
        assert tabulated(loss, labels=False) is loss
    assert tabulated(Logistic(), labels=True).kind == Logistic.kind


class Subclass(Huber):
    """A subclass may say anything: it is tabulated like any other object."""

    def lipschitz(self, domain):
        return 1e-9


class Forgetful(Cauchy):
    def slope(self, z, y):
        self.calls = getattr(self, "calls", 0) + 1
        return super().slope(z, y) * (1 + 1e-3 * self.calls)


class Infinite(Cauchy):
    def value(self, z, y):
        return np.log(np.abs(z - y))


class Mismatched(Cauchy):
    def value(self, z, y):
        return 1.1 * super().value(z, y)


class Failing(Cauchy):
    def slope(self, z, y):
        raise RuntimeError("no")


class Negative(Cauchy):
    def smoothness(self, domain):
        return -1.0


class TwoSigns(Margin):
    def value(self, z, y):
        return np.log(np.cosh(z)) / 9

    def slope(self, z, y):
        return np.tanh(z) / 9


@pytest.mark.parametrize(
    ("loss", "labels", "words"),
    [
        (Cauchy(lipschitz=0.499), False, "slopes of at most 0.499"),
        (Cauchy(smoothness=0.99), False, "smoothness of 0.99"),
        (Cauchy(convex=True), False, "convex"),
        (Subclass(0.3), False, "slopes of at most 1e-09"),
        (Margin(0.2, 0.1), True, "slopes of at most 0.2"),
        (TwoSigns(1.0, 1.0, True), True, "one sign"),
        (Forgetful(), False, "asked again"),
        (Infinite(), False, "not finite"),
        (Mismatched(), False, "derivative"),
        (Failing(), False, "fails"),
        (Negative(), False, "at least 0"),
        (object(), False, "no method value"),
        (type("Half", (), {"value": abs})(), False, "no method slope"),
    ],
)
def test_false_declarations_are_refused(loss, labels, words):
    with pytest.raises(InvalidInput, match=words):
        tabulated(loss, labels=labels)


def test_no_row_is_ever_given_to_code_of_others():
    """Scores and targets that the object is asked about are the public grid, whatever the rows."""
    seen = []

    class Watching(Cauchy):
        def slope(self, z, y):
            seen.append((np.unique(z), np.unique(y)))
            return super().slope(z, y)

    X = np.random.default_rng(1).uniform(-0.5, 0.5, (200, 2))
    model = dp.LinearRegression(1.0, 1e-5, row_norm=1.0, target_bounds=(-1, 1), loss=Watching(), random_state=0)
    model.fit(X, X[:, 0] / 3)
    assert seen
    for scores, targets in seen:
        assert (len(scores), len(targets)) == (4097, 257)
        assert set(np.diff(scores)) == set(np.diff(targets)) == {2.0**-7}


def test_gradients_of_a_table_are_those_of_the_compiled_loss_to_its_spacing():
    """Huber by its table and Huber compiled; dense and sparse rows give the same integers."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(300, 4)) / 4, rng.uniform(-1, 1, 300)
    y[0], X[5] = np.nan, X[5] * 1e200
    rows, theta = RowSpec(4, 1.0, 0.5), rng.normal(size=5)
    table = tabulated(type("Plain", (Huber,), {})(0.5), labels=False)
    assert isinstance(table, Tabulated)
    dense, sparse = (
        GradientSum(rows, table, theta, 0.4).integers(in_memory(kind(X), y, rows)) for kind in (np.array, sp.csr_array)
    )
    np.testing.assert_array_equal(dense, sparse)
    compiled = GradientSum(rows, Huber(0.5), theta, 0.4)
    gap = np.abs(compiled.grid * (dense - compiled.integers(in_memory(X, y, rows))))
    assert gap.max() < 300 * rows.radius * 2 * 2.0**-7 / 4  # a kink is off by a quarter of the spacing in z, and in y


@pytest.mark.parametrize("clip", [0.01, 0.3])
def test_no_row_of_a_table_contributes_more_than_its_bound(clip):
    table, rows = tabulated(Cauchy(), labels=False), RowSpec(3, 2.0, 1.0)
    rng, largest = np.random.default_rng(3), 0
    for _ in range(200):
        x, y = rng.normal(size=(1, 3)) * 10.0 ** rng.integers(-8, 8), rng.normal(size=1) * 10.0 ** rng.integers(-3, 9)
        query = GradientSum(rows, table, rng.normal(size=4) * 10.0 ** rng.integers(-3, 5), clip)
        total = query.integers(in_memory(x, y, rows)).astype(object)
        largest = max(largest, int((total**2).sum()))
    assert 0.99 * query.bound**2 < largest <= query.bound**2


def test_names():
    for known, labels in ((LABEL_LOSSES, True), (NUMBER_LOSSES, False)):
        for name in known:
            assert named_loss(name, labels=labels).slope_sign_fixed == labels
    assert named_loss("tukey:0.8", labels=False).width == 0.8
    for words, labels in (("welsch", True), ("wlsch", False), ("welsch:wide", False), ("squared:1", False)):
        with pytest.raises(InvalidInput):
            named_loss(words, labels=labels)
    with pytest.raises(InvalidInput, match="own"):
        dp.LinearRegression(1.0, 1e-5, row_norm=1.0, target_bounds=(0, 1), loss=Poisson()).fit([[0.5]], [0.5])
