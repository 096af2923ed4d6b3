"""Drive a solver: on blank answers for its plan, or on whatever answers its measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.events import Event
from discreet.measurements import Measurement
from discreet.solvers.base import Problem, Solver, Steps
from discreet.units import Unit

__all__ = ["drive", "rehearse"]


def rehearse(solver: Solver, problem: Problem, unit: Unit) -> list[Event]:
    """The plan of a run: the very same code on blank answers, so plan and run cannot drift apart."""
    plan: list[Event] = []

    def answer(measurement: Measurement) -> Any:
        plan.append(measurement.event(unit))
        return measurement.blank()

    drive(solver.steps(problem), answer)
    return plan


def drive(steps: Steps, answer: Callable[[Measurement], Any]) -> NDArray[np.float64]:
    """Answer each measurement until the solver returns; a refusal is thrown into the solver."""
    try:
        measurement = next(steps)
        while True:
            try:
                value = answer(measurement)
            except Exception as refusal:
                measurement = steps.throw(refusal)
            else:
                measurement = steps.send(value)
    except StopIteration as stop:
        return np.asarray(stop.value, dtype=np.float64)
