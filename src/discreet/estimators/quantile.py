"""Private quantiles of one column."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.data.cells import read_floats, untyped
from discreet.data.frames import has_column_names
from discreet.data.memory import in_memory
from discreet.data.persons import Persons
from discreet.data.unprotected import UnprotectedArray, UnprotectedFloat, is_unprotected
from discreet.errors import InvalidInput
from discreet.estimators.persons import persons_of
from discreet.estimators.privacy import bits_for, opened
from discreet.ledger import Ledger
from discreet.measurements import Joint, QuantileDraw
from discreet.noise.bits import Bits
from discreet.queries.histograms.ranks import Grid, Ranks
from discreet.rows import RowSpec
from discreet.units import Adjacency, Unit
from discreet.vault import Vault

__all__ = ["drawn", "protected", "quantile", "released"]


def quantile(
    values: ArrayLike,
    q: ArrayLike = 0.5,
    *,
    epsilon: float,
    bounds: tuple[float, float],
    adjacency: Adjacency,
    step: float | None = None,
    groups: ArrayLike | Persons | None = None,
    ledger: Ledger | str | None = None,
    random_state: int | None = None,
) -> float | NDArray[np.float64]:
    """Quantiles of ``values``, ``epsilon``-DP in all: P(t) ∝ exp(−rank distance(t)/b), drawn exactly on a grid.

    The rank distance of t is how many rows would have to move before t is a q-quantile. Several quantiles share ε
    equally; each is within ln(positions/β)·b rows of the truth with probability 1 − β. No number of rows is needed.

    Args:
        values: one number a row; beyond the bounds they are clipped, NaN counts as absent.
        q: one or several quantiles in [0, 1].
        epsilon: pure privacy budget of the whole answer; ``inf`` gives the quantile without privacy.
        bounds: public (low, high).
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        step: distance of the positions that can be answered; by default (high − low)/2^20.
        groups: whose each value is. Persons are then protected, with the values of ``rows_per_unit`` of a `Unit` each,
            and count once each.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the answer reproducible and *not private*.

    Returns:
        A float for one q, else an array, in increasing order where the q's are. With a seed or ε = ∞ they are marked
        as not private (``.private`` is False), and so is a schema or a fit that takes them for bounds.

    Raises:
        InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
        BudgetExceeded: the ledger refused. Nothing was released.

    Smith 2011, Algorithm 2, on a grid; McSherry–Talwar 2007, Theorem 6.

    Example:
        >>> ages = np.repeat(np.arange(20, 61), 100)
        >>> median = quantile(ages, epsilon=1.0, bounds=(0, 120), adjacency="add-remove", step=1)
        >>> 38 <= median <= 42
        True
    """
    column = _column(values)
    try:
        wanted = np.asarray(q, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"q must be a number or a list of numbers in [0, 1], got {q!r}.") from None
    if column.ndim != 1 or wanted.ndim > 1 or wanted.size == 0:
        raise InvalidInput(
            f"values must be one column and q a number or a list, got {column.ndim} and {wanted.ndim} dimensions."
        )
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    unit = Unit.of(adjacency)
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise InvalidInput(f"bounds must be (low, high), declared without looking at values; got {bounds!r}.") from None
    if not isinstance(step, int | float | np.number | None):
        raise InvalidInput(f"step must be a positive number, got {step!r}.")
    persons = persons_of(column, None, groups, unit, math.isfinite(epsilon))
    draws = drawn(wanted, float(epsilon), Grid.between(low, high, step), unit)
    bits = bits_for(random_state)
    answers = released(column, draws, unit, opened(ledger), bits, f"quantiles {wanted.tolist()}", persons)
    order = np.argsort(wanted.ravel(), kind="stable")
    answers[order] = np.sort(answers)  # post-processing: quantiles do not cross
    if not protected(float(epsilon), bits) or is_unprotected((bounds, step, q, epsilon)):
        answers = answers.view(UnprotectedArray)
    return answers if wanted.ndim else _only(answers)


def _only(answers: NDArray[np.float64]) -> float:
    one: float = answers[0]
    return one if isinstance(one, UnprotectedFloat) else float(one)


def protected(epsilon: float, bits: Bits) -> bool:
    """Whether a release of this ε from these bits is private: ε is finite, and the bits do not come from a seed."""
    return bits.protective and math.isfinite(epsilon)


def drawn(wanted: NDArray[np.float64], epsilon: float, grid: Grid, unit: Unit) -> Joint:
    """One draw a quantile, ``epsilon``-DP all together for the unit."""
    each = epsilon / (wanted.size * unit.rows_per_unit) * (1 - 1e-12)
    return Joint([QuantileDraw(Ranks(grid, float(one)), each) for one in wanted.ravel()])


def released(
    column: NDArray[np.float64],
    draws: Joint,
    unit: Unit,
    ledger: Ledger,
    bits: Bits,
    note: str,
    persons: Persons | None = None,
) -> NDArray[np.float64]:
    """The answers about one column of numbers, charged first; of the rows that persons may have, if any are given."""
    rows = RowSpec(0, norm=1.0, intercept=1.0)  # no features: the values are targets
    data = in_memory(np.empty((len(column), 0)), column, rows)
    unit = replace(unit, enforced=persons is not None)
    return np.array(Vault(data, unit, ledger, bits, persons=persons).release(draws, note=note))


def _column(values: Any) -> NDArray[np.float64]:
    if has_column_names(values):
        raise InvalidInput("values must be one column, not a table: pass a column of it.")
    array = untyped(values)
    if array.dtype.kind in "USTMmVc":
        raise InvalidInput("values must be numbers, not text, dates or complex numbers.")
    return read_floats(array.ravel()).reshape(array.shape)
