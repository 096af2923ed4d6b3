"""Persons, not rows: whose each row is, and how many rows of a person take part.

Claim. Two tables are neighbours when they differ in the rows of one id, however many these are: under add-remove all
rows of an id are there or are not, under replace-one they are exchanged for the rows, any number of them but none, of
an id that nobody else has. From a table, `Persons.slots` draws rows such that

- what is drawn for one id is a function of coins for that id's rows alone, which no cell and no other id decides;
- with ``weights="persons"`` exactly k = ``most_rows`` rows are drawn for each id, with repetitions where it has fewer;
- with ``weights="rows"`` each id's rows, or k of them chosen uniformly where it has more;
- rows without an id, or with one that cannot be read, are left out, as a function of that cell alone;
- ids come in a random order, so that the place of a row says nothing about it.

Give all other ids the same coins in both tables. Then the rows drawn differ in k rows, added or removed under
add-remove, and with ``weights="persons"`` exchanged in the same places under replace-one, where the number of rows is k
times the number of ids, which is public. So whatever is (ε, δ)-DP for units of k rows (`discreet.units.Unit`) is
(ε, δ)-DP for persons given the coins, and averaging over coins keeps this (joint convexity of the hockey-stick
divergence). With ``weights="rows"`` the number of rows differs between persons, so that it is refused under
replace-one, where accounting takes it for public.

What the ids say is believed: one person under two ids is two persons, and rows of other people under a person's id are
that person's.

Which weights: noise is measured by k rows in both cases, and the sum it is added to counts k rows a person for
``"persons"`` and m ≤ k on average for ``"rows"``: relative to the signal the former has m/k of the latter's noise, for
every m. What it may lose is sampling error, where persons' rows are independent: with the arithmetic and harmonic
means A and H of persons' rows its variance is A/H ≤ (k + 1)²/(4k) times as large (Kantorovich). Where the rows of a
person are alike, it loses nothing. So ``"persons"`` is the default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.data.cells import spelling, untyped
from discreet.data.columns import Person
from discreet.data.frames import as_table, has_column_names
from discreet.data.places import placed
from discreet.errors import InvalidInput
from discreet.noise.bits import Bits
from discreet.rows import MOST_ROWS

__all__ = ["Persons", "id_column", "numbered_persons", "person_codes"]

Integers = NDArray[np.int64]


def id_column(data: Any, name: str, names: Sequence[str]) -> Any | None:
    """A column of a table as its library holds it; None where there is none of this name.

    Args:
        data: a frame, a mapping of columns, or a matrix.
        name: the column.
        names: the names of a matrix's columns.
    """
    if isinstance(data, Mapping):
        return data.get(name)
    if not has_column_names(data):
        column = as_table(data, names).get(name)
        if column is not None and isinstance(data, list | tuple):  # no cell of another column decides how ids are read
            return _objects([row[list(names).index(name)] for row in data])
        return column
    import narwhals

    frame = narwhals.from_native(data, eager_only=True)
    return next((frame.get_column(own).to_native() for own in frame.columns if str(own) == name), None)


def person_codes(ids: Iterable[Any]) -> Integers:
    """The number of each row's person, 0, 1, … in the order of first appearance; −1 for a row whose id is missing.

    Text is compared as text, blanks around it aside, and numbers as numbers: 3, 3.0 and ``"3"`` are the same person,
    ``"03"`` is another one. What is blank, undefined, or neither text, number nor UUID is missing.

    Raises:
        InvalidInput: ``ids`` is not one column; its shape is public.

    Example:
        >>> person_codes([7, "anna", 7.0, " anna", None, "7"])
        array([ 0,  1,  0,  1, -1,  0])
    """
    array = _exact_cells(ids)
    if array.ndim != 1:
        raise InvalidInput(f"ids must be one column, got {array.ndim} dimensions. Nothing was released.")
    if array.dtype.kind in "iuf":
        known = ~np.isnan(array) if array.dtype.kind == "f" else np.ones(len(array), bool)
        codes = np.full(len(array), -1, np.int64)
        _, first, which = np.unique(array[known], return_index=True, return_inverse=True)
        codes[known] = np.argsort(np.argsort(first))[which]  # by first appearance, as text is numbered
        return codes
    return numbered_persons([array.tolist()])


def numbered_persons(parts: Iterable[list[Any]]) -> Integers:
    """`person_codes` of a list of cells that comes in parts, of which a number a row and each id once are held.

    Example:
        >>> numbered_persons([[7, "anna"], [7.0, " anna", None, "7"]])
        array([ 0,  1,  0,  1, -1,  0])
    """
    seen: dict[str, int] = {"": -1}
    codes = [
        np.fromiter((seen.setdefault(_text(cell), len(seen) - 1) for cell in part), dtype=np.int64, count=len(part))
        for part in parts
    ]
    return np.concatenate(codes) if codes else np.empty(0, dtype=np.int64)


def _exact_cells(ids: Any) -> NDArray[Any]:
    """The cells as an array, never by way of floats, in which long numbers would become equal.

    Libraries turn whole numbers into floats where a cell of the column is missing: one person's row would then decide
    how the ids of others are read.
    """
    if isinstance(ids, list | tuple):
        return _objects(list(ids))
    if isinstance(ids, np.ma.MaskedArray):
        return _objects(ids.tolist()) if ids.ndim == 1 else np.empty(ids.shape)
    listed = getattr(ids, "to_pylist", None) or getattr(ids, "to_list", None)
    if isinstance(ids, np.ndarray) or listed is None:
        return untyped(ids)
    if isinstance(getattr(ids, "dtype", None), np.dtype) and ids.dtype.kind in "iu":
        return np.asarray(ids)
    try:
        return _objects(listed())
    except Exception:  # it may be about one cell, such as text that is not UTF-8
        return untyped(ids)


def _objects(cells: list[Any]) -> NDArray[Any]:
    return np.fromiter(cells, dtype=object, count=len(cells))  # np.array would unpack cells that are lists


def _text(cell: Any) -> str:
    kind = type(cell)
    if (kind.__module__, kind.__name__) == ("uuid", "UUID"):  # by name: that module draws random numbers too
        try:
            return str(cell)
        except Exception:  # a class that only says it is one
            return ""
    return spelling(cell)


@dataclass(frozen=True, eq=False)
class Persons:
    """Whose each row is, and how many rows of each person take part.

    Args:
        codes: the person of each row, as `person_codes` numbers them.
        declared: the most rows of a person, and what counts once.
    """

    codes: Integers
    declared: Person

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def most_rows(self) -> int:
        """The most rows of a person that take part."""
        return self.declared.most_rows

    @property
    def count(self) -> int:
        """The number of persons: public under replace-one, private under add-remove."""
        return int(self.codes.max(initial=-1)) + 1

    def slots(self, bits: Bits) -> Integers:
        """The rows that take part, some of them repeatedly: persons one after another, in a random order.

        O(rows · log rows + persons · most_rows) time, O(rows + persons · most_rows) memory.
        """
        from discreet.noise import permutation

        k, persons = self.most_rows, self.count
        owned = np.flatnonzero(self.codes >= 0)
        place = np.asarray(permutation(persons, bits=bits))[self.codes[owned]]
        rows = owned[np.lexsort((bits.words(len(owned)), place))]
        held = np.bincount(place, minlength=persons)
        first = np.cumsum(held) - held
        if self.declared.weights == "rows":
            turn = np.arange(len(rows)) - np.repeat(first, held)
            return np.asarray(rows[turn < k], dtype=np.int64)
        turn = np.tile(np.arange(k), persons) % np.repeat(np.minimum(held, k), k)
        return np.asarray(rows[np.repeat(first, k) + turn], dtype=np.int64)

    def bounded(self, data: Dataset, bits: Bits) -> Dataset:
        """The rows of ``data`` that take part.

        Raises:
            InvalidInput: there are more ids or fewer than rows, or too many rows for the integer sums.
        """
        if len(data) != len(self):
            raise InvalidInput("ids and rows must be as many. Nothing was released.")
        if self.count > math.ceil(MOST_ROWS / self.most_rows):
            raise InvalidInput(f"at most {MOST_ROWS} rows of persons can take part; nothing was released.")
        return placed(data, self.slots(bits))
