"""What a solver releases, overheard, and the exact law of each release.

Against two known worlds no statistic beats the likelihood ratio of the *whole* transcript: every answer in the order in
which it was given, each under the law that it has in either world. All laws here follow from the mechanisms' own
definitions (a sum plus noise, a choice by its weights), not from the accountant's events, which are what is attacked.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from scipy.special import logsumexp

from discreet.data.steps import chunks
from discreet.losses import Softmax
from discreet.measurements import (
    FixedSizeSampling,
    Joint,
    Noisy,
    PoissonSampling,
    RandomAllocation,
    SampleSplitting,
    SplitBatch,
)
from discreet.measurements.laplace_minimum import LaplaceMinimum
from discreet.measurements.mapped import Mapped
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.measurements.program import drive
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice, Gaussian, Laplace, LaplacePeeling, Peeling, TopChoices
from discreet.queries.mapped import MappedRows
from discreet.queries.whitened import stretches

__all__ = ["log_law", "log_ratio", "noisy_maxima_law", "overhear", "places_law", "selection_law"]


def overhear(solver: Any, problem: Any, data: Any, unit: Any, bits: Any, spend: Any = None) -> tuple[list[Any], Any]:
    """([(measurement, answer), …], θ) of one run; ``spend`` may refuse a measurement, as a filter does."""
    heard: list[Any] = []

    def answer(measurement: Any) -> Any:
        if spend:
            spend(measurement)
        if isinstance(measurement, SampleSplitting | RandomAllocation):
            parts: list[Any] = []
            count = measurement.parts if isinstance(measurement, SampleSplitting) else measurement.batches
            noting = type(measurement)(lambda: _noting(measurement.program(), parts), count)
            value = noting.sample(data, unit, bits)
            heard.append((measurement, parts))
        else:
            value = measurement.sample(data, unit, bits)
            heard.append((measurement, value))
        return value

    theta = drive(solver.steps(problem), answer)
    return heard, theta


@dataclass(eq=False)
class _Noted:
    """A measurement that notes whose rows it was asked on, and what it answered."""

    inner: Any
    parts: list[Any]

    def event(self, unit: Any) -> Any:
        return self.inner.event(unit)

    def blank(self) -> Any:
        return self.inner.blank()

    def sample(self, data: Any, unit: Any, bits: Any) -> Any:
        value = self.inner.sample(data, unit, bits)
        self.parts.append((self.inner, set(np.abs(data.y)), value))
        return value


def _noting(steps: Any, parts: list[Any]) -> Any:
    value = None
    while True:
        try:
            measurement = steps.send(value)
        except StopIteration as stop:
            return stop.value
        value = yield _Noted(measurement, parts)


def log_ratio(heard: list[Any], one: Any, other: Any) -> Any:
    """log p(transcript | one) − log p(transcript | other)."""
    return sum(
        _parts_ratio(answer, one, other)
        if isinstance(measurement, SampleSplitting)
        else log_law(measurement, answer, one) - log_law(measurement, answer, other)
        for measurement, answer in heard
    )


def _parts_ratio(parts: list[Any], one: Any, other: Any) -> float:
    """Of answers on disjoint parts, to an attacker who is told in which part each row is.

    That much is in the claim: given the split, a row meets one measurement. Rows are told by |y|, which must be unique.
    Of a row that is in one world only the attacker is told a part in the other world too, drawn as for any row.
    """

    def ratio(measurement: Any, here: set[float], answer: Any) -> float:
        laws = [log_law(measurement, answer, w.take(np.flatnonzero(np.isin(np.abs(w.y), list(here))))) for w in worlds]
        return laws[0] - laws[1]

    worlds = (one, other)
    rows = [{abs(float(y)): (y, *x) for x, y in zip(w.X, w.y, strict=True)} for w in worlds]
    extra = rows[0].keys() - rows[1].keys()
    if not extra:
        differing = {code for code in rows[0] if rows[0][code] != rows[1][code]}
        return math.fsum(ratio(*part) for part in parts if part[1] & differing)
    told = [part for part in parts if part[1] & extra] or [parts[int(_COINS.integers(len(parts)))]]
    return math.fsum(ratio(measurement, here | extra, answer) for measurement, here, answer in told)


@singledispatch
def log_law(measurement: Any, answer: Any, data: Any) -> Any:
    """log-density of ``answer`` on ``data``, up to a term that is the same for all data."""
    raise NotImplementedError(f"no law for {type(measurement).__name__}")


@log_law.register
def _(measurement: Mapped, answer: Any, data: Any) -> Any:
    return log_law(measurement.measurement, answer, MappedRows(data, measurement.through, True))


@log_law.register
def _(measurement: Noisy, answer: Any, data: Any) -> float:
    query, mechanism = measurement.query, measurement.mechanism
    if measurement.sampling is None:
        return _of_sum(mechanism, query, answer, _sum(query, data))
    rows = _contributions(query, data)
    laws = [
        log_probability + _of_sum(mechanism, query, answer, _total(rows, batch, query))
        for log_probability, batch in _batches(measurement.sampling, len(data))
    ]
    return float(np.logaddexp.reduce(laws))


@log_law.register
def _(measurement: VertexChoice, answer: int, data: Any) -> float:
    return _of_sum(measurement.mechanism, measurement.query, answer, measurement.query.integers(data))


@log_law.register
def _(measurement: Joint, answer: Any, data: Any) -> float:
    return math.fsum(log_law(one, value, data) for one, value in zip(measurement.measurements, answer, strict=True))


@log_law.register
def _(measurement: SplitBatch, answer: Any, data: Any) -> float:
    """Over all batches and all their splits into parts."""
    query, mechanism = measurement.query, measurement.mechanism
    rows = _contributions(query, data)
    laws = []
    for log_probability, batch in _batches(measurement.sampling, len(data)):
        splits = list(_splits(measurement, batch))
        for parts in splits:
            law = sum(
                _of_sum(mechanism, query, value, _total(rows, part, query))
                for value, part in zip(answer, parts, strict=True)
            )
            laws.append(log_probability - math.log(len(splits)) + law)
    return float(np.logaddexp.reduce(laws))


@log_law.register
def _(measurement: RandomAllocation, answer: Any, data: Any) -> float:
    """Over all ways in which the rows may have drawn their batches, which nobody is told."""
    laws = []
    contributions = [_contributions(inner.query, data) for inner, _, _ in answer]
    for drawn in itertools.product(range(measurement.batches), repeat=len(data)):
        law = 0.0
        for batch, ((inner, _, value), rows) in enumerate(zip(answer, contributions, strict=True)):
            part = [i for i, mine in enumerate(drawn) if mine == batch]
            law += _of_sum(inner.mechanism, inner.query, value, _total(rows, part, inner.query))
        laws.append(law)
    return float(np.logaddexp.reduce(laws)) - len(data) * math.log(measurement.batches)


def _batches(sampling: Any, n: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """(log-probability, rows) of every batch."""
    if isinstance(sampling, FixedSizeSampling):
        chosen = list(itertools.combinations(range(n), sampling.batch))
        yield from ((-math.log(len(chosen)), batch) for batch in chosen)
        return
    assert isinstance(sampling, PoissonSampling)
    for size in range(n + 1) if sampling.rate < 1 else [n]:
        odds = size * math.log(sampling.rate) + ((n - size) * math.log1p(-sampling.rate) if size < n else 0.0)
        yield from ((odds, batch) for batch in itertools.combinations(range(n), size))


def _splits(measurement: SplitBatch, batch: tuple[int, ...]) -> Iterator[list[list[int]]]:
    """Every way to cut a batch in parts, all of one probability."""
    places = itertools.product(range(measurement.count), repeat=len(batch))
    for place in places:
        sizes = {place.count(k) for k in range(measurement.count)}
        if isinstance(measurement.sampling, PoissonSampling) or len(sizes) == 1:
            yield [[i for i, k in zip(batch, place, strict=True) if k == part] for part in range(measurement.count)]


def _sum(query: Any, data: Any) -> Any:
    """The exact sum, remembered for queries that depend on no place, map or cells of earlier answers."""
    if any(hasattr(query, moving) for moving in ("theta", "centres", "through", "candidates", "cells")):
        return query.integers(data)
    known = _SUMS.setdefault(data, {})
    if type(query) not in known:
        known[type(query)] = query.integers(data)
    return known[type(query)]


_COINS = np.random.default_rng(0)
_SUMS: WeakKeyDictionary[Any, dict[type, Any]] = WeakKeyDictionary()


@lru_cache(maxsize=8)
def _contributions(query: Any, data: Any) -> list[Any]:
    """What each row adds to the sum: queries are sums over rows, so batches need no further look at them."""
    return [query.integers(data.take(np.array([i]))) for i in range(len(data))]


def _total(rows: list[Any], part: Any, query: Any) -> Any:
    return sum((rows[i] for i in part), np.zeros(query.shape, np.int64))


def _of_sum(mechanism: Any, query: Any, answer: Any, integers: Any) -> float:
    """The law of a mechanism's answer, given the exact sum."""
    scale = mechanism.noise_multiplier * query.bound
    if isinstance(mechanism, TopChoices):
        sizes, law = integers.ravel() / scale, 0.0
        for place in np.ravel(answer):
            law += float(sizes[place] - logsumexp(sizes))
            sizes[place] = -np.inf
        return law
    if isinstance(mechanism, Choice):
        return float(selection_law(tuple(integers.ravel().tolist()), scale, mechanism.mechanism)[answer])
    steps, sums = np.ravel(answer) / query.grid, integers.ravel()
    if isinstance(mechanism, Gaussian):
        return float(-np.sum(((steps - sums) / scale) ** 2) / 2)
    if isinstance(mechanism, Laplace):
        return float(-np.sum(np.abs(steps - sums)) / scale)
    places = np.flatnonzero(steps)
    if len(places) != min(mechanism.s, steps.size):
        return 0.0  # a value of exactly 0 hides its place: such an answer counts as no evidence
    off = steps[places] - sums[places]
    if isinstance(mechanism, LaplacePeeling):
        law = noisy_maxima_law(tuple(places.tolist()), tuple((np.abs(sums) / scale).tolist()))
        return law - float(np.sum(np.abs(off)) / scale)
    assert isinstance(mechanism, Peeling)
    sizes = np.abs(sums) / (mechanism.selection_multiplier * query.bound)
    return places_law(places, sizes) - float(np.sum((off / scale) ** 2)) / (2 * len(places))


def places_law(places: Any, sizes: Any) -> float:
    """log P of a set of places, drawn one after another with probability ∝ exp(size) among those left."""
    sizes = sizes - sizes.max()
    whole = np.exp(sizes).sum()
    orders = []
    for order in itertools.permutations(places):
        left, law = whole, 0.0
        for place in order:
            law += sizes[place] - math.log(left)
            left -= math.exp(sizes[place])
        orders.append(law)
    return float(np.logaddexp.reduce(orders))


@lru_cache(maxsize=4096)
def noisy_maxima_law(places: tuple[int, ...], sizes: tuple[float, ...]) -> float:
    """log P of a set of places, taken one after another where size + Laplace noise of scale 1 is largest."""
    orders = [
        sum(_noisy_maximum(order[i], sizes, order[:i]) for i in range(len(order)))
        for order in itertools.permutations(places)
    ]
    return float(np.logaddexp.reduce(orders))


@lru_cache(maxsize=4096)
def _noisy_maximum(place: int, sizes: tuple[float, ...], gone: tuple[int, ...]) -> float:
    """log ∫ p(x − a_i)·Π_{j≠i} P(noise < x − a_j) dx, between the sizes, where each factor is one exponential."""
    others = [size for j, size in enumerate(sizes) if j != place and j not in gone]
    edges = np.unique([sizes[place], *others])
    nodes, weights = np.polynomial.legendre.leggauss(32)
    x, w = [], []
    for left, right in itertools.pairwise([edges[0] - 40, edges[0] - 10, *edges, edges[-1] + 10, edges[-1] + 40]):
        x.append((left + right) / 2 + (right - left) / 2 * nodes)
        w.append((right - left) / 2 * weights)
    at = np.concatenate(x)
    density = np.exp(-np.abs(at - sizes[place])) / 2
    for size in others:
        below = np.exp(-np.abs(at - size)) / 2
        density = density * np.where(at < size, below, 1 - below)
    return math.log(float(density @ np.concatenate(w)))


@lru_cache(maxsize=4096)
def selection_law(scores: tuple[int, ...], scale: float, mechanism: str) -> Any:
    """log P of each choice. Permute-and-flip takes i with probability p_i·∫₀¹ Π_{j≠i}(1 − t·p_j) dt, p = e^(gap/b)."""
    gaps = (np.array(scores, dtype=np.float64) - max(scores)) / scale
    if mechanism == "exponential":
        return gaps - logsumexp(gaps)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    t, p = (nodes[:, None] + 1) / 2, np.exp(gaps)
    logs = np.log1p(-t * p)
    return gaps + logsumexp(logs.sum(axis=1, keepdims=True) - logs, axis=0, b=weights[:, None] / 2)


@log_law.register
def _(measurement: PerturbedMinimum, answer: Any, data: Any) -> Any:
    """θ is the minimiser for the tilt −∇J(θ), whose density times J'' is that of θ: one law for each coordinate.

    Rows must touch one coordinate each, so that coordinates are independent runs in one dimension.
    """
    query = measurement.query
    if isinstance(query.loss, Softmax):
        return _of_classes(measurement, answer, data)
    theta = np.ravel(answer)
    X = data.X if query.through is None else _made(query, data)
    t = _stretched(query, data)  # a weighted row stands for one t times as long, of weight 1/t²
    z = t * (X @ theta)
    slopes, curvatures = query.loss.slope(z, data.y) / t, query.loss.curvature(z, data.y)
    most = query.gradient_bound / np.maximum(np.abs(X).max(axis=1, initial=0.0), 1e-300)
    curvatures = np.where(np.abs(slopes) < most, curvatures, 0.0)
    away = theta if measurement.centre is None else theta - measurement.centre
    gradient = X.T @ np.clip(slopes, -most, most) + query.regularisation * away
    hessian = (X**2).T @ curvatures + query.regularisation
    tilt = gradient / (measurement.noise_multiplier * query.gradient_bound)
    if measurement.noise == "gaussian":
        return -(tilt**2) / 2 + np.log(hessian)
    assert theta.size == 1  # in one dimension the density is exp(−|b|)
    return -np.abs(tilt) + np.log(hessian)


def _stretched(query: Any, data: Any) -> Any:
    """By how much each row was shortened, where rows are weighted; else 1."""
    if not query.weighted:
        return np.ones(len(data.y))
    found = MappedRows(data, query.through, True).map_blocks(stretches)
    return np.concatenate([np.ones(0), *found])


def _made(query: Any, data: Any) -> Any:
    """The rows that a map made of the given ones."""
    steps = MappedRows(data, query.through, True).map_blocks(lambda block: [rows for _, rows in chunks(block)])
    return (
        np.vstack([np.zeros((0, query.rows.dimension)), *(part for parts in steps for part in parts)]) * query.rows.unit
    )


def _of_classes(measurement: PerturbedMinimum, theta: Any, data: Any) -> Any:
    """The same for a softmax: a coordinate is a run in as many dimensions as there are classes."""
    query, X = measurement.query, data.X
    gradient = np.asarray(query.loss.slope(X @ theta.T, data.y)).T @ X + query.regularisation * theta
    p = np.exp(X @ theta.T - logsumexp(X @ theta.T, axis=1, keepdims=True))
    spread = np.einsum("nk,nc->ckn", p, X**2)
    hessian = query.regularisation * np.eye(len(theta)) - spread @ p
    hessian += np.eye(len(theta)) * spread.sum(axis=2)[:, :, None]
    tilt = gradient / (measurement.noise_multiplier * query.gradient_bound)
    return -(tilt**2).sum(axis=0) / 2 + np.linalg.slogdet(hessian)[1]


@log_law.register
def _(measurement: NoisyMinimum, answer: Any, data: Any) -> Any:
    """Noise around the minimiser, in each coordinate for itself."""
    query = measurement.query
    if data not in _MINIMISERS:
        _MINIMISERS[data] = query.minimise(data, np.zeros(query.rows.shape), measurement.tolerance)
    scale = measurement.noise_multiplier * query.gradient_bound / query.regularisation
    off = (np.ravel(answer) - _MINIMISERS[data].ravel()) / scale
    if measurement.noise == "gaussian":
        return -(off**2) / 2
    assert off.size == 1
    return -np.abs(off)


@log_law.register
def _(measurement: LaplaceMinimum, answer: Any, data: Any) -> float:
    """Laplace noise around the minimiser, of half the movement that its own docstring claims for one coordinate."""
    query = measurement.query
    if data not in _MINIMISERS:
        _MINIMISERS[data] = query.minimise(data, np.zeros(query.rows.shape), measurement.tolerance)
    assert np.size(answer) == 1  # √d·2L/λ is then the least of the bounds, and twice the scale over the multiplier
    scale = measurement.noise_multiplier * query.gradient_bound / query.regularisation
    return -float(np.abs(np.ravel(answer) - _MINIMISERS[data].ravel()).sum() / scale)


_MINIMISERS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""Of each dataset, for one objective: every attack makes datasets of its own."""
