"""Thresholding: the risk estimates are unbiased, and the threshold chosen is near the best."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.solvers.parts.shrinkage import best_threshold, risk_estimate, soft


def draw(rng: np.random.Generator, noise: str, scale: float, size: object) -> np.ndarray:
    return scale * (rng.normal(size=size) if noise == "gaussian" else rng.laplace(size=size))


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("threshold", [0.0, 0.7, 2.0, 5.0])
def test_risk_estimates_are_unbiased(noise: str, threshold: float) -> None:
    """Mean of estimate minus loss over 4000 draws within five standard errors of 0 (p < 1e-6)."""
    rng = np.random.default_rng(0)
    m = np.array([0.0, 0.3, -1.0, 2.5, 6.0, -0.1])
    gaps = []
    for y in m + draw(rng, noise, 1.3, (4000, 6)):
        loss = ((soft(y, threshold) - m) ** 2).sum()
        estimate = risk_estimate(np.sort(np.abs(y)), np.array([threshold]), 1.3, noise)[0]  # type: ignore[arg-type]
        gaps.append(estimate - loss)
    assert abs(np.mean(gaps)) <= 5 * np.std(gaps) / np.sqrt(len(gaps)) + 1e-12


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.3, 1.0])
def test_the_threshold_is_near_the_best(noise: str, share: float) -> None:
    """From no signal at all to signal everywhere, the error is within a fifth of the best fixed threshold's."""
    rng = np.random.default_rng(1)
    d = 20_000
    m = np.where(np.arange(d) < share * d, 8.0, 0.0)
    y = m + draw(rng, noise, 1.0, d)
    errors = [np.linalg.norm(soft(y, t) - m) for t in np.linspace(0, 12, 121)]
    chosen = np.linalg.norm(soft(y, best_threshold(y, 1.0, noise)) - m)  # type: ignore[arg-type]
    assert chosen <= 1.2 * min(errors) + 8.0


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
    found = recover(sketch, b, noise * np.sqrt(2 * np.log(2000)), iterations=2000, tolerance=1e-7)
    assert np.linalg.norm(found - x) < 0.15 * np.linalg.norm(x)
    # optimality: |Aᵀ(Ax − b)| ≤ λ, with equality of opposite sign where x ≠ 0
    slope = sketch.adjoint(sketch.apply(found) - b)
    penalty = noise * np.sqrt(2 * np.log(2000))
    assert np.abs(slope).max() <= penalty * 1.01
    assert np.allclose(slope[found != 0], -penalty * np.sign(found[found != 0]), rtol=0.02)
