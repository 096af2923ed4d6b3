"""Settings of `discreet.solvers.heavy_tailed` from public facts."""

from discreet.solvers.heavy_tailed import default as recipe

__all__ = ["recipe"]
