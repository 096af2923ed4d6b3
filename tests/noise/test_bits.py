from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from discreet import noise
from discreet.errors import InvalidInput
from discreet.noise import Bits, bernoulli, discrete_gaussian, rounded_gaussian
from discreet.noise.bits import BLOCK_WORDS


def test_seeded_words_are_aes_counter_mode_under_the_hashed_seed() -> None:
    key = hashlib.sha256(b"discreet seeded bits 42 block 0").digest()
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()
    counters = b"".join(i.to_bytes(16, "big") for i in range(50))
    expected = np.frombuffer(encryptor.update(counters), dtype="<u8")
    assert np.array_equal(Bits.seeded(42).words(100), expected)


def test_the_split_into_calls_makes_no_difference() -> None:
    whole = Bits.seeded(1).words(2 * BLOCK_WORDS + 10)
    bits = Bits.seeded(1)
    parts = [bits.words(n) for n in (0, 1, 7, BLOCK_WORDS, BLOCK_WORDS + 2)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert np.unique(whole).size == whole.size


@pytest.mark.parametrize("seed", [0, -1, 2**200, np.int64(5)])
def test_any_integer_is_a_seed_and_different_seeds_differ(seed: int) -> None:
    assert np.array_equal(Bits.seeded(seed).words(4), Bits.seeded(seed).words(4))
    assert not np.array_equal(Bits.seeded(seed).words(4), Bits.seeded(int(seed) + 1).words(4))


@pytest.mark.parametrize("seed", [1.0, "1", None, True])
def test_other_seeds_are_refused(seed: object) -> None:
    with pytest.raises(InvalidInput, match="integer"):
        Bits.seeded(seed)  # type: ignore[arg-type]


def test_only_the_secure_source_calls_itself_protective() -> None:
    assert Bits.secure().protective
    assert not Bits.seeded(3).protective


def test_read_words_are_wiped() -> None:
    bits = Bits.seeded(2)
    bits.words(10)
    rounded_gaussian(5.0, 100, bits=bits)
    discrete_gaussian(500.0, 100, bits=bits)
    bernoulli(0.3, 100, bits=bits)
    with bits.reader() as reader:
        used = int(reader.block.cursor[0])
        assert used >= 10 + 200 + 200 + 50
        assert not reader.block.words[:used].any()
        assert reader.block.words[used:].all()


def test_a_reader_that_interrupts_another_reads_other_words() -> None:
    # What a signal handler would do that draws noise in the middle of a draw.
    for bits in (Bits.seeded(4), Bits.secure()):
        first = bits.words(3)  # leaves a block on the shelf
        with bits.reader() as outer:
            before = outer.words(5)
            with bits.reader() as inner:
                assert inner.block is not outer.block
            inside = bits.words(20)
            after = outer.words(5)
        served = np.concatenate([first, before, inside, after, bits.words(20)])
        assert np.unique(served).size == served.size


def test_bits_are_balanced() -> None:
    # 64 · 2^15 bits: each position of the word, and all together, within five standard deviations.
    ones = np.unpackbits(Bits.seeded(6).words(1 << 15).view(np.uint8)).reshape(-1, 64).sum(axis=0, dtype=np.int64)
    assert np.abs(ones - (1 << 14)).max() < 5 * 90.6
    assert abs(int(ones.sum()) - (1 << 20)) < 5 * 725


def test_bits_and_the_room_itself_load_without_the_compiler() -> None:
    program = "import sys, discreet; discreet.noise.Bits.secure().words(1); print('numba' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


def test_every_exported_name_is_there() -> None:
    assert sorted(noise.__all__) == dir(noise)
    for name in noise.__all__:
        assert getattr(noise, name) is not None
    with pytest.raises(AttributeError, match="no attribute"):
        noise.normal  # noqa: B018


def test_sampling_is_the_same_function_of_a_seed_in_every_split_of_one_block() -> None:
    together = rounded_gaussian(2.0**20, 1000, bits=Bits.seeded(9))
    bits = Bits.seeded(9)
    apart = np.concatenate([rounded_gaussian(2.0**20, 500, bits=bits), rounded_gaussian(2.0**20, 500, bits=bits)])
    assert np.array_equal(together, apart)
