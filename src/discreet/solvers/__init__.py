"""Solvers, one file an algorithm, and the recipes that set each one up from public facts."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from discreet.errors import InvalidInput, did_you_mean
from discreet.solvers.base import Filtered, Problem, Solver, Steps
from discreet.solvers.planning import Guarantee

__all__ = ["RECIPES", "Filtered", "Guarantee", "Problem", "Solver", "Steps", "recipe"]

RECIPES = (
    "bias_reduced",
    "boosted",
    "descent",
    "exponential_mechanism",
    "frank_wolfe",
    "hard_threshold",
    "heavy_tailed",
    "objective_perturbation",
    "output_perturbation",
    "preconditioned",
    "reweighted",
    "scaled_descent",
    "sparse_descent",
    "sufficient_statistics",
    "weighted_perturbation",
    "wide_descent",
)
"""Names of solvers: each is a module of this room whose ``default`` sets the solver up."""


def recipe(name: str) -> Callable[..., Any]:
    """``default`` of the solver called ``name``."""
    if name not in RECIPES:
        guess = did_you_mean(name, RECIPES)
        raise InvalidInput(f"unknown solver {name!r}; choose 'auto' or one of {', '.join(RECIPES)}.{guess}")
    chosen: Callable[..., Any] = importlib.import_module(f"discreet.solvers.{name}").default
    return chosen
