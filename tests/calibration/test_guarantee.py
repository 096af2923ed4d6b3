"""The noise of one release, exactly and in closed form."""

import pytest
from numpy import True_

from discreet.calibration import Guarantee
from discreet.calibration.guarantee import rough_multiplier
from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.recipes.descent import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit


@pytest.mark.parametrize(("delta", "eps"), [(1e-8, 0.1), (1e-8, 1.0), (1e-4, 8.0), (0.0, 1.0)])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_rough_multiplier_is_near_the_exact_one(delta, eps, relation):
    asked = Guarantee(eps, delta, Unit(relation))
    if delta:
        problem = Problem(RowSpec(3, 1.0), Squared(), 100.0)
        exact = recipe(problem, asked, iterations=1).noise_multiplier
    else:
        exact = asked.unit.sensitivity(1.0) / eps
    assert 0.95 * exact < rough_multiplier(asked) < 1.4 * exact


@pytest.mark.parametrize("bad", [True, True_, "1", None, [1.0], 1j])
def test_a_guarantee_is_made_of_numbers(bad):
    with pytest.raises(InvalidInput, match="numbers"):
        Guarantee(bad, 1e-6, Unit("replace-one"))
    with pytest.raises(InvalidInput, match="numbers"):
        Guarantee(1.0, bad, Unit("replace-one"))
