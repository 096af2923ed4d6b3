"""The problem a solver works on: public facts only."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.base import Geometry, Projectable
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import OWN, Loss
from discreet.measurements import Measurement
from discreet.refinement import ColumnBlock
from discreet.rows import RowSpec
from discreet.units import Unit

if TYPE_CHECKING:
    from discreet.accounting.adaptive.filters import PrivacyFilter

__all__ = ["Filtered", "Partition", "Problem", "Solver", "Steps"]

Steps: TypeAlias = Generator[Measurement, Any, NDArray[np.float64]]


@dataclass(frozen=True)
class Partition:
    """Columns ``start`` to ``stop`` (exclusive), whose sum is the same in every row; a public fact of an encoding.

    Args:
        start: the first column.
        stop: the column after the last.
    """

    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise (1/n) Σ ℓ(⟨x_i, θ⟩, y_i) + (ridge/2)‖θ‖² over a set.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss, one of the library's own; others enter by `discreet.losses.tabulated`.
        n: public or privately released number of rows; sums are divided by it.
        domain: constraint set.
        ridge: ℓ2 regularisation of the mean loss.
        sparse: whether rows come in compressed sparse form: a fact about the container, not about its cells.
        entry_bound: public bound on every entry |x_ij| of a row, where one was declared; it chooses settings, and is
            enforced by the clip that follows from it.
        initial: a public point to start from, such as a model of public rows; None takes 0.
        inference: whether intervals for the coefficients are asked for.
        robust: whether they are to hold where the model of the variance is wrong.
        partitions: groups of columns that add up to the same number in every row, as indicators of levels do.
        columns: which features are of which column of a table, where interactions may be chosen among them.
        largest_count: public bound of the targets of a Poisson regression of plain counts; it is enforced.
        n_error: the standard deviation of ``n`` where it was released with noise.
        residual_loss: the same loss with its width in units of the residuals' spread, for solvers that estimate it;
            None where the width was declared.
    """

    rows: RowSpec
    loss: Loss
    n: float
    domain: Geometry = WholeSpace()  # noqa: RUF009 - a frozen value
    ridge: float = 0.0
    sparse: bool = False
    entry_bound: float = math.inf
    initial: NDArray[np.float64] | None = None
    inference: bool = False
    robust: bool = False
    partitions: tuple[Partition, ...] = ()
    columns: tuple[ColumnBlock, ...] = ()
    largest_count: float = math.inf
    n_error: float = 0.0
    residual_loss: Loss | None = None

    def __post_init__(self) -> None:
        if not self.n > 0:
            raise InvalidInput(f"the number of rows must be positive, got {self.n!r}.")
        if type(self.loss) not in OWN:  # code that is not the library's must not be given rows
            raise InvalidInput(
                f"{type(self.loss).__name__} is not one of the library's losses: give discreet.losses.tabulated(loss)."
            )
        if not self.ridge >= 0:
            raise InvalidInput(f"ridge must be non-negative, got {self.ridge!r}.")
        try:
            self.domain.radius_in(math.prod(self.rows.shape))
        except InvalidInput as mismatch:
            raise InvalidInput(f"the domain does not fit the model: {mismatch} {_counted(self.rows)}") from None
        if self.initial is not None and not (self.initial.shape == self.rows.shape and np.isfinite(self.initial).all()):
            raise InvalidInput(f"a start must have finite numbers, one a coefficient. {_counted(self.rows)}")

    @property
    def start(self) -> NDArray[np.float64]:
        """A new array: the point of the set nearest to the start that was given, or to 0."""
        first = np.zeros(self.rows.shape) if self.initial is None else self.initial.copy()
        if not isinstance(self.domain, Projectable) or self.domain.contains(first.ravel()):
            return first
        return np.array(self.domain.project(first.ravel()), dtype=np.float64).reshape(self.rows.shape)


def _counted(rows: RowSpec) -> str:
    """Where the number of coefficients comes from."""
    each = f"one for each of {rows.n_features} features"
    each += " and last the intercept's" if rows.intercept else ""
    return f"There are {math.prod(rows.shape)} coefficients, {each}" + (
        f", for each of {rows.outputs} classes in turn." if rows.outputs > 1 else "."
    )


class Solver(Protocol):
    """A generator that holds no data: it yields measurements, is sent answers, and returns θ."""

    def steps(self, problem: Problem) -> Steps:
        """Everything between two yields is post-processing."""
        ...


@runtime_checkable
class Filtered(Protocol):
    """A solver without a plan of its own: it runs until its filter refuses a measurement."""

    def steps(self, problem: Problem) -> Steps:
        """`BudgetExceeded` is thrown in at the refused measurement; what is returned then is the result."""
        ...

    def filter(self, unit: Unit) -> PrivacyFilter | None:
        """A fresh filter that keeps the guarantee the solver was set up for; None where a plan will do."""
        ...
