"""Settings of `discreet.solvers.descent` from public facts."""

from discreet.solvers.descent import default as recipe

__all__ = ["recipe"]
