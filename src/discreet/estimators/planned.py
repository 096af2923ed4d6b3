"""The plan of an estimator without any rows: from its declarations, the number of rows and the number of columns."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.features import Features
from discreet.planning.auto import choose
from discreet.planning.compare import Comparison, compare
from discreet.planning.plan import Plan, make_plan
from discreet.refinement import ColumnBlock
from discreet.rows import MOST_ROWS, RowSpec
from discreet.solvers import Problem

__all__ = ["compared", "planned"]

_MOST_COLUMNS = 10**9
"""So many coefficients fill eight gigabytes."""


def planned(
    model: PrivateLinearModel,
    n: int,
    columns: int,
    *,
    sparse: bool = False,
    solver: str = "",
    options: dict[str, str] | None = None,
    blocks: tuple[ColumnBlock, ...] = (),
) -> Plan:
    """The plan of ``model`` for n rows of so many columns, were it fitted to them. The model is left as it is.

    Where the number of rows is private (add-remove without ``n_public``), the count that is released first is taken to
    say n; a fit goes on with the noisy count.

    Args:
        model: an estimator for plain arrays: ``row_norm``, not a schema; classes and target bounds declared.
        n: number of rows.
        columns: number of features.
        sparse: whether rows come in sparse form.
        solver: another solver's name, in place of the model's.
        options: of that solver.
        blocks: which features are of which column, where a schema's encoder makes them.

    Raises:
        InvalidInput: what `fit` would refuse of these declarations.

    Example:
        >>> from discreet.estimators import LogisticRegression
        >>> model = LogisticRegression(epsilon=1.0, row_norm=1.0, classes=[0, 1])
        >>> planned(model, 10_000, 5).name
        'objective_perturbation'
    """
    problem, guarantee, model = _declared(model, n, columns, sparse, solver, options, blocks)
    return make_plan(problem, guarantee, model.solver, model.solver_options)


def compared(
    model: PrivateLinearModel, n: int, columns: int, *, sparse: bool = False, blocks: tuple[ColumnBlock, ...] = ()
) -> tuple[Guarantee, list[Comparison]]:
    """Every solver for this model, the one that "auto" takes first; and the guarantee that each must keep.

    Args:
        model: as for `planned`, with ``solver="auto"``.
        n: number of rows.
        columns: number of features.
        sparse: whether rows come in sparse form.
        blocks: which features are of which column, where a schema's encoder makes them.

    Raises:
        InvalidInput: what `fit` would refuse of these declarations, whatever the solver.

    Example:
        >>> from discreet.estimators import LinearRegression
        >>> model = LinearRegression(epsilon=1.0, row_norm=1.0, target_bounds=(0, 1))
        >>> compared(model, 10_000, 5)[1][0].name
        'scaled_descent'
    """

    problem, guarantee, _ = _declared(model, n, columns, sparse, "auto", blocks=blocks)

    def plan_for(name: str, options: dict[str, str]) -> Plan:
        return planned(model, n, columns, sparse=sparse, solver=name, options=options, blocks=blocks)

    return guarantee, compare(plan_for, choose(problem, guarantee))


def _declared(
    model: PrivateLinearModel,
    n: int,
    columns: int,
    sparse: bool,
    solver: str,
    options: dict[str, str] | None = None,
    blocks: tuple[ColumnBlock, ...] = (),
) -> tuple[Problem, Guarantee, PrivateLinearModel]:
    """The problem and the guarantee that `fit` would make of the declarations, without rows; and the model asked."""
    for name, value, most in (("n", n, MOST_ROWS), ("d", columns, _MOST_COLUMNS)):
        if not 1 <= value <= most:
            raise InvalidInput(f"{name} must be between 1 and {most}, got {value}.")
    model = clone(model)
    if solver:
        model.set_params(solver=solver, **({"solver_options": options} if options else {}))
    model._check_parameters()
    private = math.isfinite(model.epsilon)
    nobody: Any = sp.csr_array((0, columns)) if sparse else np.empty((0, columns))
    features = Features.declared(nobody, model.schema, model.row_norm, None, private)
    _, outputs = model._read_target(np.empty(0), None, private)
    rows = RowSpec(columns, features.row_norm, model._constant(features, columns), outputs)
    guarantee, counted = model._guarantee(n), float(n)
    if model._must_count(guarantee):
        guarantee = model._count(guarantee)[2]
    else:
        counted = model._public_rows(n, guarantee)
    problem = model._problem(features, rows, sparse, counted, guarantee)
    if blocks and model._chooses_interactions():
        problem = replace(problem, columns=blocks)
    return problem, guarantee, model
