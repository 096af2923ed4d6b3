"""Settings are planned on an outline with few columns: the plan is that of the whole problem, and takes no room."""

from __future__ import annotations

import tracemalloc

import pytest

from discreet.calibration import Guarantee
from discreet.calibration.rehearse import foresee, rehearse
from discreet.errors import DiscreetError
from discreet.geometry import Box, L1Ball, L2Ball, Simplex, SparseSet, WholeSpace
from discreet.losses import Logistic, Softmax, Squared
from discreet.planning.auto import choose
from discreet.planning.compare import compare
from discreet.planning.plan import make_plan
from discreet.recipes import RECIPES, recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

COLUMNS, N = 400, 3000.0
DOMAINS = [WholeSpace(), L1Ball(2.0), L2Ball(1.0), Simplex(1.0), Box(-1.0, 1.0), SparseSet(5), SparseSet(150)]
USUAL = Guarantee(1.0, 1e-7, Unit("replace-one"))
OTHERS = [Guarantee(2.0, 1e-7, Unit("add-remove", 2)), Guarantee(1.0, 0.0, Unit("add-remove"))]


def problems(domain, columns=COLUMNS):
    for loss in (Logistic(), Squared(), Softmax(3)):
        rows = RowSpec(columns, 1.0, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
        yield Problem(rows, loss, N, domain, sparse=isinstance(loss, Logistic))


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_plan_on_an_outline_is_the_plan(domain):
    """Every recipe, and what it refuses: event by event, at more columns than an outline has."""
    compared = 0
    for problem in problems(domain):
        for guarantee in (USUAL, *OTHERS) if isinstance(domain, WholeSpace | L1Ball) else (USUAL,):
            for name in RECIPES:
                try:
                    solver = recipe(name)(problem, guarantee)
                except DiscreetError:
                    continue
                assert foresee(solver, problem, guarantee.unit) == rehearse(solver, problem, guarantee.unit), name
                compared += 1
    assert compared >= 9


def test_what_needs_the_whole_problem_is_rehearsed_on_it():
    """A solver that a few columns would not allow is not refused for them."""

    class Wide:
        def steps(self, problem):
            if problem.rows.n_features < COLUMNS:
                raise DiscreetError("too few columns")
            yield from recipe("descent")(problem, USUAL, iterations=3).steps(problem)

    problem = next(problems(WholeSpace()))
    assert len(foresee(Wide(), problem, USUAL.unit)) == 3


@pytest.mark.parametrize("name", ["scaled_descent", "sufficient_statistics"])
def test_too_many_columns_are_refused_before_anything_is_chosen(name):
    problem = Problem(RowSpec(10**6, 1.0, 0.5), Squared(), N)
    with pytest.raises(DiscreetError, match=r"second moment of 1000001 columns"):
        recipe(name)(problem, USUAL, **({"scales": "full"} if name == "scaled_descent" else {}))


@pytest.mark.parametrize(
    ("domain", "loss"), [(WholeSpace(), Logistic()), (L1Ball(2.0), Softmax(3)), (SparseSet(5), Squared())], ids=repr
)
def test_ten_million_columns_take_no_room(domain, loss):
    """One vector of them has 80 MB; planning everything takes less than half of it, most of it the accountant's."""
    many = Problem(RowSpec(10**7, 1.0, 0.5, getattr(loss, "classes", 1)), loss, N, domain)

    def everything():
        return compare(lambda *named: make_plan(many, USUAL, *named), choose(many, USUAL))

    everything()  # what is compiled or imported on the first call is not meant
    tracemalloc.start()
    try:
        found = everything()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(option.plan is not None for option in found) >= 3
    assert most < 40e6
