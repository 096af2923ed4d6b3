"""Options that several commands share: whose budget is charged, which relation, which file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.common import MODELS, NETWORK
from discreet.cli.settings import SETS
from discreet.recipes import RECIPES

__all__ = [
    "Adjacency",
    "Analyst",
    "AsJson",
    "Cache",
    "CertificatePlace",
    "Dask",
    "Dataset",
    "Delta",
    "Device",
    "Domain",
    "Force",
    "Inference",
    "Interactions",
    "LedgerUrl",
    "Memory",
    "Model",
    "ModelPlace",
    "Option",
    "Param",
    "PublicRows",
    "Quiet",
    "RowsPerUnit",
    "SchemaFile",
    "Seed",
    "Solver",
    "Witness",
]

# --- whose budget, and what is protected --------------------------------------------------------------------------
LedgerUrl = Annotated[str | None, typer.Option(help="Ledger, e.g. sqlite:///ledger.db or a path.")]
Dataset = Annotated[str, typer.Option(help="Whose budget is charged, by its name in the ledger.")]
Analyst = Annotated[
    str, typer.Option(envvar="DISCREET_ANALYST", help="Whose part of the budget is charged, if parts were allocated.")
]
Witness = Annotated[
    Path | None,
    typer.Option(envvar="DISCREET_WITNESS", help="File with the last head seen: older ledgers are refused."),
]
Adjacency = Annotated[str, typer.Option(help="replace-one or add-remove.")]
RowsPerUnit = Annotated[int, typer.Option(help="Rows one person has: believed, unlike {unit: 5} in a schema.")]
PublicRows = Annotated[int | None, typer.Option(help="Number of rows, if it is public (add-remove).")]
Delta = Annotated[float | None, typer.Option(help="Default: 1/n² under replace-one.")]
SchemaFile = Annotated[Path | None, typer.Option(help="YAML file with the public bounds of each column.")]
Seed = Annotated[int | None, typer.Option(help="Reproducible, and therefore NOT private.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]

# --- what is fitted -----------------------------------------------------------------------------------------------
Model = Annotated[str, typer.Option(help="auto, " + ", ".join([*MODELS, NETWORK]))]
Param = Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the model, e.g. alpha=0.01.")]
Domain = Annotated[str | None, typer.Option(help=f"Keep the coefficients in a set: {SETS}.")]
Solver = Annotated[str, typer.Option(help="auto, " + ", ".join(RECIPES))]
Option = Annotated[list[str] | None, typer.Option(help="NAME=VALUE of the solver, e.g. iterations=50.")]
Inference = Annotated[bool, typer.Option("--inference", help="Standard errors and intervals, within epsilon.")]
Interactions = Annotated[
    list[str] | None,
    typer.Option(help="auto (default), none, or COLUMN,COLUMN that tell more together; may be repeated."),
]

# --- where it goes, and how rows are read -------------------------------------------------------------------------
ModelPlace = Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")]
CertificatePlace = Annotated[Path | None, typer.Option(help="Where to write the certificate (JSON).")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
Force = Annotated[bool, typer.Option("--force", help="Write over an existing model without asking.")]
Memory = Annotated[str | None, typer.Option(help="Memory for rows, e.g. 2GB: more are read at every step.")]
Cache = Annotated[Path | None, typer.Option(help="Folder for encoded rows that do not fit in memory.")]
Dask = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, or local: workers hold rows.")]
Device = Annotated[str | None, typer.Option(help="A GPU that holds the rows, e.g. cuda. Needs PyTorch.")]
