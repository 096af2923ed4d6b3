"""Facts about IEEE double arithmetic that error bounds are made of. Imports nothing of the library."""

from __future__ import annotations

from typing import Final

__all__ = ["ROUNDED_UP", "UNIT_ROUNDOFF"]

UNIT_ROUNDOFF: Final = 2.0**-53
"""u: an operation on doubles, rounded to nearest, has a relative error of at most u (Higham 2002, theorem 2.2)."""

ROUNDED_UP: Final = 1 + 2.0**-40
"""Outweighs the roundings of a formula of fewer than 2^12 operations in which no rounded terms cancel: its computed
value times this is above its exact value."""
