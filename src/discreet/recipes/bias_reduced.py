"""Settings of `discreet.solvers.bias_reduced` from public facts."""

from discreet.solvers.bias_reduced import default as recipe

__all__ = ["recipe"]
