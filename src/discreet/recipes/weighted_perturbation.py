"""Settings of `discreet.solvers.weighted_perturbation` from public facts."""

from discreet.solvers.weighted_perturbation import default as recipe

__all__ = ["recipe"]
