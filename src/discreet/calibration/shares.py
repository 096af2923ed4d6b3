"""A budget divided among several Gaussian releases.

Gaussian releases with noise multipliers ν_i are together as private as one release with Σ 1/ν_i² = 1/κ². A release that
gets the share s of the budget therefore has ν = κ/√s, and the shares of all releases add up to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from discreet.errors import InvalidInput

__all__ = ["multiplier", "remaining_share"]


def remaining_share(purpose: str, shares: Mapping[str, float], *, may_be_zero: str | tuple[str, ...] = ()) -> float:
    """What the named shares leave of the budget: 1 − Σ shares.

    Args:
        purpose: what the rest is for, for the error message.
        shares: the option's name and its value, for every release but the main one.
        may_be_zero: names of options whose releases are left out at 0.

    Raises:
        InvalidInput: a share that is not positive, or shares that leave nothing.

    Example:
        >>> remaining_share("gradients", {"centre_share": 0.0, "moment_share": 0.25}, may_be_zero="centre_share")
        0.75
    """
    optional = (may_be_zero,) if isinstance(may_be_zero, str) else may_be_zero
    left = 1.0
    for share in shares.values():
        left -= share
    positive = all(share > 0 or (share == 0 and name in optional) for name, share in shares.items())
    if not (positive and left > 0):
        excepted = f" ({' and '.join(optional)} may be 0)" if optional else ""
        given = ", ".join(f"{name}={share!r}" for name, share in shares.items())
        raise InvalidInput(f"shares must be positive{excepted} and leave some budget for {purpose}, got {given}.")
    return left


def multiplier(noise: float, share: float) -> float:
    """ν = κ/√share of a release that gets ``share`` of the budget, or 0 where it gets none and is left out.

    Args:
        noise: κ, the noise multiplier of one release with the whole budget.
        share: between 0 and 1.
    """
    return noise / math.sqrt(share) if share else 0.0
