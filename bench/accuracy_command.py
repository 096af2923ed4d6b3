"""Raw Adult through the command line: ``discreet fit`` on the file as it was published, then ``discreet predict``.

The published files name no columns, so a line with their names goes before the first; nothing else is changed. Every
run has a ledger of its own.
"""

from __future__ import annotations

import csv
import gzip
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from accuracy_table import Method
from discreet.data.schema import Schema
from sets import SCHEMAS

SCHEMA, TARGET = SCHEMAS / "adult.yaml", "income"
_MAIN = "from discreet.cli import main; main()"


def discreet(*arguments: str, folder: Path) -> float:
    """Run the command; CPU seconds of its process, start-up included."""
    import discreet as package

    source = str(Path(package.__file__).parent.parent)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"discreet {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def with_names(published: Path, file: Path) -> int:
    """The published file with a line of column names; how many rows it has."""
    with gzip.open(published, "rt") as text:
        lines = [line for line in text if line.strip()]
    file.write_text(",".join(Schema.from_yaml(SCHEMA)) + "\n" + "".join(lines))
    return len(lines)


def fits(adult: Path, adjacency: str, epsilons: list[float], runs: int) -> Method:
    """Test accuracy (%) of the command's predictions, and the median CPU seconds of ``discreet fit`` as a process."""
    scores: dict[str, list[float]] = {str(epsilon): [] for epsilon in epsilons}
    seconds = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n = with_names(adult / "adult.data.gz", folder / "train.csv")
        with_names(adult / "adult.test.gz", folder / "test.csv")
        with (folder / "test.csv").open(newline="") as file:
            labels = [row[-1].strip().removesuffix(".") for row in csv.reader(file)][1:]
        for epsilon in epsilons:
            for run in range(runs):
                ledger = f"sqlite:///{folder}/budget-{epsilon}-{run}.db"
                seconds.append(
                    discreet(
                        "fit", "train.csv", "--schema", str(SCHEMA), "--target", TARGET, "--epsilon", str(epsilon),
                        "--adjacency", adjacency, "--n-public", str(n), "--ledger", ledger, "--quiet", "--force",
                        folder=folder,
                    )
                )  # fmt: skip
                discreet("predict", "model.npz", "test.csv", "--no-ids", "--output", "predicted.csv", folder=folder)
                with (folder / "predicted.csv").open(newline="") as file:
                    predicted = [row[0] for row in csv.reader(file)][1:]
                right = [guess == label for guess, label in zip(predicted, labels, strict=True)]
                scores[str(epsilon)].append(100 * float(np.mean(right)))
    return {"scores": scores, "seconds": float(np.median(seconds))}
