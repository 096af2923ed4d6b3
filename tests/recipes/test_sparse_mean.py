"""Settings of private means: which noise is taken, and how wide a sketch is."""

from __future__ import annotations

import math

import pytest

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.sketch import Sketch
from discreet.recipes.sparse_mean import Method, recipe, sketch_rows
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit


def test_the_sketch_follows_the_theory() -> None:
    """m = (R/σ)√ln(ed/m), and no sketch where that is d or more."""
    rows = RowSpec(10**6, 1.0)
    m = sketch_rows(rows, 50, 1e4, 8.45)
    assert m == pytest.approx(math.sqrt(50) * 1e4 / 8.45 * math.sqrt(math.log(math.e * 1e6 / m)), rel=1e-3)
    assert sketch_rows(RowSpec(1000, 1.0), 50, 1e4, 8.45) is None
    assert sketch_rows(rows, 50, 1e4, 0.0) is None
    assert sketch_rows(RowSpec(10**9, 1.0), 50, 1e9, 8.45) == 2**20
    small, large = RowSpec(10_000, 1.0), RowSpec(10**7, 1.0)
    guarantee = Guarantee(1.0, 1e-6, Unit("replace-one"))
    for facts, kind in ((small, GaussianSketch), (large, Sketch)):  # a matrix that fits into memory, or a hashed one
        plan = recipe(Problem(facts, Squared(), 1e3), guarantee, method="l1-recovery", sparsity=5)
        assert isinstance(plan.sketch, kind)  # type: ignore[union-attr]


def test_auto_takes_laplace_noise_for_very_sparse_rows_and_for_pure_privacy() -> None:
    def noise(s: int, delta: float, d: int = 1000) -> str:
        guarantee = Guarantee(1.0, delta, Unit("replace-one"))
        return recipe(Problem(RowSpec(d, 1.0), Squared(), 1e4), guarantee, sparsity=s).noise  # type: ignore[union-attr]

    assert noise(1, 1e-6) == "laplace"
    assert noise(100, 1e-6) == "gaussian"
    assert noise(100, 0.0) == "laplace"
    crossover = next(s for s in range(1, 1000) if noise(s, 1e-6) == "gaussian")
    assert all(noise(s, 1e-6) == "gaussian" for s in range(crossover, crossover + 50))


@pytest.mark.parametrize("method", ["gaussian", "l1-recovery"])
def test_gaussian_noise_is_refused_where_delta_is_0(method: Method) -> None:
    with pytest.raises(InvalidInput, match="use method='laplace'"):
        recipe(Problem(RowSpec(100, 1.0), Squared(), 1e4), Guarantee(1.0, 0.0, Unit("replace-one")), method=method)
