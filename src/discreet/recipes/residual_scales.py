"""Settings of descent in the unit of the residuals (`discreet.solvers.parts.private_scales.Residual`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.shares import multiplier, remaining_share
from discreet.losses import Quantile
from discreet.queries.sums.moments import SecondMoment
from discreet.recipes import full_scales, shared
from discreet.recipes.single_scales import asked_for_scales
from discreet.solvers.base import Problem
from discreet.solvers.parts import location_scale, residual_scale
from discreet.solvers.parts.private_scales import Residual
from discreet.solvers.parts.requirements import require_bounded_rows
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.tuned import current

__all__ = ["ResidualOptions", "settings"]


@dataclass(frozen=True)
class ResidualOptions:
    """What a user may set; None leaves it to public facts.

    Args:
        clip: ℓ2 bound on a row's gradient over the largest slope of the loss; None takes the length of the longest row.
        iterations: None takes 18√d, at most 400, and fewer under much noise; without privacy 400.
        moment_share: of the budget (in 1/σ²) for XᵀX; None takes 0.1.
        damping: see `Residual`; None takes 1.5, or more where even one step would fit noise.
        scale_share: of the budget for location and scale of the targets; None takes 0.05, or more under much noise.
        spread_share: of the budget for the spread of the residuals, and again for a quantile's coverage; None takes
            0.05.
    """

    clip: float | None = None
    iterations: int | None = None
    moment_share: float | None = None
    damping: float | None = None
    scale_share: float | None = None
    spread_share: float | None = None


def settings(problem: Problem, guarantee: Guarantee, asked: ResidualOptions) -> ScaledDescent:
    """Noise from the accountant, scales from private estimates, everything else from public facts.

    Args:
        problem: Huber or quantile regression in units of the residuals, an intercept, no constraint, no ridge.
        guarantee: what must be kept.
        asked: options of the user.

    Raises:
        InvalidInput: another loss, a constraint, a ridge, no intercept, rows without bound, pure DP, or shares that
            leave nothing.
    """
    usual, newton = current(shared.NUMBERS), current(full_scales.NUMBERS)
    free = Residual(0.0, 0.0, 0.0)
    free.check(problem)
    SecondMoment(problem.rows)  # refuses what is too wide, before anything is chosen
    if not guarantee.private:
        steps = usual.most_iterations if asked.iterations is None else asked.iterations
        return ScaledDescent(free, 0.0, steps, math.inf if asked.clip is None else asked.clip)
    require_bounded_rows(problem, "descent in the unit of the residuals")
    needed = min(0.5, max(usual.estimate_share, asked_for_scales(problem, guarantee)))
    spread = usual.estimate_share if asked.spread_share is None else asked.spread_share
    shares = {
        "moment_share": usual.large_share if asked.moment_share is None else asked.moment_share,
        "scale_share": needed if asked.scale_share is None else asked.scale_share,
        "spread_share": spread,
    }
    covered = {"spread_share, for the coverage": spread} if isinstance(problem.loss, Quantile) else {}
    left = remaining_share("gradients", shares | covered)
    most, growth = full_scales.newton_steps(problem), full_scales.ridge_growth(problem, guarantee)
    count = max(1, math.ceil(most / growth)) if asked.iterations is None else asked.iterations
    damping = newton.damping * max(1.0, growth / most) if asked.damping is None else asked.damping
    searches = current(location_scale.NUMBERS).steps
    checks = current(residual_scale.NUMBERS).coverage_steps

    def make(noise: float) -> ScaledDescent:
        return ScaledDescent(
            Residual(
                scale_multiplier=noise * math.sqrt(searches / shares["scale_share"]),
                moment_multiplier=multiplier(noise, shares["moment_share"]),
                spread_multiplier=multiplier(noise, spread),
                coverage_multiplier=noise * math.sqrt(checks / spread) if covered else 0.0,
                damping=damping,
            ),
            noise_multiplier=noise * math.sqrt(count / left),
            iterations=count,
            clip=problem.rows.radius if asked.clip is None else asked.clip,
        )

    return calibrated(make, problem, guarantee)
