"""Settings of the private Newton method from public facts."""

import math

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.losses import Squared
from discreet.recipes.preconditioned import recipe
from discreet.recipes.shared import NUMBERS
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit


def guarantee(eps, delta=1e-8):
    return Guarantee(eps, delta, Unit("add-remove"))


def test_newton_takes_fewer_steps_and_then_more_damping_as_noise_grows():
    problems = [Problem(RowSpec(100, 1.0, 0.5), Squared(), n) for n in (1e6, 3000.0, 100.0, 1.0)]
    solvers = [recipe(problem, guarantee(0.05)) for problem in problems]
    assert [s.iterations for s in solvers] == sorted((s.iterations for s in solvers), reverse=True)
    assert solvers[0].iterations > solvers[1].iterations > solvers[2].iterations
    assert solvers[0].damping == solvers[1].damping == 1.5 < solvers[3].damping
    asked = recipe(problems[3], guarantee(0.5), iterations=7, damping=2.0)
    assert (asked.iterations, asked.damping) == (7, 2.0)
    assert recipe(problems[2], guarantee(math.inf)).iterations == 8


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_plan_keeps_the_guarantee_and_wastes_little(relation):
    problem, unit = Problem(RowSpec(5, 1.0, 0.5), Squared(), 4000.0), Unit(relation)
    solver = recipe(problem, Guarantee(1.0, 1e-6, unit))
    assert 0.999 < epsilon(compose(rehearse(solver, problem, unit)), 1e-6, unit).upper <= 1.0


def test_shares_and_clips_are_those_of_the_options():
    problem = Problem(RowSpec(5, 1.0, 0.5), Squared(), 4000.0)
    solver = recipe(problem, guarantee(1.0), share=0.3, clip=0.2)
    gradients = solver.noise_multiplier**-2 * solver.iterations
    assert solver.moment_multiplier**-2 / (gradients + solver.moment_multiplier**-2) == pytest.approx(0.3)
    assert solver.clip == 0.2


def test_the_clip_grows_as_noise_falls_to_the_largest_gradient_at_zero():
    rows = RowSpec(100, 1.0, 0.5)
    clips = [recipe(Problem(rows, Squared(), n), guarantee(1.0)).clip / rows.radius for n in (100.0, 1e4, 1e9)]
    assert (clips[0], clips[2]) == pytest.approx((NUMBERS.least_clip, 1.0))
    assert NUMBERS.least_clip < clips[1] < 1.0
    wider = recipe(Problem(rows, Squared(), 1e9), guarantee(1.0), target_bound=3.0)
    assert wider.clip == pytest.approx(3.0 * rows.radius)


def test_refusals():
    problem = Problem(RowSpec(2, 1.0), Squared(), 10.0)
    with pytest.raises(InvalidInput, match="share"):
        recipe(problem, guarantee(1.0), share=1.0)
    with pytest.raises(InvalidInput, match="leave one out"):
        recipe(problem, guarantee(1.0), clip=1.0, target_bound=1.0)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(problem, guarantee(1.0, 0.0))
    with pytest.raises(TypeError):
        recipe(problem, guarantee(1.0), wrong=1)
