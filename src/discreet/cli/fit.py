"""``discreet fit``: from a file of rows to a private model with a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from discreet.cli import options
from discreet.cli.common import (
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
from discreet.cli.settings import model_parameters, read_set, solver_options
from discreet.data.frames import NamedColumn
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.text import printable, shortened

__all__ = ["NamedColumn", "fit", "register"]


_FROM_THE_SCHEMA = ("classes", "row_norm", "target_bounds")


def fit(
    files: Files,
    target: Annotated[str, typer.Option(help="Column to predict.")],
    epsilon: Annotated[float, typer.Option(help="Privacy budget of this fit; inf for no privacy.")],
    schema: options.SchemaFile = None,
    delta: options.Delta = None,
    adjacency: options.Adjacency = "replace-one",
    rows_per_unit: options.RowsPerUnit = 1,
    model: options.Model = "auto",
    param: options.Param = None,
    domain: options.Domain = None,
    solver: options.Solver = "auto",
    option: options.Option = None,
    n_public: options.PublicRows = None,
    ledger: options.LedgerUrl = None,
    dataset: options.Dataset = "default",
    analyst: options.Analyst = "",
    witness: options.Witness = None,
    output: options.ModelPlace = Path("model.npz"),
    certificate: options.CertificatePlace = None,
    seed: options.Seed = None,
    inference: options.Inference = False,
    interactions: options.Interactions = None,
    quiet: options.Quiet = False,
    separator: Separator = None,
    decimal: Decimal = ".",
    force: options.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the certificate as JSON, and no progress.")] = False,
    memory: options.Memory = None,
    cache: options.Cache = None,
    dask: options.Dask = None,
    device: options.Device = None,
) -> None:
    """Fit a private model to a table; write the model and its certificate."""
    quiet = quiet or as_json
    scan = scan_for(files, separator, decimal, memory=memory, cache=cache, dask=dask, device=device)
    rows = _Rows(files, separator, decimal, scan)
    declared = read_schema(schema, rows.names)
    kind = model_for(declared, target, model)
    inputs = [*(Path(file) for file in files if "://" not in file), schema, ledger, witness]
    require_place(output, inputs)
    certificate = certificate or output.with_suffix(".certificate.json")
    require_place(certificate, [*inputs, output])
    settings: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "adjacency": adjacency, "rows_per_unit": rows_per_unit, "solver": solver,
        "solver_options": solver_options(solver, option or []), "domain": None if domain is None else read_set(domain),
        "schema": declared, "n_public": n_public, "ledger": ledger_for(ledger, dataset, analyst, witness),
        "random_state": seed, "verbose": not quiet,
    }  # fmt: skip
    estimator = _estimator(kind, settings, param or [], inference, interactions)
    require_absent([output, certificate], force=force)
    with _interruptions(estimator, output):
        rows.fit(estimator, target, declared, shown=not quiet)
        estimator.save(output)
    certificate.write_text(estimator.privacy_.to_json() + "\n", encoding="utf-8")
    if as_json:
        print(estimator.privacy_.to_json())
    else:
        _tell(estimator, output, certificate, inference)


@dataclass(frozen=True)
class _Rows:
    """The rows of a fit: a file that is read into memory, or a scan of files that need not fit there."""

    files: list[str]
    separator: str | None
    decimal: str
    scan: Any

    def names(self) -> Sequence[str]:
        """The columns' names."""
        found = names_in(Path(self.files[0]), self.separator) if self.scan is None else self.scan.names
        return found() if callable(found) else found

    def fit(self, estimator: Any, target: str, schema: Schema, *, shown: bool) -> None:
        """Fit the estimator to the rows."""
        if self.scan is not None:
            estimator.fit(self.scan, target)
            return
        count = estimator.adjacency == "replace-one"
        table = read_declared(
            Path(self.files[0]), schema, declared_columns(schema), self.separator, self.decimal, shown=shown,
            count_rows=count,
        )  # fmt: skip
        estimator.fit(table, NamedColumn.of(table, target, schema))


def _estimator(
    kind: Any, settings: dict[str, Any], param: list[str], inference: bool, interactions: list[str] | None
) -> Any:
    """The estimator that was asked for; all that can be refused without a row is refused here."""
    if inference:
        settings["inference"] = _with_intervals(kind)
    if interactions:
        settings.update(interactions=_read_interactions(kind, interactions))
    settings = _taken(kind, settings)
    found = kind(**settings, **model_parameters(kind, param, [*settings, *_FROM_THE_SCHEMA]))
    found._check_parameters()
    return found


def _tell(estimator: Any, output: Path, certificate: Path, inference: bool) -> None:
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
