"""ChaCha20 (Bernstein 2008; RFC 8439) on arrays of block counters."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Words", "chacha20", "pair"]

Words = NDArray[np.uint32]

CONSTANTS: Final = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_COLUMNS: Final = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
_DIAGONALS: Final = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def chacha20(key: Words, counter: NDArray[np.int64], first: int, second: int) -> Words:
    """Blocks of keystream, [16, counters].

    The state is that of Bernstein's original: a counter of 64 bits (words 12 and 13) and a nonce of 64 bits (words 14
    and 15). RFC 8439 reads word 13 as the first word of its nonce.

    Args:
        key: eight words.
        counter: block counters.
        first: word 14.
        second: word 15.
    """
    count = np.asarray(counter, dtype=np.uint64)
    state = np.empty((16, count.size), dtype=np.uint32)
    state[:4] = np.array(CONSTANTS, dtype=np.uint32)[:, None]
    state[4:12] = np.asarray(key, dtype=np.uint32)[:, None]
    state[12], state[13] = count & np.uint64(0xFFFFFFFF), count >> np.uint64(32)
    state[14], state[15] = first, second
    x = state.copy()
    for _ in range(10):
        for a, b, c, d in (*_COLUMNS, *_DIAGONALS):
            x[a] += x[b]
            x[d] = _turned(x[d] ^ x[a], 16)
            x[c] += x[d]
            x[b] = _turned(x[b] ^ x[c], 12)
            x[a] += x[b]
            x[d] = _turned(x[d] ^ x[a], 8)
            x[c] += x[d]
            x[b] = _turned(x[b] ^ x[c], 7)
    x += state
    return x


def _turned(x: Words, places: int) -> Words:
    return (x << np.uint32(places)) | (x >> np.uint32(32 - places))


def pair(low: Words, high: Words) -> NDArray[np.uint64]:
    """Words of 64 bits from their halves."""
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
