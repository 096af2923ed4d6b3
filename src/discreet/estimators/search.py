"""Private search for hyper-parameters: the best of a random number of private trials.

Claim. The rows are split once: under replace-one into parts of public size by place, under add-remove by a coin for
each row. Where persons are protected (`discreet.data.persons`), one row of each takes part, chosen at random before the
split, so that what is said of rows here holds for persons. Given the split, one trial draws a candidate uniformly, fits
it privately on the training part, and counts, with noise, how well it does on the validation part. K trials are
independent given the data, K is geometric, and nothing but the best trial is shown. One person's row is in one part for
the whole search. In the training part it meets the fits (the scores are post-processing of models and other rows): a
`PrivateSelection` among runs that are each as private as the worst of the candidates' fits; to publish which candidate
was drawn changes nothing, as a divergence is then an average over candidates. In the validation part it meets the
scores alone: a `PrivateSelection` among noisy scores. The search is as private as the worse of the two, `Parallel`,
each with the noise that it needs for itself (the theorem is in ``docs/maths/accounting.md``). Averaging over splits
keeps the guarantee, by joint convexity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from discreet.calibration import Guarantee
from discreet.data.base import Dataset
from discreet.data.columns import Person
from discreet.data.partitions import frame_scan
from discreet.data.persons import Persons
from discreet.errors import InvalidInput, NotCertifiable, PlanViolation
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.callers import warned_of_steps
from discreet.estimators.features import Features
from discreet.estimators.persons import person_column, persons_of, refuse_weights
from discreet.estimators.privacy import PrivateEstimator, bits_for, opened
from discreet.estimators.provenance import declared_bounds, rows_bounds
from discreet.estimators.scans import opened_scan, require_summable
from discreet.events import Event, Laplace, Parallel, PrivateSelection, Promise
from discreet.ledger import Ledger
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace as LaplaceNoise
from discreet.noise.bits import Bits
from discreet.planning.plan import Plan, make_plan, spent_epsilon
from discreet.queries.sums.model_score import ModelScore
from discreet.report.certificate import Certificate
from discreet.report.record import record_of
from discreet.solvers import Filtered, Problem
from discreet.units import Unit
from discreet.vault import Vault

__all__ = ["PrivateSearchCV"]

_OWN = ("epsilon", "delta", "adjacency", "rows_per_unit", "n_public", "ledger", "random_state")


class PrivateSearchCV(MetaEstimatorMixin, PrivateEstimator):  # type: ignore[misc]
    """The best of a random number of private fits, by a private score on rows set aside.

    Args:
        estimator: a linear model of this library. Its own ``epsilon``, ``delta``, ``adjacency``, ``ledger``,
            ``n_public`` and ``random_state`` are not used: those of the search hold for all of it.
        param_grid: candidates, as for scikit-learn's grid search.
        epsilon: privacy budget of the whole search, final model included.
        delta: probability of failure; by default 1/n² under replace-one or for a declared ``n_public``.
        adjacency: ``"replace-one"``, or ``"add-remove"`` with ``n_public``.
        rows_per_unit: 1; people with several rows would be in both parts. With ``groups``, or a `Person` in the
            estimator's schema, one row of each person takes part, chosen at random, and any number may be declared.
        n_public: the number of rows, declared public.
        validation: share of the rows that scores are measured on.
        trials: mean of the geometric number of trials.
        ledger: a `Ledger` or its url; charged once, before anything is fitted.
        random_state: an integer seed makes the search reproducible and *not private*.

    Attributes: ``best_estimator_``, ``best_params_``, ``best_score_`` (with noise), ``privacy_``. How many trials there
    were is not told.

    Example:
        >>> import numpy as np, discreet as dp
        >>> X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 1000, axis=0)
        >>> model = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent")
        >>> search = dp.PrivateSearchCV(model, {"alpha": [0.0, 0.1]}, epsilon=2.0, delta=1e-6, trials=2)
        >>> search.fit(X, np.repeat([1, 0], 1000)).privacy_.epsilon <= 2.0
        True
    """

    def __init__(
        self,
        estimator: PrivateLinearModel,
        param_grid: Any,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        adjacency: str = "replace-one",
        rows_per_unit: int = 1,
        n_public: int | None = None,
        validation: float = 0.2,
        trials: int = 8,
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator, self.param_grid = estimator, param_grid
        self.epsilon, self.delta, self.adjacency, self.rows_per_unit = epsilon, delta, adjacency, rows_per_unit
        self.n_public, self.validation, self.trials = n_public, validation, trials
        self.ledger, self.random_state = ledger, random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, **refused: Any) -> PrivateSearchCV:
        """Plan all candidates without data, charge the whole search, then run it.

        Args:
            X: table or matrix; or `Parquet` or `CSV`, which are opened once for each candidate.
            y: targets.
            groups: whose each row is. Persons are then protected.
            **refused: weights of rows, with the reason why they are refused.

        Raises:
            InvalidInput: a declaration is missing or contradictory. Nothing was released or charged.
            NotCertifiable: no noise is proved to keep the guarantee. Nothing was released or charged.
            BudgetExceeded: the ledger refused. Nothing was released.
        """
        refuse_weights(refused)
        models = self._candidates()
        steps = warned_of_steps(self)
        for model in models:
            model._learned_before = steps
        scan = frame_scan(X, y)
        if scan is None:
            persons = self._persons(X, models, groups)
            return self._fit_rows(models, [model._prepare(X, y, True) for model in models], persons)
        with ExitStack() as files:
            unit = Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]
            found = [files.enter_context(opened_scan(model, scan, y, groups, unit, True)) for model in models]
            require_summable(len(found[0][1]))
            persons = self._checked_persons(models, found[0][2])
            return self._fit_rows(models, [(own, data) for own, data, _ in found], persons)

    def _fit_rows(
        self, models: list[PrivateLinearModel], opened_rows: list[tuple[Features, Dataset]], persons: Persons | None
    ) -> PrivateSearchCV:
        features, prepared = zip(*opened_rows, strict=True)
        bits, ledger = bits_for(self.random_state), opened(self.ledger)
        if persons is not None:
            only = replace(persons, declared=Person(1)).slots(bits)
            prepared = tuple(data.take(only) for data in prepared)
        guarantee = self._guarantee(len(prepared[0]))
        guarantee = replace(guarantee, unit=Unit(guarantee.unit.relation, 1, persons is not None))
        n, unit = len(prepared[0]), guarantee.unit
        rows = self._declared_rows(n, unit)
        training = _training_rows(rows, self.validation)
        problems = [
            # candidates are compared on rows as they are encoded: no run of a search chooses interactions
            replace(model._problem(own, data.rows, data.sparse, training, guarantee), columns=())
            for model, own, data in zip(models, features, prepared, strict=True)
        ]
        aim = replace(guarantee, delta=ledger.portion(guarantee.delta))
        plan = self._plan(models, problems, aim)
        event, charged = plan.event, unit
        if persons is not None and persons.most_rows > 1:  # the same (ε, δ), in terms of a budget for so many rows
            if not ledger.keeps(event, unit, aim.stated):
                raise PlanViolation("the search costs more than it states. Nothing was charged or released.")
            event = Promise(*aim.stated, persons.most_rows)
            charged = Unit(unit.relation, persons.most_rows, True)
        charge = ledger.charge(event, charged, note="PrivateSearchCV", protective=bits.protective, stated=aim.stated)
        score, chosen, theta = plan.best(prepared, _split(n, training, unit, self.validation, bits), bits)
        ledger.release(charge)
        self.best_estimator_, self.best_params_ = models[chosen], self._grid()[chosen]
        self.best_estimator_._features = features[chosen]
        self.best_estimator_._set(theta, prepared[chosen].rows)
        self.best_estimator_.n_iter_ = len(plan.fits[chosen].events)
        self.best_score_ = 0.5 + score / max(1.0, rows - training)
        certificate = self._search_certificate(models, plan.event, guarantee, aim, bits.protective)
        self.privacy_ = replace(certificate, record=self._search_record(ledger, charge, bits.protective, rows, unit))
        self.best_estimator_.privacy_ = self.privacy_
        return self

    # --- planning, without data -----------------------------------------------------------------------------------

    def _grid(self) -> list[dict[str, Any]]:
        return list(ParameterGrid(self.param_grid))

    def _candidates(self) -> list[PrivateLinearModel]:
        self._check_privacy()
        if not math.isfinite(self.epsilon):
            raise InvalidInput("a search without privacy needs no noise: use scikit-learn's GridSearchCV.")
        if not (isinstance(self.validation, float) and 0 < self.validation < 1):
            raise InvalidInput(f"validation must be a share between 0 and 1, got {self.validation!r}.")
        if isinstance(self.trials, bool) or not isinstance(self.trials, int) or self.trials < 1:
            raise InvalidInput(f"trials must be a positive integer, got {self.trials!r}.")
        if not isinstance(self.estimator, PrivateLinearModel):
            raise InvalidInput(f"estimator must be a linear model of this library, got {self.estimator!r}.")
        models = []
        for settings in self._grid():
            if taken := sorted(set(settings) & set(_OWN)):
                raise InvalidInput(f"param_grid must not vary {', '.join(taken)}: the search has its own.")
            if unknown := sorted(set(settings) - set(self.estimator.get_params())):
                free = ", ".join(sorted(set(self.estimator.get_params()) - set(_OWN)))
                raise InvalidInput(
                    f"{type(self.estimator).__name__} has no parameter {unknown[0]!r} to vary; it has {free}."
                )
            model = clone(self.estimator).set_params(**settings)
            model.set_params(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, rows_per_unit=1)
            model.set_params(ledger=None, random_state=None, n_public=None)
            model._check_parameters()
            models.append(model)
        return models

    def _persons(self, X: Any, models: list[PrivateLinearModel], groups: Any) -> Persons | None:
        """Whose each row is, the same for all candidates."""
        unit = Unit(self.adjacency, self.rows_per_unit)  # type: ignore[arg-type]
        return self._checked_persons(models, persons_of(X, models[0].schema, groups, unit, True))

    def _checked_persons(self, models: list[PrivateLinearModel], found: Persons | None) -> Persons | None:
        declared = {person_column(model.schema) for model in models}
        if len(declared) > 1:
            raise InvalidInput("all candidates must say alike whose a row is: by one Person in every schema.")
        if found is None and self.rows_per_unit != 1:
            raise InvalidInput(
                "a search protects rows: people with several rows would be in both parts of the split. Say whose each "
                "row is by groups=…, or by a Person in the schema."
            )
        return found

    def _declared_rows(self, n: int, unit: Unit) -> float:
        if unit.relation == "replace-one":
            if self.n_public not in (None, n):
                raise InvalidInput(f"under replace-one n is public: n_public={self.n_public}, but X has {n} rows.")
            if n < 2:
                raise InvalidInput("a search needs rows to fit and rows to score on: at least two.")
            return float(n)
        if self.n_public is None:
            raise InvalidInput(
                "under add-remove a search needs n_public, a public number of rows. Nothing was released."
            )
        return float(self.n_public)

    def _plan(self, models: list[PrivateLinearModel], problems: list[Problem], guarantee: Guarantee) -> _Plan:
        """Fits at the largest ε a trial, to 3 %, and scores at the least noise, that each keep the guarantee."""
        from discreet.accounting import calibrate, epsilon

        runs, unit, inner = float(self.trials), guarantee.unit, guarantee.tightened()

        def fits(each: float) -> tuple[Event, list[Plan]]:
            plans = [
                make_plan(problem, replace(guarantee, epsilon=each), model.solver, model.solver_options)
                for model, problem in zip(models, problems, strict=True)
            ]
            if any(isinstance(plan.solver, Filtered) and plan.solver.filter(unit) is not None for plan in plans):
                raise InvalidInput(
                    "a candidate runs until a filter stops it, and the best of many trials is proved for runs with a "
                    "plan: leave out bias_reduced. Nothing was released."
                )
            return PrivateSelection(Parallel(list(dict.fromkeys(plan.event for plan in plans))), runs), plans

        def cost(each: float) -> float:
            return epsilon(fits(each)[0], guarantee.delta, unit).upper / inner.epsilon

        low, high = guarantee.epsilon / 64, guarantee.epsilon
        if not cost(low) <= 1:
            raise NotCertifiable(f"no noise keeps a search of {self.trials} trials on average within the guarantee.")
        while high > 1.03 * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if cost(middle) <= 1 else (low, middle)
        event, plans = fits(low)

        def scores(noise: float) -> Event:
            return PrivateSelection(Laplace(noise), runs)

        noise = calibrate(scores, inner.epsilon, guarantee.delta, unit)
        labels = is_classifier(self.estimator)
        return _Plan(Parallel([event, scores(noise)]), plans, noise, self.trials, labels, unit)

    # --- the result -----------------------------------------------------------------------------------------------

    def _search_certificate(
        self,
        models: list[PrivateLinearModel],
        event: Event,
        guarantee: Guarantee,
        aim: Guarantee,
        protective: bool,
    ) -> Certificate:
        spent = spent_epsilon(event, aim)
        bounds = dict.fromkeys(what for model in models for what in model._bounds_from_the_data())
        unprotected = [*self.best_estimator_._unprotected(), *bounds]
        if guarantee.unit.relation == "replace-one":
            unprotected.append("number of people" if guarantee.unit.enforced else "number of rows")
        settings = {"trials": self.trials, "validation": self.validation, "candidates": len(self._grid())}
        return Certificate(
            spent,
            guarantee.delta,
            guarantee.unit,
            event,
            "search",
            settings,
            tuple(unprotected),
            protective and not bounds,
        )

    def _search_record(self, ledger: Ledger, charge: int, protective: bool, rows: float, unit: Unit) -> dict[str, Any]:
        best = self.best_estimator_
        return record_of(
            f"{type(self).__name__}({type(best).__name__})", ledger, [charge], protective=protective, rows=rows,
            unit=unit, target=best._target, bounds=declared_bounds(best) + rows_bounds(unit, rows, None),
        )  # fmt: skip

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type, tags.input_tags = inner.estimator_type, inner.input_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        return tags

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of a classifier."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The best model's prediction."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict(X))

    def score(self, X: Any, y: Any) -> float:
        """The best model's score."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))


@dataclass(frozen=True)
class _Plan:
    """What a search will do, and what it costs; made without data."""

    event: Event
    fits: list[Plan]
    score_noise: float
    trials: int
    labels: bool
    unit: Unit

    def best(
        self, prepared: Sequence[Dataset], part: NDArray[np.int64], bits: Bits
    ) -> tuple[float, int, NDArray[np.float64]]:
        """(noisy score, candidate, model) of the best trial: models are fitted on part 0 and scored on part 1."""
        best = (-math.inf, -1, np.empty(0))
        unit = Unit(self.unit.relation)  # one row of each person is left
        for chosen in _draws(self.trials, len(self.fits), bits):
            problem = self.fits[chosen].problem
            train, aside = (prepared[chosen].take(np.flatnonzero(part == half)) for half in (0, 1))
            with np.errstate(all="ignore"):  # a warning would tell of a trial that is not shown
                theta = Vault(train, unit, Ledger(), bits, persons=None).run(self.fits[chosen].solver, problem)
            query = ModelScore(aside.rows, problem.loss, theta, self.labels)
            noisy = Noisy(query, LaplaceNoise(self.score_noise))
            score = float(Vault(aside, unit, Ledger(), bits, persons=None).release(noisy))
            best = max(best, (score, chosen, theta), key=lambda trial: trial[0])
        return best


def _training_rows(rows: float, validation: float) -> float:
    """Public size of the training part: at least one row on either side."""
    return float(min(max(1, round(rows * (1 - validation))), max(1, round(rows) - 1)))


def _split(n: int, training: float, unit: Unit, validation: float, bits: Bits) -> NDArray[np.int64]:
    """0 for rows to fit, 1 for rows to score on."""
    from discreet.noise import permutation, uniform_integers

    if unit.relation == "add-remove":
        return (uniform_integers(2**30, n, bits=bits) < validation * 2**30).astype(np.int64)
    return np.asarray(permutation(n, bits=bits) >= training).astype(np.int64)


def _draws(trials: int, candidates: int, bits: Bits) -> Any:
    """A geometric number of uniform candidates: after each, on with probability 1 − 1/trials."""
    from discreet.noise import uniform_integers

    while True:
        yield int(uniform_integers(candidates, 1, bits=bits)[0])
        if int(uniform_integers(trials, 1, bits=bits)[0]) == 0:
            return
