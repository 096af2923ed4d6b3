"""``discreet plan``: what a budget buys, before any data is touched."""

from __future__ import annotations

import json
import math
from typing import Annotated

import typer
from rich.table import Table

from discreet.cli.common import console
from discreet.cli.settings import SETS, read_set
from discreet.errors import InvalidInput

__all__ = ["plan", "register"]

_LOSSES = ("logistic", "hinge", "huber", "squared", "poisson", "quantile")


def plan(
    n: Annotated[int, typer.Option(help="Number of rows.")],
    d: Annotated[int, typer.Option(help="Number of features.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")],
    delta: Annotated[float | None, typer.Option(help="Default: 1/n².")] = None,
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    loss: Annotated[str, typer.Option(help=", ".join(_LOSSES))] = "logistic",
    classes: Annotated[int, typer.Option(help="Number of classes (logistic).")] = 2,
    row_norm: Annotated[float, typer.Option(help="ℓ2 length of the longest row.")] = 1.0,
    l1_radius: Annotated[float | None, typer.Option(help="Keep the model in an ℓ1 ball of this radius.")] = None,
    sparsity: Annotated[int | None, typer.Option(help="Keep at most this many coefficients.")] = None,
    domain: Annotated[str | None, typer.Option(help=f"Keep the coefficients in a set: {SETS}.")] = None,
    sparse_rows: Annotated[bool, typer.Option("--sparse-rows", help="Rows come in sparse form, as words do.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Compare the solvers for a problem of this size, and say which one `auto` takes and why."""
    from discreet import losses
    from discreet.geometry import L1Ball, SparseSet, WholeSpace
    from discreet.geometry.base import Geometry
    from discreet.rows import RowSpec
    from discreet.solvers import Guarantee, Problem
    from discreet.theory.planner import options
    from discreet.units import Unit

    table = {
        "logistic": losses.Logistic() if classes == 2 else losses.Softmax(classes),
        "hinge": losses.SmoothedHinge(1.0),
        "huber": losses.Huber(0.25),
        "squared": losses.Squared(),
        "poisson": losses.Poisson(),
        "quantile": losses.Quantile(0.5, 0.05),
    }
    if loss not in table:
        raise InvalidInput(f"unknown loss {loss!r}; choose one of {', '.join(_LOSSES)}.")
    if n < 1 or d < 1:
        raise InvalidInput(f"n and d must be at least 1, got n={n}, d={d}.")
    if classes != 2 and loss != "logistic":
        raise InvalidInput(f"--classes {classes} goes with --loss logistic, not {loss}.")
    if not math.isfinite(row_norm):
        raise InvalidInput(f"--row-norm must be finite, got {row_norm}: nothing private has rows without a bound.")
    if sum(words is not None for words in (l1_radius, sparsity, domain)) > 1:
        raise InvalidInput("give one of --l1-radius, --sparsity and --domain.")
    kept_in: Geometry = WholeSpace() if domain is None else read_set(domain)
    if l1_radius is not None:
        kept_in = L1Ball(l1_radius)
    elif sparsity is not None:
        kept_in = SparseSet(sparsity)
    unit = Unit(adjacency)  # type: ignore[arg-type]
    guarantee = Guarantee(epsilon, 1.0 / max(n, 2) ** 2 if delta is None else delta, unit)
    rows = RowSpec(d, row_norm, 0.0, classes if loss == "logistic" and classes > 2 else 1)
    found = options(Problem(rows, table[loss], float(n), kept_in, sparse=sparse_rows), guarantee)
    if as_json:
        facts = [
            {
                "solver": option.name,
                "chosen": option.chosen,
                "releases": option.releases,
                "noise_multiplier": _or_none(option.noise_multiplier),
                "predicted_excess_risk": _or_none(option.predicted_risk),
                "reason": option.reason,
            }
            for option in found
        ]
        print(json.dumps({"epsilon": epsilon, "delta": guarantee.delta, "adjacency": adjacency, "options": facts}))
        return
    console.print(f"n = {n}, d = {d}, {loss} loss, ε = {epsilon:g}, δ = {guarantee.delta:.3g} ({unit})")
    shown = Table("", "solver", "releases", "noise multiplier", "excess risk ≤")
    for option in found:
        if option.solver:
            risk = _cell(option.predicted_risk) or "no theorem"
            shown.add_row(
                "→" if option.chosen else "", option.name, str(option.releases), _cell(option.noise_multiplier), risk
            )
    console.print(shown)
    for option in found:
        if option.chosen:
            console.print(f"auto takes {option.name}: {option.reason}.")
        elif not option.solver:
            console.print(f"{option.name} does not apply: {option.reason}")
    if not any(option.chosen for option in found):
        console.print(f"auto takes {found[0].name} and is refused. Choose a solver of the table, or another guarantee.")


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cell(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)
