"""Measurements: everything a solver can ask of the vault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.measurements.sampling import Sampling
from discreet.mechanisms.base import Mechanism
from discreet.noise.bits import Bits
from discreet.queries.base import Query
from discreet.units import Unit

__all__ = ["Measurement", "Noisy", "require_rows"]


class Measurement(Protocol):
    """A private question. Its event depends on the question alone, never on the rows."""

    def event(self, unit: Unit) -> Event:
        """What an answer costs."""
        ...

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> Any:
        """An answer. Called by the vault only, after the charge."""
        ...

    def blank(self) -> Any:
        """An answer without data, of the same shape: what a rehearsal sees."""
        ...


def require_rows(query: Any, data: Dataset) -> None:
    """Refuse a query about other rows than the dataset prepared: its bound would not hold for them.

    Raises:
        InvalidInput: the public facts differ.
    """
    rows = getattr(query, "rows", None)
    if rows is not None and rows != data.rows:
        raise InvalidInput(
            f"{type(query).__name__} is about {rows}, but these are {data.rows}, for which its bound does not hold. "
            "Nothing was released."
        )


@dataclass(frozen=True, eq=False)
class Noisy:
    """A bounded sum over all rows or over a batch, released under a mechanism."""

    query: Query
    mechanism: Mechanism
    sampling: Sampling | None = None

    def event(self, unit: Unit) -> Event:
        """The mechanism's event, amplified by the sampling."""
        event = self.mechanism.event(self.query, unit)
        return self.sampling.event(event, unit) if self.sampling else event

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> Any:
        """Draw the batch, sum in integers, add noise; floats come last."""
        require_rows(self.query, data)
        if self.sampling:
            data = self.sampling.draw(data, bits)
        if not self.mechanism.noise_multiplier:
            return self.mechanism.noiseless(self.query.unrounded(data))
        return self.mechanism.perturb(self.query.integers(data), self.query, bits)

    def blank(self) -> Any:
        """The answer for a sum of zero without noise."""
        return self.mechanism.noiseless(np.zeros(self.query.shape))
