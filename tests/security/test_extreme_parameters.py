"""The bounds hold, and rows stay independent, wherever θ is: also where a run with too long a step has sent it.

θ is public, but a score ⟨x, θ⟩ beyond all floats is not: what becomes of it must be bounded like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import discreet as dp
from discreet.data.memory import in_memory
from discreet.losses import Huber, Logistic, Loss, Poisson, Quantile, SmoothedHinge, Softmax, Squared
from discreet.queries.sums.candidate_scores import CandidateScores
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.model_score import ModelScore
from discreet.queries.sums.moments import CrossMoment, TargetMoment
from discreet.rows import RowSpec
from discreet.updates import Svrg

D, N = 9, 40  # nine columns: the kernels for wide rows
ONE, THREE, HUGE = RowSpec(D, 1.5, 0.7), RowSpec(D, 1.5, 0.7, 3), RowSpec(D, 1e200, 1.0)
SIZES = [1.0, 1e3, 1e150, 1e160, 1e305, 1.7e308, np.inf, np.nan]
ENTRIES = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, 1.0, 1e-40]
TARGETS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, 1.0, -1.0, 2.0, 3.0, 7.0, 1e19, -5.0, 0.5]
SCALAR = [Squared(), Logistic(), Huber(0.25), SmoothedHinge(1.0), Poisson(), Quantile(0.3, 0.05), Quantile(0.3, 0.0)]
Make = Callable[[RowSpec, Loss, NDArray[np.float64], NDArray[np.float64]], Any]

MAKES: dict[str, Make] = {
    "gradient": lambda rows, loss, theta, other: GradientSum(rows, loss, theta, 1.0),
    "change of gradient": lambda rows, loss, theta, other: GradientSum(rows, loss, theta, 1.0, anchor=other),
    "label": lambda rows, loss, theta, other: ModelScore(rows, loss, theta, True),
}
ONE_OUTPUT: dict[str, Make] = {
    **MAKES,
    "entrywise": lambda rows, loss, theta, other: EntrywiseGradientSum(rows, loss, theta, 0.7, 1.3),
    "number": lambda rows, loss, theta, other: ModelScore(rows, loss, theta, False),
}
CASES = [(rows, loss, name) for rows in (ONE, HUGE) for loss in SCALAR for name in ONE_OUTPUT]
CASES += [(THREE, Softmax(3), name) for name in MAKES]


def wild_rows(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    X, y = rng.choice(ENTRIES, (N, D)), rng.choice(TARGETS, N)
    X[: N // 2], y[: N // 4] = 3 * rng.standard_normal((N // 2, D)), rng.choice([-1.0, 0.0, 1.0, 2.0], N // 4)
    return X, y


def steps(query: Any, X: Any, y: NDArray[np.float64]) -> list[int]:
    rows = getattr(query, "rows", ONE)
    return [int(v) for v in np.asarray(query.integers(in_memory(X, y, rows))).ravel()]


def check(query: Any, rng: np.random.Generator) -> None:
    """Each row within its bound, the sum that of the rows one by one, and the same for sparse rows."""
    X, y = wild_rows(rng)
    alone = [steps(query, X[[i]], y[[i]]) for i in range(N)]
    for row in alone:
        if query.norm == "l2":
            assert sum(v * v for v in row) <= query.bound**2
        else:
            assert max(map(abs, row)) <= query.bound
    together = [sum(column) for column in zip(*alone, strict=True)]
    assert steps(query, X, y) == together
    assert steps(query, sp.csr_array(X), y) == together


@pytest.mark.parametrize(("rows", "loss", "name"), CASES)
def test_no_parameter_breaks_a_bound(rows: RowSpec, loss: Loss, name: str) -> None:
    rng = np.random.default_rng(1)
    for size in SIZES:
        theta = size * np.sign(rng.standard_normal(rows.shape))
        check(ONE_OUTPUT[name](rows, loss, theta, rng.standard_normal(rows.shape)), rng)


@pytest.mark.parametrize("bound", [1e-300, 1e-3, 1e300])
def test_no_target_bound_warns_about_a_target(bound: float) -> None:
    rng = np.random.default_rng(2)
    check(CrossMoment(ONE, bound), rng)
    check(TargetMoment(bound), rng)
    check(CandidateScores(HUGE, Squared(), 1e149 * rng.standard_normal((3, D + 1)), 2.0), rng)


def test_no_floating_point_setting_of_the_user_makes_a_row_raise() -> None:
    rng = np.random.default_rng(3)
    X, y = wild_rows(rng)
    with np.errstate(all="raise"):
        dp.LinearRegression(1.0, 1e-6, row_norm=1.0, target_bounds=(0, 1), solver="sufficient_statistics").fit(X, y)
        dp.quantile(y, epsilon=1.0, bounds=(0, 1), adjacency="replace-one")


def test_a_diverging_run_still_keeps_its_rows_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    # Poisson's slope e^z is infinite both at θ and at its anchor as soon as |⟨x, θ⟩| > 710, and their difference NaN.
    answers: list[NDArray[np.int64]] = []
    integers = GradientSum.integers

    def witness(self: GradientSum, data: Any) -> NDArray[np.int64]:
        answers.append(integers(self, data))
        return answers[-1]

    monkeypatch.setattr(GradientSum, "integers", witness)
    X = np.ones((50, 1))
    options = {"iterations": 12, "clip": 1.0, "update": Svrg(1e6, period=3)}
    model = dp.PoissonRegression(
        1.0, 1e-6, row_norm=1.0, target_bounds=(0, 1), solver="descent", solver_options=options, random_state=0
    )
    with np.errstate(all="ignore"):
        model.fit(X, np.ones(50))
    assert len(answers) == 12
    assert max(float(np.linalg.norm(a.astype(float))) for a in answers) <= 50 * GradientSum.bound
