"""A released model on test rows: exact figures where the rows are public, one charged release where they are not.

Claim: on private rows one `Joint` release of counts and sums under Laplace noise is ε-DP in all (pure: δ = 0). Every
query bounds the ℓ1 norm of a row's contribution, and the parts share ε equally (basic composition). The model is
public, and so is everything that is computed from the release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from discreet.calibration import Guarantee
from discreet.calibration.one_release import laplace_multiplier
from discreet.data.base import Dataset
from discreet.data.columns import Column
from discreet.data.memory import Dense, Sparse, in_memory
from discreet.data.persons import Persons
from discreet.data.scans import Scan
from discreet.data.streamed import Coding, Streamed
from discreet.data.unprotected import is_unprotected
from discreet.errors import InvalidInput
from discreet.estimators import metrics, public_metrics
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.checks import EPSILONS, check_range
from discreet.estimators.metrics import Counts
from discreet.estimators.persons import persons_of, public_rows
from discreet.estimators.privacy import SOME_ROWS, bits_for, opened
from discreet.estimators.regressors import PoissonRegression, QuantileRegression
from discreet.estimators.scans import scanned_rows
from discreet.estimators.targets import Labels, column_vector
from discreet.measurements import Joint, Noisy
from discreet.mechanisms import Laplace
from discreet.queries.base import replace_one_factor
from discreet.queries.histograms.outcomes import (
    Cells,
    ClassCells,
    ConfidenceCells,
    LossCells,
    OutcomeCounts,
    ScoreCells,
)
from discreet.queries.sums.outcomes import MOST_DEVIANCE, OutcomeSums
from discreet.report.evaluation import Evaluation, Metric
from discreet.rows import RowSpec
from discreet.units import Adjacency, Unit
from discreet.vault import Payment, Vault

__all__ = ["evaluate"]

Floats: TypeAlias = NDArray[np.float64]

_LOG_ODDS, _MARGIN = 6.0, 3.0
"""Scores are counted in bins up to here: log-odds of 1 to 400, and margins of a support vector classifier."""
_GROUPS = 6
"""Groups of log-odds for the calibration error: probabilities 0.02, 0.12, 0.5, 0.88 and 0.98 are between them."""
_CONFIDENCES = np.linspace(0.0, 1.0, 11)
_LOSSES = np.concatenate([[0.0], np.geomspace(0.01, 10.0, 24)])


def evaluate(
    model: PrivateLinearModel,
    X: Any,
    y: Any = None,
    *,
    epsilon: float | None = None,
    public: bool = False,
    adjacency: Adjacency = "replace-one",
    n_public: int | None = None,
    groups: Any = None,
    ledger: Any = None,
    random_state: int | None = None,
) -> Evaluation:
    """How well a fitted model predicts test rows, with intervals, beside the guess that ignores all features.

    For two classes: accuracy, AUC, log-loss and calibration error (none of the latter two for `LinearSVC`); for more:
    accuracy, log-loss and the calibration error of the most likely class; for numbers R² and the root mean squared
    error; for counts the mean Poisson deviance and its explained share (D²); for quantiles the pinball loss and the
    share of targets at or below the prediction.

    Rows are private unless they are declared public. The model is public: test rows must not be among those that it
    was fitted to, or the figures say nothing about other people; privacy holds all the same, and the costs of both
    add up in a ledger.

    Args:
        model: a fitted or loaded linear model of this library.
        X: table or matrix of the test rows, with the columns that the model was fitted to; private ones may be in files
            that do not fit in memory (`Parquet`, `CSV`).
        y: their targets; a row whose target is missing or unlisted counts nowhere. Of files the name of a column.
        epsilon: pure privacy budget of the whole evaluation; ``inf`` for no privacy.
        public: the rows are public: exact figures, at no cost.
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        n_public: under add-remove the number of rows, or of persons, if it is public; it sets how finely scores are
            counted.
        groups: whose each row is. Persons are then protected, with ``rows_per_unit`` rows of a `Unit` each, and count
            once each. A model whose schema has a `Person` takes them from its column.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the answer reproducible and *not private*.

    Raises:
        InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
        BudgetExceeded: the ledger refused. Nothing was released.

    Example:
        >>> import discreet as dp
        >>> X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 1000, axis=0)
        >>> y = np.repeat([1, 0], 1000)
        >>> model = dp.LogisticRegression(epsilon=1.0, row_norm=1.0, classes=[0, 1]).fit(X, y)
        >>> found = evaluate(model, X, y, epsilon=1.0)
        >>> found["accuracy"].low > found["accuracy"].guess, found.private
        (True, True)
    """
    if not isinstance(model, PrivateLinearModel):
        raise InvalidInput(f"evaluate takes a linear model of this library, got {type(model).__name__}.")
    check_is_fitted(model, "coef_")
    unit = Unit.of(adjacency)
    privacy = _checked_epsilon(epsilon, public)
    if public:
        if ledger is not None or random_state is not None:
            raise InvalidInput("public rows are neither charged nor protected by noise: leave out ledger and seed.")
        if isinstance(X, Scan):
            raise InvalidInput("public rows are evaluated in memory: give a table and its targets, not files.")
        return _on_public_rows(model, X, y)
    encoder = model._features.encoder
    data: Dataset
    if isinstance(X, Scan):
        data, persons = _rows_of_files(model, X, y, groups, unit, math.isfinite(privacy))
    else:
        persons = persons_of(X, None if encoder is None else encoder.schema, groups, unit, math.isfinite(privacy))
        data = _private_rows(model, X, y)
    unit = unit if persons is None else Unit(unit.relation, persons.most_rows, True)
    n = public_rows(len(data), n_public, unit, persons) or SOME_ROWS
    question = _question(model, data.rows, privacy, float(n), unit)
    vault = Vault(data, unit, opened(ledger), bits_for(random_state), persons=persons)
    measurement = question.measurement(privacy, unit)
    stated = (privacy, 0.0) if math.isfinite(privacy) else None
    answers = vault.release(measurement, payment=Payment(f"evaluation of {type(model).__name__}", stated))
    found = _evaluation(model, question, answers, privacy, vault)
    from_the_data = is_unprotected(epsilon) or (encoder is not None and encoder.schema.unprotected)
    return replace(found, protective=False) if from_the_data else found


def _checked_epsilon(epsilon: float | None, public: bool) -> float:
    if public:
        if epsilon is not None:
            raise InvalidInput(f"public rows cost no ε: leave out epsilon={epsilon!r}, or public=True.")
        return math.inf
    if epsilon is None:
        raise InvalidInput(
            "test rows are private unless they are declared public: give epsilon=… (charged), or say public=True. "
            "Nothing was released."
        )
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.number) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    if math.isfinite(epsilon):
        check_range("epsilon", float(epsilon), *EPSILONS, "more protects nobody: use float('inf') for no privacy")
    return float(epsilon)


# --- rows -------------------------------------------------------------------------------------------------------------


def _targets(model: Any, y: Any) -> Floats:
    """Targets as the model codes them; NaN for what is missing or unlisted."""
    values = column_vector(y)
    if is_classifier(model):
        return Labels(model.classes_, True, _declared(model, y)).encode(values)
    coded: Floats = model._coding.encode(values)
    return coded


def _declared(model: Any, y: Any) -> Column | None:
    """The schema's declaration of the target that the model was fitted to, where its classes come from there."""
    encoder = model._features.encoder
    name = getattr(y, "name", None)
    if encoder is None or model.classes is not None:
        return None
    target = encoder.target or (name if name in encoder.schema else None)
    column: Column | None = None if target is None else encoder.schema[target]
    return column


def _same_length(matrix: Any, targets: Floats) -> None:
    if matrix.shape[0] != len(targets):
        raise InvalidInput("X and y must have as many rows. Nothing was released.")
    if not len(targets):
        raise InvalidInput("there are no rows to evaluate the model on.")


def _rows_of_files(
    model: Any, scan: Scan, y: Any, groups: Any, unit: Unit, private: bool
) -> tuple[Streamed, Persons | None]:
    """Rows of files, read and encoded for each query; ``y`` may name the target."""
    _require_bounds(model)
    encoder = model._features.encoder
    target = y if isinstance(y, str) else scan.target
    if encoder is None or groups is not None or target is None or (y is not None and not isinstance(y, str)):
        raise InvalidInput(
            "test rows in files need a model with a schema and the name of the target, as y or in the scan; whose a "
            "row is says a Person in the schema. Nothing was released."
        )
    column = encoder.schema.target(target)
    targets = (
        Labels(model.classes_, True, None if model.classes is not None else column)
        if is_classifier(model)
        else model._coding
    )
    coding = Coding(encoder, target, targets, _row_facts(model, encoder.n_features))
    return scanned_rows(scan, coding, (encoder.schema, target), unit, private)


def _row_facts(model: Any, columns: int) -> RowSpec:
    norm = model._features.row_norm
    return RowSpec(columns, norm, 0.5 * norm, len(np.atleast_2d(model.coef_)))


def _require_bounds(model: Any) -> None:
    features = model._features
    if not math.isfinite(features.row_norm):
        raise InvalidInput(
            "this model was fitted without a bound on its rows (row_norm), so that scores of private rows are not "
            "computed exactly. Evaluate it on public rows, or fit it with row_norm. Nothing was released."
        )
    if not is_classifier(model) and not math.isfinite(model._coding.low):
        raise InvalidInput(
            "this model was fitted without target_bounds, so that errors have no bound. Evaluate it on public rows, or "
            "fit it with target_bounds. Nothing was released."
        )


def _private_rows(model: Any, X: Any, y: Any) -> Dense | Sparse:
    _require_bounds(model)
    features = model._features
    matrix, targets = model._matrix(X, features, reset=False), _targets(model, y)
    _same_length(matrix, targets)
    return in_memory(matrix, targets, _row_facts(model, matrix.shape[1]), owned=features.encoder is not None)


def _theta(model: Any, rows: RowSpec) -> Floats:
    """The model's parameter on the coded scale, with the entry of the constant column."""
    coef, offset = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    if isinstance(model, PoissonRegression):
        offset = offset - math.log(model._coding.scale)
    elif not is_classifier(model):
        coef, offset = coef / model._coding.scale, (offset - model._coding.shift) / model._coding.scale
    theta = np.column_stack([coef, offset / (rows.constant * rows.unit)])
    return np.asarray(theta if rows.outputs > 1 else theta[0])


# --- the question -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Question:
    """Queries that are asked together, and the bins of those that count scores."""

    queries: tuple[OutcomeCounts | OutcomeSums, ...]

    def multipliers(self, epsilon: float, unit: Unit) -> list[float]:
        """Noise of each query over its bound; they share ε equally."""
        if not math.isfinite(epsilon):
            return [0.0] * len(self.queries)
        each = Guarantee(epsilon / len(self.queries), 0.0, unit)
        return [laplace_multiplier(each, replace_one_factor(query)) for query in self.queries]

    def measurement(self, epsilon: float, unit: Unit) -> Joint:
        """All queries under Laplace noise."""
        noises = self.multipliers(epsilon, unit)
        return Joint([Noisy(query, Laplace(noise)) for query, noise in zip(self.queries, noises, strict=True)])

    def counts(self, answers: list[Any], epsilon: float, unit: Unit) -> list[Counts]:
        """Answers with the variance of their noise, that of rounding to the grid included."""
        return [
            Counts(
                np.asarray(answer, dtype=np.float64),
                (2 * (noise * q.bound) ** 2 + (noise > 0) / 12) * q.grid**2,
                unit.rows_per_unit,
            )
            for q, answer, noise in zip(self.queries, answers, self.multipliers(epsilon, unit), strict=True)
        ]


def _question(model: Any, rows: RowSpec, epsilon: float, n: float, unit: Unit) -> _Question:
    theta = _theta(model, rows)
    if not is_classifier(model):
        low = model._coding.low / model._coding.scale if isinstance(model, PoissonRegression) else -1.0
        return _Question((OutcomeSums(rows, model._loss(), theta, _measures(model), low),))
    cells: tuple[Cells, ...]
    if rows.outputs == 1:
        most = _LOG_ODDS if hasattr(model, "predict_proba") else _MARGIN
        cells = (ScoreCells(np.linspace(-most, most, _bins(epsilon, n, unit) + 1)),)
    else:
        k = rows.outputs
        cells = (ConfidenceCells(k, _CONFIDENCES), LossCells(k, _LOSSES), ClassCells(k))
    return _Question(tuple(OutcomeCounts(rows, theta, one) for one in cells))


def _bins(epsilon: float, n: float, unit: Unit) -> int:
    """How finely scores are counted, a multiple of the number of groups.

    Ties within a bin bias an AUC by about 1/bins², and noise adds bins/(εn)² to its variance: bins^5 ~ (εn)² balances
    the squared bias and the variance.
    """
    best = (min(epsilon, 1e9) / unit.rows_per_unit * n) ** 0.4
    return _GROUPS * int(np.clip(round(best / _GROUPS), 2, 20))


def _measures(model: Any) -> tuple[str, ...]:
    if isinstance(model, PoissonRegression):
        return "deviance", "share", "entropy"
    if isinstance(model, QuantileRegression):
        return "shortfall", "excess", "below"
    return "squared_error", "target", "squared_target"


# --- answers ----------------------------------------------------------------------------------------------------------


def _evaluation(model: Any, question: _Question, answers: list[Any], epsilon: float, vault: Vault) -> Evaluation:
    counts = question.counts(answers, epsilon, vault.unit)
    rows = float(counts[0].values[0] if isinstance(question.queries[0], OutcomeSums) else counts[0].values.sum())
    (event,) = vault.charged
    found = tuple(_metrics(model, question, counts))
    return Evaluation(found, max(0.0, rows), epsilon, vault.unit, event, vault.protective)


def _metrics(model: Any, question: _Question, counts: list[Counts]) -> list[Metric]:
    if not is_classifier(model):
        scale = model._coding.scale
        if isinstance(model, PoissonRegression):
            return metrics.poisson_metrics(counts[0], scale, MOST_DEVIANCE)
        if isinstance(model, QuantileRegression):
            return metrics.quantile_metrics(counts[0], scale, model.quantile)
        return metrics.squared_metrics(counts[0], scale)
    cells = [query.cells for query in question.queries if isinstance(query, OutcomeCounts)]
    if isinstance(cells[0], ScoreCells):
        probabilities = hasattr(model, "predict_proba")
        return metrics.score_metrics(counts[0], _centres(cells[0].edges), probabilities=probabilities, groups=_GROUPS)
    losses = np.append(_LOSSES[1] / 2, np.sqrt(_LOSSES[1:-1] * _LOSSES[2:]))
    return [
        *metrics.confidence_metrics(counts[0], _centres(_CONFIDENCES), counts[2]),
        metrics.loss_metric(counts[1], losses, counts[2]),
    ]


def _centres(edges: Floats) -> Floats:
    return (edges[1:] + edges[:-1]) / 2


def _on_public_rows(model: Any, X: Any, y: Any) -> Evaluation:
    scores, targets = model._scores(X), _targets(model, y)
    _same_length(scores, targets)
    known = np.isfinite(targets)
    if not known.any():
        raise InvalidInput("no row has a target that the model knows: compare the declared classes with the labels.")
    return Evaluation(tuple(_public_metrics(model, scores[known], targets[known])), float(known.sum()))


def _public_metrics(model: Any, scores: Floats, targets: Floats) -> list[Metric]:
    if is_classifier(model):
        if len(model.classes_) > 2:
            return public_metrics.of_classes(scores, targets, edges=_CONFIDENCES)
        groups = np.linspace(-_LOG_ODDS, _LOG_ODDS, _GROUPS + 1)
        probabilities = hasattr(model, "predict_proba")
        return public_metrics.of_scores(scores.ravel(), targets, probabilities=probabilities, edges=groups)
    coding = model._coding
    truth = targets * coding.scale + coding.shift
    if isinstance(model, PoissonRegression):
        with np.errstate(over="ignore"):
            return public_metrics.of_counts(np.clip(np.exp(scores.ravel()), coding.low, coding.high), truth)
    predicted = np.clip(scores.ravel(), coding.low, coding.high)
    if isinstance(model, QuantileRegression):
        return public_metrics.of_quantile(predicted, truth, model.quantile)
    return public_metrics.of_numbers(predicted, truth)
