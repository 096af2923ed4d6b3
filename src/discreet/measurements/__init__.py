"""Measurements: a query under a mechanism, on all rows or on a batch. Each knows its event before it sees data."""

from discreet.measurements.base import Measurement, Noisy
from discreet.measurements.best_of import BestOf
from discreet.measurements.joint import Joint
from discreet.measurements.last_iterate import LastIterate
from discreet.measurements.quantile import QuantileDraw
from discreet.measurements.random_allocation import RandomAllocation
from discreet.measurements.sample_splitting import SampleSplitting
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling, Sampling
from discreet.measurements.split_batch import SplitBatch

__all__ = [
    "BestOf",
    "FixedSizeSampling",
    "Joint",
    "LastIterate",
    "Measurement",
    "Noisy",
    "PoissonSampling",
    "QuantileDraw",
    "RandomAllocation",
    "SampleSplitting",
    "Sampling",
    "SplitBatch",
]
