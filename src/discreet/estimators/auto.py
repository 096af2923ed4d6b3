"""``solver="auto"``: the choice of a solver from public facts alone."""

from __future__ import annotations

from discreet.solvers import Guarantee, Problem

__all__ = ["choose"]


def choose(problem: Problem, guarantee: Guarantee) -> str:
    """The name of the solver that suits the problem."""
    return "descent"
