"""Run a solver on blank answers, which shows its plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet.errors import DiscreetError
from discreet.events import Event
from discreet.geometry import Box, L1Ball, L2Ball, Simplex, SparseSet, WholeSpace
from discreet.measurements import program
from discreet.solvers.base import Problem, Solver
from discreet.units import Unit

__all__ = ["foresee", "rehearse"]

_FEW_COLUMNS = 256
"""The number of columns of the smaller problem on which `foresee` rehearses."""


def rehearse(solver: Solver, problem: Problem, unit: Unit) -> list[Event]:
    """The events of a run, found by running the solver itself on blank answers, so that plan and run cannot differ."""
    return program.rehearse(solver.steps(problem), unit)[0]


def foresee(solver: Solver, problem: Problem, unit: Unit) -> list[Event]:
    """The plan that `rehearse` finds, in a time that does not grow with the number of columns: for choosing settings.

    What depends on the number of columns is a setting of the solver, made from the whole problem before; no event does
    beyond that, so the plan for few columns is the plan for all. Nothing is charged by it: the vault rehearses
    in full before it charges, and answers nothing outside the plan that it charged.
    """
    try:
        return rehearse(solver, _outline(problem), unit)
    except DiscreetError:  # a setting that few columns do not allow, or one that is refused anyway
        return rehearse(solver, problem, unit)


def _outline(problem: Problem) -> Problem:
    """The problem with few columns in place of many, if neither its set nor its table has a dimension of its own."""
    rows, domain = problem.rows, problem.domain
    few = max(_FEW_COLUMNS, 2 * domain.s) if isinstance(domain, SparseSet) else _FEW_COLUMNS
    sizeless = isinstance(domain, WholeSpace | L1Ball | L2Ball | Simplex | SparseSet)
    if isinstance(domain, Box):
        sizeless = np.ndim(domain.low) == np.ndim(domain.high) == 0
    if rows.n_features <= few or not sizeless or problem.columns:
        return problem
    return replace(problem, rows=replace(rows, n_features=few))
