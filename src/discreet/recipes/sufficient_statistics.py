"""Settings of `discreet.solvers.sufficient_statistics` from public facts."""

from discreet.solvers.sufficient_statistics import default as recipe

__all__ = ["recipe"]
