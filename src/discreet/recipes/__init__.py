"""Recipes, one file a solver: from public facts and a guarantee to the settings of the solver.

A recipe reads a `Problem` (public facts only) and a `Guarantee`, and returns the solver with its steps, clips and
noise. Its keyword arguments are the options that a user may set; every other number that it needs is a field of one
frozen dataclass in the same file, with its meaning and its source (`discreet.tuned`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from discreet.errors import InvalidInput, did_you_mean

__all__ = ["INFERRING", "OF_MANY_ROWS", "RECIPES", "STARTED", "recipe"]

RECIPES = (
    "bias_reduced",
    "boosted",
    "descent",
    "exponential_mechanism",
    "frank_wolfe",
    "hard_threshold",
    "heavy_tailed",
    "interactions",
    "intervals",
    "objective_perturbation",
    "output_perturbation",
    "scaled_descent",
    "sparse_descent",
    "sufficient_statistics",
    "weighted_perturbation",
)
"""Names of the solvers of linear models: each is a module of this room."""
STARTED = ("descent", "hard_threshold")
"""Solvers that begin where they are told to, at ``Problem.start``."""
INFERRING = ("intervals",)
"""Solvers that release what intervals of coefficients need: naming one asks for them, as ``inference=True`` does."""
OF_MANY_ROWS = ("descent",)
"""Solvers whose sums are exact for more than `discreet.rows.MOST_ROWS` rows."""
_OF_MEANS = "sparse_mean"
_FORMER = {"preconditioned": "full", "reweighted": "diagonal", "wide_descent": "single"}
"""Solvers that are now scale models of scaled_descent."""


def recipe(name: str) -> Callable[..., Any]:
    """The recipe of the solver called ``name``: a function of a problem, a guarantee and the solver's options."""
    if name in _FORMER:
        raise InvalidInput(
            f"solver {name!r} is now solver='scaled_descent' with solver_options={{'scales': {_FORMER[name]!r}}} "
            f"(on the command line --solver scaled_descent --option scales={_FORMER[name]})."
        )
    if name not in (*RECIPES, _OF_MEANS):
        guess = did_you_mean(name, RECIPES)
        raise InvalidInput(f"unknown solver {name!r}; choose 'auto' or one of {', '.join(RECIPES)}.{guess}")
    chosen: Callable[..., Any] = importlib.import_module(f"discreet.recipes.{name}").recipe
    return chosen
