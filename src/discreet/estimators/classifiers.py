"""Private classifiers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin

from discreet.data.columns import Column
from discreet.errors import InvalidInput
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.inference import Inferring
from discreet.estimators.interactions import Interacting
from discreet.estimators.targets import Labels, column_vector, declared_kind
from discreet.losses import Logistic, Loss, SmoothedHinge, Softmax

__all__ = ["LinearSVC", "LogisticRegression"]


@dataclass(eq=False, repr=False, kw_only=True)
class _Classifier(ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A classifier: labels are coded by their declared classes, and predictions are labels."""

    classes: Any = None

    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        labels = column_vector(y)
        coding = Labels.declare(labels, self.classes, column, kind=declared_kind(y))
        self.classes_, self._declared = coding.classes, coding.declared
        return coding.encode(labels), coding.outputs

    def _target_coding(self, column: Column | None) -> Labels:
        return Labels.declare(np.empty(0, dtype=object), self.classes, column)

    def _unprotected(self) -> tuple[str, ...]:
        return () if self._declared else ("the set of classes, taken from y",)

    def _take(self, weights: NDArray[np.float64], offsets: NDArray[np.float64]) -> None:
        self.coef_, self.intercept_ = weights, offsets

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: positive for ``classes_[1]``, or one column a class."""
        scores = self._scores(X)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely label of each row."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[_codes(scores)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted, where the rows are public.

        Labels are compared as `fit` reads them: 1, 1.0 and "1" are the same. What is none of ``classes_`` is wrong.

        Args:
            X: rows.
            y: their labels.
            sample_weight: how much each row counts; by default all the same.
        """
        coding = Labels(self.classes_)
        truth = coding.encode(column_vector(y))
        codes = _codes(self.decision_function(X))
        right = truth == (2 * codes - 1 if coding.outputs == 1 else codes)
        return float(np.average(right, weights=sample_weight))


def _codes(scores: NDArray[np.float64]) -> NDArray[Any]:
    """The position of the most likely class."""
    return (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRegression(Inferring, Interacting, _Classifier):
    """Private logistic regression, binary or multinomial.

    Args:
        epsilon: privacy budget; ``float("inf")`` is the baseline without privacy.
        delta: probability of failure; by default 1/n² under replace-one or for a declared ``n_public``.
        adjacency: ``"replace-one"`` or ``"add-remove"``.
        rows_per_unit: the most rows that one person owns.
        solver: ``"auto"``, or a name of `discreet.recipes.RECIPES`.
        solver_options: settings of a named solver.
        schema: public bounds and categories of a table's columns.
        row_norm: for plain arrays, the ℓ2 length to which rows are clipped.
        classes: the public set of labels.
        n_public: the number of rows, declared public.
        fit_intercept: whether to learn an offset (inside the privacy analysis).
        alpha: ℓ2 regularisation of the mean loss.
        loss: another loss in place of the model's own: a name with or without its parameter (two classes: ``"hinge"``,
            ``"sigmoid:2"``; regressors: ``"huber"``, ``"welsch"``, ``"tukey:0.8"``, ``"quantile"``, ``"squared"``), a
            loss of `discreet.losses`, or any object with its protocol, whose declared constants are checked on public
            numbers first (`discreet.losses.tabulated`).
        domain: constraint set from `discreet.geometry` for all coefficients, the intercept's last (its column is half
            the row norm); regressors code targets to [−1, 1] by their bounds.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the run reproducible and *not private*.
        verbose: show progress: steps and ε.
        inference: whether standard errors and intervals are asked for (two classes): `summary`, `conf_int`,
            `cov_params` and `contrast` then have them, from released values within the same ε.
        robust: whether they are to hold where the model's variance is wrong; one more release.
        interactions: ``"auto"`` lets the fit choose pairs of columns of a table that tell more together than alone, and
            knots where the rows are, within the same ε, where the number of rows and ε allow for it (two classes, or
            least squares); False leaves the model additive; a list of pairs of columns names them, which is public.

    Example:
        >>> import numpy as np, discreet as dp
        >>> X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 500, axis=0)
        >>> y = np.repeat([1, 0], 500)
        >>> model = dp.LogisticRegression(epsilon=1.0, row_norm=1.0, classes=[0, 1]).fit(X, y)
        >>> model.privacy_.epsilon <= 1.0, model.predict(X[:1])
        (True, array([1]))
    """

    def _usual_loss(self) -> Loss:
        return Logistic() if len(self.classes_) == 2 else Softmax(len(self.classes_))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class.

        Raises:
            InvalidInput: the model was fitted with another loss, whose scores are no logarithms of odds.
        """
        if self.loss not in (None, "logistic"):
            raise InvalidInput(
                f"scores of the loss {self.loss!r} are no probabilities: use predict or decision_function."
            )
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = Logistic().mean(scores)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of `predict_proba`."""
        return np.log(np.maximum(self.predict_proba(X), 1e-300))


@dataclass(eq=False, repr=False, kw_only=True)
class LinearSVC(_Classifier):
    """Private linear support vector classifier for two classes, with a smoothed hinge loss.

    Args:
        smoothing: width over which the hinge bends. All others: see `LogisticRegression`.
    """

    smoothing: float = 1.0

    def _usual_loss(self) -> Loss:
        if len(self.classes_) != 2:
            raise InvalidInput(
                f"LinearSVC takes two classes, got {len(self.classes_)}; Only binary classification is supported. Use "
                "LogisticRegression for more."
            )
        if not 0 < self.smoothing < math.inf:
            raise InvalidInput(f"smoothing must be positive and finite, got {self.smoothing!r}.")
        return SmoothedHinge(float(self.smoothing))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
