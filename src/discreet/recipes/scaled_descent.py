"""Settings of `discreet.solvers.scaled_descent` from public facts."""

from discreet.solvers.scaled_descent import default as recipe

__all__ = ["recipe"]
