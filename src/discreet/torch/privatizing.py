"""`privatize`: from an ordinary model, optimizer and dataset to a private training that has been charged.

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

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.estimators.callers import require_all_fits
from discreet.estimators.checks import EPSILONS, check_range
from discreet.estimators.privacy import bits_for, opened
from discreet.estimators.provenance import void_items, void_names
from discreet.events import compose
from discreet.measurements.questions import Question, questions
from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.report.certificate import unprotected_kind
from discreet.torch.banded import BandedNoise, Cyclic, square_root_coefficients
from discreet.torch.batches import places_for
from discreet.torch.certifying import aim_of, certificate_of, settings_of
from discreet.torch.clipping import QuantileBound
from discreet.torch.counting import plan_after_count
from discreet.torch.distributed import ALONE, Alone, FollowingRun, ranks_of
from discreet.torch.engine import Clip
from discreet.torch.engines import Forward, checked_engine
from discreet.torch.persons import PersonExamples, person_examples
from discreet.torch.plan import Count, TrainingPlan, plan_training
from discreet.torch.rounds import ClippedGradientSum, GradientRound, Overflow
from discreet.torch.rows import TorchRows
from discreet.torch.svrg import EveryRow, FullGradientSum, GradientDifferenceSum, Svrg
from discreet.torch.trainer import Parts, Trainer
from discreet.units import Adjacency, Unit
from discreet.vault import Payment, Run, Vault

__all__ = ["Options", "assembled", "examples_of", "make_round", "privatize", "rehearsed", "vault_of"]


@dataclass(frozen=True)
class Options:
    """How a training computes, apart from what it releases.

    Args:
        clip: how gradients are bounded.
        grid: whole steps to the clipping bound.
        exact: whether sums are computed in integers; otherwise the certificate says what is assumed.
        adaptive: the rule by which the bound follows a quantile, if any.
        average: the decay of the exponential moving average of the weights; None for none.
        svrg: variance-reduced steps, if they were asked for.
        rows_each: rows of an example, where persons are protected.
        random_state: a seed, with which nothing is private.
        verbose: whether a progress line is shown.
        void: declarations that were taken from the data without protection.
    """

    clip: Clip
    grid: float
    exact: bool = True
    adaptive: QuantileBound | None = None
    average: float | None = None
    svrg: Svrg | None = None
    rows_each: int = 1
    random_state: int | None = None
    verbose: bool = False
    void: tuple[str, ...] = ()


def privatize(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: Any, *,
    epsilon: float, delta: float | None = None, epochs: float, expected_batch: float,
    clip: float | Clip | QuantileBound = 1.0, adjacency: Adjacency = "replace-one", groups: Any = None,
    sampling: str = "poisson", n_public: int | None = None, slots: int | None = None, ledger: Any = None,
    exact: bool = True, forward: Forward | None = None, grid: float = 2.0**20, average: float | None = None,
    bands: int = 1, svrg: Svrg | None = None, random_state: int | None = None, verbose: bool = False,
) -> Trainer:  # fmt: skip
    """Charge a whole private training to the ledger, and return the trainer that runs it.

    Every step draws a batch, clips the gradient of each example to ``clip``, adds them in integers, adds one draw of
    exact Gaussian noise, and lets ``optimizer`` move the model by the noisy mean. Noise is the least that keeps (ε, δ)
    for all steps together. When this returns, all of it is charged, and no row has been used. A model inside
    `DistributedDataParallel` is trained by all its ranks, each of which calls this (`discreet.torch.distributed`).

    Args:
        model: any module whose examples do not meet: no batch normalisation (`discreet.torch.fix` replaces it).
        optimizer: any of `torch.optim` over parameters of the model.
        data: a tuple of tensors (x, y), a mapping of names to tensors, or a map-style dataset. Never a data loader.
        epsilon: ε of the whole training; infinite trains without privacy, on the same code.
        delta: δ; by default 1/n², for the public or declared n.
        epochs: passes over the data; the number of steps is epochs·n/expected_batch, rounded up.
        expected_batch: the expected number of rows of a batch; below 1, the share of all rows.
        clip: the ℓ2 bound on an example's gradient, a `Clip` of another style, or a `QuantileBound` that adapts it.
        adjacency: ``"replace-one"``, where n is public, ``"add-remove"``, or a `Unit`.
        groups: one id a row: persons are protected, the rows of each (as many as the `Unit` says) being one example.
        sampling: ``"poisson"``, ``"fixed-size"``, or ``"allocation"``: epochs in which each row is in one batch.
        n_public: under add-remove, a declared number of rows (at most 5 % too small); else rows are counted within ε.
        slots: the size of a physical batch; a larger logical batch is computed in several.
        ledger: a `Ledger` or its url; by default one in memory.
        exact: sums in integers, whose sensitivity is proved; False computes in floats and says so.
        forward: losses of a batch, for the check on made-up examples that slots do not depend on each other; by default
            the squared length of ``model(batch.x)``, or of ``model(**batch.fields)`` where parts have names.
        grid: whole steps to the clipping bound.
        average: decay of an exponential moving average of the weights (``trainer.averaged``).
        bands: over how many steps noise is correlated (`discreet.torch.banded`); 1 for independent noise.
        svrg: asks for variance-reduced steps (`discreet.torch.svrg`); ``step`` then takes a function.
        random_state: a seed for experiments. With it nothing is private.
        verbose: shows steps and the ε spent, never a loss.

    Raises:
        InvalidInput: a declaration is missing or contradictory, or the model cannot be trained privately.
        BudgetExceeded: the ledger refused the training. Nothing was released.
        RankLost: another process is gone. Nothing was released.
    """
    rows, ranks = TorchRows(data), ranks_of(model)
    private = math.isfinite(_checked_epsilon(epsilon))
    persons, unit = examples_of(groups if private else None, Unit.of(adjacency), len(rows), ranks)
    n = _number_of_rows(len(rows) if persons is None else persons.count, unit, n_public, private, ranks)
    guarantee = _guarantee(epsilon, delta, n, unit)
    how = dict[str, Any](epochs=epochs, expected_batch=expected_batch, slots=slots, bands=bands, svrg=svrg)
    void = void_names(epsilon=epsilon, delta=delta, clip=clip, n_public=n_public, grid=grid, average=average, **how)
    options = _options(clip, grid, exact, average, svrg, persons, random_state, verbose and ranks.first)
    options = replace(options, void=void)
    vault = ranks.at_first(lambda: vault_of(rows, unit, ledger, bits_for(random_state), persons))
    shapes = rows if persons is None else persons.shapes(rows)
    how |= {"sampling": sampling, "clip": options.clip.bound}
    made = partial(make_round, model, optimizer, shapes, options=options, forward=forward, ranks=ranks)
    plan = ranks.from_first(lambda: _planned(vault, guarantee, n, how, made))
    gradient_round = ranks.agreed(lambda: made(plan))
    charged = ranks.at_first(lambda: _charged(vault, model, plan, gradient_round, options.void))
    run = charged or FollowingRun(rows, len(rehearsed(plan, gradient_round)), 0)
    return assembled(model, optimizer, vault, run, gradient_round, plan, options)


def _planned(
    vault: Vault | None, guarantee: Guarantee, n: int | None, how: dict[str, Any], made: Callable[[TrainingPlan], Any]
) -> TrainingPlan:
    """The plan for a public number of rows, or for one that is counted first."""
    aim = aim_of(guarantee, vault)
    if n is not None:
        return plan_training(guarantee, n, least_noise_for=aim, **how)
    assert vault is not None, "rank 0 plans"

    def planned(keeps: Guarantee, rows: int, count: Count | None, least_noise_for: Guarantee) -> TrainingPlan:
        keeps = replace(keeps, delta=guarantee.delta) if keeps.private else keeps
        return plan_training(keeps, rows, count=count, least_noise_for=least_noise_for, **how)

    return plan_after_count(vault, aim, "torch: number of rows, and a training", planned, made)


def examples_of(groups: Any, unit: Unit, rows: int, ranks: Alone) -> tuple[PersonExamples | None, Unit]:
    """Whose each row is, if that is known, and the unit of which an example is one."""
    persons = person_examples(groups, unit, rows)
    if persons is None:
        return None, unit
    if ranks.size > 1:
        raise InvalidInput("groups=… is not supported in several processes. Nothing was released.")
    return persons, Unit(unit.relation, 1, enforced=True)


def vault_of(rows: TorchRows, unit: Unit, ledger: Any, bits: Bits, persons: PersonExamples | None) -> Vault:
    """The vault of a training: its rows, the ledger that is charged, and protective randomness."""
    return Vault(rows, unit, opened(ledger), bits, persons=persons)  # type: ignore[arg-type]


def _charged(
    vault: Vault | None, model: torch.nn.Module, plan: TrainingPlan, gradient_round: GradientRound, void: Sequence[str]
) -> Run:
    """Charge the whole plan."""
    assert vault is not None, "rank 0 charges"
    aim, events = aim_of(plan.guarantee, vault), rehearsed(plan, gradient_round)
    if plan.count is not None:
        return vault.open(events, Payment(promised_by=vault.charge_ids[-1]))
    stated = aim.stated if aim.private else None
    require_all_fits(vault.ledger, lambda: compose(events), vault.unit, stated)
    name = type(gradient_round.ranks.model(model)).__name__
    mark = f", NOT PRIVATE: {unprotected_kind(void_items(void))}" if void else ""
    return vault.open(events, Payment(f"torch {name}, {plan.steps} steps{mark}", stated))


def make_round(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    rows: TorchRows,
    plan: TrainingPlan,
    options: Options,
    forward: Forward | None = None,
    ranks: Alone = ALONE,
) -> GradientRound:
    """The measurement that every round of a training makes, after a check of the model on made-up examples."""
    model = ranks.model(model)
    if options.average is not None:
        ranks.require_whole("average=…")
    with ranks.quiet():
        engine = checked_engine(
            model, options.clip, rows, forward, slots=plan.places.slots, grid=options.grid, exact=options.exact
        )
    _require_known_parameters(optimizer, ranks.trained(engine.parameters))
    share = 0.0
    if options.adaptive is not None:
        share = QuantileBound.share_of_noise(plan.noise_multiplier, plan.expected_batch)
    device = engine.parameters[0].device
    query, banded, full = ClippedGradientSum(engine, options.clip.bound, share), None, None
    if isinstance(plan.batches, Cyclic):
        banded = BandedNoise(square_root_coefficients(plan.batches.groups))
        banded.require_room(plan.most_rows, query.bound)
    if options.svrg is not None:
        ranks.require_whole("svrg=…")
        places = places_for(plan.guarantee.unit, plan.n, 1.0, plan.places.slots, 1, 1.0, most=plan.most_rows)
        mechanism = Gaussian(plan.full_noise_ratio * plan.noise_multiplier)
        all_rows = FullGradientSum(engine, options.clip.bound)
        full = GradientRound(all_rows, mechanism, EveryRow(), places, device, ranks)
        query = GradientDifferenceSum(engine, options.svrg.clip)
    mechanism = Gaussian(plan.noise_multiplier)
    return GradientRound(query, mechanism, plan.batches, plan.places, device, ranks, banded, full)


def rehearsed(plan: TrainingPlan, gradient_round: GradientRound) -> list[Any]:
    """The events that the round's own measurement states, of which the noise was calibrated to the plan's."""
    unit, usual = plan.guarantee.unit, gradient_round.event(plan.guarantee.unit)
    full = usual if gradient_round.full is None else gradient_round.full.event(unit)
    rounds = [full if plan.is_full(number) else usual for number in range(plan.rounds)]
    return [Overflow(plan.overflow).event(unit), *rounds] if plan.overflow else rounds


def _asked(plan: TrainingPlan, gradient_round: GradientRound) -> dict[Question, int]:
    """What the rounds ask, and how often."""
    full = sum(plan.is_full(number) for number in range(plan.rounds))
    found = dict.fromkeys(questions(gradient_round), (plan.rounds - full) * plan.batches.steps)
    if gradient_round.full is not None:
        found |= dict.fromkeys(questions(gradient_round.full), full)
    return found


def assembled(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    vault: Vault | None,
    run: Run | FollowingRun,
    gradient_round: GradientRound,
    plan: TrainingPlan,
    options: Options,
) -> Trainer:
    """The trainer of a run that has been charged."""
    ranks = gradient_round.ranks
    ranks.open()
    if plan.overflow and run.done == 0:
        run.answer(Overflow(plan.overflow))
    average = None
    if options.average is not None:
        decay = torch.optim.swa_utils.get_ema_multi_avg_fn(options.average)
        average = torch.optim.swa_utils.AveragedModel(ranks.model(model), multi_avg_fn=decay)
    settings = settings_of(plan, options, gradient_round)
    asked, name = _asked(plan, gradient_round), type(ranks.model(model)).__name__
    certificate = ranks.from_first(lambda: certificate_of(vault, plan, name, settings, asked, options.void))
    parts = Parts(
        model, optimizer, vault, run, gradient_round, plan, certificate, options, options.adaptive, average,
        options.verbose,
    )  # fmt: skip
    return Trainer(parts)


# --- declarations -----------------------------------------------------------------------------------------------------


def _number_of_rows(found: int, unit: Unit, n_public: int | None, private: bool, ranks: Alone) -> int | None:
    """The number of rows to plan with: the data's own where it is public, the declared one, or None: to be counted."""
    if n_public is not None and (isinstance(n_public, bool) or not isinstance(n_public, int) or n_public < 1):
        raise InvalidInput(f"n_public must be a positive whole number, got {n_public!r}.")
    if unit.relation == "replace-one" or not private:
        if n_public not in (None, found):
            raise InvalidInput(f"under replace-one n is public: n_public={n_public}, but the data has {found} rows.")
        return found
    if n_public is None and ranks.size > 1:
        raise InvalidInput(
            "under add-remove the number of rows is private, and in several processes it is not counted: declare "
            "n_public=…, a number of rows that may be known. Nothing was released."
        )
    return n_public


def _checked_epsilon(epsilon: float) -> float:
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not epsilon > 0:
        raise InvalidInput(f"epsilon must be positive, got {epsilon!r}; use float('inf') for no privacy.")
    return epsilon


def _guarantee(epsilon: float, delta: float | None, n: int | None, unit: Unit) -> Guarantee:
    if math.isinf(epsilon):
        return Guarantee(epsilon, 0.0, unit)
    check_range("epsilon", epsilon, *EPSILONS, "more protects nobody: use float('inf') for no privacy")
    if delta is None and n is None:
        raise InvalidInput(
            "under add-remove the number of rows is private, so delta cannot follow from it: give delta=…, or declare "
            "n_public=…. Nothing was released."
        )
    return Guarantee(float(epsilon), 1.0 / max(n or 2, 2) ** 2 if delta is None else delta, unit)


def _options(
    clip: float | Clip | QuantileBound,
    grid: float,
    exact: bool,
    average: float | None,
    svrg: Svrg | None,
    persons: PersonExamples | None,
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
    if svrg is not None and (not isinstance(svrg, Svrg) or adaptive or clip.style == "automatic"):
        raise InvalidInput("svrg is a Svrg(period, clip), beside a fixed bound on gradients that is not automatic.")
    each = 1 if persons is None else persons.rows_each
    return Options(clip, float(grid), bool(exact), adaptive, average, svrg, each, random_state, bool(verbose))


def _require_known_parameters(optimizer: torch.optim.Optimizer, trained: Sequence[torch.nn.Parameter]) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidInput(f"optimizer must be one of torch.optim over the model's parameters, got {optimizer!r}.")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidInput("LBFGS asks for several gradients a step, of which one is released; use another optimizer.")
    known = {id(p) for p in trained}
    moved = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    if any(id(p) not in known for p in moved):
        raise InvalidInput("the optimizer moves parameters that are not the model's; nothing was released.")
