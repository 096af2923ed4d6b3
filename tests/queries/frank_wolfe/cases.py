"""Sets, chosen vertices and rows for the tests of vertex scores."""

from __future__ import annotations

import numpy as np

from discreet.geometry import GroupInfL1Ball, L1Ball, Polytope, Simplex
from discreet.geometry.base import Geometry
from discreet.queries.frank_wolfe.scores import ChosenVertices
from discreet.queries.frank_wolfe.vertices import Vertices, whole_vertices

D = 6
RNG = np.random.default_rng(0)
SETS: list[Geometry] = [
    L1Ball(3.0),
    Simplex(0.7),
    GroupInfL1Ball([0, 0, 1, 2, 2, 2], 1.5),
    Polytope(RNG.normal(size=(15, D)) * 10.0 ** RNG.integers(-3, 3, (15, 1))),
]


def after_steps(domain: Geometry, d: int, steps: int, seed: int = 0) -> tuple[Vertices, ChosenVertices]:
    vertices, chosen = whole_vertices(domain, d), ChosenVertices()
    for vertex in np.random.default_rng(seed).integers(0, vertices.count, steps):
        chosen.append(int(vertex))
    return vertices, chosen
