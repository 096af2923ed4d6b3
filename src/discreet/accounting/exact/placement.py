"""Where the nodes of a contour sum lie.

Nothing here proves anything: every place is valid, and the errors that nodes have where they are put are bounded in
`discreet.accounting.exact.contour`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.cumulants import Cumulants, log_kappa
from discreet.accounting.exact.transform import short
from discreet.errors import NotCertifiable

__all__ = ["Aim", "Placement", "placed"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Placement:
    """A contour's nodes c + i·(0, 1, …, count − 1)·spacing, and the ε they were made for."""

    c: float
    spacing: float
    count: int
    alias_at: float  # the order at which aliases above are bounded
    epsilon: float


@dataclass(frozen=True)
class Aim:
    """What a contour sum is for."""

    epsilon: float
    log_delta: float  # about
    tolerance: float  # relative, of δ
    most_nodes: int
    at_saddle: bool = False  # stay where terms cancel least, whatever the number of nodes


def placed(cumulants: Cumulants, log_tails: Callable[[float, Array], Array], aim: Aim) -> tuple[Placement, float]:
    """Few nodes that suffice for an aim, and the logarithm of the bound on |M| beyond the last of them.

    The longer the period the more nodes. A contour left of the saddle may allow a shorter one, at the price of
    cancellation e^{height}/δ, which must not raise the rounding of n steps above the tolerance.

    Args:
        cumulants: of the run.
        log_tails: c and Ω ↦ a bound on log sup_{ω ≥ Ω} |M(c + iω)/M(c)| of the run.
        aim: ε, δ, the tolerance, and how many nodes are too many.

    Raises:
        NotCertifiable: no such place is found.
    """
    epsilon, log_delta, tolerance = aim.epsilon, min(aim.log_delta, 0.0), aim.tolerance
    cumulants.refine_near_saddle(epsilon)
    saddle, _, curvature = cumulants.saddle(epsilon)
    cs, moments = cumulants.known()
    height = moments - cs * epsilon - np.log(cs) - np.log1p(cs)
    need = math.log(2 / tolerance)
    bearable = math.log(tolerance / (3e-14 * sum(times for _, times in cumulants.parts)))
    least = float(height.min()) - log_delta
    bearable = least + 0.1 if aim.at_saddle else max(min(bearable, 9.2), least + 0.7)
    chernoff = moments - cs * epsilon + log_kappa(cs) - log_delta + need
    places = ((cs <= saddle * 1.0001) & (height - log_delta < bearable) & (cs * 1.02 < cs[-1])).nonzero()[0]
    if len(places) == 0:
        raise NotCertifiable("the saddle point lies outside the moments that exist")
    ahead = cs - cs[places, None]
    ahead[ahead <= 0.02 * cs[places, None]] = np.nan
    aliases = np.where(ahead > 0, chernoff / ahead, np.inf)
    further = aliases.argmin(axis=1)
    periods = np.maximum((need - log_delta) / cs[places], aliases[np.arange(len(places)), further])
    best = int(periods.argmin())
    c, level = float(cs[places[best]]), float(height[places[best]])
    spacing = short(2 * math.pi / float(periods[best]), 33)  # its multiples up to 2^19 are exact
    # The tail after Ω is at most (1/π)(1/Ω + spacing/Ω²)·exp(log tail), against c(c + 1)-scaled terms.
    allowed = math.log(tolerance) + log_delta - level - math.log(c) - math.log1p(c)
    natural = max(spacing, math.sqrt(max(1.0, -2 * allowed) / curvature))
    last, log_tail = _last(log_tails, c, spacing, allowed, natural, aim.most_nodes)
    count = int(last / spacing) + 2
    if count > aim.most_nodes:
        raise NotCertifiable(f"{count} nodes would be needed on the contour")
    return Placement(c, spacing, count, float(cs[further[best]]), epsilon), log_tail


def _last(
    log_tails: Callable[[float, Array], Array], c: float, spacing: float, allowed: float, natural: float, most: int
) -> tuple[float, float]:
    """About the least Ω beyond which nothing matters, from ``natural`` on, and the logarithm of the tail there."""

    def enough(omegas: Array) -> tuple[Array, Array]:
        tails = log_tails(c, omegas)
        return np.flatnonzero(tails + np.log((1 / omegas + spacing / omegas**2) / math.pi) < allowed), tails

    for start in (-2.0, 8.0, 18.0, 28.0, 38.0, 48.0):
        omegas = natural * 1.25 ** np.arange(start, start + 10)
        if len(enough(omegas[-1:])[0]):
            found, tails = enough(omegas)
            i = int(found[0]) if len(found) else len(omegas) - 1
            return float(omegas[i]), float(tails[i])
        if omegas[-1] > most * spacing:
            break
    raise NotCertifiable("the privacy loss is too rough (nearly atomic) for the contour sum")
