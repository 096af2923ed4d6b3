"""Settings of `discreet.solvers.frank_wolfe` from public facts."""

from discreet.solvers.frank_wolfe import default as recipe

__all__ = ["recipe"]
