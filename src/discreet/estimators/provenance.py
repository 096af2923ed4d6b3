"""Where every bound of a fit comes from: public knowledge, a private release and what it cost, or the data itself.

A bound that was taken from the data without protection makes a fit void: it is not private, whatever noise it has, and
its value is not repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from discreet.data.columns import Boolean, Categorical, Column, Numeric
from discreet.data.unprotected import is_unprotected
from discreet.report.certificate import FROM_THE_DATA
from discreet.report.record import FROM_DATA, PRIVATE, PUBLIC, bound
from discreet.units import Unit

__all__ = ["clip_bounds", "declared_bounds", "rows_bounds", "settings_bounds", "void_items", "void_names"]

_NUMBERS = ("row_norm", "target_bounds", "feature_bound", "radius")
_SETTINGS = {"clip": "length of a row's gradient", "slope_bound": "length of a row's gradient"}
_SCALES = ("scales", "scale_multiplier")
_VOID = FROM_THE_DATA


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


def settings_bounds(settings: Mapping[str, Any], given: Any = None, *, void: bool = False) -> list[dict[str, Any]]:
    """The bounds that a solver set itself: from public facts, or by releases of its own that are part of the fit.

    Args:
        settings: of the solver.
        given: options that the user declared, which the solver has taken as they are.
        void: whether a declaration was taken from the data: what follows from it is then not public either.
    """
    found = [
        bound(of, *(_where(True) if void else _of_setting(name, given)), settings[name])
        for name, of in _SETTINGS.items()
        if isinstance(settings.get(name), int | float) and math.isfinite(settings[name])
    ]
    if any(settings.get(name) for name in _SCALES):
        found.append(bound("scales of columns and targets", PRIVATE, "released within this fit: part of its ε"))
    return found


def _of_setting(name: str, given: Any) -> tuple[str, str]:
    declared = isinstance(given, Mapping) and given.get(name) is not None
    return PUBLIC, "declared" if declared else "from public facts, by the solver's recipe"


def clip_bounds(settings: Mapping[str, Any], void: Sequence[str]) -> list[dict[str, Any]]:
    """The clipping bound of a training of PyTorch: declared, or following a quantile of its own gradients' lengths.

    Args:
        settings: of the training.
        void: declarations that were taken from the data without protection.
    """
    of = "length of an example's gradient"
    found = [bound(name, FROM_DATA, _VOID) for name in void if name != "clip"]
    if "clip" in void:
        return [*found, bound(of, FROM_DATA, _VOID)]
    if settings.get("clip") == "quantile":
        return [*found, bound(of, PRIVATE, "a quantile that every step releases with its sum: part of its ε")]
    return [*found, bound(of, PUBLIC, "declared", settings["clip_bound"])]


def void_names(**declared: Any) -> tuple[str, ...]:
    """Which of these declarations were taken from the data without protection.

    Example:
        >>> from discreet.data.unprotected import UnprotectedFloat
        >>> void_names(clip=UnprotectedFloat(0.7), grid=2.0**20)
        ('clip',)
    """
    return tuple(name for name, value in declared.items() if is_unprotected(value))


def void_items(names: Sequence[str]) -> tuple[str, ...]:
    """Declarations that were taken from the data, as items of a certificate's list of what is not protected."""
    return tuple(f"{name}, {FROM_THE_DATA}" for name in names)
