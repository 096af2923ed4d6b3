"""``discreet demo``: a private model of real health data, from plan to certificate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from discreet.cli.common import console, errors, show_certificate
from discreet.cli.fit import NamedColumn

__all__ = ["demo", "register"]

_BUDGET = 1.0


def demo(
    folder: Annotated[Path, typer.Option(help="Where model, certificate and ledger go.")] = Path("demo"),
    epsilon: Annotated[float, typer.Option(help="Privacy of the model.")] = _BUDGET,
    as_json: Annotated[bool, typer.Option("--json", help="Certificate and accuracy as JSON.")] = False,
) -> None:
    """Fit a private logistic regression to the RAND Health Insurance Experiment."""
    from discreet.data.columns import Person
    from discreet.datasets import load_randhie, randhie_schema
    from discreet.errors import BudgetExceeded
    from discreet.estimators import LogisticRegression
    from discreet.ledger import Ledger
    from discreet.units import Unit

    folder.mkdir(parents=True, exist_ok=True)
    train, test, schema = load_randhie("train"), load_randhie("test"), randhie_schema()
    target = "drugs"
    y, truth = (NamedColumn.of(part, target, schema) for part in (train, test))
    persons, (_, person) = len(set(train["person"])), schema.person or ("", Person(1))
    delta = 1.0 / persons**2
    say = errors.print if as_json else console.print
    say(
        f"RAND Health Insurance Experiment: {len(y)} person-years of {persons} people, target: bought prescription "
        f"drugs in the year.\nA whole person is protected (replace-one), with up to {person.most_rows} rows; bounds "
        "come from a public schema, none from the data.\n"
    )
    url = f"sqlite:///{folder / 'ledger.db'}"
    unit = Unit("replace-one", person.most_rows)
    ledger = Ledger(url, epsilon=_BUDGET, delta=delta, adjacency=unit, dataset="randhie")
    model = LogisticRegression(epsilon, delta, schema=schema, ledger=ledger, verbose=not as_json)
    try:
        model.fit(train, y)
    except BudgetExceeded as refusal:
        say(f"refused: {refusal}")
        say(f"To start over, delete the demonstration's folder: rm -r {folder}")
        raise typer.Exit(3) from None
    baseline = LogisticRegression(float("inf"), schema=schema).fit(train, y)
    model.save(folder / "model.npz")
    (folder / "certificate.json").write_text(model.privacy_.to_json() + "\n", encoding="utf-8")
    labels = schema.target(target).labels(truth)  # type: ignore[union-attr]
    accuracy, without = _accuracy(model, test, labels), _accuracy(baseline, test, labels)
    if as_json:
        figures = {"accuracy": accuracy, "accuracy_without_privacy": without}
        print(json.dumps({"certificate": json.loads(model.privacy_.to_json()), **figures}))
        return
    show_certificate(model.privacy_, model.coef_.shape[1])
    console.print(
        f"\ntest accuracy  {accuracy:.1%} private, {without:.1%} without privacy, "
        f"{max(np.mean(labels), 1 - np.mean(labels)):.1%} for always guessing the commoner answer\n"
        f"model          {folder / 'model.npz'}\n"
        f"certificate    {folder / 'certificate.json'}\n"
        f"ledger         {folder / 'ledger.db'}: ε = {ledger.spent().upper:.4g} of {_BUDGET:g} spent"
    )


def _accuracy(model: object, table: object, labels: object) -> float:
    predicted = model.predict(table)  # type: ignore[attr-defined]
    codes = np.searchsorted(model.classes_, predicted)  # type: ignore[attr-defined]
    return float(np.mean(codes == labels))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(demo)
