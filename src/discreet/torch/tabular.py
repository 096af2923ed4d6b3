"""Private neural networks for tables, with the interface of scikit-learn.

The network has one hidden layer and a direct connection from the inputs to the scores, so that it contains the linear
model and starts as one: z = A·x + B·tanh(W·x + c)/√H + b, with ‖x‖ ≤ 2. The gradient of a row in (A, B, b) is its
slope times a vector of length at most √6; gradients are clipped at half of √6, which leaves rows as they are whose
class has probability ½ or more.

Steps decrease linearly from η to 0, the rule of the best known bounds for the last iterate: η = D/(G·√T) for a start at
distance D and gradients of size G (Zamani and Glineur 2023; Defazio et al. 2023). Entry by entry, G is the noise in the
mean gradient, which is what limits private training, and D is 1, the scale of the weights at the start. No number is
tuned; `bench/torch_tables.py` varies this η on synthetic tables. Numbers of a schema are seen on two scales
(`discreet.torch.ends`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from discreet.data.columns import Column
from discreet.data.persons import Persons
from discreet.errors import InvalidInput
from discreet.estimators.callers import warned_of_steps
from discreet.estimators.features import Features, checked_matrix
from discreet.estimators.persons import persons_of, refuse_weights
from discreet.estimators.privacy import PrivateEstimator, bits_for
from discreet.estimators.provenance import declared_bounds
from discreet.estimators.saving import save
from discreet.estimators.targets import Bounded, Labels, column_vector, declared_kind
from discreet.report.certificate import Certificate
from discreet.torch.ends import with_fine_ends
from discreet.units import Unit

if TYPE_CHECKING:
    from discreet.torch.trainer import Trainer

__all__ = ["TorchClassifier", "TorchRegressor"]

STEPS_PER_EPOCH = 10
"""Batches of a tenth of the rows: noise in the mean gradient is then within a few percent of that of full batches, at a
tenth of the work."""
INPUT_LENGTH = 2.0
"""Rows are scaled to at most this length, so that tanh(W·x) is neither linear nor saturated for W of unit variance."""
LONGEST = math.sqrt(INPUT_LENGTH**2 + 2)
"""The greatest length of (x, tanh(…)/√H, 1)."""
MOMENTUM = 0.9


@dataclass(eq=False, repr=False)
class _Network(PrivateEstimator):
    """Parameters and fitting that both networks share."""

    _: KW_ONLY
    schema: Any = None
    row_norm: float | None = None
    hidden: int = 32
    epochs: float = 20.0
    expected_batch: int | None = None
    learning_rate: float | None = None
    verbose: Any = False

    @abstractmethod
    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        """Coded targets and the number of outputs; sets the fitted attributes that decoding needs."""

    def fit(self, X: Any, y: Any, groups: Any = None, **refused: Any) -> Any:
        """Fit the network; the whole training is charged to the ledger before it begins.

        Args:
            X: table or matrix; one row a person, unless ``groups`` or a `Person` of the schema says whose each row is.
            y: targets.
            groups: one id a row. The rows of a person, ``rows_per_unit`` of them, are then one example of the training.
            **refused: weights of rows, with the reason why they are refused.

        Raises:
            InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
            BudgetExceeded: the ledger refused the whole training. Nothing was released.
        """
        refuse_weights(refused)
        self._check_parameters()
        private = math.isfinite(self.epsilon)
        persons = persons_of(X, self.schema, groups, Unit(self.adjacency, self.rows_per_unit), private)  # type: ignore[arg-type]
        column = self._target_column(y)
        features = Features.declared(X, self.schema, self.row_norm, getattr(y, "name", None), private)
        features.require_target(X)
        features = with_fine_ends(features)
        rows = self._rows(X, features, reset=True)
        targets, outputs = self._read_target(y, column, private)
        self._target = None if (name := getattr(y, "name", None)) is None else str(name)
        if len(rows) != len(targets) or not len(rows):
            raise InvalidInput("X and y must have as many rows, and at least one.")
        self._features = features
        self._learned_before = warned_of_steps(self) if private else ()
        self._train(rows, targets, outputs, persons)
        return self

    def _check_parameters(self) -> None:
        self._check_privacy()
        if not 0 <= self.hidden <= 10**5:
            raise InvalidInput(f"hidden must be between 0 (a linear model) and 100000 units, got {self.hidden!r}.")
        if self.learning_rate is not None and not 0 < self.learning_rate < math.inf:
            raise InvalidInput(f"learning_rate must be positive and finite, got {self.learning_rate!r}.")

    def _train(
        self, rows: NDArray[np.float32], targets: NDArray[np.float64], outputs: int, persons: Persons | None
    ) -> None:
        import torch

        from discreet.torch.networks import SkipNetwork, losses_for
        from discreet.torch.privatizing import privatize

        people = len(rows) if persons is None else persons.count
        counted = self.adjacency == "add-remove" and self.n_public is None and math.isfinite(self.epsilon)
        n = people if self.adjacency == "replace-one" or self.n_public is None else self.n_public
        usual = 1 / STEPS_PER_EPOCH if counted else max(1, math.ceil(n / STEPS_PER_EPOCH))
        model = SkipNetwork(rows.shape[1], self.hidden, outputs, bits_for(self.random_state))
        known = ~np.isnan(targets)
        data = tuple(torch.from_numpy(part) for part in (rows, np.nan_to_num(targets), known))
        optimizer = torch.optim.SGD(model.parameters(), 1.0, momentum=MOMENTUM)
        trainer = privatize(
            model,
            optimizer,
            data,
            epsilon=float(self.epsilon),
            delta=self.delta,
            epochs=float(self.epochs),
            expected_batch=self.expected_batch or usual,
            clip=LONGEST / 2,
            adjacency=Unit(self.adjacency, self.rows_per_unit),  # type: ignore[arg-type]
            groups=persons,
            n_public=None if self.n_public is None else int(self.n_public),
            ledger=self.ledger,
            random_state=self.random_state,
            verbose=bool(self.verbose),
        )
        losses, curvature = losses_for(self._kind, outputs)
        first = _first_step(trainer, curvature) if self.learning_rate is None else self.learning_rate
        self.learning_rate_ = first
        for batch in trainer:
            optimizer.param_groups[0]["lr"] = first * (1 - trainer.steps_done / trainer.plan.steps)
            trainer.step(torch.where(batch[2], losses(model(batch.x), batch.y), 0.0))
        self.n_iter_ = trainer.steps_done
        self.coefs_, self.intercepts_ = model.arrays()
        self.privacy_ = self._marked(trainer.privacy_)

    _kind = ""

    def _marked(self, certificate: Certificate) -> Certificate:
        """The certificate, with what the declarations were taken from."""
        bounds = self._bounds_from_the_data()
        return replace(
            certificate,
            unprotected=(*self._unprotected(), *bounds, *certificate.unprotected[1:]),  # its own loop keeps nothing
            protective=certificate.protective and not bounds,
            record=certificate.record
            | {
                "model": type(self).__name__,
                "target": self._target,
                "bounds": declared_bounds(self) + certificate.record["bounds"],
            },
        )

    def _target_column(self, y: Any) -> Column | None:
        name = getattr(y, "name", None)
        if self.schema is None or name is None or name not in self.schema:
            return None
        column: Column = self.schema.target(name)
        return column

    def _rows(self, X: Any, features: Features, *, reset: bool) -> NDArray[np.float32]:
        """Rows of length at most `INPUT_LENGTH`; entries that are not finite count as 0."""
        if features.encoder is not None:
            matrix = features.encoder.transform(X)
            if reset:
                self.feature_names_in_ = features.encoder.names_in
                self.n_features_in_ = len(self.feature_names_in_)
        else:
            matrix = checked_matrix(self, X, reset=reset)
        dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
        dense = np.where(np.isfinite(dense), dense, 0.0)
        largest = np.maximum(np.abs(dense).max(axis=1, initial=0.0), 1e-300)
        lengths = largest * np.sqrt(((dense / largest[:, None]) ** 2).sum(axis=1))
        norm = features.row_norm if math.isfinite(features.row_norm) else float(lengths.max(initial=1e-300))
        scaled = dense * (INPUT_LENGTH / np.maximum(lengths, norm))[:, None]
        return np.ascontiguousarray(scaled, dtype=np.float32)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "coefs_")
        rows = self._rows(X, self._features, reset=False).astype(np.float64)
        direct, inner, outer = self.coefs_
        if rows.shape[1] != direct.shape[0]:
            raise InvalidInput(f"X has {rows.shape[1]} features, but the network was fitted with others.")
        hidden = np.tanh(rows @ inner + self.intercepts_[0])
        return np.asarray(rows @ direct + hidden @ outer + self.intercepts_[1])

    def save(self, path: Any) -> None:
        """Write the network to one file that holds no code and no training data; `discreet.load` reads it."""
        save(self, path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _first_step(trainer: Trainer, curvature: float) -> float:
    """η of the first step: (1 − momentum)/(noise·√T), and at most the largest step that is stable.

    Momentum m makes a step worth 1/(1 − m) steps, and heavy-ball descent on a loss of curvature L is stable up to
    2(1 + m)/L.
    """
    stable = 2 * (1 + MOMENTUM) / (curvature * LONGEST**2)
    noise = trainer.noise_std * math.sqrt(trainer.plan.steps)
    return min(stable, (1 - MOMENTUM) / noise) if noise else stable


@dataclass(eq=False, repr=False, kw_only=True)
class TorchClassifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A private neural network for two or more classes.

    Args:
        epsilon: privacy budget; ``float("inf")`` is the baseline without privacy.
        delta: by default 1/n² under replace-one or for a declared ``n_public``.
        adjacency: ``"replace-one"``, or ``"add-remove"``, which counts rows privately unless ``n_public`` is declared.
        rows_per_unit: the most rows that one person owns.
        n_public: the number of rows, declared public.
        schema: public bounds and categories of a table's columns.
        row_norm: for plain arrays, the ℓ2 length to which rows are clipped.
        classes: the public set of labels.
        hidden: units of the hidden layer; 0 for a linear model.
        epochs: passes over the rows.
        expected_batch: the expected number of rows of a batch; by default a tenth of all.
        learning_rate: the first step of gradient descent with momentum 0.9, after which steps decrease linearly to 0;
            by default from the noise.
        ledger: a `Ledger` or its url; by default one in memory.
        random_state: an integer seed makes the run reproducible and *not private*.
        verbose: show progress: steps and ε.

    Example:
        >>> import numpy as np
        >>> X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 500, axis=0)
        >>> y = np.repeat([1, 0], 500)
        >>> model = TorchClassifier(epsilon=1.0, row_norm=1.0, classes=[0, 1], epochs=2).fit(X, y)
        >>> model.privacy_.epsilon <= 1.0, model.predict(X[:1])
        (True, array([1]))
    """

    classes: Any = None
    _kind = "classes"

    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        labels = column_vector(y)
        coding = Labels.declare(labels, self.classes, column, kind=declared_kind(y))
        self.classes_, self._declared = coding.classes, coding.declared
        return coding.encode(labels), coding.outputs

    def _unprotected(self) -> tuple[str, ...]:
        return () if self._declared else ("the set of classes, taken from y",)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: positive for ``classes_[1]``, or one column a class."""
        scores = self._scores(X)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            positive = expit(scores)
            return np.column_stack([1 - positive, positive])
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely label of each row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])


@dataclass(eq=False, repr=False, kw_only=True)
class TorchRegressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A private neural network for a bounded number, by least squares on targets coded to [−1, 1].

    Args:
        target_bounds: public bounds of the target, to which targets and predictions are clipped. All others: see
            `TorchClassifier`.
    """

    target_bounds: tuple[float, float] | None = None
    _kind = "number"

    def _read_target(self, y: Any, column: Column | None, private: bool) -> tuple[NDArray[np.float64], int]:
        self._coding = Bounded.declare(self.target_bounds, column, private)
        return self._coding.encode(column_vector(y)), 1

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The predicted target of each row, inside the declared bounds."""
        coding = self._coding
        return np.clip(self._scores(X).ravel() * coding.scale + coding.shift, coding.low, coding.high)
