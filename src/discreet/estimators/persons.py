"""From what a user says about persons to whose each row is; and what is refused of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.data.columns import Person
from discreet.data.persons import Persons, id_column, person_codes
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.units import Unit

__all__ = ["person_column", "persons_of", "public_rows", "refuse_weights"]


def person_column(schema: Any) -> tuple[str, Person] | None:
    """The column by which a schema, or the mapping that stands for one, says whose a row is; None without one."""
    if schema is None:
        return None
    return (schema if isinstance(schema, Schema) else Schema(schema)).person


def persons_of(X: Any, schema: Schema | None, groups: Any, unit: Unit, private: bool) -> Persons | None:
    """Whose each row is, by ``groups`` or by the schema's `Person`; None where rows are protected.

    Args:
        X: the table, or rows that are as many as ``groups``.
        schema: the declarations of the table's columns, if there are any.
        groups: one id a row, if they are given apart; or what an earlier call has found.
        unit: the relation and the rows of a person that were declared.
        private: whether there is privacy. Without it every row takes part.

    Raises:
        InvalidInput: declarations contradict each other, or do not fit the table. It depends on no cell, but that under
            replace-one, where the number of persons is public, there must be one.
    """
    named = person_column(schema)
    if isinstance(groups, Persons):
        _require_consistent(groups.declared, unit)
        _require_somebody(groups, unit, private)
    if isinstance(groups, Persons) or (groups is None and named is None):
        return groups if private else None
    if groups is not None and named is not None:
        raise InvalidInput(
            f"the schema says by column {named[0]!r} whose a row is: leave groups out. Nothing was released."
        )
    if isinstance(groups, str):
        raise InvalidInput(
            f"groups has one id a row; a column is named by a schema, {{{groups!r}: Person(5)}}. Nothing was released."
        )
    declared = Person(unit.rows_per_unit) if named is None else named[1]
    _require_consistent(declared, unit)
    ids: Any = groups if named is None else id_column(X, named[0], list(schema or ()))
    if ids is None and named is not None:
        raise InvalidInput(
            f"the table has no column {named[0]!r}, by which the schema says whose a row is. Nothing was released."
        )
    persons = Persons(person_codes(ids), declared)
    if len(persons) != _rows(X):
        raise InvalidInput("groups must have one id a row of X. Nothing was released.")
    _require_somebody(persons, unit, private)
    return persons if private else None


def _require_somebody(persons: Persons, unit: Unit, private: bool) -> None:
    """Refuse rows of nobody where the number of persons is public."""
    if unit.relation == "replace-one" and private and persons.count == 0:
        raise InvalidInput("no row says whose it is, and rows without an id take no part. Nothing was released.")


def public_rows(n: int, n_public: int | None, unit: Unit, persons: Persons | None) -> int | None:
    """How many rows take part, where that is public; None where it is not.

    Args:
        n: the number of rows of the table, public under replace-one where rows are protected.
        n_public: the number of rows, or of persons, that was declared public.
        unit: the relation.
        persons: whose each row is, where persons are protected: under replace-one their number is public.
    """
    if persons is None:
        return n if unit.relation == "replace-one" else n_public
    if persons.declared.weights == "rows":
        return None
    people = persons.count if unit.relation == "replace-one" else n_public
    return None if people is None else people * persons.most_rows


def _require_consistent(declared: Person, unit: Unit) -> None:
    if unit.rows_per_unit not in (1, declared.most_rows):
        raise InvalidInput(
            f"the schema gives persons {declared.most_rows} rows and rows_per_unit={unit.rows_per_unit}: leave "
            "rows_per_unit out. Nothing was released."
        )
    if declared.weights == "rows" and unit.relation == "replace-one":
        raise InvalidInput(
            "under replace-one the number of rows is public, but which rows are kept, and so their number, differs "
            "from person to person: use adjacency='add-remove', or weights 'persons'. Nothing was released."
        )


def _rows(X: Any) -> int:
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    return len(next(iter(X.values()), ())) if isinstance(X, Mapping) else len(X)


_WEIGHTS = {
    "sample_weight": "weights of rows are data: a weight of 10 would count a person ten times, for which no noise was "
    "planned. To let every person count once, however many rows they have, pass groups=… or declare a Person in the "
    "schema. To give rows of a public kind a larger part, repeat them by a public rule and say rows_per_unit=…",
    "class_weight": "a weight of 10 for a rare class multiplies what one row may contribute, and with it the noise for "
    "all rows, by 10; and balanced weights are counts from the data. Fit without, and move the threshold of "
    "predict_proba or decision_function instead",
}


def refuse_weights(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that an estimator does not know, weights with the reason; None is as good as absent.

    Raises:
        InvalidInput: ``sample_weight`` or ``class_weight``.
        TypeError: another name.
    """
    for name, value in arguments.items():
        if name not in _WEIGHTS:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
        if value is not None:
            raise InvalidInput(f"{name} is not supported: {_WEIGHTS[name]}. Nothing was released.")
