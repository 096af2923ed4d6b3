"""Facts about IEEE double arithmetic that error bounds are made of, and what is a number. Imports nothing of the
library."""

from __future__ import annotations

from decimal import ROUND_UP, Context, Decimal
from typing import Final

__all__ = ["ROUNDED_UP", "UNIT_ROUNDOFF", "as_number", "rounded_up"]

UNIT_ROUNDOFF: Final = 2.0**-53
"""u: an operation on doubles, rounded to nearest, has a relative error of at most u (Higham 2002, theorem 2.2)."""

ROUNDED_UP: Final = 1 + 2.0**-40
"""Outweighs the roundings of a formula of fewer than 2^12 operations in which no rounded terms cancel: its computed
value times this is above its exact value."""


def as_number(value: object) -> float | None:
    """``value`` as a double, or None if it is no real number: a truth value, text, or nothing that has a size.

    Example:
        >>> as_number(2), as_number(True), as_number("1")
        (2.0, None, None)
    """
    if callable(scalar := getattr(value, "item", None)):  # of numpy, whose truth values are none of Python's
        try:
            value = scalar()
        except (TypeError, ValueError):
            return None
    if isinstance(value, bool | str | bytes | bytearray):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def rounded_up(value: float, digits: int = 4) -> str:
    """A number of so many digits that is not less than ``value``: a bound that is shown is still a bound.

    A relative 10⁻⁹ is arithmetic, and is not rounded up to a digit.

    Example:
        >>> rounded_up(1.48341), rounded_up(0.2500000000001), rounded_up(0.0), rounded_up(1e-7, 3)
        ('1.484', '0.25', '0', '1e-07')
    """
    if value in (0.0, float("inf")):
        return f"{value:g}"
    up = Decimal(value * (1 - 1e-9)).normalize(Context(prec=digits, rounding=ROUND_UP))
    return f"{float(up):.{digits}g}"
