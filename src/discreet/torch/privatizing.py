"""`privatize`: from an ordinary model, optimizer and dataset to a private training that has been charged."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.estimators.callers import require_all_fits
from discreet.estimators.checks import EPSILONS, check_range
from discreet.estimators.privacy import bits_for, opened
from discreet.estimators.provenance import clip_bounds, rows_bounds
from discreet.events import compose
from discreet.measurements.questions import Question, questions
from discreet.mechanisms import Gaussian
from discreet.planning.plan import spent_epsilon
from discreet.report.certificate import Certificate
from discreet.report.record import record_of
from discreet.torch.batches import MOST_ROWS_FACTOR
from discreet.torch.clipping import QuantileBound
from discreet.torch.engine import Clip
from discreet.torch.engines import Forward, checked_engine
from discreet.torch.plan import TrainingPlan, plan_training
from discreet.torch.rounds import ClippedGradientSum, GradientRound, Overflow
from discreet.torch.rows import TorchRows
from discreet.torch.trainer import Parts, Trainer
from discreet.units import Adjacency, Unit
from discreet.vault import Payment, Run, Vault

__all__ = ["Options", "assembled", "make_round", "privatize", "rehearsed"]


@dataclass(frozen=True)
class Options:
    """How a training computes, apart from what it releases.

    Args:
        clip: how gradients are bounded.
        grid: whole steps to the clipping bound.
        exact: whether sums are computed in integers; otherwise the certificate says what is assumed.
        adaptive: the rule by which the bound follows a quantile, if any.
        average: the decay of the exponential moving average of the weights; None for none.
        random_state: a seed, with which nothing is private.
        verbose: whether a progress line is shown.
    """

    clip: Clip
    grid: float
    exact: bool = True
    adaptive: QuantileBound | None = None
    average: float | None = None
    random_state: int | None = None
    verbose: bool = False


def privatize(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Any,
    *,
    epsilon: float,
    delta: float | None = None,
    epochs: float,
    expected_batch: float,
    clip: float | Clip | QuantileBound = 1.0,
    adjacency: Adjacency = "replace-one",
    sampling: str = "poisson",
    n_public: int | None = None,
    slots: int | None = None,
    ledger: Any = None,
    exact: bool = True,
    forward: Forward | None = None,
    grid: float = 2.0**20,
    average: float | None = None,
    random_state: int | None = None,
    verbose: bool = False,
) -> Trainer:
    """Charge a whole private training to the ledger, and return the trainer that runs it.

    Every step draws a batch, clips the gradient of each example to ``clip``, adds them in integers, adds one draw of
    exact Gaussian noise, and lets ``optimizer`` move the model by the noisy mean. Noise is the least that keeps (ε, δ)
    for all steps together. When this returns, all of it is charged, and no row has been used.

    Args:
        model: any module whose examples do not meet: no batch normalisation (`discreet.torch.fix` replaces it).
        optimizer: any of `torch.optim` over parameters of the model.
        data: a tuple of tensors (x, y), a mapping of names to tensors, or a map-style dataset. Never a data loader.
        epsilon: ε of the whole training; infinite trains without privacy, on the same code.
        delta: δ; by default 1/n², for the public or declared n.
        epochs: passes over the data; the number of steps is epochs·n/expected_batch, rounded up.
        expected_batch: the expected number of rows of a batch.
        clip: the ℓ2 bound on an example's gradient, a `Clip` of another style, or a `QuantileBound` that adapts it.
        adjacency: ``"replace-one"``, where n is public, ``"add-remove"``, or a `Unit`.
        sampling: ``"poisson"``, ``"fixed-size"``, or ``"allocation"``: epochs in which each row is in one batch.
        n_public: under add-remove, the declared number of rows, which the data may exceed by 5 % at most.
        slots: the size of a physical batch; a larger logical batch is computed in several.
        ledger: a `Ledger` or its url; by default one in memory.
        exact: sums in integers, whose sensitivity is proved; False computes in floats and says so.
        forward: losses of a batch, for the check on made-up examples that slots do not depend on each other; by default
            the squared length of ``model(batch.x)``, or of ``model(**batch.fields)`` where parts have names.
        grid: whole steps to the clipping bound.
        average: decay of an exponential moving average of the weights (``trainer.averaged``).
        random_state: a seed for experiments. With it nothing is private.
        verbose: shows steps and the ε spent, never a loss.

    Raises:
        InvalidInput: a declaration is missing or contradictory, or the model cannot be trained privately.
        BudgetExceeded: the ledger refused the training. Nothing was released.

    Example:
        >>> x, y = torch.ones(100, 3), torch.ones(100)
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
        >>> trainer = privatize(
        ...     model, torch.optim.SGD(model.parameters(), 0.1), (x, y), epsilon=1.0, epochs=2, expected_batch=50
        ... )
        >>> loss = torch.nn.MSELoss(reduction="none")
        >>> print(trainer.fit(loss).privacy_)
        ε = 1, δ = 0.0001 (replace-one)
    """
    rows, unit = TorchRows(data), Unit.of(adjacency)
    n = _number_of_rows(len(rows), unit, n_public, math.isfinite(epsilon))
    guarantee = _guarantee(epsilon, delta, n, unit)
    options = _options(clip, grid, exact, average, random_state, verbose)
    vault = Vault(rows, unit, opened(ledger), bits_for(random_state), persons=None)  # type: ignore[arg-type]
    aim = replace(guarantee, delta=vault.ledger.portion(guarantee.delta)) if guarantee.private else guarantee
    plan = plan_training(
        guarantee, n, epochs=epochs, expected_batch=expected_batch, sampling=sampling, slots=slots, least_noise_for=aim
    )
    gradient_round = make_round(model, optimizer, rows, plan, options, forward)
    events, stated = rehearsed(plan, gradient_round, unit), aim.stated if aim.private else None
    require_all_fits(vault.ledger, lambda: compose(events), unit, stated)
    run = vault.open(events, Payment(f"torch {type(model).__name__}, {plan.steps} steps", stated))
    return assembled(model, optimizer, vault, run, gradient_round, plan, options)


def make_round(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: TorchRows,
    plan: TrainingPlan,
    options: Options,
    forward: Forward | None = None,
) -> GradientRound:
    """The measurement that every round of a training makes, after a check of the model on made-up examples."""
    engine = checked_engine(
        model, options.clip, rows, forward, slots=plan.places.slots, grid=options.grid, exact=options.exact
    )
    _require_known_parameters(model, optimizer, engine)
    share = 0.0
    if options.adaptive is not None:
        share = QuantileBound.share_of_noise(plan.noise_multiplier, plan.expected_batch)
    device = engine.parameters[0].device
    query = ClippedGradientSum(engine, options.clip.bound, share)
    return GradientRound(query, Gaussian(plan.noise_multiplier), plan.batches, plan.places, device)


def rehearsed(plan: TrainingPlan, gradient_round: GradientRound, unit: Unit) -> list[Any]:
    """The events that the round's own measurement states, of which the noise was calibrated to the plan's."""
    rounds = [gradient_round.event(unit)] * plan.rounds
    return [Overflow(plan.overflow).event(unit), *rounds] if plan.overflow else rounds


def assembled(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    vault: Vault,
    run: Run,
    gradient_round: GradientRound,
    plan: TrainingPlan,
    options: Options,
) -> Trainer:
    """The trainer of a run that has been charged."""
    if plan.overflow and run.done == 0:
        run.answer(Overflow(plan.overflow))
    average = None
    if options.average is not None:
        decay = torch.optim.swa_utils.get_ema_multi_avg_fn(options.average)
        average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=decay)
    settings = settings_of(plan, options, gradient_round)
    asked = dict.fromkeys(questions(gradient_round), plan.rounds)
    certificate = _certificate(vault, plan, type(model).__name__, settings, asked)
    parts = Parts(
        model, optimizer, vault, run, gradient_round, plan, certificate, options, options.adaptive, average,
        options.verbose,
    )  # fmt: skip
    return Trainer(parts)


def settings_of(plan: TrainingPlan, options: Options, gradient_round: GradientRound) -> dict[str, Any]:
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
    if plan.guarantee.unit.relation == "add-remove":
        found["most_rows"] = math.ceil(MOST_ROWS_FACTOR * plan.n)
    if not options.exact:
        found["assumed"] = "sums of floats move by no more than the clipping bound between neighbours"
    return found


def _certificate(
    vault: Vault, plan: TrainingPlan, model: str, settings: dict[str, Any], asked: dict[Question, int]
) -> Certificate:
    guarantee, event = plan.guarantee, compose(vault.charged)
    aim = replace(guarantee, delta=vault.ledger.portion(guarantee.delta)) if guarantee.private else guarantee
    spent = spent_epsilon(event, aim) if guarantee.private else math.inf
    unprotected = ["what the training loop itself keeps or prints of a batch"]
    if guarantee.unit.relation == "replace-one":
        unprotected.append("number of rows")
    bounds = rows_bounds(guarantee.unit, plan.n, None) + clip_bounds(settings)
    record = record_of(
        model, vault.ledger, vault.charge_ids, protective=vault.protective, rows=plan.n, unit=guarantee.unit,
        bounds=bounds, asked=asked,
    )  # fmt: skip
    return Certificate(
        spent, guarantee.delta, guarantee.unit, event, "torch", settings, tuple(unprotected), vault.protective,
        record=record,
    )  # fmt: skip


# --- declarations -----------------------------------------------------------------------------------------------------


def _number_of_rows(found: int, unit: Unit, n_public: int | None, private: bool) -> int:
    """The number of rows to plan with: the data's own where it is public, else the declared one."""
    if n_public is not None and (isinstance(n_public, bool) or not isinstance(n_public, int) or n_public < 1):
        raise InvalidInput(f"n_public must be a positive whole number, got {n_public!r}.")
    if unit.relation == "replace-one" or not private:
        if n_public not in (None, found):
            raise InvalidInput(f"under replace-one n is public: n_public={n_public}, but the data has {found} rows.")
        return found
    if n_public is None:
        raise InvalidInput(
            "under add-remove the number of rows is private, and rates and steps cannot follow from it: declare "
            "n_public=…, a number of rows that may be known. Nothing was released."
        )
    return n_public


def _guarantee(epsilon: float, delta: float | None, n: int, unit: Unit) -> Guarantee:
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    if math.isinf(epsilon):
        return Guarantee(epsilon, 0.0, unit)
    check_range("epsilon", epsilon, *EPSILONS, "more protects nobody: use float('inf') for no privacy")
    return Guarantee(float(epsilon), 1.0 / max(n, 2) ** 2 if delta is None else delta, unit)


def _options(
    clip: float | Clip | QuantileBound,
    grid: float,
    exact: bool,
    average: float | None,
    random_state: int | None,
    verbose: bool,
) -> Options:
    adaptive = clip if isinstance(clip, QuantileBound) else None
    if isinstance(clip, QuantileBound):
        clip = Clip(clip.start, "flat")
    elif isinstance(clip, int | float) and not isinstance(clip, bool):
        clip = Clip(float(clip), "flat")
    if not isinstance(clip, Clip) or not 0 < clip.bound < math.inf:
        raise InvalidInput(f"clip must be a positive bound, a Clip or a QuantileBound, got {clip!r}.")
    if not (isinstance(grid, int | float) and 2**8 <= grid <= 2**40):
        raise InvalidInput(f"grid must be between 2^8 and 2^40 steps to the bound, got {grid!r}.")
    if average is not None and not 0 < average < 1:
        raise InvalidInput(f"average is a decay between 0 and 1, got {average!r}.")
    return Options(clip, float(grid), bool(exact), adaptive, average, random_state, bool(verbose))


def _require_known_parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer, engine: Any) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidInput("LBFGS asks for several gradients a step, of which one is released; use another optimizer.")
    known = {id(p) for p in engine.parameters}
    if not known:
        raise InvalidInput("the model has no parameter that requires a gradient.")
    moved = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if any(id(p) not in known for p in moved):
        raise InvalidInput("the optimizer moves parameters that are not the model's; nothing was released.")
