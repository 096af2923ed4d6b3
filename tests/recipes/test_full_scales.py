"""Settings of descent through a second moment, from public facts: for any loss."""

import math
from functools import partial

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.losses import Huber, Logistic, Poisson, Quantile, SmoothedHinge, Softmax, Squared
from discreet.recipes import scaled_descent
from discreet.recipes.shared import NUMBERS, curvature_bound
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

recipe = partial(scaled_descent.recipe, scales="full")


def guarantee(eps, delta=1e-8):
    return Guarantee(eps, delta, Unit("add-remove"))


def test_newton_takes_fewer_steps_and_then_more_damping_as_noise_grows():
    problems = [Problem(RowSpec(100, 1.0, 0.5), Squared(), n) for n in (1e6, 3000.0, 100.0, 1.0)]
    solvers = [recipe(problem, guarantee(0.05)) for problem in problems]
    assert [s.iterations for s in solvers] == sorted((s.iterations for s in solvers), reverse=True)
    assert solvers[0].iterations > solvers[1].iterations > solvers[2].iterations
    assert solvers[0].scales.damping == solvers[1].scales.damping == 1.5 < solvers[3].scales.damping
    asked = recipe(problems[3], guarantee(0.5), iterations=7, damping=2.0)
    assert (asked.iterations, asked.scales.damping) == (7, 2.0)
    assert recipe(problems[2], guarantee(math.inf)).iterations == 8


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_plan_keeps_the_guarantee_and_wastes_little(relation):
    problem, unit = Problem(RowSpec(5, 1.0, 0.5), Squared(), 4000.0), Unit(relation)
    solver = recipe(problem, Guarantee(1.0, 1e-6, unit))
    assert 0.999 < epsilon(compose(rehearse(solver, problem, unit)), 1e-6, unit).upper <= 1.0


def test_shares_and_clips_are_those_of_the_options():
    problem = Problem(RowSpec(5, 1.0, 0.5), Squared(), 4000.0)
    solver = recipe(problem, guarantee(1.0), moment_share=0.3, clip=0.2)
    gradients = solver.noise_multiplier**-2 * solver.iterations
    assert solver.scales.moment_multiplier**-2 / (gradients + solver.scales.moment_multiplier**-2) == pytest.approx(0.3)
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
        recipe(problem, guarantee(1.0), moment_share=1.0)
    with pytest.raises(InvalidInput, match="leave one out"):
        recipe(problem, guarantee(1.0), clip=1.0, target_bound=1.0)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(problem, guarantee(1.0, 0.0))
    with pytest.raises(InvalidInput, match="row_norm"):
        recipe(Problem(RowSpec(2, math.inf), Poisson(), 10.0), guarantee(math.inf))
    with pytest.raises(TypeError):
        recipe(problem, guarantee(1.0), wrong=1)


@pytest.mark.parametrize(
    ("loss", "curvature", "slope"),
    [
        (Squared(), 1.0, 1.0),
        (Logistic(), 0.25, 0.5),
        (Softmax(3), 0.5, math.sqrt(2 / 3)),
        (Huber(0.5), 1.0, 0.5),
        (Poisson(), 2.0, 1.0),
        (Quantile(0.7), 0.7 / NUMBERS.kink_width, 0.7),
        (SmoothedHinge(0.5), 2.0, 1.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_loss_has_a_curvature_bound_and_a_public_clip(loss, curvature, slope):
    """With next to no noise the clip is the longest gradient at θ = 0; a step is the inverse of the curvature bound."""
    rows = RowSpec(5, 1.0, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
    problem, unit = Problem(rows, loss, 1e9), Unit("add-remove")
    solver = recipe(problem, guarantee(1.0))
    assert solver.scales.curvature == curvature_bound(problem) == pytest.approx(curvature)
    assert (solver.step, solver.decay) == (1.0, 0.0)
    assert solver.clip == pytest.approx(slope * rows.radius)
    assert 0.999 < epsilon(compose(rehearse(solver, problem, unit)), 1e-8, unit).upper <= 1.0
