"""The choice of a vertex has the law of the exponential mechanism, on dense rows and, lazily, on sparse ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import chi2

from discreet.data.memory import in_memory
from discreet.geometry import L1Ball
from discreet.losses import Logistic
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice
from discreet.noise.bits import Bits
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.rows import RowSpec
from discreet.units import Unit

Floats = NDArray[np.float64]


@pytest.mark.parametrize("intercept", [0.0, 1.0])
def test_dense_and_sparse_choices_have_the_same_law(intercept: float) -> None:
    """χ² of 6000 choices after 12 steps, on sparse rows and on dense ones, against the exact probabilities.

    Fails with probability 1e-6 a case; a selection whose slopes were left at the start fails with near certainty.
    """
    rng = np.random.default_rng(2)
    X = np.where(rng.random((300, 8)) < 0.4, rng.uniform(0.3, 1, (300, 8)), 0.0)
    y = np.where(X[:, 0] + 0.2 * rng.normal(size=300) > 0.3, 1.0, -1.0)
    rows = RowSpec(8, norm=2.0, intercept=intercept)
    vertices, chosen, unit = whole_vertices(L1Ball(12.0), rows.dimension), ChosenVertices(), Unit("add-remove")
    sparse, dense = in_memory(sp.csr_array(X), y, rows), in_memory(X, y, rows)

    def query() -> VertexScores:
        return VertexScores(rows, Logistic(), vertices, chosen, 1.0)

    def p_value(data: object, expected: Floats, seed: int) -> float:
        bits, measurement = Bits.seeded(seed), VertexChoice(query(), Choice(12.0))
        draws = [measurement.sample(data, unit, bits) for _ in range(6000)]  # type: ignore[arg-type]
        counts, rare = np.bincount(draws, minlength=vertices.count), 6000 * expected < 10
        cells = np.append(counts[~rare], counts[rare].sum())  # rare vertices are one cell
        mean = np.maximum(6000 * np.append(expected[~rare], expected[rare].sum()), 1e-9)
        return float(chi2.sf(np.sum((cells - mean) ** 2 / mean), len(cells) - 1))

    def exact() -> Floats:
        tilt = query().integers(dense) / (12.0 * query().bound)
        weights = np.exp(tilt - tilt.max())
        return np.asarray(weights / weights.sum())

    start = exact()
    bits = Bits.seeded(1)
    for _ in range(12):
        chosen.append(VertexChoice(query(), Choice(12.0)).sample(sparse, unit, bits))
    assert p_value(sparse, exact(), 3) > 1e-6
    assert p_value(dense, exact(), 4) > 1e-6
    assert p_value(sparse, start, 5) < 1e-6
