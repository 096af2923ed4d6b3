"""A query under a mechanism on a batch: knows its event before it sees data."""

from discreet.measurements.base import Measurement, Noisy
from discreet.measurements.best_of import BestOf
from discreet.measurements.disjoint import Disjoint
from discreet.measurements.parts import Parts
from discreet.measurements.quantile import QuantileDraw
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling, Sampling
from discreet.measurements.together import Together

__all__ = [
    "BestOf",
    "Disjoint",
    "FixedSizeSampling",
    "Measurement",
    "Noisy",
    "Parts",
    "PoissonSampling",
    "QuantileDraw",
    "Sampling",
    "Together",
]
