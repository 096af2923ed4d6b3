"""The certificate of a private training, and the settings that it states."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from discreet.calibration import Guarantee
from discreet.estimators.provenance import clip_bounds, rows_bounds, void_items
from discreet.events import compose
from discreet.measurements.questions import Question
from discreet.mechanisms import Gaussian
from discreet.planning.plan import spent_epsilon
from discreet.report.certificate import Certificate
from discreet.report.record import record_of
from discreet.torch.plan import TrainingPlan
from discreet.torch.rounds import GradientRound
from discreet.vault import Vault

__all__ = ["aim_of", "certificate_of", "settings_of"]


def aim_of(guarantee: Guarantee, vault: Vault | None) -> Guarantee:
    """The guarantee, with the part of δ that the ledger leaves to one charge."""
    assert vault is not None, "rank 0 plans and certifies"
    return replace(guarantee, delta=vault.ledger.portion(guarantee.delta)) if guarantee.private else guarantee


def settings_of(plan: TrainingPlan, options: Any, gradient_round: GradientRound) -> dict[str, Any]:
    """The public settings of a training, for its certificate."""
    sampler = plan.batches.event(Gaussian(1.0).event(gradient_round.query, plan.guarantee.unit), plan.guarantee.unit)  # type: ignore[arg-type]
    found: dict[str, Any] = {
        "steps": plan.steps,
        "sampling": type(sampler).__name__,
        "expected_batch": plan.expected_batch,
        "noise_multiplier": plan.noise_multiplier,
        "clip": options.clip.style if options.adaptive is None else "quantile",
        "clip_bound": options.clip.bound,
        "slots": plan.places.slots,
        "exact": options.exact,
    }
    if gradient_round.banded is not None:
        found |= {"sampling": "groups in turn", "bands": len(gradient_round.banded.coefficients)}
    if options.svrg is not None:
        found |= {"svrg_period": options.svrg.period, "clip_of_differences": options.svrg.clip,
                  "noise_multiplier_of_full_steps": plan.full_noise_ratio * plan.noise_multiplier}  # fmt: skip
    if plan.guarantee.unit.enforced:
        found["rows_in_an_example"] = gradient_round.query.engine.rows_each
    if gradient_round.ranks.size > 1:
        found["processes"] = gradient_round.ranks.size
    if plan.guarantee.unit.relation == "add-remove" and plan.count is None:
        found["most_rows"] = plan.most_rows
    if not options.exact:
        found["assumed"] = "sums of floats move by no more than the clipping bound between neighbours"
    return found


def certificate_of(
    vault: Vault | None,
    plan: TrainingPlan,
    model: str,
    settings: dict[str, Any],
    asked: dict[Question, int],
    void: Sequence[str],
) -> Certificate:
    """The certificate of a training that has been charged.

    Args:
        vault: was charged.
        plan: of the training.
        model: its name.
        settings: public settings.
        asked: what the rounds ask, and how often.
        void: declarations that were taken from the data without protection: with them nothing is private.
    """
    assert vault is not None, "rank 0 certifies"
    guarantee, event, aim = plan.guarantee, compose(vault.charged), aim_of(plan.guarantee, vault)
    if plan.count is not None:
        spent = guarantee.epsilon  # of the count and of the training, which keeps what the count's charge promised
    else:
        spent = spent_epsilon(event, aim) if guarantee.private else math.inf
    unprotected = ["what the training loop itself keeps or prints of a batch", *void_items(void)]
    if guarantee.unit.relation == "replace-one":
        unprotected.append("number of people" if guarantee.unit.enforced else "number of rows")
    rows, counted = (plan.n, None) if plan.count is None else (None, plan.count.epsilon)
    record = record_of(
        model, vault.ledger, vault.charge_ids, protective=vault.protective, rows=rows, unit=guarantee.unit,
        bounds=rows_bounds(guarantee.unit, rows, counted) + clip_bounds(settings, void),
        asked={**vault.asked, **asked},  # with the number of rows, where it was counted
    )  # fmt: skip
    return Certificate(
        spent, guarantee.delta, guarantee.unit, event, "torch", settings, tuple(unprotected),
        vault.protective and not void, record=record,
    )  # fmt: skip
