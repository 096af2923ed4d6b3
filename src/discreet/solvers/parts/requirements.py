"""What several solvers ask of a problem, refused in the same words."""

from __future__ import annotations

from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.solvers.base import Problem

__all__ = ["require_bounded_rows", "require_no_ridge", "require_unconstrained"]


def require_unconstrained(problem: Problem, method: str, other: str) -> None:
    """Refuses a constraint set; ``other`` is the solver that takes one."""
    if not isinstance(problem.domain, WholeSpace):
        raise InvalidInput(
            f"{method} has no constraint, but the problem has {type(problem.domain).__name__}; use solver={other!r}."
        )


def require_no_ridge(problem: Problem, method: str, other: str) -> None:
    """Refuses a ridge of the user's; ``other`` is the solver that takes one."""
    if problem.ridge:
        raise InvalidInput(
            f"{method} has no ridge of the user's, but the problem has ridge {problem.ridge:g}; for alpha > 0 use "
            f"solver={other!r}."
        )


def require_bounded_rows(problem: Problem, method: str) -> None:
    """Refuses rows without a public bound on their length, from which clips, steps and weights are chosen."""
    if not problem.rows.bounded:
        raise InvalidInput(f"{method} needs a row_norm to choose its settings; give one, or another solver.")
