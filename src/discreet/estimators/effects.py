"""From a fitted model's coefficients to effects in natural units.

A column's block of features is linear in its coefficients: at a cell v it adds ⟨φ(v), coef⟩ to the score, where φ is
the encoding with its scale 1/√m. What is shown is that sum at knots, bins and levels, less its mean over them (but for
the level of what is missing or unlisted); the means go into the intercept. So predictions from effects and intercept
are those of the model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from discreet.data.columns import Boolean, Categorical, Column, Numeric
from discreet.data.encoding import Encoder
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
    found, intercepts = [], []
    for coef, offset in zip(coefs, offsets, strict=True):
        if encoder is None:
            effects, middle = _plain(model.coef_names_, coef, covariance), 0.0
        else:
            effects, middle = _encoded(encoder, coef, covariance)
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
    """The covariance of all coefficients, the intercept's last, for models of one output that state it."""
    stated = getattr(model, "cov_params", None)
    if stated is None or (np.ndim(model.coef_) == 2 and len(model.coef_) > 1):
        return None
    try:
        matrix = np.asarray(stated(), dtype=np.float64)
    except Exception:  # a model that was fitted without standard errors says so by an error
        return None
    return matrix if matrix.shape == (size + 1, size + 1) and np.isfinite(matrix).all() else None


def _plain(names: Any, coef: Floats, covariance: Floats | None) -> list[Effect]:
    """One slope a feature."""
    errors = [None] * len(coef) if covariance is None else np.sqrt(np.diagonal(covariance)[: len(coef)]).tolist()
    return [
        Effect(
            str(name), "slope",
            (Point("0", 0.0, 0.0), Point("1", float(slope), 1.0, error)), float(slope),
        )
        for name, slope, error in zip(names, coef, errors, strict=True)
    ]  # fmt: skip


def _encoded(encoder: Encoder, coef: Floats, covariance: Floats | None) -> tuple[list[Effect], float]:
    """The effects of all columns, and the sum of their means."""
    effects, middle = [], 0.0
    for name, column in encoder.used.items():
        kind, labels, cells = _values(encoder, name, column)
        part, weights = encoder.features_of(name, cells)
        values = weights @ coef[part]
        usual = np.array([cell is not None for cell in cells])
        mean = float(values[usual].mean())
        contrasts = weights - weights[usual].mean(axis=0)
        errors: list[float | None] = [None] * len(values)
        if covariance is not None:
            variances = np.einsum("ij,jk,ik->i", contrasts, covariance[part, part], contrasts)
            errors = np.sqrt(np.maximum(variances, 0.0)).tolist()
        numeric = isinstance(column, Numeric)
        points = tuple(
            Point(label, float(value) - mean, float(cell) if numeric else None, error, cell is not None)
            for label, cell, value, error in zip(labels, cells, values, errors, strict=True)
        )
        effects.append(Effect(name, kind, points, _slope(column, encoder, name, points), _logarithmic(column)))
        middle += mean
    return effects, middle


def _values(encoder: Encoder, name: str, column: Column) -> tuple[Any, list[str], list[Any]]:
    """(kind, labels, cells) at which a column's effect is shown."""
    if isinstance(column, Categorical):
        listed: list[Any] = list(column.categories)
        cells = listed if column.fill is not None else [*listed, None]
        return "levels", [str(label) for label in column.levels], cells
    if isinstance(column, Boolean):
        return "levels", [str(label) for label in column.categories], list(column.categories)
    assert isinstance(column, Numeric)
    encoding, size = encoder.numeric_encoding(name)
    if encoding == "linear":
        ends = [column.low, column.high]
        return "curve", [_short(end) for end in ends], ends
    if encoding == "spline":
        knots = column.unscale(np.linspace(0.0, 1.0, size)).tolist()
        return "curve", [_short(knot) for knot in knots], knots
    edges = np.linspace(0.0, 1.0, size + 1)
    middles = column.unscale((edges[:-1] + edges[1:]) / 2)
    if column.integer and size == math.floor(column.high) - math.ceil(column.low) + 1:  # a bin for each whole number
        middles = np.arange(math.ceil(column.low), math.floor(column.high) + 1, dtype=np.float64)
    names = [feature.removeprefix(name).strip() for feature in encoder.names_of(name)[:size]]
    return "steps", names, middles.tolist()


def _short(number: float) -> str:
    return f"{number:.4g}" if abs(number) < 1e4 else f"{number:.6g}"


def _logarithmic(column: Column) -> bool:
    return isinstance(column, Numeric) and column.logarithmic


def _slope(column: Column, encoder: Encoder, name: str, points: tuple[Point, ...]) -> float | None:
    """The effect of one unit more, for a straight line on the plain scale."""
    if not isinstance(column, Numeric) or column.logarithmic or encoder.numeric_encoding(name)[0] != "linear":
        return None
    return (points[-1].effect - points[0].effect) / (column.high - column.low)
