"""Settings of `discreet.solvers.hard_threshold` from public facts."""

from discreet.solvers.hard_threshold import default as recipe

__all__ = ["recipe"]
