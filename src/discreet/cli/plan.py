"""``discreet plan``: what a budget allows, before any data is touched: solver, noise, bound, accuracy to expect."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from discreet.cli.common import MODELS, console, require_place
from discreet.cli.settings import SETS, model_parameters, read_set
from discreet.cli.sweep import swept
from discreet.data.columns import Column, Numeric
from discreet.data.encoding import Encoder
from discreet.data.schema import Schema
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.calibration import Guarantee
    from discreet.planning.compare import Comparison

__all__ = ["plan", "register"]

_WITH_INTERVALS = ("logistic", "linear", "huber", "poisson")
_LOSSES = {"hinge": "svc", "squared": "linear", "sigmoid": "svc", "welsch": "linear", "tukey": "linear"}
"""Names of losses that are not those of their models."""
_OTHER_LOSSES = ("sigmoid", "welsch", "tukey")
"""Those that a model takes in place of its own."""


def plan(
    n: Annotated[int, typer.Option(help="Number of rows.")],
    d: Annotated[int | None, typer.Option(help="Number of features; a schema says it itself.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget; inf for no privacy. Default: a sweep.")] = None,
    schema: Annotated[Path | None, typer.Option(help="YAML file of the columns: simulates what to expect.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of the schema to predict.")] = None,
    delta: Annotated[float | None, typer.Option(help="Default: 1/n².")] = None,
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    rows_per_unit: Annotated[int, typer.Option(help="The most rows one person has.")] = 1,
    model: Annotated[
        str, typer.Option("--model", "--loss", help="auto, " + ", ".join(MODELS) + "; or a loss: " + ", ".join(_LOSSES))
    ] = "auto",
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the model, e.g. alpha=0.01.")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes, 2 by default (logistic, svc).")] = None,
    row_norm: Annotated[float, typer.Option(help="ℓ2 length of the longest row.")] = 1.0,
    l1_radius: Annotated[float | None, typer.Option(help="Keep the model in an ℓ1 ball of this radius.")] = None,
    sparsity: Annotated[int | None, typer.Option(help="Keep at most this many coefficients.")] = None,
    domain: Annotated[str | None, typer.Option(help=f"Keep the coefficients in a set: {SETS}.")] = None,
    sparse_rows: Annotated[bool, typer.Option("--sparse-rows", help="Rows come in sparse form, as words do.")] = False,
    count_rows: Annotated[
        bool, typer.Option("--count-rows", help="The number of rows is private and counted first (add-remove).")
    ] = False,
    inference: Annotated[
        bool, typer.Option("--inference", help="Intervals are wanted: say whether n and epsilon allow for them.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the sweep into this file (png, svg, pdf).")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Also which solvers do not apply, and why.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """What accuracy to expect at which ε (--schema), which solver `auto` takes for a problem, and why (--epsilon)."""
    shape = _shape(schema, target, d, epsilon, classes, row_norm, plot)
    kind, rows_per_unit = shape.kind(model), shape.rows_per_unit(rows_per_unit)
    settings = {
        "epsilon": 1.0 if epsilon is None else epsilon,
        "delta": delta,
        "adjacency": adjacency,
        "rows_per_unit": rows_per_unit,
        "row_norm": row_norm,
        "n_public": _public(n, math.nan if epsilon is None else epsilon, delta, adjacency, count_rows),
    }
    if model in _OTHER_LOSSES:
        settings["loss"] = model
    settings |= shape.targets(kind, classes) | _set(kind, l1_radius, sparsity, domain) | _intervals(kind, inference)
    estimator = _estimator(kind, settings, param or [])
    facts: dict[str, Any] = {"n": n, "d": shape.d, "model": kind, "adjacency": adjacency}
    facts |= {"rows_per_unit": rows_per_unit, "counts_rows": count_rows}
    if epsilon is not None:
        facts |= _compared(estimator, n, shape, sparse_rows, count_rows, quiet=as_json, verbose=verbose)
    if shape.encoder is not None:
        facts["simulation"] = swept(estimator, shape.encoder, n, epsilon, plot, quiet=as_json)
    if as_json:
        print(json.dumps(facts))
        return
    if rows_per_unit > 1:
        console.print(f"people have up to {rows_per_unit} rows each, and are protected with all of them.")
    if shape.encoder is not None and target is None:
        console.print("without --target all columns are features, and the target was taken to be yes or no.")


@dataclass(frozen=True)
class _Shape:
    """What is known of the rows: the number of features, or a whole schema and what it declares of the target."""

    d: int
    encoder: Encoder | None = None
    column: Column | None = None

    def rows_per_unit(self, declared: int) -> int:
        """The rows of a person, by the schema where it has a `Person`."""
        person = None if self.encoder is None else self.encoder.schema.person
        if person is None:
            return declared
        if declared not in (1, person[1].most_rows):
            raise InvalidInput(f"the schema gives persons {person[1].most_rows} rows: leave --rows-per-unit out.")
        return person[1].most_rows

    def kind(self, model: str) -> str:
        """The model that was asked for, or the one for the target."""
        if model == "auto":
            return "linear" if isinstance(self.column, Numeric) else "logistic"
        return _LOSSES.get(model, model)

    def targets(self, kind: str, classes: int | None) -> dict[str, Any]:
        """The classes or bounds of the target."""
        if self.column is None:
            return _targets(kind, classes)
        if (kind in ("logistic", "svc")) == isinstance(self.column, Numeric):
            declared = "a number" if isinstance(self.column, Numeric) else "a category"
            raise InvalidInput(f"model {kind!r} does not fit the target, which the schema declares {declared}.")
        if isinstance(self.column, Numeric):
            return {"target_bounds": (self.column.low, self.column.high)}
        return {"classes": range(len(self.column.categories))} if hasattr(self.column, "categories") else {}


def _shape(
    path: Path | None,
    target: str | None,
    d: int | None,
    epsilon: float | None,
    classes: int | None,
    row_norm: float,
    plot: Path | None,
) -> _Shape:
    if path is None:
        if target is not None or plot is not None:
            raise InvalidInput("--target and --plot go with --schema, from which synthetic rows are drawn.")
        if d is None or epsilon is None:
            missing = "--d" if d is None else "--epsilon"
            raise InvalidInput(f"give {missing}, or --schema, which says the number of features and sweeps ε.")
        return _Shape(d)
    if d is not None or row_norm != 1.0 or (classes is not None and target is not None):
        raise InvalidInput("a schema says the number of features, their norm and the classes of its target itself: "
                           "leave out --d, --row-norm and --classes.")  # fmt: skip
    if plot is not None:
        require_place(plot, [path])
    schema = Schema.from_yaml(path)
    encoder = Encoder(schema, target=target)
    return _Shape(encoder.n_features, encoder, None if target is None else schema.target(target))


def _compared(
    estimator: Any, n: int, shape: _Shape, sparse_rows: bool, count_rows: bool, *, quiet: bool, verbose: bool
) -> dict[str, Any]:
    """Compare the solvers at one ε."""
    from discreet.estimators.planned import compared

    sparse = sparse_rows or (shape.encoder is not None and shape.encoder.sparse)
    blocks = () if shape.encoder is None else shape.encoder.column_blocks
    guarantee, found = compared(estimator, n, shape.d, sparse=sparse, blocks=blocks)
    if not any(option.plan for option in found):
        raise InvalidInput(f"no solver applies: {found[0].reason}.")
    epsilon = estimator.epsilon
    if not quiet:
        kind = next(name for name, model in MODELS.items() if model == type(estimator).__name__)
        console.print(f"n = {n}, d = {shape.d}, {kind}, " + _in_words(epsilon, guarantee, count_rows))
        _show(found, verbose)
        if getattr(estimator, "inference", False):
            console.print(_advice(n, shape.d, epsilon, guarantee))
    needed = {"rows_needed": _rows_needed(guarantee, shape.d)} if getattr(estimator, "inference", False) else {}
    return needed | {
        "epsilon": _or_none(epsilon),
        "delta": guarantee.delta,
        "options": [_fact(option) for option in found],
    }


def _intervals(kind: str, inference: bool) -> dict[str, Any]:
    if inference and kind not in _WITH_INTERVALS:
        raise InvalidInput(f"--inference goes with --model {', '.join(_WITH_INTERVALS)}, not {kind}.")
    return {"inference": True} if inference else {}


def _rows_needed(guarantee: Guarantee, d: int) -> int:
    """About how many rows intervals need for d features and an intercept."""
    from discreet.recipes.intervals import rows_needed

    return math.ceil(rows_needed(guarantee, d + 1))


def _advice(n: int, d: int, epsilon: float, guarantee: Guarantee) -> str:
    """Whether intervals can be expected; nothing has been spent yet."""
    needed = _rows_needed(guarantee, d)
    if n >= needed:
        return f"intervals can be expected: they need about n ≥ {needed}."
    return (
        f"WARNING: intervals will hardly be estimable at this ε: needs about n ≥ {needed} or ε ≥ "
        f"{epsilon * needed / n:.2g}. Nothing has been spent."
    )


def _public(n: int, epsilon: float, delta: float | None, adjacency: str, count_rows: bool) -> int | None:
    """The number of rows where it is declared public, which under replace-one it is anyway."""
    if epsilon == math.inf and delta is not None:
        raise InvalidInput(f"--delta {delta:g} has no meaning without privacy (--epsilon inf): leave it out.")
    if not count_rows:
        return n if adjacency == "add-remove" and epsilon < math.inf else None
    if adjacency != "add-remove" or epsilon == math.inf:
        raise InvalidInput("--count-rows is for a private number of rows: --adjacency add-remove and a finite epsilon.")
    if delta is None:
        raise InvalidInput("where the number of rows is private delta cannot follow from it: give --delta.")
    return None


def _targets(kind: str, classes: int | None) -> dict[str, Any]:
    """Declarations on which no plan depends but by the number of classes: targets are coded by their bounds."""
    if kind in ("logistic", "svc"):
        if classes is not None and not 2 <= classes <= 10**6:
            raise InvalidInput(f"--classes must be between 2 and {10**6}, got {classes}.")
        return {"classes": range(2 if classes is None else classes)}
    if classes is not None:
        raise InvalidInput(f"--classes {classes} goes with --model logistic or svc, not {kind}.")
    return {"target_bounds": (0.0, 1.0)}


def _set(kind: str, l1_radius: float | None, sparsity: int | None, domain: str | None) -> dict[str, Any]:
    """The set by one of three options; a model with a set of its own takes its size."""
    from discreet.geometry import L1Ball, SparseSet

    if sum(words is not None for words in (l1_radius, sparsity, domain)) > 1:
        raise InvalidInput("give one of --l1-radius, --sparsity and --domain.")
    if domain is not None:
        return {"domain": read_set(domain)}
    if l1_radius is not None:
        return {"radius": l1_radius} if kind == "lasso" else {"domain": L1Ball(l1_radius)}
    if sparsity is not None:
        return {"sparsity": sparsity} if kind == "sparse" else {"domain": SparseSet(sparsity)}
    return {}


def _estimator(kind: str, settings: dict[str, Any], words: list[str]) -> Any:
    from discreet import estimators

    if kind not in MODELS:
        raise InvalidInput(f"unknown model {kind!r}; choose one of {', '.join([*MODELS, *_LOSSES])}.")
    made = getattr(estimators, MODELS[kind])
    taken = ["ledger", "random_state", "verbose", "schema", "solver", "solver_options", "domain", "classes"]
    return made(**settings, **model_parameters(made, words, [*settings, *taken, "target_bounds", "n_public"]))


def _in_words(epsilon: float, guarantee: Guarantee, count_rows: bool) -> str:
    if not guarantee.private:
        return "no privacy"
    words = f"ε = {epsilon:g}, δ = {guarantee.delta:.3g} ({guarantee.unit})"
    return words + f", of which {epsilon - guarantee.epsilon:.3g} counts the rows" if count_rows else words


def _show(found: list[Comparison], verbose: bool) -> None:
    shown = Table("", "solver", "releases", "noise multiplier", "excess risk ≤")
    for option in found:
        if option.plan:
            mark, risk = "→" if option.chosen else "", _bound(option)
            shown.add_row(mark, option.label, str(option.releases), _cell(option.noise_multiplier), risk)
    console.print(shown)
    if not found[0].chosen:
        console.print(
            f"auto takes {found[0].label} and is refused. Choose a solver of the table, or another guarantee."
        )
    for option in found:
        if option.chosen:
            console.print(f"auto takes {option.label}: {option.reason}.")
            console.print(f"its settings: {_settings_in_words(option)}.")
        elif not option.plan and verbose:
            console.print(f"{option.label} does not apply: {option.reason}.")
    if any(math.isfinite(option.predicted_gradient) for option in found):
        console.print("the loss is not convex: the bound says how nearly stationary the model is, not how good.")
    for option in found:
        if option.unpredicted and verbose:
            console.print(f"no bound for {option.label}: {option.unpredicted}.")


def _bound(option: Comparison) -> str:
    if math.isfinite(option.predicted_gradient):
        return f"E‖∇‖² ≤ {option.predicted_gradient:.4g}"
    return _cell(option.predicted_risk) or "no bound"


def _fact(option: Comparison) -> dict[str, Any]:
    return {
        "solver": option.name,
        "scales": option.scales,
        "applies": option.plan is not None,
        "chosen": option.chosen,
        "releases": option.releases,
        "noise_multiplier": _or_none(option.noise_multiplier),
        "predicted_excess_risk": _or_none(option.predicted_risk),
        "predicted_squared_gradient": _or_none(option.predicted_gradient),
        "settings": _settings(option),
        "reason": option.reason,
        "unpredicted": option.unpredicted,
    }


def _settings(option: Comparison) -> dict[str, Any]:
    """As a certificate has them; what is not finite is not JSON."""
    found: dict[str, Any] = _finite(option.plan.settings if option.plan else {})
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return _or_none(value) if isinstance(value, float) else value


def _settings_in_words(option: Comparison) -> str:
    return ", ".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in _flat(_settings(option))
    )


def _flat(settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Plain settings, those of a scale model after its kind; others are left out."""
    for name, value in settings.items():
        if isinstance(value, bool | int | float | str):
            yield name, value
        elif isinstance(value, dict) and "kind" in value:
            yield name, value["kind"]
            yield from _flat({inner: value[inner] for inner in value if inner != "kind"})


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cell(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)
