"""Persons with several rows, as examples of a training: the k rows of a person are in one slot.

Claim. Two tables are neighbours when they differ in the rows of one id (`discreet.data.persons`). The vault draws k
rows of each id, with repetitions where it has fewer, by coins for that id's rows alone. They are one example, whose
loss is the mean over its rows and whose gradient is clipped as one vector. So one person is one example, and whatever
is (ε, δ)-DP for single examples is (ε, δ)-DP for persons: the accountant counts one example a unit, whatever k is. Rows
that are protected by ``rows_per_unit`` without ids are k examples a unit, for which k times the noise is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.data.columns import Person
from discreet.data.persons import Persons, person_codes
from discreet.errors import InvalidInput
from discreet.noise.bits import Bits
from discreet.torch.rows import TorchRows
from discreet.units import Unit

__all__ = ["PersonExamples", "person_examples"]


@dataclass(frozen=True, eq=False)
class PersonExamples:
    """Whose each row is, where the rows of a person become one example."""

    persons: Persons

    @property
    def most_rows(self) -> int:
        """One example a person."""
        return 1

    @property
    def rows_each(self) -> int:
        """k, the rows of an example."""
        return self.persons.most_rows

    @property
    def count(self) -> int:
        """The number of persons: public under replace-one, private under add-remove."""
        return self.persons.count

    def shapes(self, data: TorchRows) -> TorchRows:
        """No examples at all, which have the shapes and types of the ones that will be drawn."""
        return data.grouped(np.empty((0, self.rows_each), dtype=np.int64))

    def bounded(self, data: TorchRows, bits: Bits) -> TorchRows:
        """One example a person, in a random order of persons; the vault calls it."""
        return data.grouped(self.persons.slots(bits).reshape(-1, self.rows_each))


def person_examples(groups: Any, unit: Unit, rows: int) -> PersonExamples | None:
    """Whose each row is, from one id a row; None where there are none.

    Args:
        groups: one id a row, or what `discreet.estimators.persons.persons_of` has found.
        unit: the relation, and the rows that each person takes part with.
        rows: the number of rows.

    Raises:
        InvalidInput: as many ids as rows are needed; under replace-one, one person at least; persons count once.
    """
    if groups is None:
        return None
    persons = groups if isinstance(groups, Persons) else Persons(person_codes(groups), Person(unit.rows_per_unit))
    if len(persons) != rows:
        raise InvalidInput("groups must have one id a row. Nothing was released.")
    if persons.declared.weights != "persons":
        raise InvalidInput("a person is one example, so that weights must be 'persons'. Nothing was released.")
    if unit.relation == "replace-one" and persons.count == 0:
        raise InvalidInput("no row says whose it is, and rows without an id take no part. Nothing was released.")
    return PersonExamples(persons)
