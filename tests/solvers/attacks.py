"""A likelihood-ratio attack on two neighbouring datasets, and the ε that its errors prove."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import beta

CONFIDENCE = 0.999  # each bound fails with probability at most 1e-3


def proved_epsilon(with_row, without_row, delta):
    """A lower bound on ε at ``delta`` from the event {statistic > threshold}, threshold chosen on half the runs.

    (ε, δ)-DP asks for P(event | D) ≤ e^ε·P(event | D') + δ in both directions. Both probabilities are replaced by
    Clopper–Pearson bounds from the runs that did not choose the threshold, each at 1 − (1 − CONFIDENCE)/4.
    """
    with_row, without_row = np.asarray(with_row), np.asarray(without_row)
    half = len(with_row) // 2
    grid = np.quantile(np.concatenate([with_row[:half], without_row[:half]]), np.linspace(0.01, 0.99, 99))
    best = max(grid, key=lambda t: _epsilon(with_row[:half] > t, without_row[:half] > t, delta))
    return _epsilon(with_row[half:] > best, without_row[half:] > best, delta)


def _epsilon(hits, misses, delta):
    return max(_one_sided(hits, misses, delta), _one_sided(~misses, ~hits, delta))


def _one_sided(hits, misses, delta):
    level = (1 - CONFIDENCE) / 4
    k, n, m = int(hits.sum()), len(hits), int(misses.sum())
    low = beta.ppf(level, k, n - k + 1) if k else 0.0
    high = beta.ppf(1 - level, m + 1, n - m) if m < n else 1.0
    return math.log((low - delta) / high) if low > delta else 0.0


def gaussian_transcript_ratio(solver, problem, rows_in, rows_out, present, unit, bits, known):
    """log p(transcript | rows_in)/p(transcript | rows_out) of one run on rows_in (``present``) or rows_out.

    Every release must be Gaussian. This is the best statistic there is, against the whole run and not its result alone.
    ``known`` remembers the exact sums of queries that do not depend on θ from run to run.
    """
    from discreet.solvers.rehearsal import drive

    ratio = 0.0

    def answer(measurement):
        nonlocal ratio
        value = measurement.sample(rows_in if present else rows_out, unit, bits)
        query = measurement.query
        sigma = measurement.mechanism.noise_multiplier * query.bound * query.grid
        kind = type(query).__name__
        if kind not in known or hasattr(query, "theta"):
            known[kind] = [query.grid * query.integers(rows).astype(float) for rows in (rows_in, rows_out)]
        one, zero = known[kind]
        ratio += float(((value - zero) ** 2 - (value - one) ** 2).sum()) / (2 * sigma**2)
        return value

    drive(solver.steps(problem), answer)
    return ratio
