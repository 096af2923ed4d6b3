"""The bound of ℓ1 recovery against measured errors, and its parts against the matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.errors import HypothesisViolated
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.rows import RowSpec
from discreet.solvers.sparse_mean import RecoveredMean
from discreet.theory import l1_recovery, recovery_stretch


@pytest.mark.parametrize(("d", "s", "m"), [(2000, 1, 1000), (1000, 3, 900), (3000, 2, 1500)])
def test_recovered_means_are_within_the_bound(d: int, s: int, m: int) -> None:
    """Means of s-sparse rows at random and of one vertex: each exceeds the bound with probability below 0.05."""
    n, noise, rng = 20_000, 20.0, np.random.default_rng(d)
    bound = l1_recovery(n=n, d=d, s=s, bound=1.0, noise_multiplier=noise, sketch_rows=m).value
    assert bound < 2.0
    rows, errors = RowSpec(d, 1.0), []
    for seed in range(3):
        plan = RecoveredMean(noise, s, GaussianSketch(d, m, seed, recovery_stretch(n, m)))
        query = plan.measurement(rows).query
        one = np.zeros(d)
        one[:s] = 1 / math.sqrt(s)
        spread = np.bincount(rng.integers(d, size=s * 200), minlength=d) / (200 * math.sqrt(s))
        for mean in (one, spread):
            noisy = plan.sketch.apply(mean) + noise * query.bound * query.grid / n * rng.normal(size=m)
            errors.append(float(np.linalg.norm(plan.finish(n * noisy, rows, n) - mean)))
    assert max(errors) <= bound
    assert max(errors) > 0.02 * bound


def test_the_matrix_keeps_lengths_as_the_theorem_says() -> None:
    """Rows and columns of 20 matrices of 1000 columns: the stretch and the length of columns, each but for 1.25 %."""
    m, d, n = 400, 1000, 2000
    most = recovery_stretch(n, m)
    rng, longer = np.random.default_rng(0), 0
    for seed in range(20):
        sketch = GaussianSketch(d, m, seed)
        rows = rng.normal(size=(n, 3)) / math.sqrt(3)
        places = rng.integers(d, size=(n, 3))
        columns = np.asarray(sketch._columns, float) / math.sqrt(m)
        sketched = np.einsum("ij,ijk->ik", rows, columns[places])
        lengths = np.linalg.norm(sketched, axis=1)
        longer += bool((lengths > most * np.linalg.norm(rows, axis=1) * math.sqrt(3)).any())
        assert np.linalg.norm(columns, axis=1).max() <= 1 + math.sqrt(2 * math.log(4 * d / 0.05) / m)
    assert longer == 0
    assert most < 1.3


def test_it_falls_with_rows_and_is_capped() -> None:
    args = {"n": 10**6, "d": 10**4, "s": 4, "bound": 2.0, "noise_multiplier": 5.0}
    values = [l1_recovery(**args, sketch_rows=m).value for m in (10, 1000, 3000, 9000)]
    assert values[0] == 4.0
    assert values == sorted(values, reverse=True)
    assert values[-1] < 2.0
    with pytest.raises(HypothesisViolated, match="noise_multiplier"):
        l1_recovery(**args | {"noise_multiplier": 0.0}, sketch_rows=10)
    with pytest.raises(HypothesisViolated, match="failure"):
        recovery_stretch(10, 10, 1.0)
