"""Programs: generators that yield measurements, are sent their answers, and return a value."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from discreet.events import Event
from discreet.measurements.base import Measurement
from discreet.units import Unit

__all__ = ["drive", "rehearse"]

T = TypeVar("T")


def drive(steps: Generator[Measurement, Any, T], answer: Callable[[Measurement], Any]) -> T:
    """The value that a program returns when ``answer`` answers its measurements."""
    try:
        measurement = next(steps)
        while True:
            measurement = steps.send(answer(measurement))
    except StopIteration as stop:
        value: T = stop.value
        return value


def rehearse(steps: Generator[Measurement, Any, T], unit: Unit) -> tuple[list[Event], T]:
    """(the events that a program asks for on blank answers, the value that it returns then)."""
    plan: list[Event] = []

    def answer(measurement: Measurement) -> Any:
        plan.append(measurement.event(unit))
        return measurement.blank()

    value = drive(steps, answer)
    return plan, value
