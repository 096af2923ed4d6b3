"""What a measurement asks of the rows, in public words and numbers: for certificates.

An event says how much noise there was relative to the bound on one row's contribution; a `Question` says which sum it
was and what that bound was. It is made from the measurement alone, as events are, and never from an answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from discreet.floats import as_number
from discreet.measurements.best_of import BestOf
from discreet.measurements.program import drive
from discreet.queries.base import replace_one_factor

__all__ = ["Question", "questions"]


@dataclass(frozen=True)
class Question:
    """A sum, a minimiser or a choice that was asked for.

    Args:
        query: what was asked, by the name of its class.
        norm: in which one row's contribution is bounded.
        bound: C, the most that one row contributes: what gradients are clipped to. 0 where none applies.
        noise: the scale of the noise, in the same units; 0 where there is none of its own, as for a private choice.
        grid: the value of one step of the grid on which sum and noise are integers; 0 where the measurement chooses it.
        replace_one_factor: how far two rows' contributions are from each other at most, over C.
        after_answers: asked after other answers, from which its numbers may follow: they are left out, as 0.
    """

    query: str
    norm: str
    bound: float
    noise: float = 0.0
    grid: float = 0.0
    replace_one_factor: float = 2.0
    after_answers: bool = False

    def without_numbers(self) -> Question:
        """This question without its numbers, which may follow from answers that were given before."""
        return Question(self.query, self.norm, 0.0, after_answers=True)


def questions(measurement: Any) -> tuple[Question, ...]:
    """What ``measurement`` asks, with the parts of one that is made of others.

    Example:
        >>> from discreet.measurements import Noisy
        >>> from discreet.mechanisms import Laplace
        >>> from discreet.queries.sums.count import RowCount
        >>> questions(Noisy(RowCount(), Laplace(20.0)))[0].noise
        20.0
    """
    if hasattr(measurement, "measurements"):
        return tuple(one for part in measurement.measurements for one in questions(part))
    if hasattr(measurement, "measurement"):
        return questions(measurement.measurement)
    if isinstance(measurement, BestOf):  # how many runs there are is no one's to know: one stands for all
        return _of_program(lambda: measurement.program(0))
    if hasattr(measurement, "program"):
        return _of_program(measurement.program)
    if isinstance(own := getattr(measurement, "question", None), Question):
        return (own,)
    query = getattr(measurement, "query", None)
    return () if query is None else (_of_query(query, _multiplier(measurement)),)


def _of_program(program: Any) -> tuple[Question, ...]:
    found: list[Question] = []

    def answer(measurement: Any) -> Any:
        found.extend(questions(measurement))
        return measurement.blank()

    drive(program(), answer)
    return tuple(found)


def _multiplier(measurement: Any) -> float:
    inner = getattr(measurement, "mechanism", measurement)
    return float(getattr(inner, "noise_multiplier", 0.0))


def _of_query(query: Any, multiplier: float) -> Question:
    name, grid = type(query).__name__, getattr(query, "grid", 0.0)
    if not hasattr(query, "bound"):  # ranks: each row counts once, at positions of a declared grid
        return Question(name, "linf", 1.0, grid=_finite(getattr(grid, "step", 0.0)), replace_one_factor=1.0)
    step = _finite(grid)
    bound = _finite(query.bound) * step
    return Question(name, str(query.norm), bound, multiplier * bound, step, replace_one_factor(query))


def _finite(value: Any) -> float:
    """A bound as a float; 0 where there is none, as in runs without privacy."""
    number = as_number(value)
    return number if number is not None and math.isfinite(number) else 0.0
