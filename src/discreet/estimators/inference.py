"""Models with intervals: from released values to coefficients with a covariance, again and again the same.

A solver is a generator that holds no data, so that it can be run once more on the answers that it got: what comes out
is what came out then. A model keeps the answers (`Released`), and everything that it says about its coefficients
follows from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from discreet.calibration import Guarantee
from discreet.data.natural_units import natural_units
from discreet.errors import InvalidInput, NotEstimable
from discreet.estimators.features import Features
from discreet.estimators.intervals import GATE, Coefficient, Contrast, Intervals, Summary
from discreet.losses import Poisson
from discreet.measurements.program import drive
from discreet.recipes.intervals import rows_needed
from discreet.report.certificate import Certificate
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.base import Partition
from discreet.solvers.inference import Estimate, Inference

__all__ = ["Inferring", "Released", "average_effects", "coefficient_table", "intervals", "partitions"]

Array = NDArray[np.float64]
_NOT_ASKED = (
    "no standard errors: the model was fitted without inference=True. What the rows say about them was not released, "
    "and cannot be had without more budget."
)


@dataclass(frozen=True, eq=False)
class Released:
    """Everything that a run of `discreet.solvers.inference.Inference` released, and the public facts that it used.

    Args:
        answers: the released values, in order.
        solver: with its settings.
        problem: public facts.
    """

    answers: tuple[Array, ...]
    solver: Inference
    problem: Problem

    def estimate(self) -> Estimate:
        """What the answers say: the solver runs again on them, without rows and without noise.

        Raises:
            InvalidInput: they are not the answers of such a run.
        """
        left = list(self.answers)

        def answer(measurement: Any) -> Array:
            blank = np.asarray(measurement.blank())
            if not left or left[0].shape != blank.shape or not np.isfinite(left[0]).all():
                raise InvalidInput("these are not the released values of such a fit.")
            return left.pop(0)

        return drive(self.solver.estimated(self.problem), answer)

    def to_dict(self) -> dict[str, Any]:
        """As plain values; the loss and the columns are the model's."""
        rows = self.problem.rows
        return {
            "answers": [answer.tolist() for answer in self.answers],
            "settings": asdict(self.solver),
            "rows": self.problem.n,
            "rows_error": self.problem.n_error,
            "intercept": rows.intercept,
        }

    @classmethod
    def from_dict(cls, tree: Any, model: Any, features: Features, columns: int) -> Released:
        """Read back what `to_dict` wrote, for a model whose features and target coding are known.

        Raises:
            InvalidInput: it was not written by it.
        """
        try:
            answers = tuple(np.asarray(answer, dtype=np.float64) for answer in tree["answers"])
            settings, n, intercept = dict(tree["settings"]), float(tree["rows"]), float(tree["intercept"])
            error = float(tree["rows_error"])
            if not 0 <= error < math.inf:
                raise InvalidInput("the error of the number of rows is none")
            solver = Inference(**{name: _setting(name, value) for name, value in settings.items()})
            rows, loss = RowSpec(columns, features.row_norm, intercept), model._loss()
            problem = Problem(
                rows,
                loss,
                n,
                inference=True,
                robust=solver.robust,
                partitions=partitions(features),
                largest_count=float(model._coding.high) if isinstance(loss, Poisson) else math.inf,
                n_error=error,
            )
        except (KeyError, TypeError, ValueError, OverflowError) as mistake:
            raise InvalidInput(f"the released values cannot be read: {mistake}") from None
        return cls(answers, solver, problem)


def _setting(name: str, value: Any) -> Any:
    kind = bool if name == "robust" else int if name in ("cap", "rows_per_person") else float
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind or (kind is float and not 0 <= value < math.inf):
        raise InvalidInput(f"{name} is not a setting of inference")
    return value


def partitions(features: Features) -> tuple[Partition, ...]:
    """Groups of encoded features whose sum is the same for every person.

    Raises:
        InvalidInput: the schema has products of columns, whose sums are features themselves.
    """
    if features.encoder is not None and features.encoder.schema.crosses:
        raise InvalidInput("intervals are for schemas without products of columns; leave inference=True or them out.")
    return tuple(Partition(*group) for group in features.encoder.partitions) if features.encoder else ()


def intervals(
    released: Released, features: Features, certificate: Certificate, target: tuple[float, float]
) -> Intervals:
    """Coefficients in natural units, from released values and public facts.

    Args:
        released: the answers.
        features: how rows were made of the table.
        certificate: what the fit guaranteed, for advice where noise is too large.
        target: scale and shift of the target's coding.
    """
    estimate = released.estimate()
    lines = _lines(estimate, features, released.problem.rows, target[0])
    constant = np.where(lines.constants, target[1], 0.0)
    return Intervals(
        lines.names,
        lines.columns,
        lines.natural @ estimate.theta.ravel() + constant,
        lines.natural @ estimate.covariance @ lines.natural.T,
        estimate.quality,
        _needs(certificate, len(lines.names), released.problem.n, estimate.quality),
        lines.notes,
    )


def average_effects(
    released: Released, features: Features, certificate: Certificate, target: tuple[float, float]
) -> Intervals:
    """Average marginal effects: coefficients in natural units times the average slope of the mean, by the delta method.

    Columns with a curve have a slope that differs from value to value; they are left out, and a note says so.
    The arguments are those of `intervals`.

    Raises:
        NotEstimable: noise hides intervals, or no effect is left.
    """
    estimate = released.estimate()
    lines = _lines(estimate, features, released.problem.rows, target[0])
    average, straight = estimate.average_slope, ~lines.constants & ~lines.curved
    if average is None or not straight.any():
        raise NotEstimable("no column has an average marginal effect: all have curves, or counts have no public bound.")
    natural = lines.natural[straight]
    slopes, moves = natural @ estimate.theta.ravel(), natural @ average.covariance
    both = np.outer(slopes, moves)
    covariance = average.value**2 * (natural @ estimate.covariance @ natural.T)
    covariance = covariance + average.value * (both + both.T) + average.variance * np.outer(slopes, slopes)
    names, columns = (
        tuple(x for x, s in zip(all_, straight, strict=True) if s) for all_ in (lines.names, lines.columns)
    )
    needs = _needs(certificate, len(lines.names), released.problem.n, estimate.quality)
    curves = sorted({column for column, c in zip(lines.columns, lines.curved, strict=True) if c})
    left_out = (
        (f"left out, as the slope of a curve differs from value to value: {', '.join(curves)}",) if curves else ()
    )
    found = Intervals(
        names, columns, average.value * slopes, covariance, estimate.quality, needs, (*lines.notes, *left_out)
    )
    found.require()
    return found


@dataclass(frozen=True, eq=False)
class _Lines:
    """The lines of a table: one for each coefficient that is estimated, the intercept first.

    Args:
        natural: from coefficients of the given columns to those in natural units, of shape (lines, given dimension).
        names: what each line is about.
        columns: the column of the table that each belongs to.
        constants: which line is the intercept.
        curved: which lines belong to a curve of a number: knots, and a line beside bins.
        notes: reference levels, and levels that were joined.
    """

    natural: Array
    names: tuple[str, ...]
    columns: tuple[str, ...]
    constants: NDArray[np.bool_]
    curved: NDArray[np.bool_]
    notes: tuple[str, ...]


def _lines(estimate: Estimate, features: Features, rows: RowSpec, scale: float) -> _Lines:
    factors, offsets, names, columns = _units(features, rows)
    curves = features.encoder.curved_columns if features.encoder is not None else frozenset()
    groups = [np.flatnonzero(row) for row in estimate.design]
    groups.sort(key=lambda group: group[0] < rows.n_features)  # the intercept comes first
    natural = np.zeros((len(groups), rows.dimension))
    for line, group in enumerate(groups):
        first = group[0]
        natural[line, first] = factors[first] * scale
        if first == rows.n_features:
            natural[line, : rows.n_features] = offsets[: rows.n_features] * scale
    return _Lines(
        natural,
        tuple(" + ".join(names[j] for j in group) for group in groups),
        tuple(columns[group[0]] for group in groups),
        np.array([group[0] == rows.n_features for group in groups]),
        np.array([columns[group[0]] in curves for group in groups]),
        _notes(groups, names, columns, rows),
    )


def _units(features: Features, rows: RowSpec) -> tuple[Array, Array, tuple[str, ...], tuple[str, ...]]:
    """(factor, offset, name, column) of each column of a row: value = factor·natural + offset."""
    if features.encoder is not None:
        factors, offsets, names = natural_units(features.encoder)
        columns = features.encoder.feature_columns
    else:
        names = features.names or tuple(f"x{j}" for j in range(rows.n_features))
        factors, offsets, columns = np.ones(rows.n_features), np.zeros(rows.n_features), names
    if not rows.intercept:
        return factors, np.zeros_like(offsets), names, columns
    constant = rows.constant * rows.unit
    return np.append(factors, constant), np.append(offsets, 0.0), (*names, "intercept"), (*columns, "intercept")


def _needs(certificate: Certificate, size: int, n: float, quality: float) -> str:
    """What would be needed: by the rule for rows, or by how much noise exceeds the Hessian, whichever is more."""
    if quality >= GATE or not certificate.epsilon < math.inf:
        return ""
    guarantee = Guarantee(certificate.epsilon, certificate.delta, certificate.unit)
    factor = max(rows_needed(guarantee, size) / n, 1.2 / max(quality, 0.2), 1.2)
    rows, epsilon = _rounded_up(factor * n), factor * certificate.epsilon
    return (
        f"not estimable at this ε: needs about n ≥ {rows:,} or ε ≥ {epsilon:.2g} "
        f"(the least eigenvalue of the released Hessian is {quality:.2g} times the norm of its noise; 1 is needed)"
    )


def _rounded_up(number: float) -> int:
    step = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return math.ceil(number / step) * step


def _notes(
    groups: Sequence[NDArray[Any]], names: tuple[str, ...], columns: tuple[str, ...], rows: RowSpec
) -> tuple[str, ...]:
    """Which level is the reference of each column, and which levels were joined with it."""
    estimated = {int(j) for group in groups for j in group}
    left: dict[str, list[str]] = {}
    for j in range(rows.n_features):
        if j not in estimated:
            left.setdefault(columns[j], []).append(names[j])
    notes = [f"reference of {column}: {' + '.join(found)}" for column, found in left.items()]
    if any(len(group) > 1 for group in groups) or any(len(found) > 1 for found in left.values()):
        notes.append("levels joined by + have too few rows, or none, to be told apart at this ε")
    return tuple(notes)


@dataclass(eq=False, repr=False)
class Inferring:
    """Parameters and methods of models that have intervals.

    Args:
        inference: whether standard errors and intervals are asked for. They take part of the budget, so coefficients
            are less accurate than without.
        robust: whether they are to hold where the variance is not that of the model: one more release.
    """

    _: KW_ONLY
    inference: bool = False
    robust: bool = False

    def _check_inference(self) -> None:
        if self.robust and not self._infers():  # type: ignore[attr-defined]
            raise InvalidInput("robust=True is about intervals: give inference=True, too. Nothing was released.")

    def _intervals(self, what: Callable[..., Intervals] = intervals) -> Intervals:
        check_is_fitted(self, "coef_")
        released = getattr(self, "released_", None)
        if released is None:
            raise NotEstimable(_NOT_ASKED)
        coding = getattr(self, "_coding", None)
        target = (coding.scale, coding.shift) if coding else (1.0, 0.0)
        return what(released, self._features, self.privacy_, target)  # type: ignore[attr-defined]

    @property
    def coef_covariance_(self) -> Array | None:
        """The covariance of ``coef_`` and, last, the intercept; None where there is none."""
        released = getattr(self, "released_", None)
        if released is None:
            return None
        estimate, rows = released.estimate(), released.problem.rows
        if not estimate.quality >= GATE:
            return None
        coding = getattr(self, "_coding", None)
        units = np.full(rows.n_features + 1, coding.scale if coding else 1.0)
        whole = np.zeros((rows.n_features + 1,) * 2)
        whole[: rows.dimension, : rows.dimension] = estimate.covariance
        units[-1] *= rows.constant * rows.unit if rows.intercept else 1.0
        return np.asarray(whole * np.outer(units, units))

    def summary(self, level: float = 0.95) -> Summary:
        """The coefficients in natural units with standard errors, tests and intervals; print it.

        Log-odds for a classifier, the target's units for least squares, logarithms of means for counts: for each level
        against its reference, each knot of a curve against its first, each unit of a linear column.
        """
        check_is_fitted(self, "coef_")
        name = f"{type(self).__name__}: {self.privacy_}"  # type: ignore[attr-defined]
        if getattr(self, "released_", None) is None:
            names = [*self.coef_names_, "intercept"]  # type: ignore[attr-defined]
            values = [*np.ravel(self.coef_), *np.ravel(self.intercept_)]  # type: ignore[attr-defined]
            lines = [Coefficient(n, n, float(v), *[math.nan] * 5) for n, v in zip(names, values, strict=False)]
            chosen = self.privacy_.settings.get("chosen")  # type: ignore[attr-defined]
            notes = (_NOT_ASKED, *(() if chosen is None else (f"chosen by the fit, within its ε: {chosen}",)))
            return Summary((name, "coefficients of encoded columns"), lines, level, notes)
        found = self._intervals()
        rows = f"about {self.released_.problem.n:.0f} rows, q = {found.quality:.3g}"  # type: ignore[attr-defined]
        kind = "robust" if self.released_.solver.robust else "by the model's variance"  # type: ignore[attr-defined]
        notes = (*found.notes, *((found.needs,) if found.needs else ()))
        return Summary((name, f"{rows}, standard errors {kind}, noise included"), found.table(level), level, notes)

    def conf_int(self, level: float = 0.95) -> Array:
        """(low, high) of each coefficient of `summary`, in natural units.

        Raises:
            NotEstimable: intervals were not asked for, or noise hides them.
        """
        return self._intervals().interval(level)

    def cov_params(self) -> Array:
        """The covariance of the coefficients of `summary`, over rows and noise.

        Raises:
            NotEstimable: intervals were not asked for, or noise hides them.
        """
        found = self._intervals()
        found.require()
        return found.covariance

    def contrast(self, weights: Any, level: float = 0.95) -> Contrast:
        """A linear combination of the coefficients of `summary`, with its interval and test.

        Args:
            weights: a mapping from names to weights, such as ``{"health=poor": 1, "health=fair": -1}``.
            level: of confidence.

        Raises:
            NotEstimable: intervals were not asked for, or noise hides them.
        """
        return self._intervals().contrast(weights, level)

    def marginal_effects(self, level: float = 0.95) -> Summary:
        """By how much the mean changes with each column, on average over rows; print it.

        The average slope of the mean times a coefficient: for a classifier the change of the probability of the second
        class, for regressions that of the target, for counts that of the mean count; for each unit of a number, and for
        a level or a yes as its indicator goes from 0 to 1 at that slope (for classes and counts not quite the
        difference of two levels; statsmodels' ``get_margeff`` does so, too). Standard errors are over rows and noise.

        Raises:
            NotEstimable: intervals were not asked for, noise hides them, or all columns have curves.
        """
        found = self._intervals(average_effects)
        name = f"{type(self).__name__}: {self.privacy_}"  # type: ignore[attr-defined]
        return Summary((name, "average marginal effects, noise included"), found.table(level), level, found.notes)


def coefficient_table(model: Any, level: float = 0.95) -> list[Coefficient]:
    """The lines of a model's `summary`, for plots and files; errors are NaN where there are none."""
    lines: list[Coefficient] = model.summary(level).lines
    return lines
