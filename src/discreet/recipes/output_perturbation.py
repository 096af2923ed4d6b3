"""Settings of `discreet.solvers.output_perturbation` from public facts."""

from discreet.solvers.output_perturbation import default as recipe

__all__ = ["recipe"]
