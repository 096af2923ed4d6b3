"""What the bounds of `discreet.planning.predicted` assume of a problem: public facts, as numbers and as checks."""

from __future__ import annotations

import math

import numpy as np

from discreet.geometry import L1Ball, L2Ball, SparseSet, WholeSpace
from discreet.losses import Domain
from discreet.recipes import shared
from discreet.solvers.base import Problem
from discreet.theory.bound import require
from discreet.tuned import current

__all__ = ["dimension", "distance", "gradient_bound", "score_bound", "target_length", "unconstrained", "uncut"]


def dimension(problem: Problem) -> int:
    """The number of coefficients."""
    return math.prod(problem.rows.shape)


def score_bound() -> float:
    """The largest score of the minimiser that bounds are stated for: what recipes expect of the best model."""
    return current(shared.NUMBERS).score_bound


def target_length(problem: Problem) -> float:
    """The length of the minimiser that is looked for."""
    return min(score_bound() / problem.rows.radius, problem.domain.radius_in(dimension(problem)))


def distance(problem: Problem) -> float:
    """How far the minimiser that is looked for may be from where a descent starts."""
    begins_at_zero = problem.initial is None and isinstance(problem.domain, WholeSpace | L1Ball | L2Ball | SparseSet)
    start = 0.0 if begins_at_zero else float(np.linalg.norm(problem.start))
    return min(target_length(problem) + start, problem.domain.diameter(dimension(problem)))


def gradient_bound(problem: Problem, slope_bound: float) -> float:
    """The ℓ2 bound on a row's gradient, by the cut or by the loss itself."""
    return min(slope_bound, problem.loss.lipschitz(Domain()) * problem.rows.radius)


def uncut(problem: Problem, gradient_bound: float, radius: float = math.inf) -> None:
    """Refuses a bound on rows' gradients that some model of length ``radius`` exceeds."""
    scores = Domain(score_bound=problem.rows.radius * radius, target_low=-1.0, target_high=1.0)
    longest = problem.loss.lipschitz(scores) * problem.rows.radius
    require(
        gradient_bound * (1 + 1e-9) >= longest,
        f"gradients that are not cut: they may be {longest:.4g} long and are cut at {gradient_bound:.4g}",
    )


def unconstrained(problem: Problem) -> None:
    """A projected minimiser of the whole space is not the minimiser over the set: no theorem covers it."""
    require(isinstance(problem.domain, WholeSpace), "a problem without constraint")
