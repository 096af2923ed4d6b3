"""What all estimators share: read declarations, plan without data, run in the vault, certify."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from discreet.data.columns import Column
from discreet.data.memory import Dense, Sparse, in_memory
from discreet.errors import InvalidInput
from discreet.estimators.features import Features, checked_matrix
from discreet.estimators.privacy import LENGTHS, SOME_ROWS, PrivateEstimator, check_lengths, check_range
from discreet.estimators.progress import progress_bar
from discreet.events import Event, compose
from discreet.geometry import WholeSpace
from discreet.geometry.base import Geometry
from discreet.losses import Loss
from discreet.rows import RowSpec
from discreet.solvers import Filtered, Guarantee, Problem, Solver, recipe
from discreet.solvers.options import checked_options
from discreet.solvers.rehearsal import rehearse
from discreet.theory.planner import choose
from discreet.units import Unit
from discreet.vault import Payment, Vault

__all__ = ["PrivateLinearModel"]

_INTERCEPT = 0.5
"""The constant column over the longest row, a compromise between the intercept's shrinkage and everyone's noise:
``bench/defaults.py`` finds no difference from 0.25 to 0.5, and losses beyond."""


@dataclass(eq=False, repr=False)
class PrivateLinearModel(PrivateEstimator):
    """A linear model fitted under differential privacy. Subclasses say what the targets and the loss are.

    A dataclass, so that parameters are declared once: its constructor only stores them, as scikit-learn expects.
    """

    _: KW_ONLY
    solver: str = "auto"
    solver_options: dict[str, Any] | None = None
    schema: Any = None
    row_norm: float | None = None
    fit_intercept: bool = True
    alpha: float = 0.0
    domain: Geometry | None = None
    verbose: Any = False  # or a number, as in scikit-learn

    # --- what a subclass says -------------------------------------------------------------------------------

    @abstractmethod
    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        """Coded targets and the number of outputs; sets the fitted attributes that decoding needs."""

    @abstractmethod
    def _loss(self) -> Loss:
        """The pointwise loss on coded targets."""

    @abstractmethod
    def _take(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> None:
        """Set coef_ and intercept_ in the units of the user's targets."""

    def _domain(self, rows: RowSpec, n: float, guarantee: Guarantee) -> Geometry:
        """The set that θ is kept in."""
        return self.domain or WholeSpace()

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model; every release is charged to the ledger before it is made.

        Args:
            X: table or matrix, one row a person (or event; see ``rows_per_unit``).
            y: targets.

        Raises:
            InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
            BudgetExceeded: the ledger refused the whole run. Nothing was released.
        """
        self._check_parameters()
        private = math.isfinite(self.epsilon)
        features, data = self._prepare(X, y, private)
        rows, n_rows = data.rows, len(data)
        unit = Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]
        vault = Vault(data, unit, self._ledger(), self._bits())
        guarantee = Guarantee(float(self.epsilon), self._delta(n_rows, private), unit)
        aim = self._aim(guarantee, vault.ledger)
        released: list[Event] = []
        if self._must_count(guarantee):
            n, rest, payment = self._counted(
                vault, aim, self.solver, lambda rest: self._rehearsed(data, rest), released
            )
            problem = self._problem(data, n, rest)
            name, solver = self._plan_counted(problem, rest)
        else:
            problem = self._problem(data, self._public_rows(n_rows, guarantee), aim)
            name, solver = self._plan(problem, aim)
            payment = self._payment(aim, name)
        theta = self._run(vault, name, solver, problem, guarantee, payment, released)
        self._features = features
        self._set(theta, rows)
        self.privacy_ = self._certificate(released, guarantee, aim, name, solver, vault.protective, payment)
        return self

    def _prepare(self, X: Any, y: Any, private: bool) -> tuple[Features, Dense | Sparse]:
        """Rows and coded targets by the declarations; sets the attributes that decoding needs."""
        column = self._target_column(y)
        features = Features.declared(X, self.schema, self.row_norm, getattr(y, "name", None), private)
        matrix = self._matrix(X, features, reset=True)
        targets, outputs = self._read_target(y, column, private)
        if matrix.shape[0] != len(targets):
            raise InvalidInput("Found input variables with inconsistent numbers of samples: X and y must have as many.")
        if matrix.shape[0] == 0:
            raise InvalidInput("Found array with 0 sample(s) while a minimum of 1 is required.")
        rows = RowSpec(matrix.shape[1], features.row_norm, self._constant(features, matrix.shape[1]), outputs)
        return features, in_memory(matrix, targets, rows, owned=features.encoder is not None)

    def _problem(self, data: Dense | Sparse, n: float, guarantee: Guarantee) -> Problem:
        rows = data.rows
        sparse = isinstance(data, Sparse)
        return Problem(rows, self._loss(), n, self._domain(rows, n, guarantee), float(self.alpha), sparse)

    def _rehearsed(self, data: Dense | Sparse, rest: Guarantee) -> Event:
        """What would be run on `SOME_ROWS`; refuses what cannot be planned."""
        problem = self._problem(data, SOME_ROWS, rest)
        _, solver = self._plan(problem, rest)
        budget = solver.filter(rest.unit) if isinstance(solver, Filtered) else None
        return compose(rehearse(solver, problem, rest.unit)) if budget is None else budget.event()

    def _plan_counted(self, problem: Problem, rest: Guarantee) -> tuple[str, Solver]:
        try:
            return self._plan(problem, rest)
        except InvalidInput as refusal:  # some options fit some numbers of rows only
            raise type(refusal)(
                f"{refusal} This was found after the number of rows had been released as about {problem.n:.0f}: it is "
                "charged, together with the promise of a run; nothing else was released. n_public=… avoids counting."
            ) from None

    def _run(
        self,
        vault: Vault,
        name: str,
        solver: Solver,
        problem: Problem,
        guarantee: Guarantee,
        payment: Payment,
        released: list[Event],
    ) -> NDArray[np.float64]:
        """Run by plan, or, where the solver brings one, under its filter; sets ``n_iter_``."""
        unit = vault.unit
        budget = solver.filter(unit) if isinstance(solver, Filtered) else None
        if budget is None:
            plan = rehearse(solver, problem, unit)
            released.extend(plan)
            self.n_iter_ = len(plan)
            words = _in_words(name, solver, f"{len(plan)} release{'s' * (len(plan) != 1)}")
            with progress_bar(len(plan), guarantee, words, shown=bool(self.verbose)) as progress:
                return vault.run(solver, problem, payment=payment, progress=progress)
        released.append(budget.event())
        self.n_iter_ = 0
        words = _in_words(name, solver, "releases until the budget is spent")
        with progress_bar(None, guarantee, words, shown=bool(self.verbose)) as progress:

            def count(done: int, planned: int) -> None:
                self.n_iter_ = done
                if progress:
                    progress(done, planned)

            return vault.run_filtered(solver, problem, budget, payment=payment, progress=count)

    def _check_parameters(self) -> None:
        self._check_privacy()
        if not (isinstance(self.alpha, int | float | np.number) and 0 <= self.alpha < math.inf):
            raise InvalidInput(f"alpha must be finite and non-negative, got {self.alpha!r}.")
        check_range("alpha", self.alpha, 0.0, LENGTHS[1], "less already leaves nothing but zeros")
        check_lengths(self.row_norm, getattr(self, "target_bounds", None))
        if self.domain is not None and not isinstance(self.domain, Geometry):
            raise InvalidInput(f"domain must be a set from discreet.geometry, got {self.domain!r}.")

    def _target_column(self, y: Any) -> Column | None:
        name = getattr(y, "name", None)
        if self.schema is None or name is None or name not in self.schema:
            return None
        column: Column = self.schema.target(name)
        return column

    def _matrix(self, X: Any, features: Features, *, reset: bool) -> Any:
        if features.encoder is not None:
            matrix = features.encoder.transform(X)
            if reset:
                self.n_features_in_ = len(features.encoder.schema) - (features.encoder.target is not None)
            return matrix
        return checked_matrix(self, X, reset=reset)

    def _constant(self, features: Features, columns: int) -> float:
        """The intercept's column."""
        if not self.fit_intercept:
            return 0.0
        return _INTERCEPT * features.row_norm if math.isfinite(features.row_norm) else 1.0

    def _plan(self, problem: Problem, guarantee: Guarantee) -> tuple[str, Solver]:
        if self.solver == "auto":
            if self.solver_options:
                raise InvalidInput("solver_options need a named solver; with solver='auto' all are chosen for you.")
            name = choose(problem, guarantee)
            return name, recipe(name)(problem, guarantee)
        options = checked_options(self.solver, self.solver_options)
        return self.solver, recipe(self.solver)(problem, guarantee, **options)

    def _set(self, theta: NDArray[np.float64], rows: RowSpec) -> None:
        theta = np.atleast_2d(theta)
        weights = theta[:, : rows.n_features]
        offsets = theta[:, -1] * (rows.constant * rows.unit) if self.fit_intercept else np.zeros(len(theta))
        self._take(weights, offsets)

    # --- using ----------------------------------------------------------------------------------------------

    @property
    def coef_names_(self) -> NDArray[Any]:
        """What each column of ``coef_`` is about: a feature of the encoding, a column of the table, or x0, x1, …"""
        check_is_fitted(self, "coef_")
        columns = np.atleast_2d(self.coef_).shape[1]
        return np.array(self._features.names or [f"x{j}" for j in range(columns)], dtype=object)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "coef_")
        matrix = self._matrix(X, self._features, reset=False)
        if matrix.shape[1] != np.atleast_2d(self.coef_).shape[1]:
            raise InvalidInput(f"X has {matrix.shape[1]} features, but the model was fitted with others.")
        matrix = _clipped(matrix, self._features.row_norm)
        scores = matrix @ np.atleast_2d(self.coef_).T + self.intercept_
        return np.asarray(scores, dtype=np.float64)

    def save(self, path: Any) -> None:
        """Write the model to one file that holds no code and no training data."""
        from discreet.estimators.persistence import save

        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True  # a missing entry counts as 0: no exception depends on a row
        return tags

    def _repr_html_inner(self) -> str:
        privacy = getattr(self, "privacy_", None)
        line = str(privacy) if privacy else f"asks for ε = {self.epsilon:g} ({self.adjacency})"
        return f"{super()._repr_html_inner()}<div><small>privacy: {line}</small></div>"


def _clipped(matrix: Any, norm: float) -> Any:
    """Rows clipped as in training; entries that are not finite count as 0."""
    import scipy.sparse as sp

    if sp.issparse(matrix):
        matrix = matrix.copy()
        matrix.data = np.where(np.isfinite(matrix.data), matrix.data, 0.0)
        if not math.isfinite(norm):
            return matrix
        lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        return sp.diags_array(np.minimum(1.0, norm / np.maximum(lengths, norm))) @ matrix
    matrix = np.where(np.isfinite(matrix), matrix, 0.0)
    if not math.isfinite(norm):
        return matrix
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    largest = np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(((matrix / largest[:, None]) ** 2).sum(axis=1))  # over the largest entry: nothing overflows
    with np.errstate(over="ignore", divide="ignore"):
        return matrix * np.minimum(1.0, norm / largest / lengths)[:, None]


def _in_words(name: str, solver: Solver, releases: str) -> str:
    noise = getattr(solver, "noise_multiplier", 0.0)
    return f"{name}, {releases}" + (f", noise multiplier {noise:.4g}" if noise else "")
