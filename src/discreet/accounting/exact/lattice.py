"""Privacy losses moved to a lattice, so that they are never better (`upper_law`) or never worse (`lower_law`) than
they were.

δ as a function of α = e^ε is convex. Linear interpolation between its values at the lattice points lies above it and
is the profile of a law on the lattice: "connect the dots" (Doroshenko et al. 2022). A piecewise linear convex
function below it, with kinks at lattice points only, is the profile of a law that is never worse: the dots are
lowered by the largest gap between chord and curve beside them. Both err by the square of the spacing.
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

    Chord and curve differ in a bin by at most Δα·q₀q₁/(q₀ + q₁) (the corner of the tangents at its ends). Lowering
    both ends by that keeps the chord below the curve. No dot may fall below 0: where the right end of a bin would, it
    becomes 0 and the left end goes down to the tangent at the right, and to 0. Where the lowered dots are not convex
    their convex minorant is taken (isotonic regression of the slopes).
    """
    if (exact := _exact(pair, spacing, -1)) is not None:
        return exact
    offset, first, edges = _edges(pair, spacing, log_tail)
    if edges[-1] - edges[0] > 600:  # slopes would leave the range of doubles: claim nothing
        return Law(offset, spacing, first, np.zeros(len(edges)), pair.infinite, _slip(pair, edges))
    p, q = pair.masses(edges)
    p = np.where(q > _SMALLEST, p, 0.0)  # where Q has lost digits nothing is claimed
    error = _split_error(pair, edges, log_tail)
    left, right = _split(p, q, edges, spacing)
    unsure = 2 * error * p[1:-1] / -math.expm1(-spacing)  # of the split
    taken = np.minimum(right, unsure)  # what rounding may have given to the right end goes back to the left
    law = np.zeros(len(edges))
    law[:-1] += left + taken
    law[1:] += right - taken
    shrink, grow = -math.expm1(-spacing), math.expm1(spacing)
    high_left, high_right = left + unsure, (right + unsure) * math.exp(-spacing)
    with np.errstate(invalid="ignore", divide="ignore"):
        gaps = grow * np.nan_to_num(high_left * high_right / (high_left + high_right))
    certain = (left <= 2 * unsure) | (right <= 2 * unsure)  # an atom on a lattice point: no curve between the dots
    gaps = np.where(certain, grow * 3 * unsure, gaps)
    wanted = np.maximum(np.append(gaps, 0.0), np.append(0.0, gaps))
    scale = np.exp(edges[-1] - edges)
    tails = np.cumsum((law * scale)[::-1])[::-1]  # −slope to the left of each point, in units of e^−last
    values = np.append(np.cumsum((tails[1:] / scale[:-1])[::-1])[::-1] * grow, 0.0)  # δ at each point
    down = np.minimum(wanted, values)
    short = values[1:] < wanted[1:]
    down[:-1] = np.where(short, np.maximum(down[:-1], shrink * right + values[1:]), down[:-1])
    down[:-1] = np.where(short, np.minimum(down[:-1] + grow * 3 * unsure, values[:-1]), down[:-1])
    change = np.diff(down)
    law[:-1] -= change / grow
    law[1:] += change / shrink
    if (law < 0).any():
        law = _convex(law, edges)
    law = np.maximum(law - 8 * UNIT_ROUNDOFF * np.abs(np.concatenate([change, [0.0]])) / grow, 0.0)
    return Law(
        offset, spacing, first, law * (1 - 4 * error - 4 * len(law) * UNIT_ROUNDOFF), pair.infinite, _slip(pair, edges)
    )


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
    places = np.floor((edges[bulk - 1 :] - offset) / spacing * (1 - 4 * UNIT_ROUNDOFF) - 1e-9).astype(int)
    law = np.bincount(places - min(0, int(places.min())), weights=rest)
    first = min(0, int(places.min()))
    law[-first] += below
    return Law(
        offset, spacing, first, law * (1 - 4 * error - len(rest) * UNIT_ROUNDOFF), pair.infinite, _slip(pair, edges)
    )


def _convex(law: Array, edges: Array) -> Array:
    """The law of the greatest convex function below the dots that ``law`` (with negative masses) describes."""
    from scipy.optimize import isotonic_regression

    scale = np.exp(edges[-1] - edges)
    tails = np.cumsum((law * scale)[::-1])[::-1]  # −slope in the bin to the left of each point
    slopes = -tails[1:]
    widths = np.diff(np.exp(edges - edges[-1]))
    fitted = isotonic_regression(slopes, weights=np.maximum(widths, 1e-300)).x
    fitted = np.clip(fitted, -float(tails[0]), 0.0)  # never steeper than the tangent at the left end
    steps = np.diff(np.concatenate([[-float(tails[0])], fitted, [0.0]]))
    unsure = 16 * UNIT_ROUNDOFF * np.concatenate([[-fitted[0]], -fitted])
    return np.maximum(steps - unsure, 0.0) / scale
