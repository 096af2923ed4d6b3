"""Moments of likelihood ratios, each with its error inside the answer.

Every Rényi divergence of this library is read off an *excess*: with r = P/Q and w = r − 1,

    X = E_Q[(1 + w)^a − 1 − a·w],        D_α(P‖Q) = log(1 + X)/(α − 1)  for a = α,

whose integrand is never negative, so small divergences (σ = 10⁴) keep their digits. Excesses are returned as
logarithms, so large ones do not overflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = [
    "FiniteLosses",
    "discrete_laplace_losses",
    "gaussian_half_excess",
    "gaussian_norm_excess",
    "laplace_losses",
    "lattice_half_excess",
    "log_excess",
    "log_one_plus",
    "mixture_excess",
]

Array = NDArray[np.float64]

_DECAY = 90.0  # aliasing and tails are pushed below e^-90 of the whole
_MOST_NODES = 200_000
_CELLS = 4000


def log_excess(power: float, log_ratio: Array, ratio_minus_1: Array) -> Array:
    """log((1 + w)^a − 1 − a·w) for a > 1 or a < 0, from log(1 + w) and w, accurate for any size of either."""
    a, t = power, power * log_ratio
    w = ratio_minus_1
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        series = np.ones_like(w)
        for j in range(14, 1, -1):
            series = 1 + (a - j) / (j + 1) * w * series
        small = math.log(a * (a - 1) / 2) + 2 * np.log(np.abs(w)) + np.log(series)
        # Above t = 1 the power leads: (1 + w)^a · (1 − (1 + a·w)/(1 + w)^a).
        leading = t + np.log1p(-(np.exp(-t) * (1 - a) + a * np.exp(log_ratio - t)))
        direct = np.log(np.expm1(np.minimum(t, 1.0)) - a * w)
        far = math.log(abs(a)) + log_ratio  # an upper bound where a < 0 and w is huge
        tiny = (np.abs(a * w) < 0.05) & (np.abs(w) < 0.05)
    out = np.where(t > 1, leading, direct)
    if a < 0:
        out = np.where(log_ratio > 40, far, out)
    return np.where(tiny, small, out)


def log_one_plus(log_excess: float) -> float:
    """log(1 + X) from log X, rounded up together with a quotient: e^x is off by |x| + 4 units of itself."""
    value = math.log1p(math.exp(log_excess)) if log_excess < 0 else float(np.logaddexp(0.0, log_excess))
    return value * (1 + 4 * UNIT_ROUNDOFF * (8 + max(-log_excess, 0.0)))


def _log_error(power: float, log_ratio: Array, w: Array, unsure: Array, logs: Array) -> Array:
    """log of a bound on the error of e^``logs``, the computed excess, where ``unsure`` bounds that of ``log_ratio``.

    The error of w is granted (1 + w)·``unsure`` + 8u|w|. docs/maths/accounting.md, *Rounding of excesses*, derives the
    four lines, one for each form of `log_excess`.
    """
    a, t, u = power, power * log_ratio, UNIT_ROUNDOFF
    size = np.abs(w)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        turned = abs(a) * (unsure + 2 * u * np.abs(log_ratio))
        ratio = np.exp(np.minimum(log_ratio, 700.0))
        moved = ratio * unsure + 8 * u * size
        grown = np.expm1(np.minimum(t, 1.0))
        direct = (1 + grown) * turned + 4 * u * np.abs(grown) + abs(a) * (moved + 4 * u * size)
        small = 1.2 * abs(a * (a - 1)) * (size * moved + moved * moved + 64 * u * size * size)
        tiny = max(1.0, abs(a)) * size < 0.05
        out = np.log(np.where(tiny, small, direct))
        if (large := (t > 1) & ~tiny).any():
            parts = abs(1 - a) * np.exp(-t) * (turned + 8 * u)
            parts += abs(a) * np.exp(log_ratio - t) * (turned + unsure + 8 * u)
            leading = turned + 4 * u + (parts + 4 * u) * np.exp(np.minimum(t - logs, 700.0))
            out = np.where(large, logs + np.log(leading), out)
        if a < 0:
            out = np.where(log_ratio > 40, logs + np.log(unsure + 8 * u * (8 + log_ratio)), out)
        taken = np.where(np.isfinite(logs), logs + np.log(8 * u * (2 + np.abs(logs))), -np.inf)  # of the logarithm
    return np.maximum(out, taken) + math.log(2)  # at least the logarithm of the sum of both


def _upper_sum(values: Array, errors: Array, masses: Array) -> float:
    """log Σ e^masses·(e^values + e^errors), rounded up: masses to 16u(40 + |mass|), the sum of n terms to 16nu."""
    top = float(np.max(np.maximum(values, errors) + masses))
    if not math.isfinite(top):
        return top
    sizes = np.where(np.isfinite(masses), np.abs(masses), 0.0)
    terms = np.exp(values + masses - top) + np.exp(errors + masses - top)
    total = top + math.log(float(terms @ (1 + 16 * UNIT_ROUNDOFF * (len(values) + 40 + sizes))))
    return total + 8 * UNIT_ROUNDOFF * (64 + abs(top) + abs(total))


def _log_sum(logs: Array) -> float:
    top = float(np.max(logs))
    return top if math.isinf(top) else top + math.log(float(np.sum(np.exp(logs - top))))


@dataclass(frozen=True)
class FiniteLosses:
    """A pair (P, Q) whose privacy loss log(P/Q) takes finitely many values; it dominates the pair it stands for.

    Continuous losses are cut into cells, and the mass of a cell is moved to its two ends so that P and Q keep theirs:
    a spread that can only increase the expectation of a convex function (Doroshenko et al. 2022).
    """

    losses: tuple[float, ...]
    log_masses: tuple[float, ...]  # under Q

    def excess(self, power: float, rate: float = 1.0, *, above: bool = False) -> float:
        """log E_Q of the excess at ``power`` of w = rate·(r − 1), over r ≥ 1 only if ``above``."""
        losses, masses = np.array(self.losses), np.array(self.log_masses)
        if above:
            losses, masses = losses[self._up()], masses[self._up()]
        log_ratio, w, unsure = _mixed(losses, rate)
        values = log_excess(power, log_ratio, w)
        return _upper_sum(values, _log_error(power, log_ratio, w, unsure, values), masses)

    def _up(self) -> NDArray[np.bool_]:
        return np.array(self.losses) >= 0


def _log_rest(rate: float) -> float:
    return math.log1p(-rate) if rate < 1 else -math.inf


def _mixed(losses: Array, rate: float, loss_error: Array | float = 0.0) -> tuple[Array, Array, Array]:
    """log(1 + w) and w of w = rate·(e^loss − 1), and a bound on the error of the first; a loss is good to 8u of itself
    and ``loss_error``.

    1 + w = 1 − q + qe^l moves by at most min(1, qe^l/(1 + w)) times what l does; log1p adds what the rounding of w does
    to log(1 + w), 8u|w|/(1 + w), and logaddexp some units of its exponents.
    """
    if rate == 1:
        log_ratio = losses
        unsure = 8 * UNIT_ROUNDOFF * np.abs(losses) + loss_error
    else:
        with np.errstate(over="ignore"):
            log_ratio = np.where(
                losses < 1,
                np.log1p(rate * np.expm1(np.minimum(losses, 1))),
                np.logaddexp(_log_rest(rate), math.log(rate) + losses),
            )
        share = np.exp(np.minimum(math.log(rate) + losses - log_ratio, 0.0))
        lost = np.where(
            losses < 1,
            np.abs(np.expm1(np.minimum(-log_ratio, 700.0))),
            1 + abs(math.log(rate)) + np.abs(losses),
        )
        unsure = 8 * UNIT_ROUNDOFF * (share * np.abs(losses) + np.abs(log_ratio) + lost) + share * loss_error
    w = np.where(losses < 1, rate * np.expm1(np.minimum(losses, 1)), np.expm1(np.minimum(log_ratio, 700)))
    return log_ratio, w, unsure


@lru_cache(maxsize=256)
def laplace_losses(shift: float) -> FiniteLosses:
    """Laplace noise of scale 1 against itself moved by ``shift``: atoms at ±shift and a density between them."""
    edges = np.linspace(0.0, shift, _CELLS // 2 + 1)
    width = shift / (_CELLS // 2)
    cell = -math.log(2) - edges[:-1] + math.log(-math.expm1(-width))  # log Q of each cell
    upper = cell - np.logaddexp(0, width)  # its upper end gets 1/(e^width + 1) of it, which keeps P's mass
    lower = cell + width - np.logaddexp(0, width)
    losses = np.concatenate([[-shift, shift], 2 * edges[:-1] - shift, 2 * edges[1:] - shift])
    masses = np.concatenate([[-math.log(2), -math.log(2) - shift], lower, upper])
    return FiniteLosses(tuple(losses.tolist()), tuple(masses.tolist()))


@lru_cache(maxsize=64)
def discrete_laplace_losses(shift: int, scale: float) -> FiniteLosses:
    """Discrete Laplace noise, P(k) ∝ exp(−|k|/scale), against itself moved by ``shift`` ≥ 1: exact."""
    if shift > 1_000_000:
        raise NotCertifiable(f"a discrete Laplace with a shift of {shift} grid steps has too many atoms to enumerate.")
    step = 1 / scale
    log_norm = -math.log1p(math.exp(-step))
    between = np.arange(1, shift)
    losses = np.concatenate([[-shift * step, shift * step], (2 * between - shift) * step])
    inner = log_norm + math.log(-math.expm1(-step)) - between * step
    return FiniteLosses(tuple(losses.tolist()), (log_norm, log_norm - shift * step, *inner.tolist()))


def gaussian_half_excess(order: float, mu: float, rate: float) -> float:
    """log E_Q of the excesses at α and 1 − α of w = rate·(r − 1) over r ≥ 1, for Q = N(0, 1), P = N(μ, 1).

    Cells as in `FiniteLosses`; the tail beyond the last is bounded by the moment of r itself. Where cells would be too
    wide or too far out for floats, the closed bound serves.
    """
    from scipy.special import log_ndtr

    if mu > 10 or mu * (order * mu + 14) > 3 * _CELLS:
        return gaussian_norm_excess(order, mu, rate)
    edges = np.linspace(mu / 2, order * mu + 14, _CELLS + 1)

    def log_mass(shift: float) -> tuple[Array, Array]:
        """Of each cell; and a bound on its error: log Φ(−x) is good to 16u(1 + its size), a difference loses digits."""
        above = log_ndtr(-(edges - shift))
        inside = -np.expm1(above[1:] - above[:-1])
        return above[:-1] + np.log(inside), 32 * UNIT_ROUNDOFF * (1 + np.abs(above[1:])) / inside

    (log_q, unsure), (log_p, other) = log_mass(0.0), log_mass(mu)
    losses = mu * (edges - mu / 2)
    # The share of a cell that its upper end gets, so that P keeps its mass; what it is off by moves mass between ends.
    grown, wide = log_p - log_q - losses[:-1], np.expm1(np.diff(losses))
    share = np.clip(np.expm1(grown) / wide, 0, 1)
    moved = np.exp(grown) * (unsure + other + 8 * UNIT_ROUNDOFF * losses[1:]) / wide + 8 * UNIT_ROUNDOFF * share
    value, error = _both_excesses(order, np.maximum(losses, 0.0), rate)
    with np.errstate(divide="ignore"):
        masses = np.concatenate([log_q + np.log1p(-share), log_q + np.log(share)])
        apart = value[1:] + np.log(-np.expm1(np.minimum(value[:-1] - value[1:], 0.0)) * moved + unsure)
        error = np.concatenate([error[:-1], error[1:]])
    cells = float(
        np.logaddexp(_upper_sum(np.concatenate([value[:-1], value[1:]]), error, masses), _log_sum(apart + log_q))
    )
    tail = order * (order - 1) * mu * mu / 2 + float(log_ndtr(-14.0))
    linear = math.log(order) + float(log_ndtr(-(14 + (order - 1) * mu)))
    return _up(float(np.logaddexp(cells, np.logaddexp(tail, linear))), tail)


def lattice_half_excess(order: float, sigma: float, rate: float, grid: float) -> float | None:
    """`gaussian_half_excess` of the discrete Gaussian on multiples of ``grid``, moved by 1: a sum over its support.

    Terms beyond the last fall at least geometrically, and are added; None where there are too many before it.
    """
    reach = math.sqrt(2 * _DECAY)
    last = math.ceil((order + reach * sigma) / grid)
    if last > _MOST_NODES:
        return None
    z = grid * np.arange(-math.ceil(reach * sigma / grid), last + 1, dtype=np.float64)
    log_phi = -(z**2) / (2 * sigma**2)
    log_phi -= _log_sum(log_phi)
    up = 2 * z >= 1
    losses = (2 * z[up] - 1) / (2 * sigma**2)
    value, error = _both_excesses(order, losses, rate, 4 * UNIT_ROUNDOFF * (2 * z[up] + 1) / (2 * sigma**2))
    end = float(log_phi[-1]) + float(np.logaddexp(order * losses[-1], math.log(order) + losses[-1]))
    tail = end - math.log(-math.expm1(-reach * grid / sigma))
    return _up(float(np.logaddexp(_upper_sum(value, error, log_phi[up]), tail)), tail)


def gaussian_norm_excess(order: float, mu: float, rate: float) -> float:
    """A closed bound on `gaussian_half_excess`: ‖1 − q + q·r‖_α ≤ 1 − q + q·‖r‖_α (Minkowski), and (α − 1)·q."""
    norm = float(np.logaddexp(_log_rest(rate), math.log(rate) + (order - 1) * mu * mu / 2))
    return _up(float(np.logaddexp(order * norm, math.log((order - 1) * rate))), order * (abs(norm) + mu * mu * order))


def _both_excesses(order: float, losses: Array, rate: float, loss_error: Array | float = 0.0) -> tuple[Array, Array]:
    """The logarithms of the excesses at α and 1 − α together, and of a bound on their error."""
    log_ratio, w, unsure = _mixed(losses, rate, loss_error)
    one, two = log_excess(order, log_ratio, w), log_excess(1 - order, log_ratio, w)
    first = _log_error(order, log_ratio, w, unsure, one)
    return np.logaddexp(one, two), np.logaddexp(first, _log_error(1 - order, log_ratio, w, unsure, two))


def _up(value: float, size: float) -> float:
    """A logarithm rounded up that was made of a few others, the largest of which has this size."""
    return value + 32 * UNIT_ROUNDOFF * (64 + abs(value) + abs(size))


Direction = Literal["remove", "add", "replace"]


def mixture_excess(
    order: float, sigma: float, weights: tuple[float, ...], direction: Direction, grid: float | None = None
) -> float | None:
    """log X of a Gaussian mixture pair: weights w_j on N(j, σ²), against N(0, σ²) or against the mirrored mixture.

    ``remove``: P the mixture, Q = N(0, σ²); ``add``: the other way round; ``replace``: P the mixture, Q its mirror
    image. The trapezoid rule with step h errs by at most 2·M/(e^{2πa/h} − 1), M a bound on the integral along Im z =
    ±a. There |φ| grows by e^{a²/2σ²}, the numerator's modulus is largest on the real line, and the denominator's is at
    least cos(θ/2) of it, θ = k·a/σ² < π. So the error is known before the sum is taken, and is added.

    Args:
        order: α > 1.
        sigma: standard deviation over the bound on one row.
        weights: of 0, 1, …, k rows.
        direction: which pair.
        grid: for the discrete Gaussian on multiples of ``grid``, whose pair is this one restricted to the grid.

    Returns:
        log X with all errors added, or None where it would take too many nodes.
    """
    k = len(weights) - 1
    theta = np.linspace(0.05, 3.0, 60)
    height = sigma * sigma * theta / k
    bend = np.zeros(60) if direction == "remove" else -(order - 1) * np.log(np.cos(theta / 2))
    step = float(np.max(2 * math.pi * height / (_DECAY + height**2 / (2 * sigma**2) + bend)))
    exact_grid = grid is not None and grid > step
    if exact_grid:
        step = float(grid or step)
    reach = math.sqrt(2 * _DECAY)
    low = {"remove": 0, "add": (order - 1) * k, "replace": k}[direction] + reach * sigma
    high = {"remove": order * k, "add": k, "replace": (2 * order - 1) * k}[direction] + reach * sigma
    first, last = -math.ceil(low / step), math.ceil(high / step)
    if (last - first) * (k + 1) > _MOST_NODES:
        return None

    z = step * np.arange(first, last + 1, dtype=np.float64)
    log_phi: Array = -(z**2) / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi)) + math.log(step)
    if exact_grid:
        log_phi -= _log_sum(log_phi)
    up = _tilts(z, sigma, weights)
    log_p = _log_rows(up) if direction != "add" else np.zeros_like(z)
    down = _tilts(-z, sigma, weights) if direction == "replace" else up
    log_q = np.zeros_like(z) if direction == "remove" else _log_rows(down)
    apart = (_rows_error(up, log_p) if direction != "add" else 0.0) + (
        _rows_error(down, log_q) if direction != "remove" else 0.0
    )
    log_ratio, w, unsure = _ratio(log_p, log_q, z, sigma, weights, direction, apart)

    excess = log_excess(order, log_ratio, w)
    value = _upper_sum(excess, _log_error(order, log_ratio, w, unsure, excess), log_q + log_phi)
    ends = [0, -1]
    plain = np.stack([order * log_p + (1 - order) * log_q, math.log(order) + log_p, math.log(order) + log_q])
    tails = _log_sum((plain + log_phi)[:, ends].ravel()) - math.log(-math.expm1(-reach * step / sigma))
    aliasing = -math.inf if exact_grid else math.log(2) + float(np.logaddexp(value, math.log(2 * order))) - _DECAY
    return _up(float(np.logaddexp(value, np.logaddexp(tails, aliasing))), tails)


def _tilts(z: Array, sigma: float, weights: tuple[float, ...]) -> Array:
    """log w_j + (2jz − j²)/2σ², one row per j: the terms of the mixture's density over φ."""
    j = np.arange(len(weights))[:, None]
    with np.errstate(divide="ignore"):
        return np.log(np.array(weights))[:, None] + (2 * j * z - j * j) / (2 * sigma**2)


def _log_rows(tilts: Array) -> Array:
    top = np.max(tilts, axis=0)
    return top + np.log(np.sum(np.exp(tilts - top), axis=0))


def _rows_error(tilts: Array, log_rows: Array) -> Array:
    """A bound on the error of `_log_rows`, in units of 8u: of each tilt a few of its own, weighted by its share."""
    with np.errstate(invalid="ignore"):
        sizes = np.where(np.isfinite(tilts), np.abs(tilts), 0.0)
    return np.sum(np.exp(tilts - log_rows) * (sizes + 1), axis=0) + np.abs(log_rows) + len(tilts)


def _ratio(
    log_p: Array,
    log_q: Array,
    z: Array,
    sigma: float,
    weights: tuple[float, ...],
    direction: Direction,
    apart: Array | float,
) -> tuple[Array, Array, Array]:
    """log(P/Q) and P/Q − 1, by expm1 where the two are close, and a bound on the error of the first."""
    log_ratio = log_p - log_q
    j = np.arange(len(weights))[:, None]
    gap = 2 * j * z / sigma**2 if direction == "replace" else (2 * j * z - j * j) / (2 * sigma**2)
    base = -(2 * j * z + j * j) / (2 * sigma**2) if direction == "replace" else np.zeros_like(gap)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        each = np.array(weights)[:, None] * np.exp(base) * np.expm1(np.minimum(gap, 700))
        close = np.sum(each, axis=0)
        w = -close / (1 + close) if direction == "add" else close * np.exp(-log_q)
        near = np.abs(log_ratio) < 0.5
        near &= np.abs(w) < 1
        w = np.where(near, w, np.expm1(np.minimum(log_ratio, 700)))
        blur = np.abs(each) * (np.abs(base) + len(weights) + 16) + np.array(weights)[:, None] * (
            np.exp(base + np.minimum(gap, 700)) * np.abs(gap)
        )
        # where P and Q are close, w is a quotient of a sum with both signs and of Q/φ
        lost = np.sum(blur, axis=0) * np.exp(-np.minimum(log_q, log_p)) + np.abs(w) * (16 + 2 * np.abs(log_q))
        unsure = 8 * UNIT_ROUNDOFF * np.where(near, 2 * lost, apart)
        return np.where(near, np.log1p(np.where(near, w, 0.0)), log_ratio), w, unsure
