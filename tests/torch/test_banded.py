"""Noise that is correlated between steps: what one row can move, what is released, and what is charged."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.events import Gaussian, Poisson, Repeat
from discreet.noise import Bits
from discreet.torch.banded import BandedNoise, Cyclic, square_root_coefficients
from discreet.torch.plan import plan_training
from discreet.torch.rows import TorchRows
from discreet.units import Unit

torch.set_num_threads(1)
BANDS, TURNS, N = 3, 3, 12
ADD_REMOVE = Unit("add-remove")


class Scaled(torch.nn.Module):
    """⟨weight, x⟩, so that an example's gradient is x itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def training(x: torch.Tensor, optimizer=torch.optim.SGD, **settings):
    model = Scaled(x.shape[1])
    declared = {"epsilon": 1.0, "delta": 1e-5, "expected_batch": N // BANDS, "epochs": TURNS, "bands": BANDS}
    declared |= {"random_state": 0} | settings
    return dp.torch.privatize(model, optimizer(model.parameters(), 1.0), (x,), **declared)


def run_through(trainer) -> None:
    for batch in trainer:
        trainer.step(trainer.model(batch.x))


def released_integers(trainer, rows: TorchRows, bits: Bits, rounds: int = TURNS, breaks: int = 0) -> np.ndarray:
    """Every y of some rounds before noise, one row a step; the first round breaks off after ``breaks`` steps."""
    found = []
    measurement = trainer.parts.round
    usual = measurement._perturbed

    def kept(total, query, bits_):
        found.append(np.concatenate([one.numpy().ravel() for one in total]))
        return [one.double() for one in total]

    measurement._perturbed = kept
    for number in range(rounds):
        talk = measurement.sample(rows, ADD_REMOVE, bits)
        given = next(talk, None)
        while given is not None:
            if number == 0 and breaks and len(found) == breaks:
                break
            if hasattr(given, "present"):
                with measurement.query.engine.watch():
                    loss = trainer.model(given.x)
                given = talk.send(loss)
            else:
                given = next(talk, None)
    measurement._perturbed = usual
    return np.array(found)


@pytest.mark.parametrize("breaks", [0, 1, 2])
def test_one_row_moves_each_turn_by_no_more_than_the_noise_is_scaled_to(breaks) -> None:
    """Fails where groups are drawn again at each cycle, or where a round that broke off is continued."""
    x = torch.eye(N)  # the row's coordinate shows all that it moves
    trainer = training(x, adjacency="add-remove", n_public=N)
    bound = trainer.parts.round.banded.query(trainer.parts.round.query.bound).bound
    # all rows of a group take part, so that every row has all of its turns
    released = released_integers(trainer, TorchRows((x,)), Bits.seeded(1), breaks=breaks)
    turns = np.arange(len(released)) // BANDS
    for row in range(N):
        moved = [int(v) for v in released[:, row]]
        assert sum(v * v for v in moved) <= TURNS * bound**2
        assert all(v >= 0 for v in moved)
    if not breaks:
        assert len(turns) == TURNS * BANDS
        # a row in the group that is up first has all turns complete, and they are worth what is charged
        first = np.flatnonzero(released[0])
        assert len(first)
        whole = sum(int(v) ** 2 for v in released[:, first[0]])
        assert whole == pytest.approx(TURNS * bound**2, rel=1e-5)


def test_turns_of_a_row_do_not_overlap_by_enumeration() -> None:
    """Every pattern of turns and signs of one row: the integers move by at most √turns·‖c‖·B, no less at worst."""
    steps, bound = BANDS * TURNS, 7
    coefficients = square_root_coefficients(BANDS)
    scaled = BandedNoise(coefficients).query(bound).bound
    worst = 0
    for group in range(BANDS):
        for signs in itertools.product((-1, 0, 1), repeat=TURNS):
            noise = BandedNoise(coefficients)
            moved = 0
            for step in range(steps):
                if step % BANDS == 0:
                    noise.begin_round()
                own = signs[step // BANDS] * bound if step % BANDS == group else 0
                (mixed,) = noise.mixed([torch.tensor([own])])
                noise.unmixed([mixed.double()])
                moved += int(mixed) ** 2
            assert moved <= sum(map(abs, signs)) * scaled**2
            worst = max(worst, moved)
    assert worst > TURNS * (scaled - 1) ** 2  # the bound is tight up to its rounding


def test_a_step_that_failed_leaves_nothing_behind() -> None:
    noise = BandedNoise(square_root_coefficients(2))
    noise.begin_round()
    noise.mixed([torch.tensor([5])])  # and then drawing the noise fails
    noise.begin_round()
    (mixed,) = noise.mixed([torch.tensor([1])])
    assert int(mixed) == 1024


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_cycle_is_charged_as_one_turn_of_every_row(relation) -> None:
    ledger = dp.Ledger()
    n_public = None if relation == "replace-one" else N
    trainer = training(torch.ones(N, 2), adjacency=relation, n_public=n_public, expected_batch=2, ledger=ledger)
    event = trainer.privacy_.event
    turns = event if isinstance(event, Repeat) else event.events[-1]
    assert turns == Repeat(Poisson(BANDS * 2 / N, Gaussian(trainer.plan.noise_multiplier)), 6)
    assert trainer.plan.steps == 18
    assert trainer.privacy_.recompute().upper <= 1.0
    run_through(trainer)
    assert trainer.steps_done == 18
    assert trainer.privacy_.settings["bands"] == BANDS
    (asked,) = trainer.privacy_.record["queries"]
    length = math.sqrt(1 + 0.25 + 0.375**2)  # of the coefficients, for a clipping bound of 1
    assert (asked["query"], asked["times"]) == ("BandedGradientSum", 18)
    assert asked["clip"] == pytest.approx(length, rel=1e-3)


def test_all_rows_of_a_group_are_a_gaussian_release() -> None:
    trainer = training(torch.ones(N, 2))
    assert trainer.privacy_.event == Repeat(Gaussian(trainer.plan.noise_multiplier), TURNS)


def test_noise_is_that_of_the_event_and_cancels_along_the_training() -> None:
    width, turns, bands = 4000, 8, 4
    x = torch.zeros(N, width)
    trainer = training(x, bands=bands, expected_batch=N / bands, epochs=turns)
    steps, weights = trainer.plan.steps, [np.zeros(width)]
    for batch in trainer:
        trainer.step(trainer.model(batch.x))
        weights.append(trainer.model.weight.detach().double().numpy().copy())
    assert len(weights) == steps + 1
    estimates = -np.diff(np.array(weights), axis=0) * trainer.plan.expected_batch
    c = np.array(square_root_coefficients(bands), dtype=float)
    matrix = sum(np.diag(np.full(steps - i, c[i]), -i) for i in range(bands))
    z = matrix @ estimates  # independent again, of σ = noise multiplier × ‖c‖, for a clipping bound of 1
    sigma = trainer.plan.noise_multiplier * np.linalg.norm(c)
    # 4000 entries a step: all standard deviations within 7 % with probability above 1 − 1e-7, correlations below 0.1
    assert np.abs(z.std(axis=1) / sigma - 1).max() < 0.07
    correlations = np.corrcoef(z)
    assert np.abs(correlations - np.eye(steps)).max() < 0.1
    assert estimates[-1].std() == pytest.approx(trainer.noise_std * trainer.plan.expected_batch, rel=0.07)
    independent = np.linalg.norm(c) * trainer.plan.noise_multiplier * math.sqrt(steps) / c[0]
    assert weights[-1].std() * trainer.plan.expected_batch < 0.9 * independent


def test_correlated_noise_leaves_less_in_the_weights_than_independent_noise_at_a_large_epsilon() -> None:
    """The noise in a partial sum of steps, on average over the training, for the same (ε, δ)."""

    def rms(bands: int) -> float:
        plan = plan_training(
            Guarantee(8.0, 1e-6, ADD_REMOVE),
            1000,
            epochs=2,
            expected_batch=20,
            sampling="poisson",
            slots=None,
            bands=bands,
        )
        c = np.array(square_root_coefficients(bands), dtype=float)
        matrix = sum(np.diag(np.full(plan.steps - i, c[i]), -i) for i in range(bands))
        partial = np.tril(np.ones((plan.steps, plan.steps))) @ np.linalg.inv(matrix)
        return float(plan.noise_multiplier * np.linalg.norm(c) * np.sqrt((partial**2).sum() / plan.steps))

    assert rms(10) < 0.8 * rms(1)


def test_a_banded_training_goes_on_from_a_checkpoint(tmp_path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.db", epsilon=2.0, delta=1e-3, adjacency="replace-one")
    x = torch.ones(N, 2)
    trainer = training(x, ledger=ledger, random_state=None)
    iterator = iter(trainer)
    while trainer.steps_done <= BANDS:  # into the second cycle; a step that meets no row is taken without a batch
        trainer.step(trainer.model(next(iterator).x))
    trainer.save(tmp_path / "training")
    trainer.journal.close()
    model, steps_saved = Scaled(2), trainer.steps_done
    again = dp.torch.resume(tmp_path / "training", model, torch.optim.SGD(model.parameters(), 1.0), (x,), ledger=ledger)
    assert again.plan == trainer.plan
    assert again.rounds_begun == 2  # the cycle that broke off is not continued
    run_through(again)
    assert again.steps_done == steps_saved + BANDS
    assert again.privacy_ == trainer.privacy_


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"bands": 0}, "whole number"), ({"bands": 4, "expected_batch": 4}, "at most 3"),
     ({"sampling": "allocation"}, "by coins"), ({"adjacency": Unit("replace-one", 2)}, "single rows"),
     ({"grid": 2.0**40, "expected_batch": 1, "bands": 11, "epochs": 12}, None)],
)  # fmt: skip
def test_what_the_claim_does_not_cover_is_refused(settings, words) -> None:
    if words is None:
        training(torch.ones(N, 2), **settings)
        with pytest.raises(InvalidInput, match="64-bit"):
            BandedNoise(square_root_coefficients(11)).require_room(2**20, 2**40)
        return
    with pytest.raises(InvalidInput, match=words):
        training(torch.ones(N, 2), **settings)


def test_groups_are_drawn_once() -> None:
    rows, bits = TorchRows((torch.arange(30),)), Bits.seeded(3)
    sampler = Cyclic(3, 1.0)
    first, second = ([batch.numbers.tolist() for batch in sampler.draw(rows, bits)] for _ in range(2))
    assert first == second
    assert sorted(itertools.chain(*first)) == list(range(30))
    assert sampler == Cyclic(3, 1.0)
