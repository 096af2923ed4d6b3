"""What all estimators share: read declarations, plan without data, run in the vault, certify."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from discreet.data.columns import Column
from discreet.data.memory import in_memory
from discreet.data.rows import RowSpec
from discreet.errors import InvalidInput
from discreet.estimators.auto import choose
from discreet.estimators.features import Features
from discreet.estimators.progress import progress_bar
from discreet.events import Event, NonPrivate, compose
from discreet.geometry import WholeSpace
from discreet.geometry.base import Geometry
from discreet.ledger import Ledger
from discreet.losses import Loss
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace
from discreet.noise.bits import Bits
from discreet.queries.count import RowCount
from discreet.report.certificate import Certificate
from discreet.solvers import Guarantee, Problem, Solver, recipe
from discreet.solvers.rehearsal import rehearse
from discreet.units import Unit
from discreet.vault import Vault

__all__ = ["PrivateLinearModel"]

_COUNT_SHARE = 0.02
"""Share of ε that a private number of rows costs under add-remove when none is declared public."""


@dataclass(eq=False, repr=False)
class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model fitted under differential privacy. Subclasses say what the targets and the loss are.

    A dataclass, so that parameters are declared once: its constructor only stores them, as scikit-learn expects.
    """

    epsilon: float = 1.0
    delta: float | None = None
    _: KW_ONLY
    adjacency: str = "replace-one"
    rows_per_unit: int = 1
    solver: str = "auto"
    solver_options: dict[str, Any] | None = None
    schema: Any = None
    row_norm: float | None = None
    n_public: int | None = None
    fit_intercept: bool = True
    alpha: float = 0.0
    domain: Geometry | None = None
    ledger: Any = None
    random_state: int | None = None
    verbose: bool = False

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
        column = self._target_column(y)
        features = Features.declared(X, self.schema, self.row_norm, getattr(y, "name", None), private)
        matrix = self._matrix(X, features, reset=True)
        targets, outputs = self._read_target(y, column, private)
        if matrix.shape[0] != len(targets):
            raise InvalidInput(
                f"Found input variables with inconsistent numbers of samples: {matrix.shape[0]} rows in X and "
                f"{len(targets)} in y."
            )
        if matrix.shape[0] == 0:
            raise InvalidInput("Found array with 0 sample(s) while a minimum of 1 is required.")
        rows = RowSpec(matrix.shape[1], features.row_norm, self._constant(features), outputs)
        unit = Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]
        vault = Vault(in_memory(matrix, targets, rows), unit, self._ledger(), self._bits())
        guarantee = Guarantee(float(self.epsilon), self._delta(matrix.shape[0], private), unit)
        released: list[Event] = []
        n, rest = self._rows(matrix.shape[0], vault, guarantee, released)
        problem = Problem(rows, self._loss(), n, self.domain or WholeSpace(), float(self.alpha))
        name, solver = self._plan(problem, rest)
        plan = rehearse(solver, problem, unit)
        released.extend(plan)
        with progress_bar(len(plan), guarantee, _in_words(name, solver, plan), shown=bool(self.verbose)) as progress:
            theta = vault.run(solver, problem, note=f"{type(self).__name__}({name})", progress=progress)
        self._features = features
        self.n_iter_ = len(plan)
        self._set(theta, rows)
        self.privacy_ = self._certificate(compose(released), guarantee, rest, name, solver, vault.protective)
        return self

    def _check_parameters(self) -> None:
        if not isinstance(self.epsilon, int | float | np.number) or isinstance(self.epsilon, bool):
            raise InvalidInput(f"epsilon must be a number, got {self.epsilon!r}.")
        if not self.epsilon > 0:
            raise InvalidInput(f"epsilon must be positive, got {self.epsilon!r}; use float('inf') for no privacy.")
        if self.delta is not None and not (isinstance(self.delta, int | float | np.number) and 0 <= self.delta < 1):
            raise InvalidInput(f"delta must be in [0, 1), got {self.delta!r}.")
        if not (isinstance(self.alpha, int | float | np.number) and 0 <= self.alpha < math.inf):
            raise InvalidInput(f"alpha must be finite and non-negative, got {self.alpha!r}.")
        if self.n_public is not None and not (isinstance(self.n_public, int | np.integer) and self.n_public >= 1):
            raise InvalidInput(f"n_public must be a positive integer, got {self.n_public!r}.")
        if self.domain is not None and not isinstance(self.domain, Geometry):
            raise InvalidInput(f"domain must be a set from discreet.geometry, got {self.domain!r}.")
        Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]

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
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
            accept_large_sparse=True,
        )

    def _constant(self, features: Features) -> float:
        """The intercept's column: half the longest row, a compromise between its shrinkage and its noise."""
        if not self.fit_intercept:
            return 0.0
        return 0.5 * features.row_norm if math.isfinite(features.row_norm) else 1.0

    def _ledger(self) -> Ledger:
        if self.ledger is None:
            return Ledger()
        return self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger)

    def _bits(self) -> Bits:
        if self.random_state is None:
            return Bits.secure()
        if isinstance(self.random_state, int | np.integer):
            return Bits.seeded(int(self.random_state))
        raise InvalidInput(f"random_state must be None (private) or an integer seed, got {self.random_state!r}.")

    def _delta(self, n: int, private: bool) -> float:
        if self.delta is not None:
            return float(self.delta)
        if not private:
            return 0.0
        if self.n_public is not None:
            return 1.0 / self.n_public**2
        if self.adjacency == "replace-one":
            return 1.0 / max(n, 2) ** 2
        raise InvalidInput(
            "under add-remove the number of rows is private, so delta cannot follow from it: give delta=…, or declare "
            "n_public=…. Nothing was released."
        )

    def _rows(self, n: int, vault: Vault, guarantee: Guarantee, released: list[Event]) -> tuple[float, Guarantee]:
        """The number of rows to divide by, and what is left of the guarantee for the solver.

        A private count is ε₁-DP and the run that follows is (ε − ε₁, δ)-DP whatever the count said: basic composition,
        valid although the run's steps depend on the count.
        """
        if guarantee.unit.relation == "replace-one" or not guarantee.private:
            if self.n_public is not None and guarantee.private and self.n_public != n:
                raise InvalidInput(f"under replace-one n is public: n_public={self.n_public}, but X has {n} rows.")
            return float(n), guarantee
        if self.n_public is not None:
            return float(self.n_public), guarantee
        share = _COUNT_SHARE * guarantee.epsilon
        count = Noisy(RowCount(), Laplace(guarantee.unit.rows_per_unit / share))
        released.append(count.event(guarantee.unit))
        rows = float(vault.release(count, note=f"{type(self).__name__}: number of rows"))
        rest = Guarantee(guarantee.epsilon - share, guarantee.delta, guarantee.unit)
        return max(1.0, rows), rest

    def _plan(self, problem: Problem, guarantee: Guarantee) -> tuple[str, Solver]:
        options = dict(self.solver_options or {})
        if self.solver == "auto":
            if options:
                raise InvalidInput("solver_options need a named solver; with solver='auto' all are chosen for you.")
            name = choose(problem, guarantee)
        else:
            name = self.solver
        try:
            return name, recipe(name)(problem, guarantee, **options)
        except TypeError as problem_:
            if "unexpected keyword" in str(problem_) and options:
                raise InvalidInput(f"solver {name!r} does not take these options: {problem_}.") from None
            raise

    def _set(self, theta: NDArray[np.float64], rows: RowSpec) -> None:
        theta = np.atleast_2d(theta)
        weights = theta[:, : rows.n_features]
        offsets = theta[:, -1] * (rows.constant * rows.unit) if self.fit_intercept else np.zeros(len(theta))
        self._take(weights, offsets)

    def _certificate(
        self, event: Event, guarantee: Guarantee, rest: Guarantee, name: str, solver: Solver, protective: bool
    ) -> Certificate:
        from discreet.accounting import epsilon

        if isinstance(event, NonPrivate) or not guarantee.private:
            spent = math.inf
        elif rest != guarantee:
            spent = guarantee.epsilon
        else:
            spent = min(guarantee.epsilon, epsilon(event, guarantee.delta, guarantee.unit).upper)
        settings = {k: v for k, v in _plain(solver).items() if v is not None}
        unprotected = list(self._unprotected())
        if guarantee.unit.relation == "replace-one":
            unprotected.append("number of rows")
        return Certificate(
            spent, guarantee.delta, guarantee.unit, event, name, settings, tuple(unprotected), protective
        )

    def _unprotected(self) -> tuple[str, ...]:
        return ()

    # --- using ----------------------------------------------------------------------------------------------

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


def _in_words(name: str, solver: Solver, plan: list[Event]) -> str:
    noise = getattr(solver, "noise_multiplier", 0.0)
    releases = f"{len(plan)} release{'s' * (len(plan) != 1)}"
    return f"{name}, {releases}" + (f", noise multiplier {noise:.4g}" if noise else "")


def _plain(solver: Solver) -> dict[str, Any]:
    """A solver's settings as plain values for the certificate."""
    tree = asdict(solver) if is_dataclass(solver) and not isinstance(solver, type) else {}
    plain = (int, float, str, bool, dict)
    return {key: value if isinstance(value, plain) else str(value) for key, value in tree.items()}
