"""Settings of the private Newton method (`discreet.solvers.preconditioned`) from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.calibration.shares import multiplier
from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.queries.sums.moments import SecondMoment
from discreet.recipes import objective_perturbation, shared
from discreet.recipes.shared import clip_share, slope_at_zero
from discreet.solvers.base import Problem
from discreet.solvers.preconditioned import Preconditioned
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "PreconditionedNumbers", "recipe"]


@dataclass(frozen=True)
class PreconditionedNumbers(Tuned):
    """Tuned numbers of this recipe."""

    steps_per_root_dimension: float = tuned(18, "steps over √d under little noise", "sweep: steps")
    damping: float = tuned(1.5, "damping over the norm of the noise in XᵀX", "sweep: damping")
    prior_rows: float = tuned(2.0, "rows of prior in every direction, with targets at 0", "sweep: prior-rows")


NUMBERS = PreconditionedNumbers()

_REFINEMENTS = 8  # without privacy one Newton step solves least squares; the others correct its rounding


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    target_bound: float | None = None,
    clip: float | None = None,
    iterations: int | None = None,
    share: float | None = None,
    damping: float | None = None,
) -> Preconditioned:
    """The private Newton method with the least noise that keeps the guarantee.

    Args:
        problem: a smooth loss with one output; a constraint must have a projection.
        guarantee: what must be kept.
        target_bound: public bound on |y|, from which the clip comes; targets beyond it are allowed. None takes 1.
        clip: ℓ2 bound on a row's gradient; None takes between r·L/4 and r·L, L the largest |slope| at
            θ = 0, the less the more noise.
        iterations: None takes 18√d, at most 400, and fewer under much noise; without privacy 8 for squared loss, else
            2000.
        share: of the budget (in 1/σ²) for XᵀX; None takes 0.1.
        damping: see `Preconditioned`; None takes 1.5, or more where even one step would fit noise.

    Raises:
        InvalidInput: a share outside (0, 1), a loss without smoothness, a set without projection, or both clip and
            target_bound.
    """
    part = current(shared.NUMBERS).large_share if share is None else share
    if not 0 < part < 1:
        raise InvalidInput(f"share must be in (0, 1), got {share!r}.")
    if clip is not None and target_bound is not None:
        raise InvalidInput("target_bound chooses the clip, which was given too: leave one out.")
    SecondMoment(problem.rows)  # refuses what is too wide, before anything is chosen
    most, growth = _steps(problem, guarantee), _ridge_growth(problem, guarantee)
    steps = max(1, math.ceil(most / growth)) if iterations is None else iterations
    numbers = current(NUMBERS)
    held = numbers.damping * max(1.0, growth / most) if damping is None else damping
    largest = problem.rows.radius * slope_at_zero(problem, 1.0 if target_bound is None else target_bound)

    def make(noise: float) -> Preconditioned:
        return Preconditioned(
            noise_multiplier=noise * math.sqrt(steps / (1 - part)),
            moment_multiplier=multiplier(noise, part),
            iterations=steps,
            clip=clip if clip is not None else largest * clip_share(problem, noise) if guarantee.private else math.inf,
            damping=held,
            prior_rows=numbers.prior_rows,
        )

    return calibrated(make, problem, guarantee)


def _steps(problem: Problem, guarantee: Guarantee) -> int:
    """T = 18√d, so that the ridge λ/T is as large as the noise of the gradients asks for, whatever the budget.

    In directions of curvature below τ/|θ_j| the gradients' noise τ = C/μ exceeds the gradients. λ = √(2d)·r²/(μ√share)
    is in proportion to τ, and |θ_j| ≈ ‖θ‖/√d, so λ/T = τ/|θ_j| asks for T ∝ r‖θ‖; scores of the size of the targets
    from rows whose variance is spread over d directions have r‖θ‖ ∝ √d. The constant is from simulations.
    """
    limits = current(shared.NUMBERS)
    if not guarantee.private:
        return _REFINEMENTS if isinstance(problem.loss, Squared) else limits.exact_iterations
    steps = math.ceil(current(NUMBERS).steps_per_root_dimension * math.sqrt(problem.rows.dimension))
    return min(limits.most_iterations, steps)


def _ridge_growth(problem: Problem, guarantee: Guarantee) -> float:
    """1 + s/0.1: how often as large the ridge λ/T is for noise s = √min(d, n)·κ/n in the mean gradient over its bound.

    First by fewer steps, then by more damping. Coefficients that cannot be distinguished from noise are then shrunk to
    0, and the prediction is near the middle of the targets' bounds.
    """
    if not guarantee.private:
        return 1.0
    d, n = problem.rows.dimension, problem.n
    doubling = current(objective_perturbation.NUMBERS).doubling_noise
    return 1 + math.sqrt(min(d, n)) * rough_multiplier(guarantee) / (doubling * n)
