"""Synthetic tables in which columns tell more together than alone, or in which resolution matters; and some without.

The truth is a sum of effects of single columns, of pairs, of spikes (a value that most rows have, and a tail in which
narrow ranges differ) and of fine steps, in shares that the kind says. Columns are numbers of several shapes and
categories by Zipf's law; some columns tell nothing. "amounts" has rarer tails, of sixty values, that tell more; in
"grouped" some columns are made of others, so that they depend on one another without an interaction. In "useless" most
columns tell nothing, in "told" all of them tell something.

`dependent_table` has many dependent columns of one shape (frequencies, mostly 0 with a long tail; numbers that mirror
common causes; or nearly copies of one another), for few rows: there sampling alone makes pairs look like interactions,
and what a first additive model has missed of one column shows in the table of two.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import discreet as dp

Array = NDArray[np.float64]

SHARES = {  # of the variance of the truth: single columns, pairs, spikes, fine steps
    "additive": (1.0, 0.0, 0.0, 0.0),
    "pairs": (0.35, 0.65, 0.0, 0.0),
    "mild": (0.85, 0.15, 0.0, 0.0),
    "spikes": (0.5, 0.0, 0.5, 0.0),
    "steps": (0.5, 0.0, 0.0, 0.5),
    "all": (0.5, 0.25, 0.15, 0.1),
    "amounts": (0.8, 0.0, 0.2, 0.0),
    "grouped": (1.0, 0.0, 0.0, 0.0),
    "grouped pairs": (0.85, 0.15, 0.0, 0.0),
    "useless": (0.85, 0.15, 0.0, 0.0),
    "told": (0.85, 0.15, 0.0, 0.0),
}


def table(rng: Generator, rows: int, kind: str) -> tuple[dict[str, Any], dict[str, Any], Array]:
    """(declarations, cells, the truth of mean 0 and variance 1)."""
    columns: dict[str, Any] = {}
    cells: dict[str, Any] = {}
    places: dict[str, Array] = {}  # between 0 and 1, for the truth
    common = rng.normal(size=rows)
    for j in range(6):
        own = rng.normal(size=rows) + rng.choice([0.0, 0.7]) * common
        shape = rng.choice(["bell", "skewed", "whole", "flat"])
        value = {
            "bell": 50 + 10 * own,
            "skewed": np.exp(8 + own),
            "whole": np.clip(np.rint(6 + 2.5 * own), 0, 16),
            "flat": 100 * _ranks(own),
        }[shape]
        low, high = {"bell": (0, 100), "skewed": (0, 500_000), "whole": (0, 16), "flat": (0, 100)}[shape]
        columns[f"x{j}"], cells[f"x{j}"] = dp.Numeric(low, high), value
        places[f"x{j}"] = _ranks(own)
    for j in range(2):
        rare = kind == "amounts"
        there = rng.random(rows) < (rng.uniform(0.03, 0.12) if rare else rng.uniform(0.1, 0.4))
        size = np.exp(8 + (rng.choice([0.4, 0.8, 1.2]) if rare else 1.0) * rng.normal(size=rows))
        if rare:  # amounts that are paid again and again: few values, some of them common
            common = 1.0 / np.arange(1.0, 61.0)
            size = np.round(size[:60], -1)[rng.choice(60, size=rows, p=common / common.sum())]
        high = float(rng.choice([20_000, 50_000, 100_000])) if rare else 200_000
        columns[f"s{j}"], cells[f"s{j}"] = dp.Numeric(0, high), np.where(there, size, 0.0)
        places[f"s{j}"] = np.where(there, np.searchsorted(np.unique(size), size) / 60 if rare else _ranks(size), -1.0)
    for j, levels in enumerate([2, 4, 7, 15, 40]):
        chances = 1.0 / np.arange(1.0, levels + 1)
        level = rng.choice(levels, size=rows, p=chances / chances.sum())
        columns[f"c{j}"], cells[f"c{j}"] = dp.Categorical([str(k) for k in range(levels)], fill="0"), level.astype(str)
        places[f"c{j}"] = rng.random(levels)[level]  # levels in any order
    if kind == "useless":
        _useless(rng, columns, cells)
    told = rng.permutation(list(places))[: len(places) if kind == "told" else 7].tolist()
    if kind.startswith("grouped"):
        told = _grouped(rng, columns, cells, places) + told[:4]
    parts = (
        sum(_bend(rng, places[name]) for name in told),
        sum(_pair(rng, *(places[name] for name in rng.permutation(_crossed(places))[:2])) for _ in range(4)),
        sum(_spike(rng, places[f"s{j}"], 60 if kind == "amounts" else 10) for j in range(2)),
        sum(_steps(rng, places[f"x{j}"]) for j in rng.permutation(6)[:2]),
    )
    truth = sum(np.sqrt(share) * _unit(part) for share, part in zip(SHARES[kind], parts, strict=True))
    return columns, cells, _unit(truth)


DEPENDENT = {  # share of the variance of the truth that is in pairs, and the shape of the columns
    f"{shape} {truth}": (share, shape)
    for shape in ("frequencies", "correlated", "copies")
    for truth, share in (("additive", 0.0), ("pairs", 0.4))
}


def dependent_table(rng: Generator, rows: int, columns: int, kind: str) -> tuple[dict[str, Any], dict[str, Any], Array]:
    """(declarations, cells, the truth of mean 0 and variance 1) of numbers that all depend on one another."""
    share, shape = DEPENDENT[kind]
    declared: dict[str, Any] = {}
    cells: dict[str, Any] = {}
    causes = rng.normal(size=(rows, 3))
    places = []
    for j in range(columns):
        own, shared = rng.normal(size=rows), causes @ rng.normal(size=3)
        if shape == "frequencies":
            size = np.exp(own + 0.5 * shared)
            value = np.where(rng.random(rows) < rng.uniform(0.1, 0.9), size, 0.0)
            place, declared[f"x{j}"] = np.log1p(5 * value) / 5, dp.Numeric(0, 100, scale="log")
        else:
            value = shared + 0.7 * own if shape == "correlated" or j % 2 == 0 else value + 0.1 * own
            place, bounds = _ranks(value), np.quantile(value, [0.005, 0.995]).tolist()
            declared[f"x{j}"] = dp.Numeric(*bounds)
        cells[f"x{j}"] = value
        places.append(place)
    alone = sum(float(rng.standard_t(4)) * _bend(rng, place) for place in places)
    pairs = sum(_pair(rng, *(places[k] for k in rng.permutation(columns)[:2])) for _ in range(4))
    return declared, cells, _unit(np.sqrt(1 - share) * _unit(alone) + np.sqrt(share) * _unit(pairs))


def _grouped(rng: Generator, columns: dict[str, Any], cells: dict[str, Any], places: dict[str, Array]) -> list[str]:
    """Adds three columns that are made of others: levels put into groups, levels under other names, rounded numbers.

    Returns them and what they were made of: all of these tell something.
    """
    level = {name: np.array(cells[name]).astype(int) for name in ("c2", "c3")}
    groups = rng.integers(4, size=15)[level["c3"]]
    renamed = np.where(
        rng.random(len(groups)) < 0.1, rng.integers(7, size=len(groups)), rng.permutation(7)[level["c2"]]
    )
    for name, found, many in (("g0", groups, 4), ("g1", renamed, 7)):
        columns[name] = dp.Categorical([str(k) for k in range(many)], fill="0")
        cells[name], places[name] = found.astype(str), rng.random(many)[found]
    rounded = np.rint(12 * places["x0"])
    columns["g2"], cells["g2"], places["g2"] = dp.Numeric(0, 12), rounded, rounded / 12
    return ["c2", "c3", "x0", "g0", "g1", "g2"]


def _useless(rng: Generator, columns: dict[str, Any], cells: dict[str, Any]) -> None:
    """Adds eight columns that tell nothing: numbers of two shapes, and categories of few levels and of many."""
    rows = len(cells["x0"])
    for j in range(4):
        value = 100 * rng.random(rows) if j % 2 else 50 + 10 * rng.normal(size=rows)
        columns[f"n{j}"], cells[f"n{j}"] = dp.Numeric(0, 100), value
    for j, levels in enumerate([3, 10, 25, 60]):
        chances = 1.0 / np.arange(1.0, levels + 1)
        level = rng.choice(levels, size=rows, p=chances / chances.sum())
        columns[f"m{j}"] = dp.Categorical([str(k) for k in range(levels)], fill="0")
        cells[f"m{j}"] = level.astype(str)


def _ranks(values: Array) -> Array:
    return np.argsort(np.argsort(values)) / len(values)


def _unit(values: Array) -> Array:
    return (values - values.mean()) / max(float(values.std()), 1e-12)


def _crossed(places: dict[str, Array]) -> list[str]:
    return [name for name in places if name[0] in "xc"]


def _bend(rng: Generator, u: Array) -> Array:
    """A smooth effect of one column: a line, a turn, a saturation or a wave."""
    bends = [2 * u, -4 * (u - 0.5) ** 2, np.tanh(5 * (u - rng.uniform(0.2, 0.8))), np.sin(rng.uniform(2, 5) * u)]
    return float(rng.choice([-1, 1]) * rng.uniform(0.4, 1.2)) * _unit(bends[rng.integers(4)])


def _pair(rng: Generator, u: Array, v: Array) -> Array:
    """An effect of two columns: a product, a quadrant, a moving turn, or a bump."""
    a, b = rng.uniform(0.3, 0.7, size=2)
    kinds = [
        (u - 0.5) * (v - 0.5),
        np.sign(u - a) * np.sign(v - b),
        np.sin(4 * u) * (v - 0.5),
        np.exp(-((u - a) ** 2 + (v - b) ** 2) / 0.08),
    ]
    return float(rng.uniform(0.5, 1.2)) * _unit(kinds[rng.integers(4)])


def _spike(rng: Generator, u: Array, many: int) -> Array:
    """Most rows at one value; in the tail, narrow ranges that differ."""
    ranges = rng.normal(size=many)
    tail = ranges[np.clip((u * many).astype(int), 0, many - 1)] + rng.choice([-1.0, 1.0])
    return _unit(np.where(u < 0, 0.0, tail))


def _steps(rng: Generator, u: Array) -> Array:
    """A dozen steps of any height."""
    return _unit(rng.normal(size=12)[np.clip((u * 12).astype(int), 0, 11)])
