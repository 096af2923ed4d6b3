"""What an estimator will run on rows that nobody has seen: its own code, from the declarations and two numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.features import Features
from discreet.estimators.regressors import Lasso
from discreet.planning.compare import Option, choice, options
from discreet.rows import MOST_ROWS, RowSpec
from discreet.solvers import Problem, Solver
from discreet.units import Unit

__all__ = ["Planned", "compared", "planned"]

_MOST_COLUMNS = 10**9
"""So many coefficients fill eight gigabytes."""
_VERTICES = "an ℓ1 ball: choosing vertices costs a row's largest entry and ln d, noisy gradients its length and √d"


@dataclass(frozen=True)
class Planned:
    """A solver by its name and as it is set up, on its problem, and what it must keep.

    Args:
        name: of the solver.
        solver: with its settings.
        problem: public facts.
        guarantee: what the run is calibrated to; less than was asked for where rows are counted first.
    """

    name: str
    solver: Solver
    problem: Problem
    guarantee: Guarantee


def planned(model: PrivateLinearModel, n: int, columns: int, *, sparse: bool = False, solver: str = "") -> Planned:
    """What ``model`` runs on n rows of so many columns, were it fitted to them. It is left as it is.

    Where the number of rows is private (add-remove without ``n_public``), the count that is released first is taken to
    say n; a fit goes on with the noisy count.

    Args:
        model: an estimator for plain arrays: ``row_norm``, not a schema; classes and target bounds declared.
        n: number of rows.
        columns: number of features.
        sparse: whether rows come in sparse form.
        solver: another solver's name, in place of the model's.

    Raises:
        InvalidInput: what `fit` would refuse of these declarations.

    Example:
        >>> from discreet.estimators import LogisticRegression
        >>> model = LogisticRegression(epsilon=1.0, row_norm=1.0, classes=[0, 1])
        >>> planned(model, 10_000, 5).name
        'objective_perturbation'
    """
    model, problem, guarantee = _facts(model, n, columns, sparse, solver)
    return Planned(*model._plan(problem, guarantee), problem, guarantee)


def compared(
    model: PrivateLinearModel, n: int, columns: int, *, sparse: bool = False
) -> tuple[Guarantee, list[Option]]:
    """What every solver would be to this model, the one that "auto" takes first; and what each is calibrated to.

    Args:
        model: as for `planned`, with ``solver="auto"``.
        n: number of rows.
        columns: number of features.
        sparse: whether rows come in sparse form.

    Raises:
        InvalidInput: what `fit` would refuse of these declarations, whatever the solver.

    Example:
        >>> from discreet.estimators import LinearRegression
        >>> model = LinearRegression(epsilon=1.0, row_norm=1.0, target_bounds=(0, 1))
        >>> compared(model, 10_000, 5)[1][0].name
        'preconditioned'
    """
    auto, problem, guarantee = _facts(model, n, columns, sparse, "auto")
    walks = isinstance(auto, Lasso) and auto._walks
    chosen = ("frank_wolfe", _VERTICES) if walks else choice(problem, guarantee)

    def set_up(name: str) -> tuple[Problem, Solver]:
        found = planned(model, n, columns, sparse=sparse, solver=name)
        return found.problem, found.solver

    return guarantee, options(problem, guarantee, set_up=set_up, chosen=chosen)


def _facts(
    model: PrivateLinearModel, n: int, columns: int, sparse: bool, solver: str
) -> tuple[PrivateLinearModel, Problem, Guarantee]:
    """As in `fit`, without rows."""
    for name, value, most in (("n", n, MOST_ROWS), ("d", columns, _MOST_COLUMNS)):
        if not 1 <= value <= most:
            raise InvalidInput(f"{name} must be between 1 and {most}, got {value}.")
    model = clone(model)
    if solver:
        model.set_params(solver=solver)
    model._check_parameters()
    private = math.isfinite(model.epsilon)
    nobody: Any = sp.csr_array((0, columns)) if sparse else np.empty((0, columns))
    features = Features.declared(nobody, model.schema, model.row_norm, None, private)
    targets, outputs = model._read_target(np.empty(0), None, private)
    rows = RowSpec(columns, features.row_norm, model._constant(features, columns), outputs)
    unit = Unit(model.adjacency, model.rows_per_unit)  # type: ignore[arg-type]
    guarantee = Guarantee(float(model.epsilon), model._delta(n, private), unit)
    if model._must_count(guarantee):
        counted, guarantee = float(n), model._count(guarantee)[2]
    else:
        counted = model._public_rows(n, guarantee)
    return model, model._problem(in_memory(nobody, targets, rows), counted, guarantee), guarantee
