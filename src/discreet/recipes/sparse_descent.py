"""Settings of `discreet.solvers.sparse_descent` from public facts."""

from discreet.solvers.sparse_descent import default as recipe

__all__ = ["recipe"]
