"""Private bounds: from wide public bounds to narrow ones, by private quantiles whose cost is charged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.cells import read_floats
from discreet.data.columns import Column, Numeric
from discreet.data.frames import Table, as_table, has_column_names
from discreet.data.schema import Schema
from discreet.data.unprotected import is_unprotected
from discreet.errors import InvalidInput
from discreet.estimators.persons import persons_of
from discreet.estimators.privacy import bits_for, opened
from discreet.estimators.quantile import drawn, protected, released
from discreet.ledger import Ledger
from discreet.queries.histograms.ranks import Grid
from discreet.units import Adjacency, Unit

__all__ = ["private_bounds"]


def private_bounds(
    data: Any,
    schema: Schema,
    *,
    epsilon: float,
    adjacency: Adjacency,
    columns: Sequence[str] | None = None,
    quantiles: tuple[float, float] | None = None,
    n_public: int | None = None,
    groups: Any = None,
    ledger: Ledger | str | None = None,
    random_state: int | None = None,
) -> Schema:
    """The schema with narrower bounds of numeric columns: two private quantiles each, ``epsilon``-DP in all.

    Where only wide bounds are public (incomes up to ten million), a scale cut by them wastes most of its bins. The
    quantiles are drawn by the exponential mechanism on a grid of 2^20 steps between the declared bounds, on the
    column's own scale, and all columns share ε equally. What is released is public from then on, so the new schema may
    be used as if it had been declared; a fit with it is charged for itself. No number of rows is needed.

    Args:
        data: the table.
        schema: public declarations, with bounds that are certain to hold.
        epsilon: pure privacy budget of the whole answer; ``inf`` gives the quantiles without privacy.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        columns: which columns; by default all numeric ones.
        quantiles: what the new bounds are to be near to; values beyond them will be clipped. By default (t, 1 − t)
            with t = 20b/n, b = 2/ε′ for a draw's share ε′, and at least 0.01: then no answer lies beyond all rows but
            for a probability of 2^20·e^(−20) < 0.3 %. Without a public number of rows t is 0.05.
        n_public: the number of rows, declared public; it is known under replace-one. With persons, their number.
        groups: whose each row is. Persons are then protected, with ``rows_per_unit`` rows of a `Unit` each. A schema
            with a `Person` says the same.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the answer reproducible and *not private*.

    Returns:
        A schema that differs in ``low`` and ``high`` of these columns alone (and in ``fill``, moved inside). A column
        whose two quantiles come out equal keeps its declared bounds. With a seed or ε = ∞ these columns are marked
        (``bounds_private`` is False), also in the schema's YAML, and a fit with them is certified as not private.
        Otherwise they carry what they cost (``bounds_epsilon``), which certificates repeat.

    Raises:
        InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
        BudgetExceeded: the ledger refused. Nothing was released.

    Smith 2011, Algorithm 2, on a grid; McSherry–Talwar 2007, Theorem 6.

    Example:
        >>> from discreet.data.columns import Numeric
        >>> incomes = {"income": np.exp(np.random.default_rng(0).normal(10, 1, 20_000))}
        >>> wide = Schema({"income": Numeric(0, 10**7)})
        >>> found = private_bounds(incomes, wide, epsilon=1.0, adjacency="replace-one")["income"]
        >>> 500 < found.low < 4000, 150_000 < found.high < 300_000
        (True, True)
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    unit, declared = Unit.of(adjacency), _numeric_columns(schema, columns)
    table = _table(data, schema, declared)
    persons = persons_of(data, schema, groups, unit, math.isfinite(epsilon))  # not of the table: ids stay exact
    unit = unit if persons is None else Unit(unit.relation, persons.most_rows, True)
    rows = (table.shape[0] if persons is None else persons.count) if unit.relation == "replace-one" else n_public
    times = 1 if persons is None or persons.declared.weights == "rows" else persons.most_rows
    wanted = _two_quantiles(
        _default_quantiles(rows, times, float(epsilon) / (2 * len(declared)), unit) if quantiles is None else quantiles
    )
    draws = drawn(wanted, float(epsilon) / len(declared), Grid.between(0.0, 1.0), unit)
    budget, bits = opened(ledger), bits_for(random_state)
    budget.require([draws.event(unit)] * len(declared), unit)  # all columns or none
    private = protected(float(epsilon), bits) and not is_unprotected((quantiles, epsilon))
    narrow: dict[str, Column] = {}
    for name, column in declared.items():
        found = released(_scaled(table[name], column), draws, unit, budget, bits, f"bounds of {name}", persons)
        narrow[name] = _narrowed(column, column.unscale(np.sort(found)), private, float(epsilon) / len(declared))
    return Schema({**schema, **narrow}, schema.crosses)


_USUAL, _LEAST, _MOST, _DECAYS = 0.05, 0.01, 0.25, 20
"""Tails where n is private, the least and the most; and how many factors of e an answer beyond all rows is less likely
than the quantile itself, of 2^20 answers in all."""


def _default_quantiles(rows: int | None, times: int, each: float, unit: Unit) -> tuple[float, float]:
    """Tails for a number of rows, or of persons with ``times`` rows each, and a draw's share ε′ = ``each``."""
    if rows is None:
        return _USUAL, 1 - _USUAL
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InvalidInput(f"n_public must be a positive integer, got {rows!r}.")
    tail = max(_LEAST, _DECAYS * 2 * unit.rows_per_unit / (each * times * int(rows)))
    if tail > _MOST:
        raise InvalidInput(
            f"ε = {each:.3g} a quantile tells bounds of {rows} rows no better than the declared ones: ask for a larger "
            "epsilon or fewer columns, or give quantiles. Nothing was released."
        )
    return tail, 1 - tail


def _two_quantiles(quantiles: Any) -> NDArray[np.float64]:
    try:
        low, high = (float(q) for q in quantiles)
    except (TypeError, ValueError):
        raise InvalidInput(f"quantiles must be two numbers, as in (0.01, 0.99), got {quantiles!r}.") from None
    if not 0 <= low < high <= 1:
        raise InvalidInput(f"quantiles must satisfy 0 ≤ low < high ≤ 1, got ({low:g}, {high:g}).")
    return np.array([low, high])


def _numeric_columns(schema: Any, columns: Sequence[str] | None) -> dict[str, Numeric]:
    if not isinstance(schema, Schema):
        raise InvalidInput("private bounds need a Schema, whose wide bounds are public.")
    if isinstance(columns, str):
        raise InvalidInput(f"columns must be a list of names, got the text {columns!r}.")
    names = [name for name, column in schema.items() if isinstance(column, Numeric)] if columns is None else columns
    chosen: dict[str, Numeric] = {}
    for name in names:
        column = schema.target(name)
        if not isinstance(column, Numeric):
            raise InvalidInput(f"column {name!r} is not declared numeric: it has no bounds to narrow.")
        chosen[name] = column
    if not chosen:
        raise InvalidInput("the schema declares no numeric column whose bounds could be narrowed.")
    return chosen


def _table(data: Any, schema: Schema, declared: dict[str, Numeric]) -> Table:
    table = as_table(data, None if has_column_names(data) else list(schema))
    if missing := [name for name in declared if name not in table]:
        raise InvalidInput(f"the table has no column {', '.join(map(repr, missing))}. Nothing was released.")
    return table


def _scaled(cells: NDArray[Any], column: Numeric) -> NDArray[np.float64]:
    """Each cell on the column's own scale from 0 to 1; what is no number stays NaN, and counts as absent."""
    with np.errstate(all="ignore"):
        return column.rescale(np.clip(read_floats(cells), column.low, column.high))


def _narrowed(column: Numeric, bounds: NDArray[np.float64], private: bool, epsilon: float) -> Numeric:
    spent = (column.bounds_epsilon or 0.0) + epsilon if private else column.bounds_epsilon
    column = replace(column, bounds_private=column.bounds_private and private, bounds_epsilon=spent)
    low, high = (float(bound) for bound in bounds)
    if column.integer:
        low, high = max(column.low, math.floor(low)), min(column.high, math.ceil(high))
    if not low < high:
        return column
    fill = None if column.fill is None else min(max(column.fill, low), high)
    return replace(column, low=low, high=high, fill=fill)
