"""From a fitted model's coefficients to effects in natural units.

At a cell v a column adds ⟨φ(v), coef⟩ to the score, where φ are its encoded features with their scale 1/√m. What is
shown is that sum at knots, bins and levels, less its mean over them (but for the level of what is missing or unlisted);
the means go into the intercept. Of a cross of two columns, means over one of them go to the other one's effect, and
what is left is shown as the cross's. So predictions from effects and intercept are those of the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from discreet.data.columns import Column, Numeric
from discreet.data.encoding import Encoder
from discreet.data.profiles import Values, blocks, encoding_of, features_at, shown_values, used_columns
from discreet.report.effects import Effect, ModelEffects, Point

__all__ = ["effects_of"]

Floats = NDArray[np.float64]


def effects_of(model: Any) -> ModelEffects:
    """The effects of a fitted linear model."""
    check_is_fitted(model, "coef_")
    coefs, offsets = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_).astype(np.float64)
    covariance = _covariance(model, coefs.size)
    if len(coefs) > 1:  # softmax is the same when all classes' scores move by the same amount
        coefs, offsets = coefs - coefs.mean(axis=0), offsets - offsets.mean()
    encoder = model._features.encoder
    contrasts = None if encoder is None else _contrasts(encoder)
    found, intercepts = [], []
    for coef, offset in zip(coefs, offsets, strict=True):
        if contrasts is None:
            effects, middle = _plain(model.coef_names_, coef, covariance), 0.0
        else:
            effects, middle = _encoded(encoder, contrasts, coef, covariance)
        found.append(tuple(sorted(effects, key=lambda effect: -effect.span)))
        intercepts.append(float(offset + middle))
    target = None if encoder is None else encoder.target
    return ModelEffects(
        type(model).__name__, target, _scale(model), _outputs(model, target), tuple(intercepts), tuple(found),
        str(model.privacy_),
    )  # fmt: skip


def _scale(model: Any) -> str:
    if is_classifier(model):
        return "log-odds" if hasattr(model, "predict_proba") else "score"
    return "log of the expected count" if model._counts else "target"


def _outputs(model: Any, target: str | None) -> tuple[str, ...]:
    if not is_classifier(model):
        return ("",)
    labels = [str(label) for label in model.classes_.tolist()]
    shown = labels[1:] if len(labels) == 2 else labels
    return tuple(label if target is None else f"{target} = {label}" for label in shown)


def _covariance(model: Any, size: int) -> Floats | None:
    """The covariance of ``coef_`` and, last, the intercept, for models of one output that have ``coef_covariance_``."""
    stated = getattr(model, "coef_covariance_", None)
    if stated is None or (np.ndim(model.coef_) == 2 and len(model.coef_) > 1):
        return None
    matrix = np.asarray(stated, dtype=np.float64)
    return matrix if matrix.shape == (size + 1, size + 1) and np.isfinite(matrix).all() else None


def _plain(names: Any, coef: Floats, covariance: Floats | None) -> list[Effect]:
    """One slope a feature."""
    errors = [None] * len(coef) if covariance is None else np.sqrt(np.diagonal(covariance)[: len(coef)]).tolist()
    return [
        Effect(str(name), "slope", (Point("0", 0.0, 0.0), Point("1", float(slope), 1.0, error)), float(slope))
        for name, slope, error in zip(names, coef, errors, strict=True)
    ]


# --- encoded columns --------------------------------------------------------------------------------------------------

_Contrasts = dict[tuple[str, ...], Any]


def _contrasts(encoder: Encoder) -> tuple[_Contrasts, Any]:
    """(for each column and cross a matrix with one row a point, the row of the means): times coef they are the effects.

    Matrices are CSR, with one column a feature.
    """
    columns, places = used_columns(encoder), blocks(encoder)
    shown = {name: shown_values(name, column, encoder) for name, column in columns.items()}
    usual = {name: np.array([cell is not None for cell in values.cells]) for name, values in shown.items()}
    found: _Contrasts = {}
    middle = sparse.csr_array((1, encoder.n_features))
    for name, values in shown.items():
        weights = _only(features_at(encoder, {name: values.cells}), places[(name,)])
        mean = _mean(weights[usual[name]])
        found[(name,)] = weights - _repeated(mean, len(values.cells))
        middle += mean
    for left, right in encoder.crosses:
        sizes = len(shown[left].cells), len(shown[right].cells)
        one, other = np.repeat(np.arange(sizes[0]), sizes[1]), np.tile(np.arange(sizes[1]), sizes[0])
        cells = {left: [shown[left].cells[i] for i in one], right: [shown[right].cells[j] for j in other]}
        weights = _only(features_at(encoder, cells), places[(left, right)])
        by_left = sparse.vstack([_mean(weights[(one == i) & usual[right][other]]) for i in range(sizes[0])], "csr")
        by_right = sparse.vstack([_mean(weights[(other == j) & usual[left][one]]) for j in range(sizes[1])], "csr")
        mean = _mean(by_left[usual[left]])
        found[(left,)] = found[(left,)] + by_left - _repeated(mean, sizes[0])
        found[(right,)] = found[(right,)] + by_right - _repeated(mean, sizes[1])
        found[(left, right)] = weights - by_left[one] - by_right[other] + _repeated(mean, len(one))
        middle += mean
    return found, middle


def _only(rows: Any, part: Any) -> Any:
    """The rows without the features of other columns."""
    kept = np.zeros(rows.shape[1])
    kept[part] = 1.0
    return sparse.csr_array(rows @ sparse.diags_array(kept))


def _mean(rows: Any) -> Any:
    return sparse.csr_array(rows.sum(axis=0)[None, :] / rows.shape[0])


def _repeated(row: Any, times: int) -> Any:
    return sparse.csr_array(sparse.vstack([row] * times, "csr"))


def _encoded(
    encoder: Encoder, contrasts: tuple[_Contrasts, Any], coef: Floats, covariance: Floats | None
) -> tuple[list[Effect], float]:
    """The effects of all columns and crosses, and the sum of their means."""
    columns, (matrices, middle) = used_columns(encoder), contrasts
    shown = {name: shown_values(name, column, encoder) for name, column in columns.items()}
    effects = []
    for names, matrix in matrices.items():
        values = matrix @ coef
        errors: list[float | None] = [None] * len(values)
        if covariance is not None:
            dense = matrix.toarray()
            variances = np.einsum("ij,jk,ik->i", dense, covariance[:-1, :-1], dense)
            errors = np.sqrt(np.maximum(variances, 0.0)).tolist()
        if len(names) == 1:
            (name,) = names
            effects.append(_of_column(name, columns[name], shown[name], values, errors))
        else:
            effects.append(_of_cross(names, [shown[name] for name in names], values, errors))
    return effects, float((middle @ coef)[0])


def _of_column(name: str, column: Column, shown: Values, values: Floats, errors: list[float | None]) -> Effect:
    numeric = isinstance(column, Numeric)
    logarithmic = isinstance(column, Numeric) and column.logarithmic
    points = tuple(
        Point(label, float(value), float(cell) if numeric else None, error, cell is not None)
        for label, cell, value, error in zip(shown.labels, shown.cells, values, errors, strict=True)
    )
    return Effect(name, shown.kind, points, _slope(column, points), logarithmic)


def _of_cross(names: tuple[str, ...], shown: list[Values], values: Floats, errors: list[float | None]) -> Effect:
    left, right = shown
    pairs = [(i, j) for i in range(len(left.cells)) for j in range(len(right.cells))]
    points = tuple(
        Point(
            f"{left.labels[i]} × {right.labels[j]}", float(value), None, error,
            left.cells[i] is not None and right.cells[j] is not None,
        )
        for (i, j), value, error in zip(pairs, values, errors, strict=True)
    )  # fmt: skip
    return Effect(" × ".join(names), "levels", points)


def _slope(column: Column, points: tuple[Point, ...]) -> float | None:
    """The effect of one unit more, for a straight line on the plain scale."""
    if not isinstance(column, Numeric) or column.logarithmic or encoding_of(column) != "linear":
        return None
    return (points[-1].effect - points[0].effect) / (column.high - column.low)
