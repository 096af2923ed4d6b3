"""Settings of `discreet.solvers.exponential_mechanism` from public facts."""

from discreet.solvers.exponential_mechanism import default as recipe

__all__ = ["recipe"]
