"""Vertices in whole numbers: the iterate that chosen ones lead to, and sets that have none."""

from __future__ import annotations

import numpy as np
import pytest
from tests.queries.frank_wolfe.cases import SETS, D, after_steps

from discreet.errors import InvalidInput
from discreet.geometry import L1Ball, L2Ball
from discreet.geometry.base import Geometry
from discreet.queries.frank_wolfe.vertices import CoordinateVertices, whole_vertices


@pytest.mark.parametrize("domain", SETS, ids=lambda s: type(s).__name__)
def test_the_iterate_is_that_of_frank_wolfe(domain: Geometry) -> None:
    """Weights 1, 2, 3, … over their sum are what steps of 2/(t + 2) give."""
    vertices, chosen = after_steps(domain, D, 40)
    theta = np.zeros(D)
    for t, vertex in enumerate(chosen.indices):
        theta += 2 / (t + 2) * (domain.atom(vertex, D) - theta)  # type: ignore[attr-defined]
    whole, step = vertices.point(chosen.indices)
    assert np.allclose(whole * step, theta, rtol=1e-9, atol=1e-9 * np.abs(theta).max())
    assert np.array_equal(whole, np.rint(whole))


def test_bad_input() -> None:
    assert isinstance(whole_vertices(L1Ball(1.0), D), CoordinateVertices)
    with pytest.raises(InvalidInput, match="no finite list of vertices"):
        whole_vertices(L2Ball(1.0), D)
    with pytest.raises(InvalidInput, match="6 coordinates"):
        whole_vertices(SETS[3], D + 1)
