"""Whatever a release says, the next ones are those of the plan: no answer changes an event, or ends a run.

What later releases ask is chosen by earlier answers: places, scales, bounds, pairs of columns. Noise may make an answer
negative, 0, or larger than any table could. Solvers whose questions depend most on answers are driven here by answers
that no table gave; they must ask for the events of the rehearsal, in order, and end with finite coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, Loss, Quantile, Squared
from discreet.measurements import Noisy, SampleSplitting
from discreet.measurements.mapped import Mapped
from discreet.measurements.program import drive
from discreet.mechanisms import TopChoices
from discreet.noise.bits import Bits
from discreet.recipes import recipe
from discreet.refinement import ColumnBlock
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit
from discreet.vault import Vault

LARGEST = 2.0**62  # steps: sums and their noise are whole numbers of 64 bits
SIZES = (0.0, 1.0, 1e4, 1e9, LARGEST)
TABLE = (
    ColumnBlock("u", 0, 2, "number", 0.5),
    ColumnBlock("v", 2, 4, "number", 0.5),
    ColumnBlock("l", 4, 7, "levels", 0.5),
    ColumnBlock("w", 7, 8, "value", 0.5),
)
TWO = (ColumnBlock("v", 0, 1, "value", 0.5), ColumnBlock("w", 1, 2, "value", 0.5))
ROWS = RowSpec(4, 2.0, 1.0)
RESIDUAL, SVRG = {"scales": "residual"}, {"update": "svrg"}


@dataclass(frozen=True)
class Setting:
    """A solver and the problem that it is for; ``unit`` and ``n`` are chosen by the test."""

    solver: str
    label: str
    rows: RowSpec
    loss: Loss
    facts: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.solver}-{self.label}"

    def problem(self, n: float) -> Problem:
        return Problem(self.rows, self.loss, n, **self.facts)


def residual(loss: Huber | Quantile) -> Setting:
    usual = Huber(0.25) if isinstance(loss, Huber) else Quantile(loss.level, 0.05)
    return Setting("scaled_descent", repr(loss), ROWS, usual, {"residual_loss": loss}, RESIDUAL)


IN_RESIDUALS = [residual(Huber(1.345)), residual(Quantile(0.5, 0.25)), residual(Quantile(0.999, 0.25))]
SETTINGS = [
    Setting("interactions", "numbers", RowSpec(8, 1.0, 0.5), Squared(), {"columns": TABLE}),
    Setting("interactions", "no intercept", RowSpec(8, 1.0), Squared(), {"columns": TABLE}),
    Setting("interactions", "two values", RowSpec(2, 1.0, 0.5), Squared(), {"columns": TWO}),
    Setting("interactions", "classes", RowSpec(8, 1.0, 0.5), Logistic(), {"columns": TABLE}),
    Setting("objective_perturbation", "labels", RowSpec(50, 1.0, 0.5), Logistic(), {}, {"label_share": 0.1}),
    Setting("heavy_tailed", "in scales", RowSpec(5, 1.0, 0.5), Squared(), {}, {"sparsity": 2}),
    *IN_RESIDUALS,
    Setting("descent", "svrg", ROWS, Logistic(), {}, SVRG),
    Setting("descent", "svrg in batches", ROWS, Squared(), {}, SVRG | {"rate": 0.1}),
]


def invented(measurement: Any, rng: np.random.Generator, size: float) -> Any:
    """An answer that has nothing to do with any table."""
    while isinstance(measurement, Mapped):
        measurement = measurement.measurement
    if isinstance(measurement, SampleSplitting):
        return drive(measurement.program(), lambda one: invented(one, rng, size))
    if isinstance(measurement, Noisy) and isinstance(measurement.mechanism, TopChoices):
        return rng.permutation(measurement.query.shape[0])[: len(measurement.blank())]
    step = measurement.query.grid if isinstance(measurement, Noisy) else 2.0**-20
    shape = np.shape(measurement.blank())
    values = (np.ones(shape), -np.ones(shape), rng.choice([-1.0, 0.0, 1.0], shape), rng.normal(size=shape))
    return step * size * np.asarray(values[rng.integers(4)])[()]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_events_are_those_of_the_rehearsal_whatever_was_answered(setting: Setting) -> None:
    for turn, n in enumerate((1.0, 60.0, 20_000.0)):
        unit, problem = Unit(("add-remove", "replace-one")[turn % 2]), setting.problem(n)
        solver = recipe(setting.solver)(problem, Guarantee(1.0, 1e-6, unit), **setting.options)
        plan = rehearse(solver, problem, unit)
        for seed in range(2 * len(SIZES) + 4):
            rng, heard = np.random.default_rng(seed), list[Any]()
            same = SIZES[seed % len(SIZES)] if seed < 2 * len(SIZES) else None

            def answer(
                measurement: Any, rng: Any = rng, heard: Any = heard, unit: Unit = unit, same: Any = same
            ) -> Any:
                heard.append(measurement.event(unit))
                return invented(measurement, rng, SIZES[rng.integers(len(SIZES))] if same is None else same)

            found = drive(solver.steps(problem), answer)
            assert heard == plan
            assert np.isfinite(found).all()


@pytest.mark.parametrize("setting", IN_RESIDUALS, ids=str)
@pytest.mark.parametrize("targets", [np.nan, np.inf, -np.inf, 0.3, 0.0, -1.0], ids=repr)
def test_residuals_of_a_few_rows_whose_targets_are_all_alike(setting: Setting, targets: float) -> None:
    for n in (0, 1, 3, 200):
        for unit, guarantee in ((Unit("add-remove"), 1.0), (Unit("replace-one"), 50.0)):
            problem = setting.problem(max(n, 1.0))
            solver = recipe(setting.solver)(problem, Guarantee(guarantee, 1e-6, unit), **setting.options)
            X = np.random.default_rng(0).normal(size=(n, ROWS.n_features))
            vault = Vault(in_memory(X, np.full(n, targets), ROWS), unit, Ledger(), Bits.seeded(1))
            assert np.isfinite(vault.run(solver, problem)).all()
