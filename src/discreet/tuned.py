"""Numbers that no theorem gives: each with its value, its meaning and its source, in one frozen dataclass a file.

The *source* of a number is one of

* ``theorem: …``: a formula with this constant, and where it is proved;
* ``sweep: KEY``: the sweep of that name in ``bench/defaults.py``, whose stored table must contain the value;
* ``judgement: …``: why, where neither theory nor simulation decides.

Sweeps put other values in place with `instead`, for the code inside a ``with`` block alone; nothing in the
library does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

__all__ = ["Tuned", "current", "instead", "tuned"]


@dataclass(frozen=True)
class Tuned:
    """Base of the dataclasses that hold tuned numbers; every field is made by `tuned`."""

    kinds: ClassVar[list[type[Tuned]]] = []

    def __init_subclass__(cls) -> None:
        Tuned.kinds.append(cls)


def tuned(value: Any, meaning: str, source: str) -> Any:
    """A field of a `Tuned` dataclass.

    Args:
        value: the number in use.
        meaning: what it is, in one sentence.
        source: ``"theorem: …"``, ``"sweep: KEY"`` or ``"judgement: …"``.
    """
    return field(default=value, metadata={"meaning": meaning, "source": source})


N = TypeVar("N", bound=Tuned)
_instead: ContextVar[Mapping[type[Tuned], Tuned]] = ContextVar("instead", default=MappingProxyType({}))


def current(numbers: N) -> N:
    """The numbers in use: ``numbers`` themselves, or what `instead` has put in their place."""
    found = _instead.get().get(type(numbers), numbers)
    assert isinstance(found, type(numbers))
    return found


@contextmanager
def instead(*numbers: Tuned) -> Iterator[None]:
    """Inside the block, each of ``numbers`` takes the place of the numbers of its kind: for simulations.

    Example:
        >>> from dataclasses import dataclass, replace
        >>> @dataclass(frozen=True)
        ... class Steps(Tuned):
        ...     most: int = tuned(400, "the most steps", "judgement: more take time and change nothing")
        >>> usual = Steps()
        >>> with instead(replace(usual, most=10)):
        ...     current(usual).most
        10
        >>> current(usual).most
        400
        >>> Tuned.kinds.remove(Steps)  # an example only
    """
    token = _instead.set({**_instead.get(), **{type(one): one for one in numbers}})
    try:
        yield
    finally:
        _instead.reset(token)
