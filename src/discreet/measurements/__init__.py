"""A query under a mechanism on a batch: knows its event before it sees data."""

from discreet.measurements.base import Measurement, Noisy
from discreet.measurements.disjoint import Disjoint
from discreet.measurements.quantile import QuantileDraw
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling, Sampling
from discreet.measurements.together import Together

__all__ = [
    "Disjoint",
    "FixedSizeSampling",
    "Measurement",
    "Noisy",
    "PoissonSampling",
    "QuantileDraw",
    "Sampling",
    "Together",
]
