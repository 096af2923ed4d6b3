"""Loops in parts do every part once, whatever threads do; noise drawn by several threads is that of one."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.torch import threads
from discreet.torch.engine import Clip, ExampleGradients
from discreet.torch.noisy import perturbed
from discreet.torch.rounds import ClippedGradientSum


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_every_row_is_worked_on_once(count: int) -> None:
    torch.set_num_threads(3)
    done = np.zeros(count, dtype=np.int64)

    def work(first: int, last: int) -> None:
        done[first:last] += 1

    for _ in range(20):
        threads.in_parts(work, count, threads.SMALL)
    assert (done == 20).all()


def test_a_thread_that_is_late_is_not_waited_for_and_one_that_has_begun_is() -> None:
    torch.set_num_threads(2)
    stop, own = threading.Event(), threading.get_ident()
    busy = threads._pool(1).submit(stop.wait)
    found = []
    threads.in_parts(lambda first, last: found.append((first, last)), 16, threads.SMALL)
    assert [last for _, last in found] == list(range(2, 17, 2))
    stop.set()
    busy.result()
    ready, ended = threading.Barrier(2, timeout=30), []

    def work(first: int, last: int) -> None:
        if not ended:
            ready.wait()  # both threads have a part
        ended.append(threading.get_ident() == own)

    threads.in_parts(work, 2, threads.SMALL)
    assert sorted(ended) == [False, True]


def test_what_a_part_raises_is_raised() -> None:
    torch.set_num_threads(2)

    def work(first: int, last: int) -> None:
        if last == 16:
            raise ZeroDivisionError

    for _ in range(10):
        with pytest.raises(ZeroDivisionError):
            threads.in_parts(work, 16, threads.SMALL)


def query() -> ClippedGradientSum:
    return ClippedGradientSum(ExampleGradients(torch.nn.Linear(3, 1), Clip(1.0), slots=2, grid=2.0**20), 1.0)


def test_noise_of_several_threads_is_gaussian_and_no_part_of_it_is_drawn_twice() -> None:
    """By chance: 13 tests of normal sums beyond 6 deviations, below 1e-7."""
    torch.set_num_threads(3)
    sums = [torch.zeros(250, 1000, dtype=torch.int64), torch.tensor(5), torch.full((50_001,), 1 << 30)]
    found = perturbed(sums, Gaussian(2.0), query(), Bits.secure())
    assert [tuple(one.shape) for one in found] == [(250, 1000), (), (50_001,)]
    values = torch.cat([found[0].reshape(-1), found[2] - 2.0**10]).numpy() / 2.0
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        assert abs((values**power).mean() - moment) < 6 * np.sqrt(variance / len(values))
    parts = np.array_split(values, 12)
    shortest = min(map(len, parts))
    related = np.corrcoef([part[:shortest] for part in parts]) - np.eye(12)
    assert np.abs(related).max() < 8 / np.sqrt(shortest)
    assert len(np.unique(values)) > 0.9 * len(values)


def test_a_seed_gives_the_same_noise_whatever_the_number_of_threads() -> None:
    sums, found = [torch.zeros(300, 300, dtype=torch.int64), torch.zeros(7, dtype=torch.int64)], []
    for number in (1, 3):
        torch.set_num_threads(number)
        found.append(perturbed(sums, Gaussian(1.0), query(), Bits.seeded(1)))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
