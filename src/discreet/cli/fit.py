"""``discreet fit``: from a file of rows to a private model with a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from discreet.cli.common import (
    MODELS,
    NETWORK,
    console,
    errors,
    ledger_for,
    model_for,
    read_schema,
    require_absent,
    require_place,
    show_certificate,
)
from discreet.cli.reading import Decimal, Files, Separator, declared_columns, names_in, read_declared, scan_for
from discreet.cli.settings import SETS, model_parameters, read_set, solver_options
from discreet.data.frames import NamedColumn
from discreet.errors import InvalidInput
from discreet.recipes import RECIPES
from discreet.text import printable, shortened

__all__ = ["NamedColumn", "fit", "register"]


_FROM_THE_SCHEMA = ("classes", "row_norm", "target_bounds")


def fit(
    files: Files,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit; inf for no privacy.")],
    schema: Annotated[Path | None, typer.Option(help="YAML file with the public bounds of each column.")] = None,
    delta: Annotated[float | None, typer.Option(help="Default: 1/n² under replace-one.")] = None,
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")] = "replace-one",
    rows_per_unit: Annotated[
        int, typer.Option(help="Rows one person has: believed, unlike {unit: 5} in a schema.")
    ] = 1,
    model: Annotated[str, typer.Option(help="auto, " + ", ".join([*MODELS, NETWORK]))] = "auto",
    param: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the model, e.g. alpha=0.01.")] = None,
    domain: Annotated[str | None, typer.Option(help=f"Keep the coefficients in a set: {SETS}.")] = None,
    solver: Annotated[str, typer.Option(help="auto, " + ", ".join(RECIPES))] = "auto",
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the solver, e.g. iterations=50.")] = None,
    n_public: Annotated[int | None, typer.Option(help="Number of rows, if it is public (add-remove).")] = None,
    ledger: Annotated[str | None, typer.Option(help="Ledger, e.g. sqlite:///ledger.db or a path.")] = None,
    dataset: Annotated[str, typer.Option(help="Whose budget is charged, by its name in the ledger.")] = "default",
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")] = Path("model.npz"),
    certificate: Annotated[Path | None, typer.Option(help="Where to write the certificate (JSON).")] = None,
    seed: Annotated[int | None, typer.Option(help="Reproducible, and therefore NOT private.")] = None,
    inference: Annotated[
        bool, typer.Option("--inference", help="Standard errors and intervals, within epsilon.")
    ] = False,
    interactions: Annotated[
        list[str] | None,
        typer.Option(help="auto (default), none, or COLUMN,COLUMN that tell more together; may be repeated."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    separator: Separator = None,
    decimal: Decimal = ".",
    force: Annotated[bool, typer.Option("--force", help="Write over an existing model without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON, and no progress.")] = False,
    memory: Annotated[str | None, typer.Option(help="Memory for rows, e.g. 2GB: more are read at every step.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for encoded rows that do not fit in memory.")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, or local: workers hold rows.")] = None,
    device: Annotated[str | None, typer.Option(help="A GPU that holds the rows, e.g. cuda. Needs PyTorch.")] = None,
) -> None:
    """Fit a private model to a table; write the model and its certificate."""
    quiet = quiet or as_json
    scan = scan_for(files, separator, decimal, memory=memory, cache=cache, dask=dask, device=device)
    declared = read_schema(schema, names_in(Path(files[0]), separator) if scan is None else scan.names)
    kind = model_for(declared, target, model)
    inputs = [*(Path(file) for file in files if "://" not in file), schema, ledger]
    require_place(output, inputs)
    certificate = certificate or output.with_suffix(".certificate.json")
    require_place(certificate, [*inputs, output])
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": adjacency,
        "rows_per_unit": rows_per_unit,
        "solver": solver,
        "solver_options": solver_options(solver, option or []),
        "domain": None if domain is None else read_set(domain),
        "schema": declared,
        "n_public": n_public,
        "ledger": ledger_for(ledger, dataset),
        "random_state": seed,
        "verbose": not quiet,
    }
    if inference:
        settings["inference"] = _with_intervals(kind)
    if interactions:
        settings.update(interactions=_read_interactions(kind, interactions))
    settings = _taken(kind, settings)
    estimator = kind(**settings, **model_parameters(kind, param or [], [*settings, *_FROM_THE_SCHEMA]))
    estimator._check_parameters()  # all that can be refused without a row is, before they are read
    require_absent([output, certificate], force=force)
    with _interruptions(estimator, output):
        if scan is not None:
            estimator.fit(scan, target)
        else:
            table = read_declared(
                Path(files[0]),
                declared,
                declared_columns(declared),
                separator,
                decimal,
                shown=not quiet,
                count_rows=adjacency == "replace-one",
            )
            estimator.fit(table, NamedColumn.of(table, target, declared))
        estimator.save(output)
    certificate.write_text(estimator.privacy_.to_json() + "\n", encoding="utf-8")
    if as_json:
        print(estimator.privacy_.to_json())
        return
    show_certificate(estimator.privacy_, _features_of(estimator))
    if "chosen" in estimator.privacy_.settings:
        console.print(f"chosen       {printable(estimator.privacy_.settings['chosen'])}", soft_wrap=True)
    if inference:
        print(estimator.summary())
    console.print(f"model        {printable(str(output))}\ncertificate  {printable(str(certificate))}")


def _taken(kind: Any, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that a model takes; those of solvers are refused where it has none."""
    names = kind._get_param_names()
    usual = {"solver": "auto", "solver_options": None, "domain": None}
    for name, value in settings.items():
        if name not in names and value != usual.get(name):
            raise InvalidInput(f"{kind.__name__} takes no {name.replace('_', ' ')}; nothing was released.")
    return {name: value for name, value in settings.items() if name in names}


def _features_of(estimator: Any) -> int:
    """The number of encoded features of a fitted model."""
    if hasattr(estimator, "coef_"):
        return int(np.atleast_2d(estimator.coef_).shape[1])
    return int(estimator.coefs_[0].shape[0])


def _with_intervals(kind: Any) -> bool:
    if not hasattr(kind, "conf_int"):
        raise InvalidInput(f"{kind.__name__} has no intervals; leave --inference out.")
    return True


def _read_interactions(kind: Any, written: list[str]) -> Any:
    """ "auto", False, or the pairs of columns that were named."""
    if not hasattr(kind, "interactions_"):
        raise InvalidInput(f"{kind.__name__} chooses no interactions; leave --interactions out.")
    if written in (["auto"], ["none"]):
        return "auto" if written == ["auto"] else False
    pairs = [tuple(name.strip() for name in pair.split(",")) for pair in written]
    for pair, text in zip(pairs, written, strict=True):
        if len(pair) != 2:
            raise InvalidInput(f"--interactions takes auto, none or COLUMN,COLUMN, got {shortened(text)}.")
    return pairs


@contextmanager
def _interruptions(estimator: Any, output: Path) -> Iterator[None]:
    """When the block is interrupted, say what stays charged and that there is no model."""
    try:
        yield
    except KeyboardInterrupt as stop:
        said = getattr(stop, "__notes__", ["Nothing was charged."])
        if hasattr(estimator, "privacy_"):  # while the model was being written
            said = [f"Charged, and not refunded: {estimator.privacy_}."]
            output.unlink(missing_ok=True)
        for words in (*said, "No model was written."):
            errors.print(words, soft_wrap=True)
        raise


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fit)
