"""Settings of descent in private scales (`discreet.solvers.scaled_descent`): the options, by scale model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal

from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.recipes import diagonal_scales, full_scales, residual_scales, shared, single_scales
from discreet.solvers.base import Problem
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.tuned import current

__all__ = ["recipe"]

_MODELS: dict[str, tuple[type[Any], Callable[[Problem, Guarantee, Any], ScaledDescent]]] = {
    "full": (full_scales.FullOptions, full_scales.settings),
    "diagonal": (diagonal_scales.DiagonalOptions, diagonal_scales.settings),
    "residual": (residual_scales.ResidualOptions, residual_scales.settings),
    "single": (single_scales.SingleOptions, single_scales.settings),
}
"""The options of every scale model, and the function that makes its settings."""


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    scales: Literal["full", "diagonal", "residual", "single"] | None = None,
    iterations: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    decay: float | None = None,
    damping: float | None = None,
    moment_share: float | None = None,
    centre_share: float | None = None,
    recalibration_share: float | None = None,
    scale_share: float | None = None,
    spread_share: float | None = None,
    offset_share: float | None = None,
    power: float | None = None,
    spread: float | None = None,
    rate: float | None = None,
    score_noise: float | None = None,
    noise_share: float | None = None,
    target_bound: float | None = None,
) -> ScaledDescent:
    """Descent in private scales, with the least noise that keeps the guarantee.

    Args:
        problem: public facts.
        guarantee: what to keep.
        scales: the scale model: the ``"full"`` second moment XᵀX, the ``"diagonal"`` of the columns' second moments, a
            ``"single"`` scale of rows and of targets, or XᵀX and the spread of the ``"residual"`` values. None takes
            what a rule of ``auto`` says of such a problem, or else full up to 1000 columns and diagonal beyond.
        iterations, clip: all models.
        damping, moment_share: full, residual and diagonal.
        target_bound: full and single.
        step, decay, centre_share, recalibration_share, power, spread, rate, score_noise: diagonal.
        scale_share: single and residual. offset_share, noise_share: single. spread_share: residual.

    Raises:
        InvalidInput: an option that the scale model does not have, or a problem that it is not for.
    """
    asked = {name: value for name, value in locals().items() if value is not None}
    del asked["problem"], asked["guarantee"]
    model = asked.pop("scales", usual_scales(problem))
    options, settings = _MODELS[model]
    unknown = sorted(set(asked) - {field.name for field in fields(options)})
    if unknown:
        raise InvalidInput(f"scales={model!r} has no option {unknown[0]}; leave it out, or choose another scale model.")
    return settings(problem, guarantee, options(**asked))


def usual_scales(problem: Problem) -> str:
    """The scale model that is taken if nothing else decides: full, or diagonal where XᵀX would be too large."""
    return "full" if problem.rows.n_features <= current(shared.NUMBERS).many_columns else "diagonal"
