"""Attacks on two neighbouring datasets, and the ε that their errors prove."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
from scipy.stats import beta

CONFIDENCE = 0.999  # each bound fails with probability at most 1e-3


def proved_epsilon(with_row, without_row, delta, threshold=None):
    """A lower bound on ε at ``delta`` from the event {statistic > threshold}, wrong with probability ≤ 1 − CONFIDENCE.

    (ε, δ)-DP asks for P(event | D) ≤ e^ε·P(event | D') + δ in both directions. Both probabilities are replaced by
    Clopper–Pearson bounds, each at 1 − (1 − CONFIDENCE)/4. Without a ``threshold`` half of the runs choose one, for the
    others. For a likelihood ratio the best event against a claim ε is {log ratio > ε}, so its threshold is known before
    any run, and in the other direction it is {log ratio < −ε}.
    """
    with_row, without_row = np.ravel(with_row), np.ravel(without_row)
    if threshold is not None:
        forward = _one_sided(with_row > threshold, without_row > threshold, delta)
        return max(forward, _one_sided(without_row < -threshold, with_row < -threshold, delta))
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


def quieter(mechanism, factor=0.5):
    """The same solver or mechanism with ``factor`` times the noise, wherever in it noise is set."""
    changes = {}
    for field in fields(mechanism):
        value = getattr(mechanism, field.name)
        if field.name.endswith(("_multiplier", "_noise")) and value is not None:
            changes[field.name] = factor * value
        elif is_dataclass(value) and field.name in ("peeling", "scales", "solver", "descent"):
            changes[field.name] = quieter(value, factor)
    assert changes, f"{type(mechanism).__name__} has no noise to halve"
    return replace(mechanism, **changes)
