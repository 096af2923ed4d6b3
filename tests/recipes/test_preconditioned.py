"""Settings of the private Newton method from public facts."""

import math

from discreet.calibration import Guarantee
from discreet.losses import Squared
from discreet.recipes.preconditioned import recipe
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
