"""Settings of descent in one private scale (`discreet.solvers.parts.private_scales.Single`)."""

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
from discreet.solvers.parts.private_scales import Location, Single
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "SingleOptions", "SingleScalesNumbers", "asked_for_scales", "settings"]


@dataclass(frozen=True)
class SingleScalesNumbers(Tuned):
    """Tuned numbers of this file."""

    noise_share: float = tuned(
        0.25,
        "noise that a fit bears: of the gradients in scores over the scale of targets, of the mean signs in the search "
        "for scales if it were one release, of the location alone over the bound on targets",
        "sweep: wide-noise",
    )


NUMBERS = SingleScalesNumbers()


@dataclass(frozen=True)
class SingleOptions:
    """What a user may set; None leaves it to public facts.

    Args:
        iterations: number of gradients; given one, weights are learnt however strong the noise.
        clip: slope at which residuals are clipped, in scales of the targets; None takes 0.1.
        noise_share: κ, the noise of gradients in scores over the scale of targets; None takes 0.25.
        scale_share: of the budget (in 1/σ²) for the estimates of location and scale; given one, weights are learnt
            however strong the noise.
        offset_share: of the budget for the offset; None takes 0.05.
        target_bound: public bound on |y|, where searches begin and end; None takes 1.
    """

    iterations: int | None = None
    clip: float | None = None
    noise_share: float | None = None
    scale_share: float | None = None
    offset_share: float | None = None
    target_bound: float | None = None


def settings(problem: Problem, guarantee: Guarantee, asked: SingleOptions) -> ScaledDescent:
    """Noise from the accountant, scales from private estimates, everything else from public facts.

    Args:
        problem: squared loss, an intercept, no constraint, no ridge.
        guarantee: what to keep.
        asked: options of the user.

    Raises:
        InvalidInput: another loss, a constraint, a ridge, no intercept, pure DP, or shares that leave nothing.

    Example:
        >>> from discreet.losses import Squared
        >>> from discreet.rows import RowSpec
        >>> from discreet.units import Unit
        >>> problem, asked = Problem(RowSpec(4000, 1.0, 0.5), Squared(), 60.0), SingleOptions()
        >>> [settings(problem, Guarantee(e, 1e-4, Unit("add-remove")), asked).iterations for e in (0.5, 8.0)]
        [0, 118]
    """
    bound = 1.0 if asked.target_bound is None else asked.target_bound
    free = Single(0.0, target_bound=bound)
    free.check(problem)
    usual = current(shared.NUMBERS)
    if not guarantee.private:
        steps = usual.exact_iterations if asked.iterations is None else asked.iterations
        return ScaledDescent(free, 0.0, steps, math.inf)
    needed = asked_for_scales(problem, guarantee)
    shares = {
        "scale_share": min(0.5, max(usual.estimate_share, needed)) if asked.scale_share is None else asked.scale_share,
        "offset_share": usual.estimate_share if asked.offset_share is None else asked.offset_share,
    }
    remaining_share("gradients", shares)
    if asked.iterations is None and asked.scale_share is None and needed > 0.5:
        _refuse_without_effect(problem, asked)
        return _location_alone(problem, guarantee, bound)
    return _with_weights(problem, guarantee, shares, asked, bound)


def asked_for_scales(problem: Problem, guarantee: Guarantee) -> float:
    """The share (b·κ/(n·¼))² with which mean signs are off by ¼; b is the bound of one release of signs.

    Where it would be more than half of the budget the location of the targets alone is estimated.
    """
    noise = SignSums.bound * SignSums.grid * gaussian_multiplier(guarantee) / problem.n
    return (noise / current(NUMBERS).noise_share) ** 2


def _refuse_without_effect(problem: Problem, asked: SingleOptions) -> None:
    if any(value is not None for value in (asked.clip, asked.noise_share, asked.offset_share)):
        raise InvalidInput(
            f"with {problem.n:g} rows at this budget only the targets' centre can be learnt, so that clip, noise_share "
            "and offset_share would have no effect; give iterations or scale_share to learn weights all the same."
        )


def _location_alone(problem: Problem, guarantee: Guarantee, bound: float) -> ScaledDescent:
    """The whole budget for the location of the targets: a path of 2 bounds, or as long as adds noise of a quarter."""
    share, sizes = current(NUMBERS).noise_share, current(mean_offset.NUMBERS)
    steps = current(location_scale.NUMBERS).steps

    def make(noise: float) -> ScaledDescent:
        length, each = min(sizes.large, share * problem.n / noise), noise * math.sqrt(steps)
        return ScaledDescent(Location(each, sizes.small, length, bound), each, 0, sizes.small)

    return calibrated(make, problem, guarantee)


def _with_weights(
    problem: Problem, guarantee: Guarantee, shares: dict[str, float], asked: SingleOptions, bound: float
) -> ScaledDescent:
    """Scales, gradients and offset, all noise in proportion to that of one release with the whole budget.

    Gradients clipped at slopes c·s move scores by ηc·s a step: over the path length K in all, at most 2 scales a step,
    and the offset by 2 scales in all.
    """
    sizes, searches = current(mean_offset.NUMBERS), current(location_scale.NUMBERS).steps
    slope = sizes.small if asked.clip is None else asked.clip
    share = current(NUMBERS).noise_share if asked.noise_share is None else asked.noise_share
    left = remaining_share("gradients", shares)

    def path_length(noise: float) -> float:
        """K = κ·n·norm/(ν·r) in units of scale/R, R over the row norm."""
        return share * problem.n * problem.rows.norm / (multiplier(noise, left) * problem.rows.radius)

    lengths = path_length(gaussian_multiplier(guarantee))
    count = _iterations(lengths) if asked.iterations is None else asked.iterations

    def make(noise: float) -> ScaledDescent:
        steps = (path_length(noise) / (count * slope), sizes.large / slope, sizes.large / (count * slope))
        return ScaledDescent(
            scales=Single(noise * math.sqrt(searches / shares["scale_share"]), *steps, target_bound=bound),
            noise_multiplier=noise * math.sqrt(count / left),
            iterations=count,
            clip=slope * problem.rows.radius,
            offset_multiplier=multiplier(noise, shares["offset_share"]),
        )

    return calibrated(make, problem, guarantee)


def _iterations(path_length: float) -> int:
    """T = K/(2·R) steps with R at a tenth of the row norm, between 32 and 400.

    So many are enough for a path length of K at 2 scales a step; for a smaller R the path ends where T steps lead.
    """
    numbers, sizes = current(shared.NUMBERS), current(mean_offset.NUMBERS)
    count = math.ceil(path_length / (sizes.large * sizes.small))
    return min(numbers.most_iterations, max(numbers.fewest_iterations, count))
