"""Settings of `discreet.solvers.objective_perturbation` from public facts."""

from discreet.solvers.objective_perturbation import default as recipe

__all__ = ["recipe"]
