"""Privacy losses moved to a lattice, so that they are never better (`upper_law`) or never worse (`lower_law`) than
they were.

δ as a function of α = e^ε is convex. Linear interpolation between its values at the lattice points lies above it and
is the profile of a law on the lattice: "connect the dots" (Doroshenko et al. 2022). A piecewise linear convex
function below it, with kinks at lattice points only, is the profile of a law that is never worse: it is found by
merging outcomes. Both err by the square of the spacing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.pairs import DiscretePair, Pair, ProfilePair
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["Law", "lower_law", "merged_law", "upper_law"]

Array = NDArray[Any]
_PROFILE_ERROR = 1e-13  # relative, granted to bounds of δ(ε) (their contract)
_SMALLEST = 1e-290  # masses of Q below it have lost digits to underflow
_MOST_POINTS = 1 << 21
_HEAVY = 1 / 16  # mass of a bin from which the lattice of a lower bound is moved to it


@dataclass(frozen=True, eq=False)
class Law:
    """Probabilities of the losses offset + spacing·(first + 0, 1, 2, …), and of +∞."""

    offset: float
    spacing: float
    first: int
    probabilities: Array
    infinite: float
    shift: float  # no loss is off by more than this through rounding

    @property
    def losses(self) -> Array:
        """The lattice points."""
        return self.offset + self.spacing * (self.first + np.arange(len(self.probabilities)))

    @property
    def support(self) -> tuple[int, int]:
        """The first and the last lattice point of positive probability, as multiples of the spacing."""
        positive = self.probabilities > 0
        return self.first + int(np.argmax(positive)), self.first + len(positive) - 1 - int(np.argmax(positive[::-1]))

    def transform(self) -> DiscretePair:
        """The law as a pair that knows its moments."""
        return DiscretePair(self.losses, self.probabilities, self.infinite)


def _edges(pair: Pair | ProfilePair, spacing: float, log_tail: float) -> tuple[float, int, Array]:
    low, high = pair.span(log_tail)
    offset = pair.anchor
    if not max(abs(low - offset), abs(high - offset)) < 2.0**50 * spacing:
        raise NotCertifiable(f"losses between {low:g} and {high:g} on a lattice of spacing {spacing:g}")
    first = math.floor((low - offset) / spacing * (1 + 4 * UNIT_ROUNDOFF) - 1e-9)
    last = math.ceil((high - offset) / spacing * (1 + 4 * UNIT_ROUNDOFF) + 1e-9)
    if last - first > _MOST_POINTS:
        raise MemoryError(f"{last - first} lattice points")
    return offset, first, offset + spacing * np.arange(first, last + 1)


def _exact(pair: Pair | ProfilePair, spacing: float, side: int) -> Law | None:
    """DiscretePair that already lie on the lattice, their probabilities rounded up or down."""
    if not isinstance(pair, DiscretePair) or pair.lattice is None:
        return None
    steps = (pair.losses - pair.anchor) / spacing
    places = np.rint(steps)
    slip = float(np.abs(steps - places).max()) * spacing
    if slip > 64 * UNIT_ROUNDOFF * float(np.abs(pair.losses).max()):
        return None
    first = int(places.min())
    probabilities = pair.probabilities
    unsure = pair.error + UNIT_ROUNDOFF * (16 - 4 * np.log(np.maximum(probabilities, 5e-324)))
    law = np.bincount((places - first).astype(int), weights=probabilities * (1 + side * unsure))
    return Law(
        pair.anchor, spacing, first, law, pair.infinite, slip + 16 * UNIT_ROUNDOFF * float(np.abs(pair.losses).max())
    )


def _slip(pair: Pair | ProfilePair, edges: Array) -> float:
    """How far the bins' true ends may lie from the lattice, whose points are rounded too."""
    rounded = 8 * UNIT_ROUNDOFF * (float(np.abs(edges).max()) + abs(pair.anchor))
    return rounded if isinstance(pair, ProfilePair) else rounded + pair.slip(edges)


def upper_law(pair: Pair | ProfilePair, spacing: float, log_tail: float) -> Law:
    """A law on the lattice that dominates the pair.

    A bin of masses (a, b) goes to its ends as p₁ = (a − be^{left})/(1 − e^{−h}) and p₀ = a − p₁, which keeps both
    masses; what rounding may have taken from p₁ is given back from p₀, which only makes the law worse. Mass below
    goes up to the first point, mass beyond the last to infinity.
    """
    if (exact := _exact(pair, spacing, 1)) is not None:
        return exact
    offset, first, edges = _edges(pair, spacing, log_tail)
    if isinstance(pair, ProfilePair):
        return _from_profile(pair, offset, spacing, first, edges)
    p, q = pair.masses(edges)
    error = _split_error(pair, edges, log_tail)
    _, upper = _split(p, np.where(q > _SMALLEST, q, 0.0), edges, spacing)
    inside = p[1:-1]
    upper = np.minimum(upper + 2 * error * inside / -math.expm1(-spacing), inside)
    law = np.zeros(len(edges))
    law[:-1] += inside - upper
    law[1:] += upper
    law[0] += p[0]
    grow = 1 + 2 * error
    return Law(offset, spacing, first, law * grow, pair.infinite + float(p[-1]) * grow + 5e-324, _slip(pair, edges))


def _moderate(edges: Array) -> bool:
    """Whether e^l and its products with masses stay within range."""
    return max(abs(float(edges[0])), abs(float(edges[-1]))) < 600


def _split_error(pair: Pair, edges: Array, log_tail: float) -> float:
    """The relative error of masses, and of b·e^left, which in logarithms is that of exponents of up to 1500."""
    return pair.bin_error(log_tail) + UNIT_ROUNDOFF * (
        16 if _moderate(edges) else 16 + 4 * (750 + float(np.abs(edges).max()))
    )


def _times_exp(b: Array, losses: Array) -> Array:
    """b·e^l, in logarithms where e^l alone would leave the range of doubles."""
    if _moderate(losses):
        return np.asarray(b * np.exp(losses))
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.minimum(np.log(b) + losses, 700.0)))


def _split(p: Array, q: Array, edges: Array, spacing: float) -> tuple[Array, Array]:
    """Each bin's P mass at its left and right end."""
    a, b = p[1:-1], q[1:-1]
    if _moderate(edges):
        scaled = b * np.exp(edges[:-1])
    else:
        with np.errstate(divide="ignore", over="ignore"):
            scaled = np.exp(np.minimum(np.log(b) + edges[:-1], 700.0))  # be^{left}; b = 0 sends all of a to the right
    upper = np.clip((a - scaled) / -math.expm1(-spacing), 0.0, a)
    return a - upper, upper


def _from_profile(pair: ProfilePair, offset: float, spacing: float, first: int, edges: Array) -> Law:
    """Connect the dots of a bound: the mass at a point is the change of slope there; a concave dent only adds mass.

    In units of δ: p_j = (δ_{j+1} − δ_j)/(e^h − 1) − (δ_j − δ_{j−1})/(1 − e^{−h}). Each δ is granted a relative error
    of 1e-13, added before and after, and rounding of the differences is charged to the mass itself.
    """
    values = np.minimum(pair.profile(edges) * (1 + _PROFILE_ERROR), 1.0)
    grow, shrink = math.expm1(min(spacing, 700.0)), -math.expm1(-spacing)
    steps = np.diff(values)
    law = np.empty(len(edges))
    law[1:-1] = steps[1:] / grow - steps[:-1] / shrink
    law[-1] = -steps[-1] / shrink  # beyond the last point the bound stays at its value there: failure
    law[0] = (
        steps[0] / grow + 1.0 - float(values[0]) + 4 * UNIT_ROUNDOFF
    )  # to its left the straight line from δ = 1 at α = 0
    noise = 4 * UNIT_ROUNDOFF * (np.abs(steps[1:]) / grow + np.abs(steps[:-1]) / shrink + values[1:-1] / grow)
    law[1:-1] += noise
    law = np.maximum(law, 0.0)
    return Law(offset, spacing, first, law * (1 + _PROFILE_ERROR), float(values[-1]), _slip(pair, edges))


def lower_law(pair: Pair, spacing: float, log_tail: float) -> Law:
    """A law on the lattice that the pair dominates; part of its mass may be missing, which only lowers it.

    Bins have the lattice points at their centres. All outcomes of a bin are merged; most of each stays at its own
    point, a small share goes to the point below or above: post-processing, so the pair dominates it. What arrives at a
    point of loss l, masses (A, B) of P and Q, counts as A at loss l if A ≥ B·e^l: `_shares` sees to that.
    """
    if (exact := _exact(pair, spacing, -1)) is not None:
        return exact
    offset, first, points = _edges(pair, spacing, log_tail)
    p, q = _centred(pair, points, spacing)
    for times in (1, 2):  # once to the heavy bins, whose outcomes change by that; then with something to spare
        if move := _move(p, q, points):
            offset += times * move
            points = offset + spacing * (first + np.arange(len(points)))
            p, q = _centred(pair, points, spacing)
    error, slip = _split_error(pair, points, log_tail), _slip(pair, points)
    down, up, touching = _shares(p, _times_exp(q, points), math.exp(spacing), error, slip)
    law = (1 - down - up) * p
    law[:-1] += down[1:] * p[1:]
    law[1:] += up[:-1] * p[:-1]
    shift = slip + (7 * error if touching else 0.0)
    return Law(offset, spacing, first, law * (1 - 2 * error - 16 * UNIT_ROUNDOFF), pair.infinite, shift)


def _shares(p: Array, here: Array, step: float, error: float, slip: float) -> tuple[Array, Array, bool]:
    """Shares of the bins that go down and up by one lattice point, and whether some atom lies on its point.

    ``here`` is q·e^l at each bin's own point. Where a bin is short of its loss, here > p, the bin above sends down just
    what makes up for it; if all of that bin is too little, the bin itself goes down. Where it has some to spare, it
    lifts a share of the bin below. Every comparison is made with the error that rounding may have against it. An atom
    on its lattice point may seem short by rounding alone, and have no bin above: the law's shift covers that.
    """
    doubt, above = error * (here + p), here * step
    short = np.maximum(here - p + doubt, 0.0)
    spare = np.maximum(p - here - doubt, 0.0)
    excess = np.append(np.maximum(p - here / step - doubt, 0.0)[1:], 0.0)  # of the next bin, at this bin's point
    lack = above - p + error * (above + p)  # of this bin, at the next point
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        needed = np.where(short > 0, short / excess * (1 + 8 * UNIT_ROUNDOFF), 0.0)
        most = np.where(lack > 0, np.append(spare[1:], 0.0) / lack * (1 - 8 * UNIT_ROUNDOFF), 0.0).clip(max=1.0)
    touching = (needed > 1) & (here <= p * (1 + 4 * error + slip))
    needed[touching] = 0.0
    alone = needed > 1
    down = np.where(alone, 1.0, np.append(0.0, np.where(alone, 0.0, needed)[:-1]))
    lifted = np.minimum(most, 1 - down)
    left = np.append((1 - down - lifted)[1:], 0.0)  # of the next bin, at its own point
    return down, np.minimum(lifted, most * left * (1 - 8 * UNIT_ROUNDOFF)), bool(touching.any())


def _centred(pair: Pair, points: Array, spacing: float) -> tuple[Array, Array]:
    """P and Q of bins around the points, all beyond the last point in the last one.

    What lies below the first bin is left out, and so are outcomes of which Q has lost digits.
    """
    p, q = pair.masses(np.append(points - spacing / 2, points[-1] + spacing / 2))
    p, q = np.append(p[1:-2], p[-2] + p[-1]), np.append(q[1:-2], q[-2] + q[-1])
    known = q > _SMALLEST
    return np.where(known, p, 0.0), np.where(known, q, 0.0)


def _move(p: Array, q: Array, points: Array) -> float:
    """How far to move the lattice so that no heavy bin is short of the loss at its centre, and one has it exactly.

    Heavy bins hold atoms, or what crowds where a unit rarely takes part: no other bin could make up for them.
    """
    heavy = p > _HEAVY
    return float((np.log(p[heavy] / q[heavy]) - points[heavy]).min()) if heavy.any() else 0.0


def merged_law(pair: Pair, spacing: float, log_tail: float) -> Law:
    """A law that the pair dominates, for losses whose bulk is narrower than the lattice: rarely taking part, say.

    Outcomes may be merged (post-processing), and a loss moved down. The heaviest bin and all below it become one atom
    of loss log(p/q), from which the lattice is counted, so that it is met exactly however often the bulk recurs. Every
    other bin goes down to the lattice point below it, an error of the first order in the spacing.
    """
    _, _, edges = _edges(pair, spacing, log_tail)
    p, q = pair.masses(edges)
    bulk = int(np.argmax(p[:-1])) + 1
    rest = p[bulk:]
    below, under = float(p[:bulk].sum()), float(q[:bulk].sum())
    if not under > 0:
        raise NotCertifiable("the bulk of the losses is beyond the range of doubles")
    error = pair.bin_error(log_tail) + 64 * UNIT_ROUNDOFF
    offset = math.log(below / under) - 8 * error
    if not max(abs(edges[-1] - offset), abs(edges[bulk - 1] - offset)) < _MOST_POINTS * spacing:
        raise NotCertifiable("the bulk of the losses lies too far from the others")
    places = np.floor((edges[bulk - 1 :] - offset) / spacing * (1 - 4 * UNIT_ROUNDOFF) - 1e-9).astype(int)
    law = np.bincount(places - min(0, int(places.min())), weights=rest)
    first = min(0, int(places.min()))
    law[-first] += below
    return Law(
        offset, spacing, first, law * (1 - 4 * error - len(rest) * UNIT_ROUNDOFF), pair.infinite, _slip(pair, edges)
    )
