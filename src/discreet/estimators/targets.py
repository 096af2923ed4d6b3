"""From what a user passes as y to coded targets, by public facts only.

A label outside the declared classes, or a number that is missing, contributes nothing; a number outside the declared
bounds is clipped. No exception depends on a row.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.cells import read_codes, read_floats, spelling, untyped
from discreet.data.columns import Boolean, Categorical, Column, Numeric
from discreet.data.frames import as_table, has_column_names
from discreet.errors import InvalidInput
from discreet.text import shortened

__all__ = ["Bounded", "Labels", "PrivacyWarning", "column_vector", "declared_kind"]


class PrivacyWarning(UserWarning):
    """Warns that something was taken from the data without protection, such as the set of classes."""


def declared_kind(y: Any) -> str:
    """Numpy's letter for the type that y declares, which is public; "O" where it declares none, as a list."""
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if kind is not None or not hasattr(y, "__len__") or isinstance(y, list | tuple | str):
        return str(kind or "O")
    import narwhals

    series = narwhals.from_native(y, series_only=True, pass_through=True)
    if not isinstance(series, narwhals.Series):
        return "O"
    kinds = (("b", series.dtype == narwhals.Boolean), ("i", series.dtype.is_integer()), ("f", series.dtype.is_float()))
    return next((letter for letter, found in kinds if found), "U" if series.dtype == narwhals.String else "O")


def column_vector(y: Any) -> NDArray[Any]:
    """The targets as one column; a single-column table or matrix is accepted with scikit-learn's warning."""
    if y is None:
        raise InvalidInput("requires y to be passed, but the target y is None: this estimator learns from targets.")
    if isinstance(y, str):
        raise InvalidInput(
            f"y is the text {shortened(y)}: pass the column itself, as in fit(table, table[{shortened(y)}])."
        )
    array = _stacked(y) if has_column_names(y) else untyped(y)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, 3)
        array = array.ravel()
    if array.ndim != 1:
        raise InvalidInput(f"y must have one dimension, or one column; it has {array.ndim} dimensions.")
    if np.iscomplexobj(array):
        raise InvalidInput("Complex data not supported.")
    return array


def _stacked(y: Any) -> NDArray[Any]:
    table = as_table(y)
    columns = list(table.values())
    return columns[0][:, None] if len(columns) == 1 else np.empty(table.shape)


@dataclass(frozen=True, eq=False)
class Labels:
    """Declared classes and how labels are coded: ±1 for two classes, 0 … K − 1 for more."""

    classes: NDArray[Any]
    declared: bool = True
    column: Column | None = None

    @classmethod
    def declare(cls, y: NDArray[Any], classes: Any, column: Column | None, *, kind: str = "O") -> Labels:
        """The class set from ``classes`` or the schema; else from y, with a warning.

        Args:
            y: labels.
            classes: what the user declared, if anything.
            column: what the schema declares, if anything.
            kind: numpy's letter for the type that y declares, which is public; "O" where it declares none, as a list.
        """
        if classes is not None:
            if np.ndim(classes) != 1:
                raise InvalidInput(f"classes must be a list of labels, got {classes!r}.")
            found, column = np.unique(np.asarray(classes)), None
            if len(found) != len(np.asarray(classes)):
                raise InvalidInput(f"classes must be distinct, got {classes!r}.")
        elif isinstance(column, Boolean) and column.false is None:
            found = _truth_values(kind)
        elif isinstance(column, Categorical | Boolean):
            found = _sorted_labels(column.categories)
        elif column is not None:
            raise InvalidInput("a classifier needs a categorical or boolean target; the schema declares a number.")
        else:
            found = _found(y)
            warnings.warn(
                "classes were taken from y: the set of labels that occur is not protected. Pass classes=[…] to keep it "
                "private.",
                PrivacyWarning,
                4,
            )
        if column is None:
            _require_plain(found)
        _require_one_kind(kind, found)
        if len(found) < 2:
            raise InvalidInput(f"a classifier needs at least two classes, got {len(found)} class: {found.tolist()!r}.")
        return cls(found, classes is not None or column is not None, column)

    @property
    def outputs(self) -> int:
        """The number of scores that a row gets: 1 for two classes, else one for each class."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def encode(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """±1 or class codes; NaN for a label outside the declared classes.

        A label is a class if it is the same text, blanks around it aside, or an equal number: ``"1"`` is 1.
        """
        if isinstance(self.column, Categorical | Boolean):
            ordered = self.classes.tolist()
            places = [ordered.index(category) for category in self.column.categories]
            found = self.column.labels(y)
            codes = np.where(found >= 0, np.asarray(places)[found], np.nan)
        else:
            known = _by_text(self.classes)
            found = read_codes(y, known, len(known))
            codes = np.where(found < len(known), found, np.nan)
        return 2 * codes - 1 if self.outputs == 1 else codes


def _truth_values(kind: str) -> NDArray[Any]:
    """No and yes in the type that y declares; words are not guessed."""
    if kind in "biuf":
        return np.array([0, 1]).astype({"b": bool, "f": np.float64}.get(kind, np.int64))
    raise InvalidInput(
        "the schema declares the target `boolean`, and y declares no type of numbers or truth values. Say which two "
        "labels there are, no before yes: {boolean: [no, yes]}, or Boolean('no', 'yes'). Predictions are these labels. "
        "Nothing was released."
    )


def _sorted_labels(values: Sequence[Any]) -> NDArray[Any]:
    """Labels in order, which scikit-learn's scores take for granted; numbers come before text and stay numbers."""
    text = {isinstance(value, str) for value in values}
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    return np.asarray(ordered) if len(text) == 1 else np.fromiter(ordered, dtype=object, count=len(ordered))


def _by_text(classes: NDArray[Any]) -> dict[str, int]:
    listed: list[Any] = classes.tolist()
    return {label if isinstance(label, str) else spelling(label): code for code, label in enumerate(listed)}


def _require_plain(classes: NDArray[Any]) -> None:
    blank = [label for label in classes.tolist() if not isinstance(label, str) and spelling(label) == ""]
    if blank or len(_by_text(classes)) < len(classes):
        raise InvalidInput("classes must be different texts or numbers, not bytes, dates or other objects.")


def _require_one_kind(kind: str, classes: NDArray[Any]) -> None:
    """Refuse text among numbers and the reverse, where both types are declared: no label could be a class."""
    text, numbers = "UST", "biuf"
    words = bool(np.isnan(read_floats(classes)).all())
    if (kind in text and classes.dtype.kind in numbers) or (kind in numbers and words):
        what, instead = ("text", "numbers") if kind in text else ("numbers", "text")
        raise InvalidInput(
            f"y is declared as {what}, but classes are {instead}: {classes.tolist()!r}. No label would be one of them; "
            "declare classes as they are in y. Nothing was released."
        )


def _found(y: NDArray[Any]) -> NDArray[Any]:
    from sklearn.utils.multiclass import check_classification_targets

    y = y[_present(y)]
    try:
        check_classification_targets(y)
        return np.unique(y)
    except ValueError as problem:
        raise InvalidInput(f"{problem} Pass classes=[…] to say which labels there are.") from None
    except Exception:  # labels of several types, or such that cannot be compared
        raise InvalidInput("the labels of y have no order. Pass classes=[…] to say which labels there are.") from None


def _present(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are not missing: a missing one is no class."""
    if y.dtype.kind == "f":
        return ~np.isnan(y)
    if y.dtype != object:
        return np.ones(len(y), dtype=bool)
    return np.fromiter((spelling(label) != "" for label in y), dtype=bool, count=len(y))


@dataclass(frozen=True)
class Bounded:
    """Declared target bounds; targets are coded as (y − shift)/scale."""

    low: float
    high: float
    shift: float
    scale: float

    @classmethod
    def declare(
        cls, target_bounds: Any, column: Column | None, private: bool, *, counts: bool = False, intercept: bool = True
    ) -> Bounded:
        """Bounds from ``target_bounds`` or the schema. Without privacy there may be none.

        Targets are centred in their bounds, which only an intercept undoes: without one they are scaled alone. Counts
        are always scaled alone, and on the scale of their logarithm that takes an intercept too.
        """
        if target_bounds is None and isinstance(column, Numeric):
            target_bounds = (column.low, column.high)
        if target_bounds is None:
            if private:
                raise InvalidInput(
                    "regression needs target_bounds=(low, high), public bounds to which targets are clipped, or a "
                    "schema that declares the target. Bounds are never taken from the data. Nothing was released."
                )
            return cls(-math.inf, math.inf, 0.0, 1.0)
        try:
            low, high = (float(bound) for bound in target_bounds)
        except (TypeError, ValueError):
            raise InvalidInput(f"target_bounds must be (low, high), got {target_bounds!r}.") from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInput(f"target_bounds must be finite with low < high, got ({low:g}, {high:g}).")
        if counts:
            if low < 0:
                raise InvalidInput(f"counts are not negative: target_bounds must start at 0 or above, got {low:g}.")
            if not intercept and high != 1:
                raise InvalidInput(
                    f"counts up to {high:g} are coded as shares of it, which the intercept makes up for: leave "
                    "fit_intercept=True."
                )
            return cls(low, high, 0.0, high)
        if not intercept:
            return cls(low, high, 0.0, max(abs(low), abs(high)))
        return cls(low, high, (low + high) / 2, (high - low) / 2)

    def encode(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Coded targets, clipped; NaN for what is no number, which contributes nothing."""
        if y.dtype.kind in "USTMmV":
            raise InvalidInput("targets must be numbers, not text or dates.")
        numbers = read_floats(y)
        return (np.clip(numbers, self.low, self.high) - self.shift) / self.scale
