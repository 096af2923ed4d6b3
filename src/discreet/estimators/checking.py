"""A table against its schema, before a fit is paid: noisy shares of cells that are not as declared.

Claim: one release of `CodeCounts` under Laplace noise, pure ε-DP. A cell's code is a function of that cell and of the
schema alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.calibration import Guarantee
from discreet.calibration.one_release import laplace_multiplier
from discreet.data.base import Dataset, DenseBlock, SparseBlock
from discreet.data.columns import Column, Ignore, Person
from discreet.data.frames import Table, as_table, has_column_names
from discreet.data.memory import in_memory, single_block
from discreet.data.persons import Persons
from discreet.data.problems import PROBLEMS, possible_problems, problem_codes
from discreet.data.scans import Scan
from discreet.data.schema import Schema
from discreet.data.unprotected import is_unprotected
from discreet.errors import InvalidInput
from discreet.estimators.checks import EPSILONS, check_range
from discreet.estimators.persons import persons_of, public_rows
from discreet.estimators.privacy import bits_for, opened
from discreet.estimators.scans import scanned_rows
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.queries.sums.code_counts import CodeCounts, rows_of_codes
from discreet.report.schema_check import SchemaCheck
from discreet.rows import RowSpec
from discreet.units import Adjacency, Unit
from discreet.vault import Payment, Vault

__all__ = ["check"]

_MISSED = 0.05
"""Probability that a share is further off than its margin, and that any of a clean table exceeds the threshold."""


def check(
    data: Any,
    schema: Schema,
    *,
    epsilon: float,
    adjacency: Adjacency = "replace-one",
    columns: Sequence[str] | None = None,
    most_cells: int = 1,
    n_public: int | None = None,
    groups: Any = None,
    ledger: Any = None,
    random_state: int | None = None,
) -> SchemaCheck:
    """Noisy shares of missing, unreadable, out-of-range and unlisted cells by column; one release, ``epsilon``-DP.

    A wrong schema (bounds of another unit, misspelt categories, a target coded J/N) makes most cells of a column
    unreadable, unlisted or out of range, which a very small ε tells. The answer is within ± ``margin`` of

        (1/n) · Σ over rows with this problem of min(1, most_cells/p),    p: the row's columns with any problem,

    which is the share of rows where few rows have problems in several columns, and less where many have; ``many`` says
    how many. With ``most_cells`` as large as the number of columns it is the share itself, and the noise is that many
    times larger.

    Args:
        data: the table; or `Parquet` or `CSV`, for files that do not fit in memory.
        schema: public declarations of its columns, the target's too.
        epsilon: pure privacy budget of the whole answer; ``inf`` for no privacy.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        columns: which columns; by default all that the schema does not ignore. Fewer do not make less noise.
        most_cells: in how many columns the problems of one row count in full.
        n_public: the number of rows, if it is public under add-remove; otherwise rows are counted too. With persons,
            their number.
        groups: whose each row is. Persons are then protected, with ``rows_per_unit`` rows of a `Unit` each. A schema
            with a `Person` says the same.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the answer reproducible and *not private*.

    Raises:
        InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
        BudgetExceeded: the ledger refused. Nothing was released.

    Example:
        >>> from discreet.data.columns import Categorical, Numeric
        >>> table = {"age": np.full(20_000, 40), "job": ["Nurse"] * 20_000}
        >>> schema = Schema({"age": Numeric(17, 90), "job": Categorical(["nurse", "clerk"])})
        >>> list(check(table, schema, epsilon=0.01).suspects)
        ['job']
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    if math.isfinite(epsilon):
        check_range("epsilon", float(epsilon), *EPSILONS, "more protects nobody: use float('inf') for no privacy")
    unit, declared = Unit.of(adjacency), _declared(schema, columns)
    rows = rows_of_codes(len(declared), len(PROBLEMS))
    codes, persons = _opened(data, schema, declared, rows, groups, unit, math.isfinite(epsilon))
    unit = unit if persons is None else Unit(unit.relation, persons.most_rows, True)
    known = public_rows(len(codes), n_public, unit, persons)
    if isinstance(most_cells, bool) or not isinstance(most_cells, int) or not 1 <= most_cells <= len(declared):
        raise InvalidInput(f"most_cells must be a whole number from 1 to {len(declared)}, got {most_cells!r}.")
    query = CodeCounts(rows, len(PROBLEMS), most_cells, known is None)
    noise = laplace_multiplier(Guarantee(float(epsilon), 0.0, unit), query.replace_one_factor)
    vault = Vault(codes, unit, opened(ledger), bits_for(random_state), persons=persons)
    stated = (float(epsilon), 0.0) if math.isfinite(epsilon) else None
    answer = vault.release(Noisy(query, Laplace(noise)), payment=Payment("check against the schema", stated))
    found = _found(np.asarray(answer), declared, query, noise, known, float(epsilon), vault)
    # bounds that were read off the rows make the shares of cells beyond them a statement about those rows
    from_the_data = schema.unprotected or is_unprotected(epsilon)
    return replace(found, protective=False) if from_the_data else found


def _declared(schema: Schema, columns: Sequence[str] | None) -> dict[str, Column]:
    if not isinstance(schema, Schema):
        raise InvalidInput(f"schema must be a Schema, got {type(schema).__name__}; Schema.from_yaml reads a file.")
    if isinstance(columns, str):
        raise InvalidInput(f"columns must be a list of names, got the text {columns!r}.")
    if columns is not None:
        found = {name: schema.target(name) for name in columns}
    else:
        found = {name: column for name, column in schema.items() if not isinstance(column, Ignore | Person)}
    if not found:
        raise InvalidInput("there is no column to check: the schema ignores all, or none was named.")
    return found


@dataclass(frozen=True, eq=False)
class _CodeCoding:
    """Rows of codes, one a cell, of tables that are read piece by piece."""

    declared: dict[str, Column]
    rows: RowSpec
    sparse: bool = False

    def block(self, table: Table) -> DenseBlock | SparseBlock:
        """The codes of a table."""
        return single_block(_codes(table, self.declared), np.zeros(table.shape[0]), self.rows)


def _opened(
    data: Any, schema: Schema, declared: dict[str, Column], rows: RowSpec, groups: Any, unit: Unit, private: bool
) -> tuple[Dataset, Persons | None]:
    """The codes of all cells, and whose each row is."""
    if not isinstance(data, Scan):
        table = _table(data, schema, declared)
        persons = persons_of(data, schema, groups, unit, private)
        return in_memory(_codes(table, declared), np.zeros(table.shape[0]), rows, owned=True), persons
    if groups is not None:
        raise InvalidInput("whose a row of a file is must be said by a Person in the schema. Nothing was released.")
    kept = {name for name, column in schema.items() if name in declared or isinstance(column, Person)}
    read = Schema({name: column if name in kept else Ignore() for name, column in schema.items()})
    return scanned_rows(data, _CodeCoding(declared, rows), (read, next(iter(declared))), unit, private)


def _table(data: Any, schema: Schema, declared: dict[str, Column]) -> Table:
    table = as_table(data, None if has_column_names(data) else list(schema))
    if missing := [name for name in declared if name not in table]:
        raise InvalidInput(f"the table has no column {', '.join(map(repr, missing))}. Nothing was released.")
    if not table.shape[0]:
        raise InvalidInput("the table has no rows.")
    return table


def _codes(table: Table, declared: dict[str, Column]) -> NDArray[np.float32]:
    codes = np.empty((table.shape[0], len(declared)), np.float32)
    for place, (name, column) in enumerate(declared.items()):
        codes[:, place] = problem_codes(table[name], column)
    return codes


def _found(
    answer: NDArray[np.float64],
    declared: dict[str, Column],
    query: CodeCounts,
    noise: float,
    known: int | None,
    epsilon: float,
    vault: Vault,
) -> SchemaCheck:
    counts = answer[: len(declared) * query.codes].reshape(len(declared), query.codes)
    rows = float(known) if known is not None else max(1.0, float(answer[-1]))
    scale, cells = noise * query.bound * query.grid, sum(len(possible_problems(c)) for c in declared.values())
    shares = {
        name: {
            problem: min(1.0, max(0.0, float(line[PROBLEMS.index(problem)]) / rows))
            for problem in possible_problems(column)
        }
        for (name, column), line in zip(declared.items(), counts, strict=True)
    }
    (event,) = vault.charged
    return SchemaCheck(
        shares,
        min(1.0, max(0.0, float(answer[len(declared) * query.codes]) / rows)),
        query.most,
        scale * math.log(1 / _MISSED) / rows,  # P(|noise| > t) = exp(−t/scale)
        scale * math.log(cells / (2 * _MISSED)) / rows,  # P(noise > t) = exp(−t/scale)/2, for all cells together
        rows,
        epsilon,
        vault.unit,
        event,
        vault.protective,
    )
