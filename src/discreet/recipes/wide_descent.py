"""Settings of `discreet.solvers.wide_descent` from public facts."""

from discreet.solvers.wide_descent import default as recipe

__all__ = ["recipe"]
