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
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.pairs import DiscretePair, Pair, ProfilePair
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["Law", "lower_law", "rough_law", "upper_law"]

Array = NDArray[Any]
_PROFILE_ERROR = 1e-13  # relative, granted to bounds of δ(ε) (their contract)
_SMALLEST = 1e-290  # masses of Q below it have lost digits to underflow
_MOST_POINTS = 1 << 21
_HEAVY = 1 / 16  # mass of a bin from which the lattice of a lower bound is moved to it
_LITTLE = 1e-3  # of the spacing: what a law below may lose without another being tried
_CROWDED = 0.3  # mass of a cell for which the lattice of a lower bound is moved


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


@lru_cache(maxsize=1)
def _cells(pair: Pair, spacing: float, log_tail: float) -> tuple[float, int, Array, Array, Array]:
    """The lattice and the masses of its cells, remembered: the law above and the law below need the same."""
    offset, first, edges = _edges(pair, spacing, log_tail)
    return offset, first, edges, *pair.masses(edges)


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
    if isinstance(pair, ProfilePair):
        offset, first, edges = _edges(pair, spacing, log_tail)
        return _from_profile(pair, offset, spacing, first, edges)
    offset, first, edges, p, q = _cells(pair, spacing, log_tail)  # type: ignore[arg-type]
    error = _split_error(pair, edges, log_tail)
    _, upper = _split(p, np.where(q > _SMALLEST, q, 0.0), edges, spacing)
    inside = p[1:-1]
    upper = np.minimum(upper + 2 * error * inside / -math.expm1(-spacing), inside)
    law = np.zeros(len(edges))
    law[:-1] += inside - upper
    law[1:] += upper
    law[0] += p[0]
    grow, slip = 1 + 2 * error, _slip(pair, edges)
    return Law(offset, spacing, first, law * grow, pair.infinite + float(p[-1]) * grow + 5e-324, slip)


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
    beyond = float(values[-1]) if pair.top < math.inf else max(float(values[-1]), 5e-324)  # 0 may be an underflow
    return Law(offset, spacing, first, law * (1 + _PROFILE_ERROR), beyond, _slip(pair, edges))


def lower_law(pair: Pair, spacing: float, log_tail: float) -> Law:
    """A law on the lattice that the pair dominates; part of its mass may be missing, which only lowers it.

    Of two ways the one that loses less is taken: `_dots_law` for densities, `_bins_law` for atoms.
    """
    if (exact := _exact(pair, spacing, -1)) is not None:
        return exact
    if isinstance(pair, DiscretePair):
        return _bins_law(pair, spacing, log_tail)
    try:
        dots = _dots_law(pair, spacing, log_tail)
    except NotCertifiable:
        return _bins_law(pair, spacing, log_tail)
    if _lost(dots) <= _LITTLE * spacing:
        return dots
    return min(dots, _bins_law(pair, spacing, log_tail), key=_lost)


def _lost(law: Law) -> float:
    """The mass of P that is missing from a law, and the mass of Q that it has too much of."""
    missing = 1 - law.infinite - float(law.probabilities.sum())
    return max(missing, 0.0) + max(float((law.probabilities * np.exp(-law.losses)).sum()) - 1, 0.0)


def _dots_law(pair: Pair, spacing: float, log_tail: float) -> Law:
    """The outcomes between two lattice points are merged, which makes δ a broken line with one kink between them. The
    dots of `upper_law` are lowered until the straight lines between them lie below the kinks (`_lowered`). Mass below
    the first point is left out.
    """
    offset, first, edges, p, q = _cells(pair, spacing, log_tail)  # type: ignore[arg-type]
    if move := _bulk_move(p, q, edges):
        offset, first = offset + move, first - 1  # a move to the right must not leave out what lies on the left
        edges = offset + spacing * (first + np.arange(len(edges) + 1))
        p, q = pair.masses(edges)
    error = _split_error(pair, edges, log_tail)
    p, q = np.where(q > _SMALLEST, p, 0.0), np.where(q > _SMALLEST, q, 0.0)
    lower, upper = _split(p, q, edges, spacing)
    doubt = 2 * error * p[1:-1] / -math.expm1(-spacing)
    surely = np.maximum(upper - doubt, 0.0)
    shrink = 1 - 2 * error - 64 * UNIT_ROUNDOFF
    beyond, infinite = float(p[-1]), pair.infinite
    law = np.append(p[1:-1] - surely, beyond)
    law[1:] += surely
    law = _lowered(law, lower + 2 * doubt, upper + 2 * doubt, spacing)
    return Law(offset, spacing, first, law * shrink, infinite, _slip(pair, edges))


def _bins_law(pair: Pair, spacing: float, log_tail: float) -> Law:
    """Bins have the lattice points at their centres. All outcomes of a bin are merged; most of each stays at its own
    point, a small share goes to the point below or above: post-processing, so the pair dominates it. What arrives at a
    point of loss l, masses (A, B) of P and Q, counts as A at loss l if A ≥ B·e^l: `_shares` sees to that.
    """
    offset, first, points = _edges(pair, spacing, log_tail)
    p, q = _centred(pair, points, spacing)
    for times in (1, 2):  # once to the heavy bins, whose outcomes change by that; then with something to spare
        if move := _heavy_move(p, q, points):
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


def _heavy_move(p: Array, q: Array, points: Array) -> float:
    """How far to move the lattice so that no heavy bin is short of the loss at its centre, and one has it exactly.

    Heavy bins hold atoms, or what crowds where a unit rarely takes part: no other bin could make up for them.
    """
    heavy = p > _HEAVY
    return float((np.log(p[heavy] / q[heavy]) - points[heavy]).min()) if heavy.any() else 0.0


def _lowered(law: Array, left: Array, right: Array, spacing: float) -> Array:
    """The law of dots of δ that are lowered until the lines between them lie below the kink of each cell.

    Merged, a cell whose mass is split into at most ``left`` and ``right`` has δ on the line of its left dot up to the
    kink, and then on that of its right one. Dots lowered by ε_i and ε_{i+1} have their line below both if
    ε_i/A + ε_{i+1}/B ≥ 1, A = (1 − e^{−h})·right and B = (e^h − 1)·left. Each is lowered by the lesser AB/(A + B) of
    its two cells at least; where that is too little for a cell, its more lowered end pays for the rest. So the dots at
    the ends of the support stay (the last one has δ = 0), and no mass is lost. Where the lowered dots are not convex a
    mass is negative; it is taken from the next point above, which lowers δ further.
    """
    shrink, grow = -math.expm1(-spacing), math.expm1(min(spacing, 700.0))
    a, b = shrink * right, grow * left
    with np.errstate(divide="ignore", invalid="ignore"):
        kink = np.nan_to_num(a / (a + b) * b)
        down = np.minimum(np.append(kink, 0.0), np.append(0.0, kink))
        rising = down[:-1] < down[1:]
        need_right = np.where(rising & (a > 0), b * (1 - down[:-1] / a), 0.0)
        need_left = np.where(~rising & (b > 0), a * (1 - down[1:] / b), 0.0)
    needs = np.maximum(np.append(need_left, 0.0), np.append(0.0, need_right))
    down = np.maximum(down, needs) * (1 + 64 * UNIT_ROUNDOFF)
    steps = np.diff(down, prepend=0.0, append=0.0)
    sums = down[1:] + down[:-1]
    noise = 8 * UNIT_ROUNDOFF * (np.append(sums, down[-1]) / grow + np.append(down[0], sums) / shrink)
    law = law - steps[1:] / grow + steps[:-1] / shrink - noise
    for start in np.flatnonzero(law < 0).tolist():
        j = start
        while j < len(law) and law[j] < 0:
            if j + 1 == len(law):
                raise NotCertifiable("nothing is left of a loss on so coarse a lattice")
            law[j + 1] += law[j]
            law[j] = 0.0
            j += 1
    return np.asarray(law)


def _bulk_move(p: Array, q: Array, edges: Array) -> float:
    """How far to move the lattice so that a bulk narrower than its cells lies on a point.

    Such a bulk is an atom, or what crowds where a unit rarely takes part. Any move is valid.
    """
    j = int(np.argmax(p))
    around = slice(max(j - 1, 0), j + 2)
    bulk, other = float(p[around].sum()), float(q[around].sum())
    if p[j] < _CROWDED or not other > 0:
        return 0.0
    loss = math.log(bulk / other)
    return loss - float(edges[np.abs(edges - loss).argmin()])


def rough_law(pair: Pair | ProfilePair, log_tail: float) -> DiscretePair:
    """Some hundred atoms that have about the pair's moments, however narrow its bulk is beside its span.

    Cells are equal, but for those near the anchor, where mass crowds, which grow with their distance from it; each is
    merged to one outcome. It proves nothing: it says where to look.
    """
    low, high = pair.span(log_tail)
    spacing = max((high - low) / 1024, 1e-9 * abs(high), 1e-290)
    if isinstance(pair, ProfilePair) or pair.lattice is not None:
        if pair.lattice is not None:
            spacing = pair.lattice / max(1, math.floor(pair.lattice / spacing))
        return upper_law(pair, spacing, log_tail).transform()
    reach = max(abs(high - pair.anchor), abs(low - pair.anchor))
    cells = reach * np.geomspace(1e-9, 1.0, 200)
    edges = np.concatenate([pair.anchor - cells, pair.anchor + cells, np.linspace(low, high, 400)])
    edges = np.unique(edges[(edges >= low) & (edges <= high)])
    p, q = pair.masses(edges)
    inner = p[1:-1] > 0
    merged = np.log(p[1:-1][inner] / np.maximum(q[1:-1][inner], 5e-324))
    losses = np.clip(merged, edges[:-1][inner], edges[1:][inner])
    losses = np.concatenate([edges[:1], losses])
    return DiscretePair(losses, np.concatenate([p[:1], p[1:-1][inner]]), pair.infinite + float(p[-1]))
