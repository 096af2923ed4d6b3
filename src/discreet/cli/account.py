"""``discreet account`` and ``discreet calibrate``: certified privacy arithmetic from the shell. No data is read."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.table import Table

from discreet.accounting.bounds import Bounds
from discreet.cli.common import console, require_place
from discreet.errors import DiscreetError, InvalidInput
from discreet.events import Allocation, Event, Gaussian, Poisson, Repeat, from_json
from discreet.text import checked_path, printable
from discreet.units import Unit

__all__ = ["account", "calibrate", "register"]

Adjacency = Annotated[str, typer.Option(help="'add-remove' or 'replace-one': ε means nothing without it.")]
Rate = Annotated[float, typer.Option(help="Poisson sampling rate; 1 takes all rows.")]
Steps = Annotated[int, typer.Option(help="How many times.")]
Batches = Annotated[int | None, typer.Option(help="Batches of an epoch, of which every row draws one for itself.")]
Epochs = Annotated[int, typer.Option(help="How many epochs, with --batches.")]
Rows = Annotated[int, typer.Option(help="The most rows that one person owns.")]
Delta = Annotated[float, typer.Option(help="The δ of (ε, δ).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def register(app: typer.Typer) -> None:
    """Add both commands to an application."""
    app.command()(account)
    app.command()(calibrate)


def account(
    adjacency: Adjacency,
    delta: Delta,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise over the bound on one row.")] = None,
    rate: Rate = 1.0,
    steps: Steps = 1,
    batches: Batches = None,
    epochs: Epochs = 1,
    event: Annotated[str | None, typer.Option(help="An event as JSON: a file, or '-' for standard input.")] = None,
    rows_per_unit: Rows = 1,
    method: Annotated[str, typer.Option(help="auto, contour, fourier, renyi, zcdp, gdp, advanced or basic.")] = "auto",
    plot: Annotated[Path | None, typer.Option(help="Draw δ(ε) and the attacker's curve into this file.")] = None,
    attack: Annotated[bool, typer.Option(help="The most true positives that an attacker can have.")] = False,
    textbook: Annotated[bool, typer.Option(help="Compare printed formulas at this ε, δ and number of steps.")] = False,
    as_json: AsJson = False,
) -> None:
    """The certified ε of a run: sampled Gaussian steps by the options, or any event by --event."""
    try:
        unit = _unit(adjacency, rows_per_unit)
        if plot is not None:
            require_place(plot, [None if event == "-" else event])
        many = steps if not textbook or event is None else 1
        released = _event(event, noise_multiplier, _Schedule(rate, many, batches, epochs))
        answer = _account(released, delta, unit, method)
        if attack or plot is not None:
            answer |= _attack(released, unit, plot)
        if textbook:
            answer["textbook"] = _textbook(answer["epsilon"]["upper"], delta, steps)
    except (DiscreetError, OSError) as problem:
        _fail(problem)
    if as_json:
        typer.echo(json.dumps(answer, allow_nan=False))
    else:
        _show_account(answer)


def calibrate(
    epsilon: Annotated[float, typer.Option(help="The target ε.")],
    delta: Delta,
    adjacency: Adjacency,
    rate: Rate = 1.0,
    steps: Steps = 1,
    batches: Batches = None,
    epochs: Epochs = 1,
    rows_per_unit: Rows = 1,
    as_json: AsJson = False,
) -> None:
    """The least noise multiplier for which sampled Gaussian steps keep (ε, δ)."""
    from discreet import accounting

    try:
        unit = _unit(adjacency, rows_per_unit)
        schedule = _Schedule(rate, steps, batches, epochs)
        if delta == 0:
            raise InvalidInput("--delta 0 asks for pure DP, which Gaussian noise cannot give; give a δ above 0.")

        def make_event(noise_multiplier: float) -> Event:
            return schedule.event(noise_multiplier)

        make_event(1.0)  # a bad rate is refused before any search
        noise = accounting.calibrate(make_event, epsilon, delta, unit)
        reached = accounting.epsilon(make_event(noise), delta, unit)
    except DiscreetError as problem:
        _fail(problem)
    answer = {
        "noise_multiplier": noise,
        "epsilon": _interval(reached),
        "target_epsilon": epsilon,
        "delta": delta,
        "adjacency": unit.relation,
        "rows_per_unit": unit.rows_per_unit,
        "event": make_event(noise).to_dict(),
    }
    if as_json:
        typer.echo(json.dumps(answer))
        return
    facts = Table(title="Calibrated noise", show_header=False)
    facts.add_row("noise multiplier", f"{noise:.6f}")
    facts.add_row("ε reached", f"{reached.upper:.9g} (target {epsilon:g})")
    facts.add_row("δ", f"{delta:g}")
    facts.add_row("relation", str(unit))
    console.print(facts)


def _account(released: Event, delta: float, unit: Unit, method: str) -> dict[str, Any]:
    from discreet import accounting

    found = accounting.epsilon(released, delta, unit, method=method)  # type: ignore[arg-type, unused-ignore]
    return {
        "epsilon": _interval(found),
        "delta": delta,
        "adjacency": unit.relation,
        "rows_per_unit": unit.rows_per_unit,
        "method": method,
        "event": released.to_dict(),
    }


def _attack(released: Event, unit: Unit, path: Path | None) -> dict[str, Any]:
    """The attack table, and the picture if a path is given."""
    from discreet.accounting import plots

    points = plots.sampled_curve(released, unit) if path is None else plots.plot(released, unit, path)
    rates = zip(plots.FALSE_POSITIVE_RATES, plots.max_true_positive_rates(*points), strict=True)
    rows = [{"false_positive_rate": alpha, "most_true_positives": most} for alpha, most in rates]
    return {"attack": rows} | ({} if path is None else {"plot": str(path)})


def _textbook(epsilon: float | str, delta: float, steps: int) -> list[dict[str, Any]]:
    """All printed formulas for the (ε, δ) that the run has."""
    from discreet.accounting.textbook import table

    if isinstance(epsilon, str) or epsilon == 0:
        raise InvalidInput(f"--textbook needs a run with a finite, positive ε, this one has {epsilon}.")
    return [
        {
            "name": entry.name,
            "formula": entry.formula,
            "noise": entry.noise,
            "claimed_epsilon": entry.claimed_epsilon,
            "claimed_delta": entry.claimed_delta,
            "adjacency": entry.adjacency,
            "true_epsilon": _interval(entry.truth),
            "noise_over_needed": entry.ratio,
            "holds": entry.holds,
        }
        for entry in table(epsilon, delta, steps)
    ]


def _show_account(answer: dict[str, Any]) -> None:
    facts = Table(title="Privacy of this run", show_header=False)
    low, high = answer["epsilon"]["lower"], answer["epsilon"]["upper"]
    facts.add_row("ε ≤", _text(high))
    facts.add_row("ε ≥", _text(low))
    facts.add_row("δ", f"{answer['delta']:g}")
    facts.add_row("relation", str(Unit(answer["adjacency"], answer["rows_per_unit"])))
    facts.add_row("method", answer["method"])
    console.print(facts)
    if "attack" in answer:
        attack = Table("false positives", "most true positives", title="Best possible attack on one unit")
        for row in answer["attack"]:
            attack.add_row(f"{100 * row['false_positive_rate']:g} %", f"{100 * row['most_true_positives']:.3g} %")
        console.print(attack)
    if "textbook" in answer:
        book = Table("formula", "relation", "noise", "claims ε", "true ε ≤", "noise/needed", "holds", title="Textbooks")
        for row in answer["textbook"]:
            book.add_row(
                f"{row['name']}: {row['formula']}", row["adjacency"],
                f"{row['noise']:.4g}", f"{row['claimed_epsilon']:.4g}",
                _text(row["true_epsilon"]["upper"]), f"{row['noise_over_needed']:.3g}", "yes" if row["holds"] else "NO",
            )  # fmt: skip
        console.print(book)
    if "plot" in answer:
        console.print(f"Plot written to {answer['plot']}.")


@dataclass(frozen=True)
class _Schedule:
    """How often Gaussian noise is used, and on which rows, as the options say it."""

    rate: float
    steps: int
    batches: int | None
    epochs: int

    def __post_init__(self) -> None:
        for name in ("steps", "epochs"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"--{name} must be at least 1, got {getattr(self, name)}.")
        if self.batches is None and self.epochs != 1:
            raise InvalidInput("--epochs goes with --batches, the number of batches of an epoch.")
        if self.batches is not None and (self.rate != 1.0 or self.steps != 1):
            raise InvalidInput("an epoch has --batches steps, and every row is in one: --rate and --steps say another.")

    @property
    def given(self) -> bool:
        """Whether any option says more than one release from all rows."""
        return self != _Schedule(1.0, 1, None, 1)

    def event(self, noise_multiplier: float) -> Event:
        """The event of the whole run."""
        step: Event = Gaussian(noise_multiplier)
        if self.batches is not None:
            return Repeat(Allocation(self.batches, step), self.epochs)
        return Repeat(step if self.rate == 1 else Poisson(self.rate, step), self.steps)


def _event(source: str | None, noise_multiplier: float | None, schedule: _Schedule) -> Event:
    if (source is None) == (noise_multiplier is None):
        raise InvalidInput(
            "say what was released: either --noise-multiplier (with --rate, --steps, --batches) or --event, not both."
        )
    if source is None and noise_multiplier is not None:
        return schedule.event(noise_multiplier)
    if source is not None and schedule.given:
        raise InvalidInput(
            "--rate, --steps and --batches go with --noise-multiplier; an --event says its own sampling and steps."
        )
    try:
        text = sys.stdin.read() if source == "-" else checked_path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidInput(f"--event {source} is not text: {problem}.") from None
    return from_json(text)


def _unit(adjacency: str, rows_per_unit: int) -> Unit:
    return Unit(adjacency, rows_per_unit)  # type: ignore[arg-type]


def _interval(bounds: Bounds) -> dict[str, float | str]:
    """JSON has no infinity: it is written as a word."""
    return {
        name: (value if math.isfinite(value) else "inf") for name, value in zip(("lower", "upper"), bounds, strict=True)
    }


def _text(value: float | str) -> str:
    return "∞" if value == "inf" else f"{value:.9g}"


def _fail(problem: Exception) -> NoReturn:
    typer.echo(f"error: {printable(str(problem), keep=chr(10))}", err=True)
    raise typer.Exit(2)
