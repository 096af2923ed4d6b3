"""A bound is proved for rows that were prepared by the query's own public facts; for others nothing is released."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball
from discreet.losses import Logistic
from discreet.measurements import Noisy, PoissonSampling, SplitBatch
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice, Gaussian
from discreet.noise import Bits
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.queries.sums.row_sum import RowSum
from discreet.rows import RowSpec
from discreet.units import Unit

UNIT = Unit("add-remove")
HERE, THERE = RowSpec(2, 1.0, 5.0), RowSpec(2, 1.0)
X, Y = np.array([[1e9, 0.0], [0.0, 1e9]]), np.array([1.0, -1.0])


def about(rows: RowSpec) -> list[Any]:
    minimiser = RidgeMinimiser(rows, Logistic(), 1.0)
    scores = VertexScores(rows, Logistic(), whole_vertices(L1Ball(1.0), rows.dimension), ChosenVertices(), 1.0)
    return [
        Noisy(RowSum(rows), Gaussian(1.0)),
        SplitBatch(RowSum(rows), Gaussian(1.0), PoissonSampling(0.5), 2),
        VertexChoice(scores, Choice(5.0)),
        PerturbedMinimum(minimiser, 1.0, 0.1, 1e-5),
        NoisyMinimum(minimiser, 1.0, 1e-5),
    ]


def test_a_bound_would_not_hold_for_rows_of_other_facts() -> None:
    assert RowSum(HERE).integers(in_memory(X[:1], Y[:1], THERE))[0] > 5 * RowSum(HERE).bound


@pytest.mark.parametrize("matrix", [X, sp.csr_array(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize("which", range(5))
def test_measurements_refuse_rows_of_other_facts(which: int, matrix: Any) -> None:
    bits = Bits.seeded(1)
    about(HERE)[which].sample(in_memory(matrix, Y, HERE), UNIT, bits)
    with pytest.raises(InvalidInput, match=r"[Nn]othing was released"):
        about(HERE)[which].sample(in_memory(matrix, Y, THERE), UNIT, bits)
