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
    """The value that a program returns when ``answer`` answers its measurements; a refusal is thrown into it."""
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
        result: T = stop.value
        return result


def rehearse(steps: Generator[Measurement, Any, T], unit: Unit) -> tuple[list[Event], T]:
    """(the events that a program asks for on blank answers, the value that it returns then)."""
    plan: list[Event] = []

    def answer(measurement: Measurement) -> Any:
        plan.append(measurement.event(unit))
        return measurement.blank()

    value = drive(steps, answer)
    return plan, value
