"""Private regressors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from discreet.calibration import Guarantee
from discreet.data.columns import Column
from discreet.errors import InvalidInput
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.features import Features
from discreet.estimators.inference import Inferring
from discreet.estimators.interactions import Interacting
from discreet.estimators.targets import Bounded, column_vector
from discreet.geometry import L1Ball, SparseSet
from discreet.geometry.base import Geometry
from discreet.losses import Huber, Loss, Poisson, Quantile, Squared
from discreet.losses.named import HUBER_WIDTH, SMOOTHING
from discreet.planning.auto import prefers_peeling, prefers_vertices
from discreet.recipes.lasso import default_radius
from discreet.recipes.shared import NUMBERS as SHARED
from discreet.rows import RowSpec
from discreet.tuned import Tuned, current, tuned

__all__ = [
    "NUMBERS",
    "HuberRegression",
    "Lasso",
    "LinearRegression",
    "PoissonRegression",
    "QuantileRegression",
    "RegressorNumbers",
    "SparseLinearRegression",
]


@dataclass(frozen=True)
class RegressorNumbers(Tuned):
    """Widths of losses in units of the residuals."""

    huber_width: float = tuned(
        1.345,
        "Huber regression: the width over the standard deviation of the residuals",
        "theorem: 95 % of the efficiency of least squares under normal errors (Huber 1964)",
    )
    smoothing: float = tuned(
        0.25,
        "quantile regression: the smoothing over 0.4/density at the quantile",
        "judgement: the bias, a 24th of its square times the density's slope, is below 0.5 % of coverage for "
        "normal targets and levels from 0.1 to 0.9, and the intercept's is removed",
    )


NUMBERS = RegressorNumbers()


@dataclass(eq=False, repr=False, kw_only=True)
class _Regressor(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """A regressor: targets are coded to [−1, 1] by their public bounds, and predictions are in the user's units."""

    target_bounds: tuple[float, float] | None = None
    _counts: ClassVar[bool] = False

    def _in_residuals(self) -> Loss | None:
        known = self.loss is None and math.isfinite(self._coding.high)
        return self._residual_loss() if known else None

    def _residual_loss(self) -> Loss | None:
        """The loss in units of the residuals, where its width was not declared."""
        return None

    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        self._coding = Bounded.declare(
            self.target_bounds, column, private, counts=self._counts, intercept=self.fit_intercept
        )
        return self._coding.encode(column_vector(y)), 1

    def _target_coding(self, column: Column | None) -> Bounded:
        return self._coding

    def _take(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> None:
        coding = self._coding
        self.coef_ = weights[0] * coding.scale
        self.intercept_ = float(offsets[0]) * coding.scale + coding.shift

    def _untake(
        self, weights: NDArray[np.float64], offsets: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        coding = self._coding
        return weights / coding.scale, (offsets - coding.shift) / coding.scale

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted target of each row, inside the declared bounds."""
        return np.clip(self._scores(X).ravel(), self._coding.low, self._coding.high)


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRegression(Inferring, Interacting, _Regressor):
    """Private linear regression by least squares.

    Args:
        target_bounds: public bounds of the target, to which targets and predictions are clipped. All others: see
            `LogisticRegression`.

    Example:
        >>> import numpy as np, discreet as dp
        >>> X = np.linspace(-1, 1, 1000)[:, None]
        >>> model = dp.LinearRegression(epsilon=2.0, row_norm=1.0, target_bounds=(0, 4)).fit(X, 2 + X.ravel())
        >>> bool(abs(model.coef_[0] - 1) < 0.5)
        True
    """

    def _usual_loss(self) -> Loss:
        return Squared()


@dataclass(eq=False, repr=False, kw_only=True)
class HuberRegression(Inferring, _Regressor):
    """Private robust regression: squared for small residuals, absolute for large ones.

    Args:
        width: where small ends, in half-ranges of the target. None takes 1.345 standard deviations of the residuals
            (0.74 times the distance of their quartiles, released privately), about what ``HuberRegressor`` of
            scikit-learn takes; solvers that do not estimate that, intervals, and fits without target_bounds take 0.25
            half-ranges. All others: see `LinearRegression`.
    """

    width: float | None = None

    def _usual_loss(self) -> Loss:
        return Huber(HUBER_WIDTH if self.width is None else float(self.width))

    def _residual_loss(self) -> Loss | None:
        return Huber(current(NUMBERS).huber_width) if self.width is None else None


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileRegression(_Regressor):
    """Private quantile regression: the target is below the prediction with probability ``quantile``.

    Args:
        quantile: the level, strictly between 0 and 1.
        smoothing: the pinball loss is averaged over residuals in an interval so wide, in half-ranges of the target.
            None takes a quarter of 0.4 over the density of residuals at the quantile (of a standard deviation, for
            the median of normal ones), released privately; solvers that do not estimate that, and fits without
            target_bounds, take 0.05 half-ranges. All others: see `LinearRegression`.
    """

    quantile: float = 0.5
    smoothing: float | None = None

    def _residual_loss(self) -> Loss | None:
        return Quantile(float(self.quantile), current(NUMBERS).smoothing) if self.smoothing is None else None

    def _usual_loss(self) -> Loss:
        if not 0 < self.quantile < 1:
            raise InvalidInput(f"quantile must lie strictly between 0 and 1, got {self.quantile!r}.")
        width = SMOOTHING if self.smoothing is None else self.smoothing
        if not 0 <= width < math.inf:
            raise InvalidInput(f"smoothing must be finite and non-negative, got {self.smoothing!r}.")
        return Quantile(float(self.quantile), float(width))


@dataclass(eq=False, repr=False, kw_only=True)
class PoissonRegression(Inferring, _Regressor):
    """Private regression of counts with a log link; ``target_bounds`` start at 0 or above."""

    _counts: ClassVar[bool] = True

    def _usual_loss(self) -> Loss:
        return Poisson()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _take(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> None:
        # a count of mean e^z coded as y/scale has log-mean z − log(scale)
        self.coef_ = weights[0]
        self.intercept_ = float(offsets[0]) + math.log(self._coding.scale)

    def _untake(
        self, weights: NDArray[np.float64], offsets: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return weights, offsets - math.log(self._coding.scale)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The expected count of each row, inside the declared bounds."""
        with np.errstate(over="ignore"):
            return np.clip(np.exp(self._scores(X).ravel()), self._coding.low, self._coding.high)

    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        coded, outputs = super()._read_target(y, column, private)
        if not private and (coded < 0).any():
            raise InvalidInput("counts are not negative.")
        if self._infers():  # counts as they are: their cap is a number of events
            self._coding = replace(self._coding, scale=1.0)
            coded = self._coding.encode(column_vector(y))
        return coded, outputs

    def _largest_count(self) -> float:
        return float(self._coding.high) if self._infers() else math.inf


@dataclass(eq=False, repr=False, kw_only=True)
class Lasso(_Regressor):
    """Private least squares over the ℓ1 ball, for many features of which few matter.

    ``solver="auto"`` is Frank–Wolfe, which pays for the largest entry of a row, or, where rows are hardly longer than
    that ((row_norm/feature_bound)² ≤ 50, at most 1000 columns), the private Newton method, which pays for their length.
    Without privacy it is the exact minimiser, up to 5000 columns.

    Args:
        radius: ℓ1 norm that the coefficients may have, with targets coded to [−1, 1] by their bounds; by default 4 over
            the feature bound, and for Frank–Wolfe less where noise outweighs what a larger set gains.
        feature_bound: public bound on every |x_j|; by default that of the schema's encoding, or else the row norm. For
            Frank–Wolfe it is the constant column too, and sets the clip, which is enforced. All others: see
            `LinearRegression`.
    """

    radius: float | None = None
    feature_bound: float | None = None

    def _usual_loss(self) -> Loss:
        return Squared()

    def _constant(self, features: Features, columns: int) -> float:
        """Where vertices are chosen all entries have one bound, so the constant column is no larger than the others."""
        usual = super()._constant(features, columns)
        if math.isfinite(self.epsilon) and self._chooses_vertices(features, columns):
            return min(usual, self._entry_bound(features))
        return usual

    def _chooses_vertices(self, features: Features, columns: int) -> bool:
        """Whether the ball's vertices are chosen, by the solver that was named or by the rule of "auto"."""
        if self.solver != "auto":
            return self.solver == "frank_wolfe"
        pure = math.isfinite(self.epsilon) and self.delta == 0
        rows = RowSpec(columns, features.row_norm)
        return not self.alpha and prefers_vertices(rows, self._entry_bound(features), pure=pure)

    def _entry_bound(self, features: Features) -> float:
        if self.feature_bound is None:
            if features.encoder is not None:
                return features.encoder.entry_bound
            return features.row_norm if math.isfinite(features.row_norm) else 1.0
        return _checked_feature_bound(self.feature_bound)

    def _domain(self, features: Features, rows: RowSpec, n: float, guarantee: Guarantee) -> Geometry:
        if self.domain is not None:
            raise InvalidInput("Lasso's set is the ℓ1 ball: give radius, not domain.")
        vertices = self._chooses_vertices(features, rows.n_features)
        if self.radius is not None:
            if not vertices and self.solver != "auto" and self.feature_bound is not None:
                raise InvalidInput(
                    f"feature_bound has no effect on solver={self.solver!r} with a radius: leave it out."
                )
            return L1Ball(float(self.radius))
        entry = self._entry_bound(features) if vertices else self.feature_bound
        return L1Ball(default_radius(rows, n, guarantee, entry, vertices=vertices))


@dataclass(eq=False, repr=False, kw_only=True)
class SparseLinearRegression(_Regressor):
    """Private least squares with at most ``sparsity`` coefficients.

    ``solver="auto"`` is iterative hard thresholding where a bound on entries is declared that rows are much longer than
    ((row_norm/feature_bound)² > 50) and the noise leaves room for its steps, and beyond 1000 columns: it pays for the
    largest entries alone. Else it is the private Newton method, whose quadratic is minimised over sparse vectors in the
    end.

    Args:
        sparsity: the most coefficients that are not 0 (the intercept counts as one).
        feature_bound: public bound on every |x_j|, enforced by cutting entries; by default that of the schema's
            encoding, or none. It is used by hard thresholding alone, whose constant column is no larger. Leave it out
            for up to 1000 columns that are known to be correlated: entries that matter would be missed. All others: see
            `LinearRegression`.

    Example:
        >>> import numpy as np, discreet as dp
        >>> X = np.random.default_rng(0).uniform(-1, 1, (20_000, 200))
        >>> model = dp.SparseLinearRegression(
        ...     epsilon=2.0, row_norm=200**0.5, feature_bound=1.0, target_bounds=(-2, 2), sparsity=3
        ... )
        >>> model.fit(X, X[:, 0] - X[:, 1]).privacy_.solver
        'hard_threshold'
    """

    sparsity: int = 10
    feature_bound: float | None = None

    def _usual_loss(self) -> Loss:
        return Squared()

    def _constant(self, features: Features, columns: int) -> float:
        """Where entries are released all have one bound, so the constant column is no larger than the others."""
        usual, entry = super()._constant(features, columns), self._entry_bound(features)
        return min(usual, entry) if math.isfinite(self.epsilon) and self._peels(features, columns) else usual

    def _peels(self, features: Features, columns: int) -> bool:
        """Whether the largest entries of gradients are released, by the solver that was named or by "auto"."""
        entry = self._entry_bound(features)
        if self.solver != "auto":
            return self.solver == "hard_threshold"
        many = columns > current(SHARED).many_columns
        return (
            math.isfinite(entry)
            and self.delta != 0
            and (many or prefers_peeling(RowSpec(columns, features.row_norm), entry, self.sparsity))
        )

    def _entry_bound(self, features: Features) -> float:
        if self.feature_bound is None:
            return math.inf if features.encoder is None else features.encoder.entry_bound
        return _checked_feature_bound(self.feature_bound)

    def _domain(self, features: Features, rows: RowSpec, n: float, guarantee: Guarantee) -> Geometry:
        if self.domain is not None:
            raise InvalidInput("the set is that of sparse vectors: give sparsity, not domain.")
        if self.sparsity < 1:
            raise InvalidInput(f"sparsity must be at least 1, got {self.sparsity!r}.")
        if self.feature_bound is not None and self.solver not in ("auto", "hard_threshold"):
            raise InvalidInput(f"feature_bound has no effect on solver={self.solver!r}: leave it out.")
        return SparseSet(int(self.sparsity))


def _checked_feature_bound(bound: float) -> float:
    if not 0 < bound < math.inf:
        raise InvalidInput(f"feature_bound must be positive and finite, got {bound!r}.")
    return float(bound)
