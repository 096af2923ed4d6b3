"""What all linear models share: from tables and declarations to rows, a problem and a plan; and predictions."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from discreet.calibration import Guarantee
from discreet.data.base import Dataset
from discreet.data.columns import Column, Encoding
from discreet.data.partitions import frame_scan
from discreet.data.persons import Persons
from discreet.data.scans import Scan
from discreet.data.streamed import TargetCoding
from discreet.errors import InvalidInput
from discreet.estimators.checks import LENGTHS, check_lengths, check_range
from discreet.estimators.custom_losses import chosen_loss
from discreet.estimators.features import Features, checked_matrix, device_tensor, rows_of
from discreet.estimators.inference import Released, partitions
from discreet.estimators.interactions import (
    check_interactions,
    chosen_in_words,
    crossable_columns,
    declared_interactions,
)
from discreet.estimators.persons import persons_of, refuse_weights
from discreet.estimators.privacy import PlanFor, PrivateEstimator, summable
from discreet.estimators.saving import save
from discreet.estimators.scans import opened_scan, scanned_tables
from discreet.estimators.targets import column_vector
from discreet.geometry import WholeSpace
from discreet.geometry.base import Geometry
from discreet.losses import Loss
from discreet.planning.plan import Plan, make_plan
from discreet.recipes import INFERRING, STARTED
from discreet.refinement import Refinement
from discreet.report.effects import ModelEffects
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.inference import Inference
from discreet.solvers.interactions import Interactions, refined_rows
from discreet.tuned import Tuned, current, tuned
from discreet.units import Unit

__all__ = ["NUMBERS", "LinearModelNumbers", "PrivateLinearModel"]


@dataclass(frozen=True)
class LinearModelNumbers(Tuned):
    """Tuned numbers of all linear models."""

    intercept: float = tuned(
        0.5,
        "the constant column over the longest row: a compromise between shrinking the intercept and noise for all",
        "sweep: intercept",
    )


NUMBERS = LinearModelNumbers()


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
    loss: Any = None
    domain: Geometry | None = None
    verbose: Any = False  # or a number, as in scikit-learn

    def __new__(cls, *_: Any, **settings: Any) -> Any:
        """An estimator, unless scikit-learn's weights of classes are asked for, which are refused with the reason."""
        refuse_weights({name: value for name, value in settings.items() if name == "class_weight"})
        return super().__new__(cls)

    # --- what a subclass says -------------------------------------------------------------------------------

    @abstractmethod
    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        """Coded targets and the number of outputs; sets the fitted attributes that decoding needs."""

    @abstractmethod
    def _target_coding(self, column: Column | None) -> TargetCoding:
        """What codes targets, after `_read_target` has declared it; it knows public facts alone."""

    @abstractmethod
    def _usual_loss(self) -> Loss:
        """The pointwise loss on coded targets, where no other is asked for."""

    @abstractmethod
    def _take(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> None:
        """Set coef_ and intercept_ in the units of the user's targets."""

    def _domain(self, features: Features, rows: RowSpec, n: float, guarantee: Guarantee) -> Geometry:
        """The set that θ is kept in."""
        return self.domain or WholeSpace()

    def _entry_bound(self, features: Features) -> float:
        """A public bound on every entry of a row, where the model declares one."""
        return math.inf

    # --- fitting --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **refused: Any) -> Any:
        """Fit the model; every release is charged to the ledger before it is made.

        Args:
            X: table or matrix, one row a person; or several, see ``groups``. Or `Parquet` or `CSV`, for files that do
                not fit in memory, or a Dask DataFrame. A tensor of PyTorch on a GPU stays there.
            y: targets; of files the name of a column, or nothing where X says it.
            groups: whose each row is. Persons are then protected, and take part with ``rows_per_unit`` rows each,
                whatever they contain. A schema with a `Person` says the same.
            **refused: weights of rows, with the reason why they are refused.

        Raises:
            InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
            BudgetExceeded: the ledger refused the whole run. Nothing was released.
        """
        refuse_weights(refused)
        self._check_parameters()
        private = math.isfinite(self.epsilon)
        unit = Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]
        scan = frame_scan(X, y)
        if scan is not None:
            with opened_scan(self, scan, y, groups, unit, private) as (features, data, persons):
                return self._fit_rows(features, data, persons)
        persons = persons_of(X, self.schema, groups, unit, private)
        return self._fit_rows(*self._prepare(X, y, private), persons)

    def _fit_rows(self, features: Features, data: Dataset, persons: Persons | None) -> Any:
        plan_for = summable(self._plan_for(features, data.rows, data.sparse), len(data))
        self._refinement: Refinement | None = None
        theta = self._fit_in_vault(data, plan_for, self.solver, persons)
        self._features = features if self._refinement is None else features.refined(self._refinement)
        self._set(
            theta, data.rows if self._refinement is None else refined_rows(data.rows, self._refinement.n_features)
        )
        return self

    def _keep(self, plan: Plan, answers: list[Any]) -> None:
        self.__dict__.pop("released_", None)
        if isinstance(plan.solver, Interactions):
            self._refinement = plan.solver.refinement(plan.problem, answers)
        if isinstance(plan.solver, Inference):
            self.released_ = Released(
                tuple(np.asarray(a, dtype=np.float64) for a in answers), plan.solver, plan.problem
            )

    def _found(self) -> dict[str, str]:
        return {} if self._refinement is None else {"chosen": chosen_in_words(self._refinement)}

    def _prepare(self, X: Any, y: Any, private: bool) -> tuple[Features, Dataset]:
        """Rows and coded targets, as the declarations say; sets the attributes that decoding needs."""
        if y is None or isinstance(y, str):
            column_vector(y)  # refuses them
        column = self._target_column(y)
        name, encoding = getattr(y, "name", None), self._encoding()
        self._target = None if name is None else str(name)
        schema = declared_interactions(self.schema, self._interactions())
        features = Features.declared(X, schema, self.row_norm, name, private, encoding)
        features.require_target(X)
        tensor = device_tensor(self, X, features, private)
        matrix = self._matrix(X, features, reset=True) if tensor is None else tensor
        targets, outputs = self._read_target(y, column, private)
        if matrix.shape[0] != len(targets):
            raise InvalidInput("Found input variables with inconsistent numbers of samples: X and y must have as many.")
        if matrix.shape[0] == 0:
            raise InvalidInput("Found array with 0 sample(s) while a minimum of 1 is required.")
        rows = RowSpec(matrix.shape[1], features.row_norm, self._constant(features, matrix.shape[1]), outputs)
        return features, rows_of(matrix, targets, rows, owned=features.encoder is not None)

    def _plan_for(self, features: Features, rows: RowSpec, sparse: bool) -> PlanFor:
        """The plan for a number of rows and a guarantee, from public facts alone."""

        def plan_for(n: float, guarantee: Guarantee) -> Plan:
            problem = self._problem(features, rows, sparse, n, guarantee)
            options = self.solver_options
            if isinstance(options, Mapping) and options.get("start") is not None:
                if self.solver not in STARTED:
                    raise InvalidInput(f"a start has no effect on solver={self.solver!r}; use {' or '.join(STARTED)}.")
                problem = replace(problem, initial=self._theta_of(options["start"], rows))
                options = {name: value for name, value in options.items() if name != "start"}
            plan = make_plan(problem, guarantee, self.solver, options)
            if self._infers() and not isinstance(plan.solver, Inference):
                raise InvalidInput(
                    f"inference=True chooses the solver; solver={self.solver!r} has no intervals. Nothing was released."
                )
            return plan

        return plan_for

    def _problem(self, features: Features, rows: RowSpec, sparse: bool, n: float, guarantee: Guarantee) -> Problem:
        domain = self._domain(features, rows, n, guarantee)
        infers = self._infers()
        return Problem(
            rows,
            self._loss(),
            n,
            domain,
            float(self.alpha),
            sparse,
            self._entry_bound(features),
            inference=infers,
            robust=infers and bool(getattr(self, "robust", False)),
            partitions=partitions(features) if infers else (),
            columns=crossable_columns(features) if self._chooses_interactions() else (),
            largest_count=self._largest_count(),
            n_error=self._count_error(guarantee),
            residual_loss=self._in_residuals(),
        )

    def _chooses_interactions(self) -> bool:
        """Whether a fit may choose interactions; intervals are for columns as they are declared."""
        return isinstance(self._interactions(), str) and not self._infers()

    def _interactions(self) -> Any:
        """Which interactions are asked for: False, "auto" or pairs of columns."""
        return False

    def _encoding(self) -> Encoding:
        """How numeric columns are encoded that do not say so: one coefficient each where intervals are asked for."""
        return "linear" if self._infers() else "spline"

    def _infers(self) -> bool:
        """Whether a fit releases what intervals need: that was asked for, or the solver that does so was named."""
        return bool(getattr(self, "inference", False)) or self.solver in INFERRING

    def _in_residuals(self) -> Loss | None:
        """The loss in units of the residuals' spread, for solvers that estimate it; None where there is none."""
        return None

    def _largest_count(self) -> float:
        """The public bound of counts that are not coded; none for other targets."""
        return math.inf

    def _loss(self) -> Loss:
        """The loss that was asked for, as a fit may use it: no code but the library's is ever given a row."""
        usual = self._usual_loss()
        return usual if self.loss is None else chosen_loss(self, usual)

    def _check_parameters(self) -> None:
        self._check_privacy()
        if not (isinstance(self.alpha, int | float | np.number) and 0 <= self.alpha < math.inf):
            raise InvalidInput(f"alpha must be finite and non-negative, got {self.alpha!r}.")
        check_range("alpha", self.alpha, 0.0, LENGTHS[1], "less already leaves nothing but zeros")
        check_lengths(self.row_norm, getattr(self, "target_bounds", None))
        self._check_inference()
        check_interactions(self._interactions(), self.schema)
        if self.domain is not None and not isinstance(self.domain, Geometry):
            raise InvalidInput(f"domain must be a set from discreet.geometry, got {self.domain!r}.")

    def _check_inference(self) -> None:
        """Refuse parameters about intervals that contradict others; a model without intervals has none."""

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
                self.feature_names_in_ = features.encoder.names_in
                self.n_features_in_ = len(self.feature_names_in_)
            return matrix
        return checked_matrix(self, X, reset=reset)

    def _constant(self, features: Features, columns: int) -> float:
        """The value of the constant column, whose coefficient is the intercept; 0 without one."""
        if not self.fit_intercept:
            return 0.0
        return current(NUMBERS).intercept * features.row_norm if math.isfinite(features.row_norm) else 1.0

    def _theta_of(self, model: Any, rows: RowSpec) -> NDArray[np.float64]:
        """A public linear model, in the user's units, as the parameter that solvers see: the opposite of `_set`."""
        if not hasattr(model, "coef_"):
            raise InvalidInput("a start is a fitted linear model, with coef_ and intercept_, of public rows.")
        weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
        offsets = np.atleast_1d(np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64))
        if weights.shape != (rows.outputs, rows.n_features) or offsets.shape != (rows.outputs,):
            raise InvalidInput(
                f"a start must have {rows.n_features} coefficients for each of {rows.outputs} outputs, got "
                f"{weights.shape} and {offsets.shape}."
            )
        weights, offsets = self._untake(weights, offsets)
        if rows.intercept:
            weights = np.hstack([weights, offsets[:, None] / (rows.constant * rows.unit)])
        return weights.reshape(rows.shape)

    def _untake(
        self, weights: NDArray[np.float64], offsets: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients and intercepts in the units of coded targets; the opposite of `_take`."""
        return weights, offsets

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
        if isinstance(X, Scan):
            parts = [self._scores(table) for table in scanned_tables(X, self._features.encoder)]
            return np.concatenate(parts) if parts else np.empty((0, len(np.atleast_2d(self.coef_))))
        matrix = self._matrix(X, self._features, reset=False)
        if matrix.shape[1] != np.atleast_2d(self.coef_).shape[1]:
            raise InvalidInput(f"X has {matrix.shape[1]} features, but the model was fitted with others.")
        matrix = _clipped(matrix, self._features.row_norm)
        scores = matrix @ np.atleast_2d(self.coef_).T + self.intercept_
        return np.asarray(scores, dtype=np.float64)

    def effects(self) -> ModelEffects:
        """What each column adds to the score, in natural units: log-odds, or units of the target, at each value.

        ``coef_`` is about encoded features, which are scaled by 1/√m for m columns and have no unit; effects are what
        they amount to. `to_html`, `plot` and ``discreet show`` draw them.
        """
        from discreet.estimators.effects import effects_of

        return effects_of(self)

    def plot(self, path: Any = None, *, most: int = 24) -> Any:
        """Draw the effects, one small panel a column, and return the figure of matplotlib.

        Args:
            path: where to write the picture; the ending picks the format (png, svg, pdf). None writes nothing.
            most: how many columns are drawn for each output, those of the largest span.

        Raises:
            InvalidInput: matplotlib is not installed (``discreet[report]``), or does not write such a format.
        """
        return self.effects().plot(path, most=most)

    def save(self, path: Any) -> None:
        """Write the model to one file that holds no code and no training data."""
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
