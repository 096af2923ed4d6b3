"""No exception tells about rows where next to no regularisation lets scores run away.

There float64 certifies nothing, and whether a minimiser is looked for in decimal arithmetic depends on the rows. That
must not fail: exponentials of scores overflow decimals too, and a plain majorised gradient method would take ages.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.data.memory import in_memory
from discreet.losses import Huber, Logistic, Loss, Quantile, SmoothedHinge, Squared
from discreet.queries.minimiser import extended_precision
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec

X = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
Y = np.array([1, 0, 1, 0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("epsilon", "ridge"), [(30.0, 1e-9), (100.0, 1e-12), (300.0, 1e-20)])
def test_a_fit_ends_whatever_the_rows(epsilon: float, ridge: float, seed: int, monkeypatch: Any) -> None:
    called = []
    minimise = extended_precision.minimise_in_decimals
    monkeypatch.setattr(extended_precision, "minimise_in_decimals", lambda *given: called.append(1) or minimise(*given))
    for rows in (X, 0 * X, X[::-1]):
        model = dp.LogisticRegression(
            epsilon, 1e-6, row_norm=1.0, classes=[0, 1], adjacency="add-remove", n_public=10, random_state=seed,
            solver="objective_perturbation", solver_options={"regularisation": ridge},
        )  # fmt: skip
        assert np.isfinite(model.fit(rows, Y).coef_).all()
    if (epsilon, seed) in ((30.0, 0), (100.0, 2), (300.0, 2)):
        assert called  # these tilts do lead there; on rows of zeros no tilt does


LOSSES: list[Loss] = [Logistic(), SmoothedHinge(0.5), Huber(0.7), Squared(), Quantile(0.3, width=0.2)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("ridge", [1e-3, 1e-9])
def test_decimals_find_a_certified_point_from_anywhere(loss: Loss, ridge: float) -> None:
    """Tilts that outweigh all rows and such that do not; starts at 0 and far beyond. A gradient a millionth as
    long tells where the minimiser is; what is returned, the double nearest, lies within tolerance/λ of it."""
    rng = np.random.default_rng(1)
    rows = RowSpec(3, 1.0, 0.5)
    data = in_memory(rng.standard_normal((6, 3)), np.where(rng.random(6) < 0.5, 1.0, -1.0), rows)
    query = RidgeMinimiser(rows, loss, ridge, slope_bound=1.0)
    starts = [np.zeros(4), rng.standard_normal(4) / ridge]
    if ridge == 1e-3:
        starts.append(np.array([np.nan, np.inf, -np.inf, 0.0]))  # what float64 may have come to
    for size in (0.1, 30.0):
        tilt = size * rng.standard_normal(4)
        tolerance = query.least_tolerance(float(np.linalg.norm(tilt)))
        for start in starts:
            theta = extended_precision.minimise_in_decimals(query, data, tilt, start, tolerance)
            with localcontext(Context(prec=120)):
                apart = [a - Decimal(float(b)) for a, b in zip(_minimiser(query, data, tilt), theta, strict=True)]
                assert extended_precision._length(apart) <= Decimal(tolerance) * (1 + Decimal("1e-6")) / Decimal(ridge)


def test_decimals_need_no_matrix_of_all_columns(monkeypatch: Any) -> None:
    """Where a matrix of all columns would not fit, a multiple of the identity majorises; and ends as well."""
    monkeypatch.setattr(extended_precision, "_FEW", 0)
    rng = np.random.default_rng(2)
    rows = RowSpec(3, 1.0, 0.5)
    data = in_memory(rng.standard_normal((6, 3)), np.where(rng.random(6) < 0.5, 1.0, -1.0), rows)
    query, tilt = RidgeMinimiser(rows, Logistic(), 0.5), rng.standard_normal(4)
    tolerance = query.least_tolerance(float(np.linalg.norm(tilt)))
    expected = extended_precision.minimise_in_decimals(query, data, tilt, np.zeros(4), tolerance)
    monkeypatch.setattr(extended_precision, "_LARGEST_MATRIX", 0)
    monkeypatch.setattr(np, "outer", None)
    found = extended_precision.minimise_in_decimals(query, data, tilt, np.zeros(4), tolerance)
    assert np.linalg.norm(found - expected) <= 2 * tolerance / 0.5


def _minimiser(query: RidgeMinimiser, data: Any, tilt: Any) -> list[Decimal]:
    """To a millionth of the tolerance, by gradients that were written down anew."""
    (rows,) = data.map_blocks(lambda block: extended_precision._rows(block, query))
    gradient = partial(_gradient, query, rows, [Decimal(float(v)) for v in tilt])
    goal = Decimal(query.least_tolerance(0.0)) / 10**6
    steps = extended_precision._majorised(query, rows), partial(extended_precision._newton, query, rows)
    return extended_precision._anywhere(*steps, gradient, [Decimal(0)] * len(tilt), goal)


def _gradient(query: RidgeMinimiser, rows: Any, tilt: list[Decimal], theta: list[Decimal]) -> list[Decimal]:
    unit = Decimal(query.rows.unit)
    total = [Decimal(query.regularisation) * t + b for t, b in zip(theta, tilt, strict=True)]
    for columns, steps, y, cap, stretch in rows:
        assert stretch == 1  # no row is weighted here
        x = {j: unit * step for j, step in zip(columns, steps, strict=True)}
        z, y = sum(value * theta[j] for j, value in x.items()), Decimal(y)
        match query.loss:
            case Logistic():
                slope = -y / (1 + min(y * z, Decimal(10**5)).exp())  # beyond it is 0 to any number of digits
            case SmoothedHinge(width):
                slope = -y * min(max((1 - y * z) / Decimal(width), Decimal(0)), Decimal(1))
            case Huber(width):
                slope = min(max(z - y, -Decimal(width)), Decimal(width))
            case Quantile():
                level = Decimal(query.loss.parameter)
                shifted = (z - y) / Decimal(query.loss.smoothing) + Decimal("0.5") - level
                slope = min(max(shifted, -level), 1 - level)
            case _:
                slope = z - y
        slope = min(max(slope, -Decimal(cap)), Decimal(cap))
        for j, value in x.items():
            total[j] += slope * value
    return total
