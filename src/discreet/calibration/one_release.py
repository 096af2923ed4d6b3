"""The noise of one release that takes the whole budget."""

from __future__ import annotations

from discreet import events
from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.errors import InvalidInput

__all__ = ["gaussian_multiplier", "laplace_multiplier"]


def gaussian_multiplier(guarantee: Guarantee) -> float:
    """The least noise multiplier of one Gaussian release; 0 without privacy.

    Raises:
        InvalidInput: δ = 0 asks for pure DP.
    """
    if not guarantee.private:
        return 0.0
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet.accounting import calibrate

    return calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit)


def laplace_multiplier(guarantee: Guarantee, replace_one_factor: float = 2.0) -> float:
    """The noise multiplier of one Laplace release, which is pure ε-DP whatever δ is; 0 without privacy.

    Args:
        guarantee: what the release keeps.
        replace_one_factor: of a query of several numbers, where it bounds the distance of two rows' contributions.

    Example:
        >>> from discreet.units import Unit
        >>> round(laplace_multiplier(Guarantee(0.5, 0.0, Unit("replace-one"))), 6)
        4.0
    """
    return guarantee.unit.sensitivity(1.0, replace_one_factor) / guarantee.epsilon * (1 + 1e-12)
