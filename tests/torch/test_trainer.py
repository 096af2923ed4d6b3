"""A training is charged as a whole before the first batch, and releases exactly what was charged."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import discreet as dp
from discreet.errors import BudgetExceeded, InvalidInput, PlanViolation
from discreet.events import Allocation, FixedSize, Gaussian, Poisson, Repeat
from discreet.noise import Bits
from discreet.torch.batches import Allocated, EachDrawn, Places, log_tail, places_for
from discreet.torch.plan import plan_training
from discreet.torch.rounds import NoisySum
from discreet.torch.rows import TorchRows
from discreet.units import Unit

torch.set_num_threads(1)
N = 60


class Scaled(torch.nn.Module):
    """⟨weight, x⟩, so that an example's gradient is x itself."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def identity(scores: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return scores


def training(model=None, x=None, lr=1.0, **settings):
    model = model or Scaled()
    x = torch.ones(N, 3) / 2 if x is None else x
    declared = {"epsilon": 1.0, "epochs": 2, "expected_batch": 20, "random_state": 0} | settings
    optimizer = torch.optim.SGD(model.parameters(), lr)
    return dp.torch.privatize(model, optimizer, (x, torch.zeros(len(x))), **declared)


# --- charge, plan, certificate ----------------------------------------------------------------------------------------


def test_everything_is_charged_before_the_first_batch() -> None:
    ledger = dp.Ledger(epsilon=1.0, delta=1e-3, adjacency="replace-one")
    trainer = training(ledger=ledger, delta=1e-5)
    (charge,) = ledger.history()
    assert charge.status == "charged"
    assert charge.event == trainer.privacy_.event == Repeat(Poisson(1 / 3, Gaussian(trainer.plan.noise_multiplier)), 6)
    assert trainer.privacy_.recompute().upper <= 1.0
    trainer.fit(identity)
    (charge,) = ledger.history()
    assert charge.status == "completed"
    assert trainer.steps_done == 6


def test_a_training_beyond_the_budget_touches_nothing() -> None:
    class Untouchable(torch.utils.data.Dataset):
        def __init__(self) -> None:
            self.asked: list[int] = []

        def __len__(self) -> int:
            return N

        def __getitem__(self, i: int):
            self.asked.append(i)
            return torch.ones(3), torch.zeros(())

    data, model = Untouchable(), Scaled()
    ledger = dp.Ledger(epsilon=0.5, delta=1e-5, adjacency="replace-one")
    with pytest.raises(BudgetExceeded):
        dp.torch.privatize(
            model, torch.optim.SGD(model.parameters(), 1.0), data,
            epsilon=1.0, delta=1e-5, epochs=1, expected_batch=20, ledger=ledger, random_state=0,
        )  # fmt: skip
    assert data.asked == [0]  # the first example's shape and type, which are public
    assert ledger.history() == ()


def test_more_steps_than_were_charged_are_refused_and_fewer_are_not_refunded() -> None:
    ledger = dp.Ledger()
    trainer = training(ledger=ledger)
    for batch in trainer:
        trainer.step(trainer.model(batch.x))
    moved = trainer.model.weight.detach().clone()
    assert list(trainer) == []
    with pytest.raises(InvalidInput, match="none is waiting"):
        trainer.step(torch.zeros(()))
    with pytest.raises(PlanViolation):
        trainer.parts.run.answer(trainer.parts.round)
    assert torch.equal(trainer.model.weight, moved)

    early = training(ledger=ledger)
    batch = next(batches := iter(early))
    early.step(early.model(batch.x))
    batches.close()
    early.close()
    assert [c.status for c in ledger.history()] == ["completed", "stopped-early"]
    assert ledger.history()[1].event == ledger.history()[0].event
    assert list(early) == []


def test_a_batch_cannot_be_left_out() -> None:
    trainer = training()
    with pytest.raises(InvalidInput, match="was not called"):
        list(trainer)


def test_a_loop_that_broke_off_gets_its_batch_again_and_no_other() -> None:
    trainer = training()
    first = None
    for batch in trainer:
        first = batch
        break
    for number, batch in enumerate(trainer):
        assert number or batch is first
        trainer.step(trainer.model(batch.x))
    assert trainer.steps_done == trainer.plan.steps


def test_a_loop_cannot_add_slots_to_a_batch() -> None:
    trainer = training(epsilon=math.inf, epochs=1 / 3)
    for batch in trainer:
        count = int(batch.present.sum())
        batch.present[:] = True
        batch.fields[0][:] = 0.5
        trainer.step(trainer.model(batch.x))
    assert float(trainer.model.weight.detach()[0]) == pytest.approx(-0.5 * count / 20, abs=1e-5)


def test_the_certificate_states_the_sampler_that_draws() -> None:
    kinds = {"poisson": Poisson, "fixed-size": FixedSize}
    for sampling, kind in kinds.items():
        event = training(sampling=sampling).privacy_.event
        assert isinstance(event, Repeat)
        assert isinstance(event.event, kind)
    plan = plan_training(
        dp_guarantee(math.inf), N, epochs=2, expected_batch=20, sampling="allocation", slots=None
    )  # fmt: skip
    assert plan.batches == Allocated(3)
    assert plan.batches.event(Gaussian(1.0), Unit("replace-one")) == Allocation(3, Gaussian(1.0))
    assert plan.steps == 6
    for word in ("shuffle", "shuffled"):
        with pytest.raises(InvalidInput, match="refused"):
            training(sampling=word)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(9, 1)), shuffle=True)
    with pytest.raises(InvalidInput, match="pass its dataset"):
        TorchRows(loader)


def dp_guarantee(epsilon: float):
    from discreet.calibration import Guarantee

    return Guarantee(epsilon, 0.0 if math.isinf(epsilon) else 1e-5, Unit("replace-one"))


def test_under_add_remove_the_number_of_rows_is_declared() -> None:
    with pytest.raises(InvalidInput, match="n_public"):
        training(adjacency="add-remove")
    wanted = training(adjacency="add-remove", n_public=50).plan
    assert wanted.expected_batch == 20
    assert wanted.steps == 5
    # nothing of the plan depends on the data's own number of rows
    fewer = training(x=torch.ones(55, 3), adjacency="add-remove", n_public=50).plan
    assert fewer == wanted


# --- what a step releases: each test fails for a known mistake --------------------------------------------------------


def test_an_empty_batch_steps_with_noise() -> None:
    """Fails where noise is forgotten, or the step left out, when nobody was drawn."""
    x = torch.ones(N, 2000)
    trainer = training(Scaled(2000), x, expected_batch=1, epochs=1 / 30)
    nobody = TorchRows((x,)).take(np.empty(0, dtype=np.int64))
    (released,) = trainer.parts.round.sample(nobody, Unit("replace-one"), Bits.seeded(1))
    assert isinstance(released, NoisySum)
    noise = released.gradients[0].numpy()
    # 2000 samples: their standard deviation is within 10 % of the truth with probability above 1 − 1e-9
    assert noise.std() == pytest.approx(trainer.plan.noise_multiplier, rel=0.1)


def test_noise_is_drawn_once_a_logical_batch() -> None:
    """Fails where every physical batch gets its own noise: eight of them would have √8 times as much."""
    x = torch.zeros(N, 2000)
    trainer = training(Scaled(2000), x, expected_batch=N, epochs=1, slots=8)
    batches = 0
    for batch in trainer:
        assert len(batch.present) == 8
        trainer.step(trainer.model(batch.x))
        batches += 1
    assert batches == math.ceil(N / 8)
    released = -trainer.model.weight.detach().numpy() * N
    assert released.std() == pytest.approx(trainer.plan.noise_multiplier, rel=0.1)


def test_a_sum_is_divided_by_the_expected_batch_and_never_by_the_one_drawn() -> None:
    trainer = training(epsilon=math.inf, epochs=4)
    sizes, moves, before = [], [], trainer.model.weight.detach().clone()
    for batch in trainer:
        sizes.append(int(batch.present.sum()))
        trainer.step(trainer.model(batch.x))
        moves.append(float((before - trainer.model.weight.detach())[0]))
        before = trainer.model.weight.detach().clone()
    assert len(set(sizes)) > 3
    # a row's gradient is (½, ½, ½), shorter than the bound 1, and is rounded to steps of 2^-20
    np.testing.assert_allclose(moves, np.array(sizes) * 0.5 / 20, atol=1e-5)


def test_poisson_batches_are_those_of_independent_coins() -> None:
    """Fails for a shuffled or fixed-size sampler that is charged as Poisson: there rows exclude each other."""
    rate, rows = 0.25, TorchRows((torch.arange(12),))
    sampler = training(expected_batch=15).plan.batches
    assert isinstance(sampler, EachDrawn)
    bits = Bits.seeded(5)
    taken = np.zeros((4000, 12))
    for k in range(4000):
        for batch in sampler.draw(rows, bits):
            taken[k, batch._chosen] = 1
    # 4000 draws: a mean is within 5 standard deviations of the rate, a covariance within 5 of 0; together 78 looks, so
    # that the test fails by chance with probability below 1e-4
    assert np.abs(taken.mean(axis=0) - rate).max() < 5 * math.sqrt(rate * (1 - rate) / 4000)
    covariance = np.cov(taken.T)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 5 * rate * (1 - rate) / math.sqrt(4000)
    sizes = taken.sum(axis=1)
    assert sizes.var() == pytest.approx(12 * rate * (1 - rate), rel=0.15)  # 0 for batches of a fixed size


def test_every_row_is_in_one_batch_of_an_epoch_by_allocation() -> None:
    rows, bits = TorchRows((torch.arange(30),)), Bits.seeded(2)
    for _ in range(20):
        batches = list(Allocated(4).draw(rows, bits))
        assert len(batches) == 4
        assert sorted(np.concatenate([b._chosen for b in batches]).tolist()) == list(range(30))
    sizes = np.array([[len(b) for b in Allocated(4).draw(rows, bits)] for _ in range(300)])
    assert sizes.var() == pytest.approx(30 * 3 / 16, rel=0.3)  # equal parts, as of shuffled rows, have none


# --- neighbours -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [1.0, dp.torch.Clip(0.3, "per-layer"), dp.torch.Clip(0.3, "automatic"),
                                  dp.torch.QuantileBound(0.7)], ids=str)  # fmt: skip
@pytest.mark.parametrize("other", [1e30, -3.0, math.nan, 0.0])
def test_one_row_moves_the_integers_by_no_more_than_the_noise_is_scaled_to(clip, other) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, 3, generator=generator)
    neighbour = x.clone()
    neighbour[17] = other
    trainer = training(x=x, clip=clip, slots=16)
    query = trainer.parts.round.query

    def integers(rows: torch.Tensor) -> np.ndarray:
        total = query.zero()
        source = TorchRows((rows,))
        for which, slots in trainer.plan.places.physical_batches(N, Bits.seeded(0)):
            batch = source.batch(which, slots, 16, "cpu")
            with query.engine.watch():
                loss = trainer.model(batch.x)
            for one, part in zip(total, query.integers(loss, batch.present), strict=True):
                one += part
        return np.concatenate([one.ravel() for one in total])

    difference = integers(x) - integers(neighbour)
    assert np.any(difference)
    assert sum(int(v) ** 2 for v in difference) <= (2 * query.bound) ** 2


def test_places_of_the_others_do_not_depend_on_one_more_row() -> None:
    """The law of two rows' places is the same alone and beside a third; in order, the third would move them."""
    places, bits, draws = Places(2, 4), Bits.seeded(8), 6000

    def law(count: int) -> np.ndarray:
        found = np.zeros((4, 4))
        for _ in range(draws):
            first, second = places._places(count, bits)[:2]
            found[first, second] += 1 / draws
        return found

    alone, beside = law(2), law(3)
    assert np.trace(alone) == np.trace(beside) == 0
    # 12 cells of probability 1/12 each: all within 5 standard deviations with probability above 1 − 2e-5
    off = ~np.eye(4, dtype=bool)
    for found in (alone, beside):
        assert np.abs(found[off] - 1 / 12).max() < 5 * math.sqrt(1 / 12 / draws)


def test_one_more_row_does_not_move_the_random_numbers_of_a_model() -> None:
    """Dropout is drawn in every pass: under add-remove no pass, and no later number, depends on who was drawn."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    trainer = training(model, adjacency="add-remove", n_public=N, delta=1e-5, slots=8, epochs=1 / 3)
    (everyone,) = trainer.parts.round.batches.draw(TorchRows((torch.ones(N, 3),)), Bits.seeded(3))
    sampled = set()
    for count in (0, 1, len(everyone) - 1, len(everyone)):
        torch.manual_seed(0)
        given = everyone.take(np.arange(count))
        for which, slots in trainer.parts.round.places.physical_batches(len(given), Bits.seeded(4)):
            model(given.batch(which, slots, 8, torch.device("cpu")).x)
        sampled.add(tuple(torch.random.get_rng_state().tolist()))
    assert len(sampled) == 1


def test_a_full_step_has_every_row_in_a_place_of_its_own() -> None:
    for places in (Places(4), Places(4, 8), Places(4, 24)):
        for count in (0, 1, 8, 9, 23):
            rows, seen = [], set()
            for number, (which, slots) in enumerate(places.physical_batches(count, Bits.seeded(count))):
                rows += which.tolist()
                seen |= {(number, slot) for slot in slots.tolist()}
                assert slots.min(initial=0) >= 0
                assert slots.max(initial=0) < 4
            assert sorted(rows) == list(range(count))
            assert len(seen) == count


def test_overflow_bounds_the_binomial_tail() -> None:
    from scipy.stats import binom

    for n, rate, least in ((1000, 0.1, 150), (400, 0.5, 260), (50, 0.02, 9)):
        exact = binom.logsf(least - 1, n, rate)
        assert exact <= log_tail(n, rate, least) < 0.8 * exact  # Chernoff loses a factor in front
    places = places_for(Unit("add-remove", 3), 1000, 0.1, 32, 100, 1e-9)
    assert places.total is not None
    assert places.overflow * 100 <= 1e-9
    assert binom.sf(places.total - 3, 1050, 0.1) <= places.overflow


def test_blank_slots_and_buffers_learn_nothing() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Scaled()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += x.detach().sum()
            return self.inner(x) + 5.0  # a blank example has a loss and a gradient of its own

    trainer = training(Counting(), epsilon=math.inf)
    for batch in trainer:
        trainer.step(trainer.model(batch.x))
        assert trainer.model.seen == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": "1"}, "epsilon must be positive"), ({"epsilon": None}, "epsilon must be positive"),
        ({"epochs": True}, "epochs must be"), ({"clip": float("nan")}, "got nan"),
        ({"data": ([[0.0] * 3] * 40, [1.0] * 40)}, "tuple of tensors"), ({"optimizer": "sgd"}, "one of torch.optim"),
    ],
)  # fmt: skip
def test_declarations_of_another_kind_are_refused_with_their_value(settings, message) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    declared = {
        "epsilon": 1.0, "epochs": 1, "expected_batch": 2, "data": (torch.ones(40, 3), torch.ones(40)),
        "optimizer": torch.optim.SGD(model.parameters(), 0.1), "ledger": dp.Ledger(),
    } | settings  # fmt: skip
    with pytest.raises(InvalidInput, match=message):
        dp.torch.privatize(model, declared.pop("optimizer"), declared.pop("data"), **declared)
    assert declared["ledger"].history() == ()


@pytest.mark.parametrize("kind", ["number", "detached", "another model"])
def test_a_loss_that_is_not_the_models_is_refused(kind) -> None:
    """Before, a loss of another model released noise alone."""
    model, other = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
    data = torch.ones(40, 3), torch.ones(40)
    trainer = dp.torch.privatize(
        model, torch.optim.SGD(model.parameters(), 0.1), data, epsilon=1.0, epochs=1, expected_batch=20
    )
    batch = next(iter(trainer))
    losses = {
        "number": lambda: 1.0,
        "detached": lambda: model(batch.x).detach()[:, 0],
        "another model": lambda: other(batch.x)[:, 0],
    }
    with pytest.raises(InvalidInput, match="nothing was released"):
        trainer.step(losses[kind]())


class Examples(torch.utils.data.Dataset):
    """Numbers, one of which may have another type than all others."""

    def __init__(self, numbers: list) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int):
        return torch.ones(2), self.numbers[index]


@pytest.mark.parametrize("other", [0.5, np.float32(0.5), True, 7])
def test_the_type_of_one_example_decides_nothing_about_others(other) -> None:
    """2^24 + 1 is no float32: beside a float among whole numbers, all of them would be rounded."""
    large = 2**24 + 1
    plain, mixed = TorchRows(Examples([large] * 3)), TorchRows(Examples([large, large, other]))
    for rows in (plain, mixed):
        batch = rows.batch(np.arange(3), np.arange(3), 4, torch.device("cpu"))
        assert batch.y.dtype == torch.int64
        assert batch.y[:2].tolist() == [large, large]
