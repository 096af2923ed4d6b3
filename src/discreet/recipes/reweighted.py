"""Settings of `discreet.solvers.reweighted` from public facts."""

from discreet.solvers.reweighted import default as recipe

__all__ = ["recipe"]
