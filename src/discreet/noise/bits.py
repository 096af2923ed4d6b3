"""Random bits: the one source from which every protective sample is drawn.

A `Bits` serves 64-bit words of AES-256-CTR keystream in blocks. Each block is encrypted under a key of its own, which
is forgotten as soon as the block is filled, and every word is wiped when it is read: what the memory of a process
holds at one moment says nothing about noise drawn before.

* `Bits.secure()` takes each key from the operating system. Every thread reads its own blocks; a block that was filled
  before a fork is thrown away in the child; a process that is spawned, or a `Bits` that is unpickled, starts afresh.
  So no two readers are ever served the same words.
* `Bits.seeded(seed)` derives the keys from a seed: the same seed serves the same words everywhere. Whoever knows the
  seed can subtract the noise, so such a source is not ``protective`` and nothing drawn from it is private.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from discreet.errors import InvalidInput

__all__ = ["Bits", "KeystreamBlock", "Reader", "process_bits"]

BLOCK_WORDS = 1 << 15
_PLAIN = bytes(8 * BLOCK_WORDS)
_ZERO_NONCE = bytes(16)  # safe because no key encrypts more than one block

_generation = 0


def _after_fork() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_after_fork)


class KeystreamBlock:
    """Keystream words and the position of the first unread one, held in an array so that kernels advance it."""

    __slots__ = ("cursor", "owner", "words")

    def __init__(self, key: bytes) -> None:
        """Fills the block with the keystream of ``key``."""
        # Two words more than are served: the cipher asks for room for a partial block beyond its output.
        room = np.empty(BLOCK_WORDS + 2, dtype=np.uint64)
        Cipher(algorithms.AES256(key), modes.CTR(_ZERO_NONCE)).encryptor().update_into(_PLAIN, room.data.cast("B"))
        self.words: NDArray[np.uint64] = room[:BLOCK_WORDS]
        self.cursor: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.owner = _owner()

    @property
    def unread(self) -> int:
        """How many words are left."""
        return BLOCK_WORDS - int(self.cursor[0])

    def read(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` ≤ ``unread`` words, wiped here as they are handed over."""
        start = int(self.cursor[0])
        self.cursor[0] = start + count
        served = self.words[start : start + count].copy()
        self.words[start : start + count] = 0
        return served


def _owner() -> tuple[int, int]:
    """Changes at every fork; the process id alone could be reused."""
    return os.getpid(), _generation


class _ThreadShelf(threading.local):
    """Keeps, for each thread, the block that it will go on reading."""


class _SharedShelf:
    """Keeps the block that all threads read, one at a time."""


class Reader:
    """Exclusive use of a stream for a while; made by `Bits.reader`.

    The block is taken off its shelf by one atomic step and put back at the end, so a signal handler that draws in
    between finds the shelf empty and reads a block of its own.
    """

    __slots__ = ("_bits", "block")

    def __init__(self, bits: Bits) -> None:
        """Use `Bits.reader`."""
        self._bits = bits

    def __enter__(self) -> Reader:
        self._bits._lock.__enter__()
        kept: KeystreamBlock | None = vars(self._bits._shelf).pop("block", None)
        if kept is None or self._stale(kept):
            kept = self._bits._next_block()
        self.block = kept
        return self

    def __exit__(self, *_: object) -> None:
        vars(self._bits._shelf)["block"] = self.block
        self._bits._lock.__exit__(None, None, None)

    def _stale(self, block: KeystreamBlock) -> bool:
        return self._bits.protective and block.owner != _owner()

    def ensure(self, words: int) -> KeystreamBlock:
        """The block, replaced by a fresh one if it has fewer unread words than this."""
        if self.block.unread < words or self._stale(self.block):
            self.block = self._bits._next_block()
        return self.block

    def word(self) -> int:
        """The next word as a Python integer."""
        return int(self.ensure(1).read(1)[0])

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words; how they are split into calls makes no difference."""
        parts = [np.empty(0, dtype=np.uint64)]
        while count > 0:
            block = self.ensure(1)
            parts.append(block.read(min(count, block.unread)))
            count -= parts[-1].size
        return np.concatenate(parts)


class Bits:
    """A stream of random 64-bit words; made by `Bits.secure` or `Bits.seeded`."""

    protective: bool

    def __init__(self, next_key: Callable[[], bytes], *, protective: bool) -> None:
        """Use `secure` or `seeded`."""
        self.protective = protective
        self._next_key = next_key
        self._shelf = _ThreadShelf() if protective else _SharedShelf()
        self._lock: AbstractContextManager[Any] = nullcontext() if protective else threading.RLock()

    @classmethod
    def secure(cls) -> Bits:
        """A source that protects: every block is keyed by the operating system.

        Example:
            >>> Bits.secure().protective
            True
        """
        return cls(lambda: os.urandom(32), protective=True)

    @classmethod
    def seeded(cls, seed: int) -> Bits:
        """A reproducible source, for experiments and tests; nothing drawn from it is private.

        Args:
            seed: any integer.

        Raises:
            InvalidInput: if the seed is not an integer.

        Example:
            >>> bool((Bits.seeded(7).words(3) == Bits.seeded(7).words(3)).all())
            True
        """
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
            raise InvalidInput(f"a seed must be an integer, not {seed!r}")
        label = f"discreet seeded bits {int(seed)} block ".encode()
        blocks = itertools.count()
        return cls(lambda: hashlib.sha256(label + str(next(blocks)).encode()).digest(), protective=False)

    def reader(self) -> Reader:
        """Exclusive use of this thread's stream, as a context manager."""
        return Reader(self)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words of this thread's stream."""
        with self.reader() as reader:
            return reader.words(count)

    def _next_block(self) -> KeystreamBlock:
        return KeystreamBlock(self._next_key())

    def __reduce__(self) -> tuple[Callable[[], Bits], tuple[()]]:
        if not self.protective:
            raise InvalidInput(
                "a seeded source cannot be sent to another process: both would serve the same words; "
                "give each process a seed of its own"
            )
        return Bits.secure, ()

    def __repr__(self) -> str:
        return "Bits.secure()" if self.protective else "Bits.seeded(…)"


_PROCESS_BITS = Bits.secure()


def process_bits() -> Bits:
    """The secure source that samplers use when none is given."""
    return _PROCESS_BITS
