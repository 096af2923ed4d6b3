"""The base of all events, their JSON, and the checks that their fields share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from discreet.errors import InvalidInput
from discreet.text import read_json, shortened

__all__ = ["Event", "count", "fraction", "from_dict", "from_json", "inner", "inner_tuple", "number", "positive"]


@dataclass(frozen=True)
class Event:
    """Base of all events.

    Only the classes of `discreet.events` can be read from JSON, so that what a process can read never depends on what
    it has imported. A class defined elsewhere can be accounted (`discreet.accounting.rule`), but no ledger records it.
    """

    _kinds: ClassVar[dict[str, type[Event]]] = {}
    _stored_names: ClassVar[dict[str, str]] = {}
    """Fields whose key in JSON is not their name, because it was released under another."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith(f"{__package__}."):
            Event._kinds[cls.__name__] = cls

    def restated(self, ratio: float) -> Event:
        """The event in terms of neighbours that are ``ratio`` times closer than those in whose terms it is written.

        Most events are written in terms of one row and stay as they are. An event that measures public lengths by the
        distance between neighbours changes with that distance, and so does whatever contains it.
        """
        changes: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Event):
                changes[field.name] = value.restated(ratio)
            elif isinstance(value, tuple) and any(isinstance(item, Event) for item in value):
                changes[field.name] = tuple(item.restated(ratio) for item in value)
        return replace(self, **changes) if changes else self

    def to_dict(self) -> dict[str, Any]:
        """The event as plain lists, strings and numbers."""
        stored = {self._stored_names.get(f.name, f.name): _plain(getattr(self, f.name)) for f in fields(self)}
        return {"kind": type(self).__name__} | stored

    def to_json(self) -> str:
        """The event as one line of JSON with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True)


def from_dict(tree: dict[str, Any]) -> Event:
    """Read back what `Event.to_dict` wrote.

    A field whose stored key is not its name is read under either, and under one only.

    Raises:
        InvalidInput: it is no event of `discreet.events`, or a field is missing, unknown or out of range.
    """
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str) or tree["kind"] not in Event._kinds:
        raise InvalidInput(f"not an event: {shortened(tree)}. Known kinds: {', '.join(sorted(Event._kinds))}.")
    kind = Event._kinds[tree["kind"]]
    arguments = {name: _event_like(value) for name, value in tree.items() if name != "kind"}
    for name, stored in kind._stored_names.items():
        if name in arguments and stored in arguments:
            raise InvalidInput(f"not a {tree['kind']} event: {stored!r} and {name!r} are one field, given twice.")
        if stored in arguments:
            arguments[name] = arguments.pop(stored)
    try:
        return kind(**arguments)
    except InvalidInput:
        raise
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise InvalidInput(f"not a {tree['kind']} event: {problem}") from None


def from_json(text: str) -> Event:
    """Read back what `Event.to_json` wrote.

    Example:
        >>> from discreet.events import Gaussian, Repeat
        >>> from_json(Repeat(Gaussian(2.0), 10).to_json())
        Repeat(event=Gaussian(noise_multiplier=2.0), times=10)
    """
    return from_dict(read_json(text, "the event"))


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _event_like(value: Any) -> Any:
    if isinstance(value, dict):
        return from_dict(value)
    if isinstance(value, list):
        return tuple(_event_like(item) for item in value)
    return value


def number(event: Event, name: str, ok: Callable[[float], bool], requirement: str) -> None:
    """Store the field ``name`` as a float, or refuse it.

    Raises:
        InvalidInput: it is no number, or ``ok`` is false of it; ``requirement`` says in words what it must be.
    """
    value: Any = getattr(event, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        try:
            value = float(getattr(value, "item")())  # noqa: B009 - numpy scalars are welcome, stored as plain floats
        except (AttributeError, TypeError, ValueError):
            raise InvalidInput(f"{type(event).__name__}.{name} must be a number, got {value!r}.") from None
    value = float(value)
    if math.isnan(value) or not ok(value):
        raise InvalidInput(f"{type(event).__name__}.{name} must be {requirement}, got {value!r}.")
    object.__setattr__(event, name, value)


def count(event: Event, name: str, least: int) -> None:
    """Store the field ``name`` as an int of at least ``least``, or refuse it.

    Raises:
        InvalidInput: it is no whole number, or too small.
    """
    value = getattr(event, name)
    whole = not isinstance(value, bool) and hasattr(value, "__index__")
    if not whole and isinstance(value, float) and value.is_integer():
        value, whole = int(value), True
    if not whole or int(value) < least:
        raise InvalidInput(f"{type(event).__name__}.{name} must be an integer of at least {least}, got {value!r}.")
    object.__setattr__(event, name, int(value))


def inner(event: Event, name: str = "event") -> None:
    """Refuse a field that should hold an event and does not."""
    if not isinstance(getattr(event, name), Event):
        raise InvalidInput(f"{type(event).__name__}.{name} must be an event, got {getattr(event, name)!r}.")


def inner_tuple(event: Event, events: Iterable[Event]) -> None:
    """Store ``events`` as a tuple, or refuse what is no event."""
    events = tuple(events)
    for one in events:
        if not isinstance(one, Event):
            raise InvalidInput(f"{type(event).__name__} takes events, got {one!r}.")
    object.__setattr__(event, "events", events)


def positive(value: float) -> bool:
    """Whether a number is positive and finite."""
    return 0 < value < math.inf


def fraction(value: float) -> bool:
    """Whether a number is in [0, 1]."""
    return 0 <= value <= 1
