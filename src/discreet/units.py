"""Whose privacy is protected: the neighbouring relation and how many rows one person may own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from discreet.errors import InvalidInput

__all__ = ["Adjacency", "Relation", "Unit"]

Relation: TypeAlias = Literal["replace-one", "add-remove"]


@dataclass(frozen=True)
class Unit:
    """The unit of privacy.

    Two datasets are neighbours when they differ in the rows of one unit: under ``replace-one`` the unit's rows are
    exchanged for others (n is public), under ``add-remove`` they are added or taken away (n is private).

    Args:
        relation: ``"replace-one"`` or ``"add-remove"``.
        rows_per_unit: the most rows that one person owns.
        enforced: whether a vault saw to it that no person has more rows (`discreet.data.persons`), rather than the user
            having declared it. It says where the number comes from and changes no figure, so units are compared without
            it.

    Example:
        >>> Unit("replace-one").sensitivity(1.0)
        2.0
        >>> Unit("add-remove", rows_per_unit=3).sensitivity(1.0)
        3.0
        >>> Unit("replace-one").sensitivity(1.0, replace_one_factor=1.0)  # counts: one row gives 0 or 1
        1.0
    """

    relation: Relation
    rows_per_unit: int = 1
    enforced: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise InvalidInput(f"adjacency must be 'replace-one' or 'add-remove', got {self.relation!r}.")
        if isinstance(self.rows_per_unit, bool) or not isinstance(self.rows_per_unit, int):
            raise InvalidInput(f"rows_per_unit must be an integer, got {self.rows_per_unit!r}.")
        if self.rows_per_unit < 1:
            raise InvalidInput(f"rows_per_unit must be at least 1, got {self.rows_per_unit}.")
        if not isinstance(self.enforced, bool):
            raise InvalidInput(f"enforced must be true or false, got {self.enforced!r}.")

    @classmethod
    def of(cls, adjacency: Adjacency) -> Unit:
        """Read a relation's name or a whole `Unit`."""
        return adjacency if isinstance(adjacency, Unit) else cls(adjacency)

    def sensitivity(self, bound: float, replace_one_factor: float = 2.0) -> float:
        """How far a sum moves between neighbours when one row contributes at most ``bound`` (in any norm).

        Args:
            bound: of one row's contribution.
            replace_one_factor: the largest distance between the contributions of any two rows, over ``bound``: 2 unless
                more is known of them than their length.
        """
        return bound * self.rows_per_unit * (replace_one_factor if self.relation == "replace-one" else 1)

    def __str__(self) -> str:
        if self.enforced:
            rows = "1 row" if self.rows_per_unit == 1 else f"{self.rows_per_unit} rows"
            return f"{self.relation}, {rows} a person, enforced"
        return self.relation if self.rows_per_unit == 1 else f"{self.relation}, {self.rows_per_unit} rows a unit"


Adjacency: TypeAlias = Relation | Unit
