"""Random choices that are public: whoever knows the seed can repeat them, and no privacy depends on them."""

from __future__ import annotations

import hashlib

__all__ = ["public_uniform"]


def public_uniform(seed: int, purpose: str, t: int) -> float:
    """A number in [0, 1) for step ``t`` of a run: 53 bits of a hash of public facts. No privacy depends on it.

    Example:
        >>> public_uniform(0, "level", 3) == public_uniform(0, "level", 3) != public_uniform(0, "level", 4)
        True
    """
    digest = hashlib.sha256(f"discreet {purpose} {seed} {t}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53
