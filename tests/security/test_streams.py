"""No two readers of secure bits are ever served the same words: not threads, not forks, not spawned processes."""

from __future__ import annotations

import multiprocessing
import operator
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.noise import Bits, rounded_gaussian

WORDS = 4096


def _all_different(*streams: NDArray[np.uint64]) -> bool:
    """Among 64-bit words that are independent, fewer than 2^16 of them repeat with probability below 2^−32."""
    served = np.concatenate(streams)
    return np.unique(served).size == served.size


def _in_a_fork(bits: Bits) -> NDArray[np.uint64]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, bits.words(WORDS // 8).tobytes())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        words = np.frombuffer(pipe.read(), dtype=np.uint64)
    os.waitpid(child, 0)
    assert words.size == WORDS // 8
    return words


def test_forks_read_other_words_than_their_parent_and_each_other() -> None:
    bits = Bits.secure()
    before = bits.words(10)  # so that a filled block, with its unread words, is there to be inherited
    children = [_in_a_fork(bits) for _ in range(3)]
    assert _all_different(before, *children, bits.words(WORDS))


def test_the_same_check_finds_a_stream_that_does_not_notice_the_fork() -> None:
    # A seeded stream is meant to be reproducible, and is just such a stream.
    bits = Bits.seeded(1)
    bits.words(10)
    assert not _all_different(_in_a_fork(bits), bits.words(WORDS))


@pytest.mark.parametrize("bits", [Bits.secure(), Bits.seeded(2)], ids=["secure", "seeded"])
def test_threads_never_share_a_word(bits: Bits) -> None:
    served: list[NDArray[np.uint64]] = []
    start = threading.Barrier(8)

    def read() -> None:
        start.wait()
        served.extend(bits.words(97) for _ in range(40))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(served) == 320
    assert _all_different(*served)


def test_threads_that_sample_together_share_nothing() -> None:
    bits = Bits.seeded(3)
    samples: list[NDArray[np.int64]] = []
    threads = [
        threading.Thread(target=lambda: samples.append(rounded_gaussian(2.0**50, 5000, bits=bits))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.unique(np.concatenate(samples)).size == 30_000


def test_spawned_processes_and_unpickled_sources_start_afresh() -> None:
    bits = Bits.secure()
    before = bits.words(10)
    copies = [pickle.loads(pickle.dumps(bits)).words(WORDS) for _ in range(2)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        spawned = pool.map(operator.methodcaller("words", WORDS), [bits] * 4, chunksize=2)
    assert _all_different(before, *copies, *spawned, bits.words(WORDS))


def test_a_seeded_source_does_not_travel() -> None:
    with pytest.raises(InvalidInput, match="seed of its own"):
        pickle.dumps(Bits.seeded(4))


def test_a_seed_gives_the_same_samples_in_every_process() -> None:
    program = (
        "from discreet.noise import Bits, rounded_gaussian\n"
        "bits = Bits.seeded(5)\n"
        "print(bits.words(3).tolist(), rounded_gaussian(2.0**40, 3, bits=bits).tolist())"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    runs = {
        subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    bits = Bits.seeded(5)
    here = f"{bits.words(3).tolist()} {rounded_gaussian(2.0**40, 3, bits=bits).tolist()}\n"
    assert runs == {here}
