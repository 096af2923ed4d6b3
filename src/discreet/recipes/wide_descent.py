"""Settings of descent in private scales (`discreet.solvers.wide_descent`) from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.errors import InvalidInput
from discreet.queries.sums.sign_sums import SignSums
from discreet.recipes import shared
from discreet.solvers.base import Problem
from discreet.solvers.parts import location_scale, mean_offset
from discreet.solvers.wide_descent import WideDescent, check
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "WideDescentNumbers", "recipe"]


@dataclass(frozen=True)
class WideDescentNumbers(Tuned):
    """Tuned numbers of this recipe."""

    noise_share: float = tuned(
        0.25,
        "noise that a fit bears: of the gradients in scores over the scale of targets, of the mean signs in the search "
        "for scales if it were one release, of the location alone over the bound on targets",
        "sweep: wide-noise",
    )


NUMBERS = WideDescentNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    noise_share: float | None = None,
    scale_share: float | None = None,
    offset_share: float | None = None,
    target_bound: float | None = None,
) -> WideDescent:
    """Noise from the accountant, scales from private estimates, everything else from public facts.

    Args:
        problem: squared loss, an intercept, no constraint, no ridge.
        guarantee: what to keep.
        iterations: number of gradients; given one, weights are learnt however strong the noise.
        clip: slope at which residuals are clipped, in scales of the targets; None takes 0.1.
        noise_share: κ, the noise of gradients in scores over the scale of targets; None takes 0.25.
        scale_share: of the budget (in 1/σ²) for the estimates of location and scale; given one, weights are learnt
            however strong the noise.
        offset_share: of the budget for the offset; None takes 0.05.
        target_bound: public bound on |y|, where searches begin and end; None takes 1.

    Raises:
        InvalidInput: another loss, a constraint, a ridge, no intercept, pure DP, or shares that leave nothing.

    Example:
        >>> from discreet.losses import Squared
        >>> from discreet.rows import RowSpec
        >>> from discreet.units import Unit
        >>> problem = Problem(RowSpec(4000, 1.0, 0.5), Squared(), 60.0)
        >>> [recipe(problem, Guarantee(e, 1e-4, Unit("add-remove"))).iterations for e in (0.5, 8.0)]
        [0, 118]
    """
    check(problem)
    bound = 1.0 if target_bound is None else target_bound
    usual = current(shared.NUMBERS).estimate_share
    if not guarantee.private:
        steps = current(shared.NUMBERS).exact_iterations if iterations is None else iterations
        return WideDescent(0.0, 0.0, 0.0, steps, math.inf, math.inf, bound)
    asked = _asked_for_scales(problem, guarantee)
    shares = {
        "scale_share": min(0.5, max(usual, asked)) if scale_share is None else scale_share,
        "offset_share": usual if offset_share is None else offset_share,
    }
    remaining_share("gradients", shares)
    if iterations is None and scale_share is None and asked > 0.5:
        _refuse_without_effect(problem, clip=clip, noise_share=noise_share, offset_share=offset_share)
        return _location_alone(problem, guarantee, bound)
    slope = current(mean_offset.NUMBERS).small if clip is None else clip
    return _with_weights(problem, guarantee, shares, iterations, slope, noise_share, bound)


def _asked_for_scales(problem: Problem, guarantee: Guarantee) -> float:
    """The share (b·κ/(n·¼))² with which mean signs are off by ¼; b is the bound of one release of signs.

    Where it would be more than half of the budget the location of the targets alone is estimated.
    """
    noise = SignSums.bound * SignSums.grid * gaussian_multiplier(guarantee) / problem.n
    return (noise / current(NUMBERS).noise_share) ** 2


def _refuse_without_effect(problem: Problem, **options: float | None) -> None:
    if any(value is not None for value in options.values()):
        raise InvalidInput(
            f"with {problem.n:g} rows at this budget only the targets' centre can be learnt, so that clip, noise_share "
            "and offset_share would have no effect; give iterations or scale_share to learn weights all the same."
        )


def _location_alone(problem: Problem, guarantee: Guarantee, bound: float) -> WideDescent:
    """The whole budget for the location of the targets: a path of 2 bounds, or as long as adds noise of a quarter."""
    share, steps, sizes = (
        current(NUMBERS).noise_share,
        current(location_scale.NUMBERS).steps,
        current(mean_offset.NUMBERS),
    )

    def make(noise: float) -> WideDescent:
        length = min(sizes.large, share * problem.n / noise)
        return WideDescent(noise * math.sqrt(steps), 0.0, 0.0, 0, length, sizes.small, bound)

    return calibrated(make, problem, guarantee)


def _with_weights(
    problem: Problem,
    guarantee: Guarantee,
    shares: dict[str, float],
    iterations: int | None,
    clip: float,
    noise_share: float | None,
    bound: float,
) -> WideDescent:
    """Scales, gradients and offset, all noise in proportion to that of one release with the whole budget."""
    longest, steps = current(mean_offset.NUMBERS).large, current(location_scale.NUMBERS).steps
    left = remaining_share("gradients", shares)
    share = current(NUMBERS).noise_share if noise_share is None else noise_share

    def path_length(noise: float) -> float:
        """K = κ·n·norm/(ν·r) in units of scale/R."""
        return share * problem.n * problem.rows.norm / (multiplier(noise, left) * problem.rows.radius)

    count = _iterations(path_length(gaussian_multiplier(guarantee))) if iterations is None else iterations

    def make(noise: float) -> WideDescent:
        return WideDescent(
            noise_multiplier=noise * math.sqrt(count / left),
            scale_multiplier=noise * math.sqrt(steps / shares["scale_share"]),
            offset_multiplier=multiplier(noise, shares["offset_share"]),
            iterations=count,
            path_length=path_length(noise),
            clip=clip,
            target_bound=bound,
            longest_step=longest,
            offset_path_length=longest,
        )

    return calibrated(make, problem, guarantee)


def _iterations(path_length: float) -> int:
    """T = K/(2·R) steps with R at a tenth of the row norm, between 32 and 400.

    So many are enough for a path length of K at 2 scales a step; for a smaller R the path ends where T steps lead.
    """
    numbers, sizes = current(shared.NUMBERS), current(mean_offset.NUMBERS)
    count = math.ceil(path_length / (sizes.large * sizes.small))
    return min(numbers.most_iterations, max(numbers.fewest_iterations, count))
