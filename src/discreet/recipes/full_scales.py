"""Settings of descent through a noisy second moment (`discreet.solvers.parts.private_scales.Full`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.calibration.shares import multiplier
from discreet.errors import InvalidInput
from discreet.losses import Poisson, Squared
from discreet.queries.sums.moments import SecondMoment
from discreet.recipes import objective_perturbation, shared
from discreet.recipes.shared import clip_share, curvature_bound, first_slope
from discreet.solvers.base import Problem
from discreet.solvers.parts.private_scales import Full
from discreet.solvers.parts.requirements import require_bounded_rows
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "FullOptions", "FullScalesNumbers", "newton_steps", "ridge_growth", "settings"]


@dataclass(frozen=True)
class FullScalesNumbers(Tuned):
    """Tuned numbers of this file."""

    steps_per_root_dimension: float = tuned(18, "steps over √d under little noise", "sweep: steps")
    damping: float = tuned(1.5, "damping over the norm of the noise in XᵀX", "sweep: damping")
    prior_rows: float = tuned(2.0, "rows of prior in every direction, with targets at 0", "sweep: prior-rows")
    count_reach: float = tuned(
        8.0,
        "largest slope of counts over their mean, of which the clip is a share",
        "judgement: bench/results/counts.md, on synthetic counts; those of people spread more than Poisson's",
    )


NUMBERS = FullScalesNumbers()

_REFINEMENTS = 8  # without privacy one Newton step solves least squares; the others correct its rounding


@dataclass(frozen=True)
class FullOptions:
    """What a user may set; None leaves it to public facts.

    Args:
        target_bound: public bound on |y|, from which the clip comes; targets beyond it are allowed. None takes 1.
        clip: ℓ2 bound on a row's gradient; None takes between r·L/4 and r·L, L the largest slope at θ = 0, the less the
            more noise.
        iterations: None takes 18√d, at most 400, and fewer under much noise; 400 for losses of curvature above 1;
            without privacy 8 for squared loss, else 2000.
        moment_share: of the budget (in 1/σ²) for XᵀX; None takes 0.1. Counts take half as much for their mean.
        damping: see `Full`; None takes 1.5, or more where even one step would fit noise.
    """

    target_bound: float | None = None
    clip: float | None = None
    iterations: int | None = None
    moment_share: float | None = None
    damping: float | None = None


def settings(problem: Problem, guarantee: Guarantee, asked: FullOptions) -> ScaledDescent:
    """A private Newton method, with the least noise that keeps the guarantee.

    Args:
        problem: any loss; a constraint must have a projection.
        guarantee: what must be kept.
        asked: options of the user.

    Raises:
        InvalidInput: a share outside (0, 1), a set without projection, both clip and target_bound, or unbounded rows
            with counts.
    """
    part = current(shared.NUMBERS).large_share if asked.moment_share is None else asked.moment_share
    if not 0 < part < (2 / 3 if isinstance(problem.loss, Poisson) else 1):
        raise InvalidInput(f"moment_share must be in (0, 1), got {asked.moment_share!r}.")
    if asked.clip is not None and asked.target_bound is not None:
        raise InvalidInput("target_bound chooses the clip, which was given too: leave one out.")
    SecondMoment(problem.rows)  # refuses what is too wide, before anything is chosen
    numbers, most, growth = current(NUMBERS), _steps(problem, guarantee), _ridge_growth(problem, guarantee)
    steps = max(1, math.ceil(most / growth)) if asked.iterations is None else asked.iterations
    held = numbers.damping * max(1.0, growth / most) if asked.damping is None else asked.damping
    largest = _largest_gradient(problem, guarantee, 1.0 if asked.target_bound is None else asked.target_bound)
    curvature = curvature_bound(problem)
    prior = numbers.prior_rows / max(1.0, curvature)  # rows of a curvature of at most 1

    mean_part = _mean_part(problem, guarantee, part)

    def make(noise: float) -> ScaledDescent:
        bound = largest * clip_share(problem, noise) if guarantee.private else largest
        return ScaledDescent(
            scales=Full(
                multiplier(noise, part),
                curvature,
                held,
                prior,
                multiplier(noise, mean_part) if mean_part else 0.0,
                numbers.count_reach,
            ),
            noise_multiplier=noise * math.sqrt(steps / (1 - part - mean_part)),
            iterations=steps,
            clip=bound if asked.clip is None else asked.clip,
        )

    return calibrated(make, problem, guarantee)


def _mean_part(problem: Problem, guarantee: Guarantee, part: float) -> float:
    """The share of the budget for the mean of counts: half of that for XᵀX; 0 for other losses, or no intercept."""
    counts = isinstance(problem.loss, Poisson) and bool(problem.rows.intercept)
    return part / 2 if counts and guarantee.private else 0.0


def _largest_gradient(problem: Problem, guarantee: Guarantee, target_bound: float) -> float:
    """The longest gradient at θ = 0, of which a share is the clip; without privacy only counts are clipped.

    Their curvature grows with the score without limit, and a clipped slope is flat where it would exceed its bound.
    """
    counts = isinstance(problem.loss, Poisson)
    if counts:
        require_bounded_rows(problem, "a fit of counts through a second moment")
    largest = problem.rows.radius * first_slope(problem, target_bound)
    return largest if guarantee.private or counts else math.inf


def _steps(problem: Problem, guarantee: Guarantee) -> int:
    """`newton_steps`; as many as at all where the curvature bound is that of a kink or of counts, and without privacy.

    Most rows have far less curvature than such a bound.
    """
    limits = current(shared.NUMBERS)
    if not guarantee.private:
        return _REFINEMENTS if isinstance(problem.loss, Squared) else limits.exact_iterations
    return limits.most_iterations if curvature_bound(problem) > 1 else newton_steps(problem)


def newton_steps(problem: Problem) -> int:
    """T = 18√d, so that the ridge λ/T is as large as the noise of the gradients asks for, whatever the budget.

    In directions of curvature below τ/|θ_j| the gradients' noise τ = C/μ exceeds the gradients. λ = √(2d)·r²/(μ√share)
    is in proportion to τ, and |θ_j| ≈ ‖θ‖/√d, so λ/T = τ/|θ_j| asks for T ∝ r‖θ‖; scores of the size of the targets
    from rows whose variance is spread over d directions have r‖θ‖ ∝ √d. The constant is from simulations.
    """
    steps = math.ceil(current(NUMBERS).steps_per_root_dimension * math.sqrt(problem.rows.dimension))
    return min(current(shared.NUMBERS).most_iterations, steps)


def _ridge_growth(problem: Problem, guarantee: Guarantee) -> float:
    """`ridge_growth`; 1 without privacy, and where a curvature bound above 1 makes steps short and the ridge large."""
    return ridge_growth(problem, guarantee) if guarantee.private and curvature_bound(problem) <= 1 else 1.0


def ridge_growth(problem: Problem, guarantee: Guarantee) -> float:
    """1 + s/0.1: how often as large the ridge λ/T is for noise s = √min(d, n)·κ/n in the mean gradient over its bound.

    First by fewer steps, then by more damping. Coefficients that cannot be distinguished from noise are then shrunk to
    0, and the prediction is near where the descent began, the middle of the targets' bounds or their location.
    """
    d, n = problem.rows.dimension, problem.n
    doubling = current(objective_perturbation.NUMBERS).doubling_noise
    return 1 + math.sqrt(min(d, n)) * rough_multiplier(guarantee) / (doubling * n)
