"""Concentrated DP: the ρ of an event, and the ε that follows from ρ alone."""

from __future__ import annotations

import math

from discreet.accounting.exchange import require_presence
from discreet.accounting.histories import histories, in_parts
from discreet.accounting.upper.renyi import epsilon_upper
from discreet.accounting.upper.stated import pure_epsilon
from discreet.errors import NotCertifiable
from discreet.events import (
    ZCDP,
    Allocation,
    DiscreteGaussian,
    Event,
    FixedSize,
    Gaussian,
    Poisson,
    RandomizedResponse,
    Selection,
    WithReplacement,
)
from discreet.units import Adjacency, Unit

__all__ = ["zcdp_epsilon_upper", "zcdp_rho", "zcdp_to_epsilon"]


def zcdp_rho(event: Event, adjacency: Adjacency) -> float:
    """The ρ for which an event is ρ-zCDP: Gaussians μ²/2, pure ε ε²/2, bounded range ε²/8; they add (Bun–Steinke 2016).

    Raises:
        NotCertifiable: for leaves that are not zCDP, such as a sampled Gaussian, whose Rényi curve is not linear.

    Example:
        >>> from discreet.events import Repeat
        >>> zcdp_rho(Repeat(Gaussian(8.0), 64), "add-remove")
        0.5
    """
    unit = Unit.of(adjacency)
    return max(
        math.fsum(count * _leaf_rho(leaf.event, leaf.unit) for leaf, count in history.items())
        for history in histories(event, unit)
    )  # fmt: skip


def _leaf_rho(leaf: Event, unit: Unit) -> float:
    k = unit.rows_per_unit
    if isinstance(leaf, RandomizedResponse):
        require_presence(unit)
    match leaf:
        case Gaussian() | DiscreteGaussian():
            mu = leaf.mu(unit) if isinstance(leaf, Gaussian) else unit.sensitivity(1.0) / leaf.noise_multiplier
            return mu * mu / 2  # a product overflows to infinity, a power raises
        case ZCDP(rho):
            return k**2 * rho
        case Selection(epsilon, "exponential"):
            return (k * epsilon) * (k * epsilon) / 8
        case RandomizedResponse(epsilon, _):
            return k * (epsilon * epsilon) / 2
        case Poisson(rate, event) if rate == 1:
            return zcdp_rho(event, unit)
        case Allocation():
            return zcdp_rho(in_parts(leaf, unit), unit)
    epsilon = pure_epsilon(leaf, unit)
    if math.isfinite(epsilon):
        return epsilon * epsilon / 2
    if isinstance(leaf, Poisson | FixedSize | WithReplacement):
        raise NotCertifiable(
            f"{type(leaf).__name__} sampling of {type(leaf.event).__name__} is not zCDP with a useful ρ: its Rényi "
            "divergence jumps at high orders. Use method='renyi', 'contour' or 'fourier'."
        )
    raise NotCertifiable(f"{type(leaf).__name__} has no zCDP bound. Use method='renyi' or 'fourier'.")


def zcdp_to_epsilon(rho: float, delta: float) -> float:
    """The least ε with ρ-zCDP ⇒ (ε, δ)-DP over all orders (Canonne–Kamath–Steinke 2020, corollary 13).

    Example:
        >>> round(zcdp_to_epsilon(0.5, 1e-5), 4)
        4.7284
    """
    return epsilon_upper(ZCDP(rho), delta, "add-remove") if math.isfinite(rho) else math.inf


def zcdp_epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """ε of an event through its ρ alone.

    Example:
        >>> round(zcdp_epsilon_upper(Gaussian(1.0), 1e-5, "add-remove"), 4)
        4.7284
    """
    return zcdp_to_epsilon(zcdp_rho(event, adjacency), delta)
