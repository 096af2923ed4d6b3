"""Where every bound of a fit comes from: public knowledge, a private release and what it cost, or the data itself.

A bound that was taken from the data without protection makes a fit void: it is not private, whatever noise it has, and
its value is not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from discreet.data.columns import Boolean, Categorical, Column, Numeric
from discreet.data.unprotected import is_unprotected
from discreet.report.record import FROM_DATA, PRIVATE, PUBLIC, bound
from discreet.units import Unit

__all__ = ["clip_bounds", "declared_bounds", "rows_bounds", "settings_bounds"]

_NUMBERS = ("row_norm", "target_bounds", "feature_bound", "radius")
_SETTINGS = {"clip": "length of a row's gradient", "slope_bound": "length of a row's gradient"}
_SCALES = ("scales", "scale_multiplier")
_VOID = "taken from the data without protection"


def declared_bounds(model: Any) -> list[dict[str, Any]]:
    """The bounds that an estimator was given: of rows, targets, classes, and of the columns of its schema."""
    found = [_number(name, getattr(model, name)) for name in _NUMBERS if getattr(model, name, None) is not None]
    if getattr(model, "domain", None) is not None:
        void = is_unprotected(model.domain)
        found.append(bound("domain", *_where(void), None if void else str(model.domain)))
    found += _classes(model)
    schema = getattr(model, "schema", None)
    columns = schema.items() if isinstance(schema, Mapping) else ()
    found += [line for name, column in columns if (line := _column(str(name), column))]
    others = [field.name for field in fields(model) if field.name not in (*_NUMBERS, "domain", "schema")]
    found += [bound(name, FROM_DATA, _VOID) for name in others if is_unprotected(getattr(model, name))]
    steps = getattr(model, "_learned_before", ())
    return found + [bound(f"step {name!r} before the model", FROM_DATA, _VOID) for name in steps]


def _where(void: bool) -> tuple[str, str]:
    return (FROM_DATA, _VOID) if void else (PUBLIC, "declared")


def _number(name: str, value: Any) -> dict[str, Any]:
    void = is_unprotected(value)
    if void:
        return bound(name, *_where(void))
    plain = [float(one) for one in value] if isinstance(value, list | tuple) else float(value)
    return bound(name, *_where(void), plain)


def _classes(model: Any) -> list[dict[str, Any]]:
    labels = getattr(model, "classes_", None)
    if labels is None or not hasattr(model, "_unprotected"):
        return []
    if model._unprotected():  # listed as not protected; no noise depends on it, so the rest of the guarantee holds
        return [bound("classes", "from the data: not protected", "taken from y")]
    return [bound("classes", PUBLIC, "declared", len(labels))]


def _column(name: str, column: Column) -> dict[str, Any] | None:
    match column:
        case Numeric(low, high):
            if not column.bounds_private:
                return bound(f"column {name}", FROM_DATA, _VOID)
            if column.bounds_epsilon is not None:
                how = f"private quantiles, charged apart: ε = {column.bounds_epsilon:.6g}"
                return bound(f"column {name}", PRIVATE, how, [low, high])
            return bound(f"column {name}", PUBLIC, "declared", [low, high])
        case Categorical(categories):
            return bound(f"column {name}", PUBLIC, "declared", f"{len(categories)} categories")
        case Boolean():
            return bound(f"column {name}", PUBLIC, "declared", "2 values")
        case _:
            return None


def rows_bounds(unit: Unit, rows: float | None, counted: float | None) -> list[dict[str, Any]]:
    """How many rows there are, and how many a person has.

    Args:
        unit: whose privacy is protected.
        rows: their number, where it is public.
        counted: the ε of a private count, where it is not.
    """
    most = bound("rows of a person", PUBLIC, "enforced" if unit.enforced else "declared", unit.rows_per_unit)
    if counted is not None:
        return [most, bound("number of rows", PRIVATE, f"counted within this fit: ε = {counted:.6g}")]
    how = "known under replace-one" if unit.relation == "replace-one" else "declared"
    return [most, bound("number of rows", PUBLIC, how, rows)]


def settings_bounds(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The bounds that a solver set itself: from public facts, or by releases of its own that are part of the fit."""
    found = [
        bound(of, PUBLIC, "from public facts, by the solver's recipe", settings[name])
        for name, of in _SETTINGS.items()
        if isinstance(settings.get(name), int | float) and math.isfinite(settings[name])
    ]
    if any(settings.get(name) for name in _SCALES):
        found.append(bound("scales of columns and targets", PRIVATE, "released within this fit: part of its ε"))
    return found


def clip_bounds(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The clipping bound of a training of PyTorch: declared, or following a quantile of its own gradients' lengths."""
    of = "length of an example's gradient"
    if settings.get("clip") == "quantile":
        return [bound(of, PRIVATE, "a quantile that every step releases with its sum: part of this training's ε")]
    return [bound(of, PUBLIC, "declared", settings["clip_bound"])]
