"""Which solver "auto" takes follows from public facts: the loss, the dimension, the budget."""

import pytest

from discreet.geometry import L1Ball, SparseSet
from discreet.losses import Huber, Logistic, Softmax, Squared
from discreet.rows import RowSpec
from discreet.solvers import Guarantee, Problem
from discreet.theory.planner import choose
from discreet.units import Unit

APPROXIMATE, PURE = (Guarantee(1.0, delta, Unit("replace-one")) for delta in (1e-8, 0.0))


@pytest.mark.parametrize(
    ("loss", "columns", "guarantee", "domain", "expected"),
    [
        (Squared(), 20, APPROXIMATE, None, "preconditioned"),
        (Squared(), 900, APPROXIMATE, None, "preconditioned"),
        (Squared(), 1500, APPROXIMATE, None, "descent"),
        (Squared(), 1500, PURE, None, "objective_perturbation"),
        (Squared(), 700, APPROXIMATE, L1Ball(1.0), "preconditioned"),
        (Squared(), 700, PURE, L1Ball(1.0), "frank_wolfe"),
        (Squared(), 6000, APPROXIMATE, L1Ball(1.0), "frank_wolfe"),
        (Squared(), 20, APPROXIMATE, SparseSet(3), "preconditioned"),
        (Squared(), 2000, APPROXIMATE, SparseSet(3), "hard_threshold"),
        (Logistic(), 20, APPROXIMATE, SparseSet(3), "hard_threshold"),
        (Logistic(), 900, APPROXIMATE, L1Ball(5.0), "objective_perturbation"),
        (Logistic(), 6000, APPROXIMATE, L1Ball(5.0), "frank_wolfe"),
        (Huber(0.5), 1500, APPROXIMATE, None, "objective_perturbation"),
        (Logistic(), 20, APPROXIMATE, None, "objective_perturbation"),
        (Logistic(), 5000, APPROXIMATE, None, "objective_perturbation"),
        (Softmax(3), 20, APPROXIMATE, None, "descent"),
    ],
    ids=repr,
)
def test_the_choice(loss, columns, guarantee, domain, expected):
    rows = RowSpec(columns, 1.0, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
    problem = Problem(rows, loss, 2000.0) if domain is None else Problem(rows, loss, 2000.0, domain)
    assert choose(problem, guarantee) == expected


@pytest.mark.parametrize(
    ("columns", "epsilon", "sparse", "expected"),
    [
        (5000, 1.0, True, "reweighted"),
        (5000, 1.0, False, "objective_perturbation"),
        (500, 1.0, True, "objective_perturbation"),
        (5000, 0.02, True, "objective_perturbation"),  # energies drown in noise
    ],
)
def test_bags_of_words_are_weighted(columns, epsilon, sparse, expected):
    problem = Problem(RowSpec(columns, 1.0, 0.5), Logistic(), 5000.0, sparse=sparse)
    assert choose(problem, Guarantee(epsilon, 1e-8, Unit("replace-one"))) == expected
