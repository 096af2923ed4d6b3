"""Settings of descent in one private scale from public facts, and what it refuses."""

from __future__ import annotations

import math
from functools import partial

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Huber, Squared
from discreet.recipes import scaled_descent
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.mean_offset import NUMBERS
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
COLUMNS = 1200
WIDE = Problem(RowSpec(COLUMNS, 1.0, 0.5), Squared(), 300.0)
recipe = partial(scaled_descent.recipe, scales="single")


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.relation)
@pytest.mark.parametrize(("eps", "releases"), [(0.05, 16), (8.0, None)])
def test_the_plan_spends_what_was_asked_for(unit, eps, releases):
    guarantee = Guarantee(eps, 1e-6, unit)
    solver = recipe(WIDE, guarantee)
    plan = rehearse(solver, WIDE, unit)
    assert len(plan) == (releases or 16 + solver.iterations + 1)
    assert eps * 0.999 <= epsilon(compose(plan), 1e-6, unit).upper <= eps


def test_more_noise_has_a_shorter_path():
    little, much = (recipe(WIDE, Guarantee(eps, 1e-6, ADD)) for eps in (8.0, 3.0))
    assert little.scales.step * little.iterations > much.scales.step * much.iterations
    assert little.iterations >= much.iterations
    assert little.clip == pytest.approx(NUMBERS.small * WIDE.rows.radius)  # in scales of the targets


def test_steps_are_those_of_the_path_lengths():
    """K = κ·n·norm/(ν·r) over all weights' steps, at most 2 scales a step, and 2 in all for the offset; slopes 0.1."""
    solver = recipe(WIDE, Guarantee(8.0, 1e-6, ADD))
    moved = solver.iterations * NUMBERS.small
    gradients = solver.noise_multiplier / math.sqrt(solver.iterations)
    assert solver.scales.step * moved == pytest.approx(0.25 * 300 / (gradients * WIDE.rows.radius))
    assert solver.scales.longest_step * NUMBERS.small == pytest.approx(NUMBERS.large)
    assert solver.scales.offset_step * moved == pytest.approx(NUMBERS.large)


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"loss": Huber(1.0)}, {}, "squared loss"),
        ({"ridge": 0.1}, {}, "ridge 0.1"),
        ({"domain": L2Ball(1.0)}, {}, "L2Ball"),
        ({"rows": RowSpec(COLUMNS, 1.0)}, {}, "intercept"),
        ({"rows": RowSpec(COLUMNS, math.inf, 1.0)}, {}, "row_norm"),
        ({}, {"scale_share": 0.97}, "shares"),
        ({}, {"scale_share": 0.5, "offset_share": 0.5}, "shares"),
        ({"n": 20.0}, {"clip": 0.1}, "no effect"),
    ],
)
def test_what_it_cannot_do_is_refused(changes, options, words):
    facts = {"rows": WIDE.rows, "loss": Squared(), "n": 300.0} | changes
    with pytest.raises(InvalidInput, match=words):
        recipe(Problem(**facts), Guarantee(1.0, 1e-6, ADD), **options)


def test_pure_privacy_is_refused():
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(WIDE, Guarantee(1.0, 0.0, ADD))


def test_weights_can_be_asked_for_under_strong_noise():
    guarantee = Guarantee(0.05, 1e-6, ADD)
    assert recipe(WIDE, guarantee).scales.kind == "location"
    assert recipe(WIDE, guarantee, iterations=7).scales.kind == "single"
    assert recipe(WIDE, guarantee, iterations=7).iterations == 7
    assert recipe(WIDE, guarantee, scale_share=0.5).iterations >= 32
