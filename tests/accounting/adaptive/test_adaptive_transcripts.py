"""δ(ε) of whole transcripts in one dimension, by quadrature, against the closed form for a minimiser beside Gaussians.

A transcript is a noisy sum a, the perturbed minimiser θ of rows that a map made, which was chosen by a, and a noisy
count whose bin was chosen by a and θ. Given a and θ the last release is a Gaussian pair at the loss so far, so that the
integral over it is closed; θ is told by its cell, which is post-processing and tends to θ itself; a is integrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.accounting import delta
from discreet.accounting.exact.objective_perturbation import objective_profile
from discreet.accounting.exact.pairs import GaussianPair
from discreet.events import Compose, Gaussian, ObjectivePerturbation
from discreet.units import Unit

Array = NDArray[np.float64]
Row = tuple[float, float]
CUT = 0.5


def cut_logistic(theta: Array, x: float, y: float) -> Array:
    """Slopes of at most ½: a label that contradicts the score pulls no harder than one at the boundary."""
    return -y * x * np.minimum(1 / (1 + np.exp(np.clip(y * x * theta, -500, 500))), CUT)


def hinge(theta: Array, x: float, y: float) -> Array:
    """Smoothed hinge of width ½."""
    return -y * x * np.clip((1 - y * x * theta) / 0.5, 0.0, 1.0)


def cut_squares(theta: Array, x: float, y: float) -> Array:
    """Squared loss whose gradient is cut at ±1."""
    return np.clip((x * theta - y) * x, -1.0, 1.0)


#: gradient of a row, bound L on it, bound β on its curvature, directions, labels
LOSSES: dict[str, tuple[Callable[[Array, float, float], Array], float, float, int, tuple[float, ...]]] = {
    "cut logistic": (cut_logistic, CUT, 0.25, 1, (-1.0, 1.0)),
    "hinge": (hinge, 1.0, 2.0, 1, (-1.0, 1.0)),
    "cut squares": (cut_squares, 1.0, 1.0, 2, (-3.0, 3.0)),
}

MAPS: dict[str, Callable[[float, float], float]] = {
    "as it is": lambda a, x: x,
    "turned by the answer": lambda a, x: x if a > 0.5 else -x,
    "weighted by the answer": lambda a, x: x * min(1.0, max(0.0, a)),
    "centred by the answer": lambda a, x: (x - 0.4 * math.tanh(a)) * 1.5,
}


class World:
    """The law of the transcript on one dataset, on a fixed grid of a and cells of θ."""

    def __init__(self, rows: list[Row], setting: Setting, make: Callable[[float, float], float]) -> None:
        gradient, sigma, ridge = setting.gradient, setting.sigma, setting.ridge
        self.sum = sum(x for x, _ in rows)
        self.rows = len(rows)
        self.cells = np.empty((len(setting.a), len(setting.theta) - 1))
        for i, a in enumerate(setting.a):
            made = [(min(1.0, max(-1.0, make(float(a), x))), y) for x, y in rows]  # each row clipped anew, by itself
            slope = ridge * setting.theta + sum((gradient(setting.theta, x, y) for x, y in made), np.zeros(1))
            self.cells[i] = np.diff(ndtr(slope / sigma))  # the tilt −slope falls in θ


class Setting:
    """Public facts: loss, ridge, noise of the three releases, grids."""

    def __init__(self, name: str, ridge: float, multiplier: float, before: float, after: float) -> None:
        self.gradient, self.bound, curvature, directions, self.labels = LOSSES[name]
        self.ridge, self.sigma = ridge, multiplier * self.bound
        self.before, self.after = before, after
        minimiser = ObjectivePerturbation(multiplier, math.log1p(curvature / ridge), directions)
        self.event = Compose([Gaussian(before), minimiser, Gaussian(after)])
        reach = (9 * self.sigma + 6) / ridge
        self.a = np.linspace(-6 * before - 3, 6 * before + 4, 61)
        self.theta = np.linspace(-reach, reach, 301)

    def delta(self, p: World, q: World, epsilon: float, moved: int) -> float:
        """∫ over a, cells of θ and counts of (p − e^ε q)₊; the count moves by the rows that moved, all in one bin."""
        width = self.a[1] - self.a[0]
        likely = np.exp(-(((self.a - p.sum) / self.before) ** 2) / 2) / (self.before * math.sqrt(2 * math.pi)) * width
        loss = (((self.a - q.sum) / self.before) ** 2 - ((self.a - p.sum) / self.before) ** 2) / 2
        keep = (p.cells > 1e-300) & (q.cells > 1e-300)
        safe_p, safe_q = np.where(keep, p.cells, 1.0), np.where(keep, q.cells, 1.0)
        left = epsilon - loss[:, None] - np.log(safe_p) + np.log(safe_q)
        total = np.where(keep, p.cells * GaussianPair(moved / self.after).profile(left), p.cells)
        return float(likely @ total.sum(axis=1))


def worst(setting: Setting, unit: Unit, epsilons: tuple[float, ...], make: Any) -> Array:
    """The largest δ over neighbours whose moved rows come from a list, around two rows and around none."""
    k = unit.rows_per_unit
    low, high = setting.labels[0], setting.labels[-1]
    kinds: list[Row] = [(1.0, low), (1.0, high), (-1.0, low)]
    found = np.zeros(len(epsilons))
    for others in ([], [(1.0, high), (-0.5, low)]):
        base = World(others, setting, make)
        more = [World([*others, *[row] * k], setting, make) for row in kinds]
        pairs = [(one, base) for one in more] + [(base, one) for one in more]
        moved = k
        if unit.relation == "replace-one":
            pairs = [(one, other) for one in more for other in more if one is not other]
            moved = 2 * k  # out of one bin, into another: no further than the bound says
        found = np.maximum(found, [max(setting.delta(p, q, e, moved) for p, q in pairs) for e in epsilons])
    return found


UNITS = [Unit("add-remove"), Unit("replace-one"), Unit("add-remove", 2)]
#: ridge, noise of the tilt, of the sum before and of the count after
SETTINGS = [(0.5, 3.0, 4.0, 3.0), (4.0, 2.0, 6.0, 9.0), (60.0, 1.5, 6.0, 7.0)]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", list(LOSSES))
def test_no_transcript_is_worse_than_the_closed_form(name: str, unit: Unit) -> None:
    """Maps and bins that follow the answers; log det from next to nothing to more than ε."""
    targets, nearest = (0.05, 1.5), 0.0
    for numbers in SETTINGS:
        setting = Setting(name, *numbers)
        bounds = np.array([delta(setting.event, target, unit).upper for target in targets])
        for make in MAPS.values():
            found = worst(setting, unit, targets, make)
            assert (found <= bounds + 1e-9).all()
            nearest = max(nearest, float((found / bounds).max()))
    assert nearest > (0.85 if unit == UNITS[0] and LOSSES[name][3] == 1 else 0.2)


LENGTHS = [0.01, 0.3, 1.0, 3.0]


@pytest.mark.parametrize("mu", LENGTHS)
@pytest.mark.parametrize(
    "weights", [{1.0: 2.0}, {1.0: 2.0, 2.0: 1.0}, {1.0: 4.0, math.sqrt(3): 2.0, 2.0: 2.0}], ids=str
)
def test_several_vertices_cover_the_one_at_zero_below_log_det(mu: float, weights: dict[float, float]) -> None:
    """1 − e^t + e^t·Σ w·H_0 ≤ Σ w·H_t for t < 0: what the composition with Gaussians rests on there."""
    t = -np.geomspace(1e-6, 20.0, 400)
    pairs = [(weight, GaussianPair(length * mu)) for length, weight in weights.items()]
    with_zero = -np.expm1(t) + np.exp(t) * sum(weight * pair.profile(np.zeros(1)) for weight, pair in pairs)
    claimed = sum(weight * pair.profile(t) for weight, pair in pairs)
    assert (with_zero <= claimed + 1e-12).all()


@pytest.mark.parametrize("mu", LENGTHS)
@pytest.mark.parametrize("log_det", [0.01, 0.5, 4.0])
def test_one_vertex_needs_both_orders_below_log_det(mu: float, log_det: float) -> None:
    """The loss bound alone, 1 − e^t(1 − H_0), is above H_t; that of both orders, 1 − e^ε + e^ε·H_{−ε−c}, is not."""
    pair = GaussianPair(mu)
    epsilon = -np.geomspace(1e-6, 20.0, 400)
    claimed = pair.profile(epsilon - log_det)
    swapped = -np.expm1(epsilon) + np.exp(epsilon) * pair.profile(-epsilon - log_det)
    assert (swapped <= claimed + 1e-12).all()
    alone = 1 - np.exp(epsilon - log_det) * (1 - pair.profile(np.zeros(1)))
    assert (alone > claimed).any()


@pytest.mark.parametrize("unit", [*UNITS, Unit("replace-one", 2)], ids=str)
@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("log_det", [0.02, 1.0])
def test_the_closed_form_is_above_a_convolution_of_losses(unit: Unit, directions: int, log_det: float) -> None:
    """E f(ε − L) over the Gaussian loss L of the others, f the minimiser's bound by vertices at every real ε."""
    event, other = ObjectivePerturbation(3.0, log_det, directions), unit.sensitivity(1.0) / 4.0
    added, moved = unit.rows_per_unit, unit.sensitivity(1.0)
    m = round(moved)
    if m == 2:
        parts = [(directions, 2.0), (directions * (directions - 1), math.sqrt(3)), (2 * directions, 1.0)]
    else:
        parts = [(math.comb(m, j) * directions**j, float(j)) for j in range(1, m + 1)]
    shifts = other * np.linspace(-9, 11, 4001) + other**2 / 2
    likely = np.exp(-(np.linspace(-9, 11, 4001) ** 2) / 2)
    for target in (added * log_det + 0.3, added * log_det + 1.0, added * log_det + 2.5):
        left = target - shifts - added * log_det
        inside = sum(weight * GaussianPair(length / 3.0).profile(left) for weight, length in parts if weight)
        convolved = float(np.average(inside, weights=likely))
        closed = float(objective_profile(event, unit, other)(np.array([target]))[0])
        assert closed == pytest.approx(min(convolved, 1.0), rel=1e-6)
