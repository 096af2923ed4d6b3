"""A measurement of the rows that a public map makes from the given ones.

Claim: the map makes each row from one given row alone and keeps it within the bounds of its own public facts
(`discreet.queries.mapped`). Neighbouring datasets therefore become neighbouring ones, under either relation and for any
number of rows of a person, and the event of the measurement on the rows made is its event on the rows given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.measurements.base import Measurement
from discreet.noise.bits import Bits
from discreet.queries.mapped import MappedRows, RowMap
from discreet.rows import RowSpec
from discreet.units import Unit

__all__ = ["Mapped"]


@dataclass(frozen=True, eq=False)
class Mapped:
    """The answer of ``measurement`` on the rows that ``through`` makes.

    Args:
        rows: public facts about the given rows.
        measurement: about rows of ``through.rows``.
        through: the map.
    """

    rows: RowSpec
    measurement: Measurement
    through: RowMap

    def event(self, unit: Unit) -> Event:
        """The measurement's own event."""
        return self.measurement.event(unit)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> Any:
        """An answer about the rows made.

        Raises:
            InvalidInput: the data are not the rows that the map was made for.
        """
        if data.rows != self.rows:
            raise InvalidInput(f"the map is for {self.rows}, but these are {data.rows}. Nothing was released.")
        return self.measurement.sample(MappedRows(data, self.through, True), unit, bits)

    def blank(self) -> Any:
        """The measurement's own blank answer."""
        return self.measurement.blank()
