"""A rule of ``solver="auto"``: what is taken where a condition on public facts holds, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from discreet.planning.facts import Facts
from discreet.planning.options import labelled

__all__ = ["Rule"]


@dataclass(frozen=True)
class Rule:
    """``solver`` is taken where the condition holds and no earlier rule's does.

    Args:
        solver: a name of `discreet.recipes.RECIPES`.
        when: the condition.
        condition: in words.
        why: what the solver gains there.
        evidence: the theorem, sweep or benchmark behind it.
        scales: the scale model of ``scaled_descent``; empty for other solvers.
    """

    solver: str
    when: Callable[[Facts], bool]
    condition: str
    why: str
    evidence: str
    scales: str = ""

    @property
    def options(self) -> dict[str, str]:
        """The options of the solver that the rule sets."""
        return {"scales": self.scales} if self.scales else {}

    @property
    def label(self) -> str:
        """The solver in words, with its scale model."""
        return labelled(self.solver, self.scales)
