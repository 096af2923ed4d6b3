"""Accelerated proximal gradient steps converge sooner than plain ones, and to rounding."""

from itertools import islice

import numpy as np

from discreet.solvers.parts.fista import fista


def after(count: int, *, accelerated: bool) -> float:
    """Distance to the minimum of an ill-conditioned quadratic after so many steps."""
    curvatures = np.logspace(-4, 0, 20)
    *_, last = islice(fista(lambda x: x - curvatures * (x - 1.0), np.zeros(20), accelerated=accelerated), count)
    return float(np.linalg.norm(np.sqrt(curvatures) * (last.point - 1.0)))


def test_acceleration_pays_and_converges_to_rounding() -> None:
    assert after(100, accelerated=True) < 0.3 * after(100, accelerated=False)
    assert after(5000, accelerated=True) < 1e-9


def test_without_acceleration_it_is_the_plain_iteration() -> None:
    x = np.array([3.0, -2.0])
    for point, extrapolated, previous in islice(fista(lambda v: 0.5 * v, x, accelerated=False), 6):
        np.testing.assert_array_equal(extrapolated, previous)
        np.testing.assert_array_equal(point, 0.5 * previous)
