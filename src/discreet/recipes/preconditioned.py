"""Settings of `discreet.solvers.preconditioned` from public facts."""

from discreet.solvers.preconditioned import default as recipe

__all__ = ["recipe"]
