"""Loops in parts do every part once, whatever threads do; noise drawn by several threads is that of one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.torch import threads
from discreet.torch.engine import Clip, ExampleGradients
from discreet.torch.noisy import perturbed
from discreet.torch.rounds import ClippedGradientSum


@pytest.fixture(params=["PyTorch's threads", "Python's threads"])
def team(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of threads, one after the other; PyTorch's alone are not everywhere."""
    if request.param == "Python's threads":
        monkeypatch.setattr(threads, "_team", lambda: None)
    elif threads._team() is None:
        pytest.skip("PyTorch's OpenMP has no GNU interface here")


@pytest.mark.usefixtures("team")
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_every_row_is_worked_on_once(count: int) -> None:
    torch.set_num_threads(3)
    done = np.zeros(count, dtype=np.int64)

    def work(first: int, last: int) -> None:
        done[first:last] += 1

    for _ in range(20):
        threads.in_parts(work, count, threads.SMALL)
    assert (done == 20).all()


def test_the_threads_are_those_of_operations_of_pytorch() -> None:
    """No other thread is made: it would share a processor with one that waits for PyTorch's next operation."""
    if threads._team() is None:
        pytest.skip("PyTorch's OpenMP has no GNU interface here")
    torch.set_num_threads(2)
    torch.ones(1 << 20).exp()
    threads._pool.cache_clear()
    before, ready, seen = _running(), threading.Barrier(2, timeout=30), set()

    def work(first: int, last: int) -> None:
        ready.wait()  # each thread has a part
        seen.add(threading.get_native_id())

    threads.in_parts(work, 2, threads.SMALL)
    assert len(seen) == 2
    assert seen <= before
    assert _running() <= before


def _running() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


@pytest.mark.parametrize("missing", ["a region that does nothing", "an interrupt on the way"])
def test_a_loop_that_was_not_done_in_whole_is_not_taken_for_done(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python drops what is raised between foreign code and a function that it calls; sums would lack a part."""
    torch.set_num_threads(2)

    def region(call: Callable[[Any], None], *_: Any) -> None:
        if missing != "a region that does nothing":
            interrupted = [True]

            def trace(frame: Any, event: str, _: Any) -> None:
                if interrupted and frame.f_code.co_name == "body":
                    interrupted.pop()
                    raise KeyboardInterrupt

            sys.settrace(trace)
            try:
                call(None)
            finally:
                sys.settrace(None)

    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(threads, "_team", lambda: region)
    with pytest.raises(KeyboardInterrupt):
        threads.in_parts(lambda first, last: None, 16, threads.SMALL)


def test_a_thread_of_python_that_is_late_is_not_waited_for_and_one_that_has_begun_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_team", lambda: None)
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


@pytest.mark.usefixtures("team")
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


@pytest.mark.usefixtures("team")
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
