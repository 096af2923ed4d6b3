"""Solvers, one file an algorithm: a dataclass of settings and the generator `steps`, which holds no data."""

from discreet.solvers.base import Filtered, Problem, Solver, Steps

__all__ = ["Filtered", "Problem", "Solver", "Steps"]
