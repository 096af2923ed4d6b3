"""Settings of `discreet.solvers.boosted` from public facts."""

from discreet.solvers.boosted import default as recipe

__all__ = ["recipe"]
