"""The part of ``discreet plan`` that simulates fits to synthetic rows at several ε."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.table import Table

from discreet.cli.common import console
from discreet.data.encoding import Encoder
from discreet.report.sweep import Sweep

__all__ = ["swept"]


def swept(
    estimator: Any, encoder: Encoder, n: int, epsilon: float | None, plot: Path | None, *, quiet: bool
) -> dict[str, Any]:
    """Simulate, show and draw what to expect; returns the facts as plain values.

    Args:
        estimator: with classes or target bounds declared, for encoded rows.
        encoder: of the schema's columns.
        n: number of rows.
        epsilon: one more ε, beside those of the sweep.
        plot: where to draw it.
        quiet: print nothing.
    """
    from discreet.estimators.simulation import SWEPT, simulate

    if plot is not None:
        from discreet.accounting.plots import figure_of

        figure_of(1, 1)  # a missing library is found before the simulation
    more = () if epsilon is None or not math.isfinite(epsilon) else (epsilon,)
    found = simulate(estimator, encoder, n, epsilons=(*SWEPT, *more))
    if plot is not None:
        found.plot(plot)
    if not quiet:
        _show(found, epsilon)
        if plot is not None:
            console.print(f"plot written to {plot}", soft_wrap=True)
    return found.to_dict()


def _show(found: Sweep, epsilon: float | None) -> None:
    console.print(
        f"n = {found.n}, d = {found.d}. Expected {found.metric}, simulated on SYNTHETIC rows of the declared shape "
        "(columns even and independent, a linear truth); no data was read:",
        soft_wrap=True,
    )
    table = Table("ε", found.metric, "less than without privacy", "rows to come close", box=None, padding=(0, 2, 0, 0))
    for one, score in zip(found.epsilons, found.scores, strict=True):
        rows = found.rows_for(one)
        mark = " ←" if one == epsilon else ""
        needed = "" if rows is None else "enough" if rows <= found.n else f"{rows}"
        table.add_row(f"{one:g}{mark}", _figure(found, score), _figure(found, max(0.0, found.baseline - score)), needed)
    table.add_row("no privacy", _figure(found, found.baseline), "", "")
    table.add_row("guess", _figure(found, found.guess), "", "")
    console.print(table)
    console.print(found.verdict + ".", soft_wrap=True)
    lower = [one for one in found.epsilons if (found.rows_for(one) or 0) > found.n]
    if lower:
        rows = found.rows_for(lower[-1])
        console.print(
            f"At ε = {lower[-1]:g} about {rows} rows would come as close: noise depends on ε times the number of rows.",
            soft_wrap=True,
        )


def _figure(found: Sweep, score: float) -> str:
    return f"{100 * score:.1f} %" if found.metric == "accuracy" else f"{score:.3f}"
