"""Recovery of a sparse vector from a noisy sketch: its error, and the optimality condition of its minimum."""

from __future__ import annotations

import numpy as np


def test_recovery_finds_a_sparse_vector() -> None:
    """20 entries of 2000 from 400 sketch rows, with noise that no single entry stands out from by less than 8σ."""
    from discreet.queries.sums.sketch import Sketch
    from discreet.solvers.parts.l1_recovery import recover

    rng = np.random.default_rng(2)
    sketch = Sketch(2000, 100, 4, seed=3)
    x = np.zeros(2000)
    x[rng.choice(2000, 20, replace=False)] = rng.choice([-1.0, 1.0], 20)
    noise = 0.02
    b = sketch.apply(x) + noise * rng.normal(size=sketch.rows)
    found = recover(sketch, b, noise * np.sqrt(2 * np.log(2000)), 40.0, iterations=4000, tolerance=1e-6)
    assert np.linalg.norm(found - x) < 0.15 * np.linalg.norm(x)
    # optimality: |Aᵀ(Ax − b)| ≤ λ, with equality of opposite sign where x ≠ 0
    slope = sketch.adjoint(sketch.apply(found) - b)
    penalty = noise * np.sqrt(2 * np.log(2000))
    assert np.abs(slope).max() <= penalty * 1.01
    assert np.allclose(slope[found != 0], -penalty * np.sign(found[found != 0]), rtol=0.02)
