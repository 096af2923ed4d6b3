"""The privacy profile of objective perturbation; proofs in ``docs/maths/objective_perturbation.md``.

One unit moves m rows: k under add-remove, 2k under replace-one, of which at most k are added. With μ = C/σ and H_ε(μ)
the Gaussian profile, three facts bound δ(ε), and the least of what they give is taken:

- *vertices*: the log-density ratio is convex in the moving gradients but for log det ≤ kc, so it is largest at
  vertices, each a Gaussian privacy loss: δ(ε) ≤ Σ_j C(m, j)·Dʲ·H_{ε−kc}(jμ), with D the directions of one row; when one
  row is replaced few vertices are as long as 2μ;
- *link*: a logistic row at |slope| = s has curvature s(1 − s), none at s = 1 where the privacy loss is largest, so
  log det and slope are maximised together. For R²/λ ≤ ε the determinant then costs nothing at all. A softmax row has
  none at its vertices either: it pays for log det only halfway between two of them, where the loss is smaller;
- *chord*: a profile is convex in e^ε and is 1 at e^ε = 0, which extends either bound to small ε.

Beside Gaussian releases of μ' in all, a vertex's Gaussian loss becomes one of √(μ² + μ'²): *vertices* bounds the loss
itself, so it holds for every real ε and may be averaged over what else was released. A *linked* bound is averaged over
the Gaussian loss itself, E δ(ε − μ'w − μ'²/2) with w normal, rounded up on a fine grid of w.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.accounting.exact.pairs import GaussianPair, symmetric
from discreet.events import ObjectivePerturbation
from discreet.units import Adjacency, Unit

__all__ = ["objective_profile", "vertices"]

Array = NDArray[np.float64]
Bound = Callable[[Array], Array]

_TANGENTS = (0.0, 0.5, 1.0)
_NEAR = (0.3, 0.5, 0.7, 0.85, 1.0)
_ROUNDING = 1e-12  # relative, of each term of a difference; the functions used are good to a few ulp
_DRIFT = np.concatenate([np.arange(-2.0, 8.5, 0.5), [40.0]])
_COARSE_DRIFT = np.array([1.0, 3.0, 5.5, 8.5, 40.0])  # for the many ε that a composition asks for
_BESIDE = np.concatenate([np.arange(-9.0, 12.0, 1 / 32), [40.0]])
_COARSE_BESIDE = np.concatenate([np.arange(-6.0, 9.0, 0.25), np.arange(9.0, 14.0), [40.0]])


def objective_profile(event: ObjectivePerturbation, adjacency: Adjacency, beside: float = 0.0) -> Bound:
    """ε ↦ a bound on δ(ε) for arrays of ε ≥ 0, both orders of every two neighbours.

    Args:
        event: the release.
        adjacency: the relation.
        beside: μ of Gaussian releases made as well, for the same unit.

    Example:
        >>> bound = objective_profile(ObjectivePerturbation(6.0, math.log1p(0.25), link=1.0), "add-remove")
        >>> bool(bound(np.array([1.0]))[0] == GaussianPair(1 / 6.0).profile(np.array([1.0]))[0])
        True
    """
    unit = Unit.of(adjacency)
    added = unit.rows_per_unit
    moved = added * (2 if unit.relation == "replace-one" else 1)
    if event.link and beside:
        alone = objective_profile(replace(event, deviation=0.0), unit)
        return _drifted(alone, math.hypot(event.deviation, beside), _BESIDE, _COARSE_BESIDE)
    mu = 1 / event.noise_multiplier
    bounds = [_beyond(added * event.log_det, _vertices(mu, moved, event.directions, beside))]
    if event.link and added == 1:
        # a logistic row is a softmax of two classes whose gradient (p − e_y)⊗x is √2 times as long
        link = event.link if event.directions > 1 else event.link / 2
        bounds += [_apart(mu, moved, event.directions, link, near) for near in _NEAR]
    if event.link and event.directions == 1:
        for part in _TANGENTS:
            # log(1 + v) ≤ log(1 + w) + (v − w)/(1 + w) at v = link·s(1 − s) ≤ link/4, for any w
            w = part * event.link / 4
            rest = math.log1p(w) - w / (1 + w)
            bounds.append(_beyond(added * rest, _linked(mu, moved, added, event.link / (1 + w))))

    def least(epsilon: Array) -> Array:
        return np.minimum(np.min([bound(epsilon) for bound in bounds], axis=0), 1.0)

    return _drifted(least, event.deviation, _DRIFT, _COARSE_DRIFT) if event.deviation else least


def _beyond(shift: float, bound: Bound) -> Bound:
    """bound(ε − shift), and for ε < shift the chord from δ = 1 at e^ε = 0."""
    at_shift = float(np.minimum(bound(np.zeros(1))[0], 1.0))

    def shifted(epsilon: Array) -> Array:
        chord = 1 - np.exp(np.minimum(epsilon - shift, 0.0)) * (1 - at_shift)
        return np.where(epsilon < shift, chord, bound(np.maximum(epsilon - shift, 0.0)))

    return shifted


def _vertices(mu: float, moved: int, directions: int, beside: float = 0.0) -> Bound:
    """Σ_j C(m, j)·Dʲ·H_ε(jμ)."""
    return _sum_of_gaussians(mu, _lengths(moved, directions), beside)


def _lengths(moved: int, directions: int) -> list[tuple[float, float]]:
    """How many vertices there are of each length; for one row replaced, of the D² differences only D exceed √3."""
    d = directions
    if moved == 2:
        return [(d, 2.0), (d * (d - 1), math.sqrt(3)), (2 * d, 1.0)]
    return [(math.comb(moved, j) * float(d) ** j, float(j)) for j in range(1, moved + 1)]


def vertices(event: ObjectivePerturbation, unit: Unit) -> tuple[float, list[tuple[float, float]]]:
    """kc and the vertices as (how many, μ of each): P(loss > ε) ≤ Σ count·P(Gaussian loss of μ > ε − kc) for ε ≥ kc."""
    added = unit.rows_per_unit
    moved = added * (2 if unit.relation == "replace-one" else 1)
    mu = 1 / event.noise_multiplier
    return added * event.log_det, [(n, length * mu) for n, length in _lengths(moved, event.directions) if n]


def _sum_of_gaussians(mu: float, parts: list[tuple[float, float]], beside: float = 0.0) -> Bound:
    """Σ weight·H_ε(√((length·μ)² + beside²)), at most 1."""
    pairs = [(weight, GaussianPair(math.hypot(length * mu, beside))) for weight, length in parts if weight]

    def bound(epsilon: Array) -> Array:
        return np.minimum(np.sum([weight * pair.profile(epsilon) for weight, pair in pairs], axis=0), 1.0)

    return bound


def _apart(mu: float, moved: int, directions: int, link: float, near: float) -> Bound:
    """Vertices with little of log det, and midpoints of every two of them with more.

    The loss is Σp_jF_j + A(1 − ‖p‖²) with F_j that of vertex j and A = link − μ²/4. Let Δ be the difference of the two
    largest F: the loss is at most max F + (2A − Δ)²·share/4A, where share = D/(D + 1) for D other vertices. Where
    Δ ≥ 2A·near that is a vertex's; where it is less, half Δ is added to the mean of the two F, which is a Gaussian loss
    at their midpoint plus at most μ²/8.
    """
    d = directions
    bend, share = link - mu * mu / 4, d / (d + 1)
    ends = _vertices(mu, moved, d)
    if bend <= 0:
        return ends
    above = bend * (1 - near) ** 2 * share
    rise = max(bend * share, bend * near + above)
    pairs = d * (d - 1) / 2
    middle = [(pairs, math.sqrt(0.75)), (float(d), 0.5)]  # between two of the d vectors; between one and 0
    if moved == 2:  # and the same less each of the d vectors of the removed row
        middle += [(2 * pairs, math.sqrt(3.25)), (float(d), 1.5), (d * pairs, math.sqrt(2.75))]
    parts = _beyond(above, ends), _beyond(rise + mu * mu / 8, _sum_of_gaussians(mu, middle))
    return lambda epsilon: np.minimum(parts[0](epsilon) + parts[1](epsilon), 1.0)


def _linked(mu: float, moved: int, added: int, link: float) -> Bound:
    """E(1 − e^{ε−L(z)})₊ for z normal, L(z) = max over s ∈ [0, 1] of the loss when the added rows have |slope| = s:

        (f + ks)·μz + (f + ks)²μ²/2 + k·link·s(1 − s),   f = m − k removed rows, all of slope 1.

    A single row's z is the normal itself; of m rows the largest of m normals counts, which costs a factor m.
    """
    m, k = moved, added
    f = m - k
    whole = GaussianPair(m * mu)
    bend = k * link - (k * mu) ** 2 / 2  # −½ of the second derivative in s
    if bend <= 0:  # convex in s: the largest is at s = 1
        return lambda epsilon: m * whole.profile(epsilon)
    least_z = 0.0 if m > 1 else -link / mu  # s = 0 below
    full_z = max(link / mu - m * mu, least_z)  # s = 1 above
    # between, L(z) = l0 + l1·z + l2·z²
    pull = f * k * mu * mu + k * link
    l0 = (f * mu) ** 2 / 2 + pull * pull / (4 * bend)
    l1 = f * mu + k * mu * pull / (2 * bend)
    l2 = (k * mu) ** 2 / (4 * bend)
    spread = math.sqrt(1 / (1 + 2 * l2))
    centre = -l1 * spread * spread

    def bound(epsilon: Array) -> Array:
        start = epsilon / (m * mu) - m * mu / 2
        above = whole.profile(epsilon)
        cut = np.maximum(start, full_z)
        p, q = ndtr(-cut), np.exp(epsilon + log_ndtr(-cut - m * mu))
        above = np.where(start >= full_z, above, np.maximum(p - q, 0.0) + _ROUNDING * (p + q))
        root = (-l1 + np.sqrt(np.maximum(l1 * l1 - 4 * l2 * (l0 - epsilon), 0.0))) / (2 * l2)
        low = np.minimum(np.maximum(root, least_z), full_z)
        log_factor = epsilon - l0 + (l1 * spread) ** 2 / 2 + math.log(spread)
        q_low = np.exp(np.minimum(log_factor + log_ndtr((centre - low) / spread), 700.0))
        q_high = np.exp(np.minimum(log_factor + log_ndtr((centre - full_z) / spread), 700.0))
        p_low, p_high = ndtr(-low), ndtr(-full_z)
        between = np.maximum((p_low - p_high) - (q_low - q_high), 0.0) + _ROUNDING * (p_low + p_high + q_low + q_high)
        return np.minimum(m * (above + np.where(low < full_z, between, 0.0)), 1.0)

    return bound


def _drifted(bound: Bound, deviation: float, few: Array, many: Array) -> Bound:
    """Composed with one more Gaussian loss ηw + η²/2, w normal: E δ(ε − ηw − η²/2), rounded up on a grid of w.

    δ falls in ε, so that it is largest at the upper end of each interval of w. The grid is ``few`` for few ε, and
    ``many`` for many.
    """
    two_sided = symmetric(bound)
    weights = {id(nodes): normal_bins(nodes)[:-1] * (1 + bin_error(nodes[-1])) for nodes in (few, many)}

    def drifted(epsilon: Array) -> Array:
        nodes = few if np.size(epsilon) <= 64 else many
        # beyond the last w there is less than the smallest double; it is charged in full
        total = np.full(np.shape(epsilon), 5e-324)
        if np.size(epsilon) <= 64:
            at = two_sided(np.subtract.outer(epsilon, deviation * nodes + deviation**2 / 2))
            return np.minimum(total + at @ weights[id(nodes)], 1.0)
        for w, weight in zip(nodes, weights[id(nodes)], strict=True):
            total += weight * two_sided(epsilon - (deviation * w + deviation**2 / 2))
        return np.minimum(total, 1.0)

    return drifted
