"""Random allocation: every row draws one batch, whatever the others are, and an epoch is charged as what it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare
from tests.solvers.attacks import proved_epsilon

from discreet import events
from discreet.accounting import epsilon
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput, PlanViolation
from discreet.measurements import Noisy, RandomAllocation
from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.queries.sums.moments import CrossMoment
from discreet.rows import RowSpec
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(1, 1.0)


class Seen:
    """A measurement that returns the targets of the rows it was given: which rows a batch holds."""

    def __init__(self, noise: float = 2.0) -> None:
        self.noise = noise

    def event(self, unit: Unit) -> events.Event:
        return events.Gaussian(self.noise)

    def sample(self, data: Any, unit: Unit, bits: Bits) -> Any:
        return np.concatenate([np.zeros(0), *data.map_blocks(lambda block: block.y)])

    def blank(self) -> Any:
        return np.zeros(0)


def drawn(n: int, batches: int, unit: Unit, bits: Bits) -> np.ndarray:
    """The batch of each row; every row must be seen exactly once."""
    batch, times = np.full(n, -1), np.zeros(n, int)

    def program() -> Generator[Any, Any, None]:
        for k in range(batches):
            rows = (yield Seen()).astype(int)
            batch[rows] = k
            times[rows] += 1

    RandomAllocation(program, batches).sample(in_memory(np.zeros((n, 1)), np.arange(n, dtype=float), ROWS), unit, bits)
    assert (times == 1).all()
    return batch


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
def test_every_row_draws_exactly_one_batch_uniformly_and_for_itself(unit: Unit) -> None:
    """χ² of batches, of pairs of neighbouring rows, and of one row in two epochs; each fails with probability 1e-6."""
    bits = Bits.seeded(1)
    first, second = drawn(6000, 5, unit, bits), drawn(6000, 5, unit, bits)
    assert chisquare(np.bincount(first, minlength=5)).pvalue > 1e-6
    assert chisquare(np.bincount(5 * first[:-1:2] + first[1::2], minlength=25)).pvalue > 1e-6
    assert chisquare(np.bincount(5 * first + second, minlength=25)).pvalue > 1e-6


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
def test_sizes_vary_as_independent_draws_do(unit: Unit) -> None:
    """Batches of equal size, as after a shuffle, have no spread; independent draws have (n/t)(1 − 1/t)."""
    bits = Bits.seeded(2)
    sizes = [np.bincount(drawn(40, 4, unit, bits), minlength=4)[0] for _ in range(400)]
    assert np.var(sizes) == pytest.approx(7.5, rel=0.4)  # a χ² of 399 degrees: beyond with probability below 1e-6


def test_a_further_row_leaves_the_batches_of_the_others_alone() -> None:
    for seed in range(20):
        fewer, more = (drawn(n, 4, ADD, Bits.seeded(seed)) for n in (60, 61))
        assert (fewer == more[:60]).all()


def program_of(*noises: float) -> Any:
    def program() -> Generator[Any, Any, int]:
        for noise in noises:
            yield Seen(noise)
        return len(noises)

    return program


def test_an_epoch_is_one_event_also_when_its_last_batches_are_not_asked() -> None:
    for unit in (ADD, REPLACE, Unit("add-remove", 3)):
        assert RandomAllocation(program_of(2.0, 2.0), 2).event(unit) == events.Allocation(2, events.Gaussian(2.0))
        assert RandomAllocation(program_of(2.0), 7).event(unit) == events.Allocation(7, events.Gaussian(2.0))
    assert RandomAllocation(program_of(2.0, 2.0), 2).blank() == 2


def test_what_the_event_does_not_say_is_refused() -> None:
    with pytest.raises(InvalidInput, match="same event"):
        RandomAllocation(program_of(2.0, 3.0), 2).event(ADD)
    for noises, batches in (((2.0, 2.0), 1), ((), 1)):
        with pytest.raises(InvalidInput, match="measurements"):
            RandomAllocation(program_of(*noises), batches).event(ADD)
    with pytest.raises(InvalidInput, match="one batch or more"):
        RandomAllocation(program_of(2.0), 0)


def test_a_program_may_not_deviate_from_its_rehearsal() -> None:
    def another_after_an_answer() -> Generator[Any, Any, None]:
        rows = yield Seen()
        yield Seen()
        if len(rows):  # blank answers are empty, real ones are not
            yield Seen()

    def dearer_after_an_answer() -> Generator[Any, Any, None]:
        rows = yield Seen()
        yield Seen(1.0 if len(rows) else 2.0)

    data = in_memory(np.zeros((50, 1)), np.arange(50.0), ROWS)
    for program in (another_after_an_answer, dearer_after_an_answer):
        with pytest.raises(PlanViolation, match="not charged"):
            RandomAllocation(program, 3).sample(data, ADD, Bits.seeded(0))


def attack(noise: float, unit: Unit, claimed: float, batches: int = 2, runs: int = 1500, delta: float = 0.1) -> float:
    """One row of the greatest contribution, there or not, or turned round; the likelihoods are means over batches."""
    query = CrossMoment(ROWS, 1.0)
    worlds = [in_memory(np.ones((1, 1)), np.full(1, y), ROWS) for y in (1.0, -1.0)]
    if unit.relation == "add-remove":
        worlds[1] = worlds[0].take(np.empty(0, np.int64))
    bits = Bits.seeded(3)

    def program() -> Generator[Any, Any, Any]:
        answers = []
        for _ in range(batches):
            answers.append((yield Noisy(query, Gaussian(noise))))
        return np.concatenate(answers)

    def statistic(data: Any) -> float:
        answers = RandomAllocation(program, batches).sample(data, unit, bits)
        one, other = (np.logaddexp.reduce((side * answers - 0.5) / noise**2) for side in (1, -1))
        return float(one - (other if unit == REPLACE else np.log(batches)))

    return proved_epsilon(*([statistic(data) for _ in range(runs)] for data in worlds), delta, claimed)


@pytest.mark.parametrize(("unit", "noise"), [(ADD, 1.0), (REPLACE, 2.0)], ids=str)
def test_the_claim_survives_an_attack_that_less_noise_does_not(unit: Unit, noise: float) -> None:
    """The upper assertion fails with probability at most 1e-3 if the claim holds."""
    claimed = epsilon(events.Allocation(2, events.Gaussian(noise)), 0.1, unit).upper
    assert attack(noise, unit, claimed) <= claimed
    assert attack(noise / 2, unit, claimed) > claimed
