"""Random events and the ε at which they are asked, heterogeneous compositions above all."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from flint import arb
from tests.accounting.reference import laws
from tests.accounting.reference.saddle import epsilon_near
from tests.accounting.reference.truth import Unsupported, delta_ball

from discreet import events as ev
from discreet.units import Adjacency, Unit

__all__ = ["CLASSES", "Case", "ball_of", "draw"]


@dataclass(frozen=True)
class Case:
    """An event, a relation (and rows a unit), an ε and doubles strictly below and above the ball that holds δ(ε)."""

    event: ev.Event
    adjacency: Adjacency
    epsilon: float
    lower: float
    upper: float


def _between(rng: random.Random, low: float, high: float) -> float:
    """Uniform in the logarithm, to four digits, so that a table of events stays short."""
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.4g}")


def _times(event: ev.Event, n: int) -> ev.Event:
    return event if n == 1 else ev.Repeat(event, n)


def _count(rng: random.Random, most: int) -> int:
    return max(1, min(most, int(_between(rng, 0.7, most + 0.99))))


def _gaussian(rng: random.Random, most: int = 10) -> ev.Event:
    factor = rng.choice([2.0, 2.0, 2.0, 1.0, 2**0.5, 1.3])
    return _times(ev.Gaussian(_between(rng, 0.4, 200.0), factor), _count(rng, most))


def _sampled(rng: random.Random, most: int = 60) -> ev.Event:
    rate = rng.choice([_between(rng, 1e-7, 0.01), _between(rng, 1e-3, 0.9)])
    sigma = rng.choice([_between(rng, 0.25, 1.5), _between(rng, 0.6, 8.0), _between(rng, 3.0, 60.0)])
    return _times(ev.Poisson(rate, ev.Gaussian(sigma)), _count(rng, most))


def _points(rng: random.Random, relation: str, most: int = 8) -> ev.Event:
    epsilon = _between(rng, 1e-3, 3.0)
    kinds: list[Callable[[], ev.Event]] = [
        lambda: ev.PureDP(epsilon),
        lambda: ev.ApproxDP(epsilon, _between(rng, 1e-30, 1e-3)),
        lambda: ev.DiscreteLaplace(_between(rng, 0.3, 20.0), rng.choice([1, 2, 3])),
        lambda: ev.DiscreteGaussian(_between(rng, 0.4, 6.0), rng.choice([1, 2])),
    ]
    if relation == "replace-one":  # a row that is not there answers nothing
        kinds.append(lambda: ev.RandomizedResponse(epsilon, rng.choice([2, 2, 3, 10])))
    return _times(rng.choice(kinds)(), _count(rng, most))


def _sampled_points(rng: random.Random) -> ev.Event:
    epsilon = _between(rng, 1e-2, 3.0)
    inner: ev.Event = rng.choice(
        [
            ev.PureDP(epsilon),
            ev.ApproxDP(epsilon, _between(rng, 1e-20, 1e-3)),
            ev.DiscreteLaplace(_between(rng, 0.4, 2.5), rng.choice([1, 2])),
            ev.DiscreteGaussian(_between(rng, 0.4, 3.0), rng.choice([1, 2])),
        ]
    )
    return ev.Poisson(_between(rng, 1e-5, 0.9), inner)


def _laplace(rng: random.Random, most: int = 12) -> ev.Event:
    return _times(ev.Laplace(_between(rng, 0.3, 100.0)), _count(rng, most))


def _fixed(rng: random.Random, relation: str) -> ev.Event:
    n = rng.randint(2, 2000)
    inner: list[ev.Event] = [
        ev.Gaussian(_between(rng, 0.5, 20.0), rng.choice([2.0, 1.0, 1.3])),
        ev.Laplace(_between(rng, 0.5, 20.0)),
        ev.DiscreteLaplace(_between(rng, 0.4, 2.5), rng.choice([1, 2])),
        ev.DiscreteGaussian(_between(rng, 0.4, 3.0), rng.choice([1, 2])),
    ]
    if relation == "replace-one":
        inner.append(ev.PureDP(_between(rng, 1e-2, 3.0)))
    return ev.FixedSize(rng.randint(1, n - 1), n, rng.choice(inner))


def _one_sided(rng: random.Random, relation: str) -> ev.Event:
    """Events whose accounting is a bound that need not be reached."""
    draws = rng.randint(1, 8)
    return rng.choice(
        [
            _fixed(rng, relation),
            _fixed(rng, relation),
            ev.Repeat(
                ev.Selection(_between(rng, 1e-2, 5.0), rng.choice(["exponential", "permute-and-flip", "noisy-max"])),
                _count(rng, 20),
            ),
            ev.RenyiDP(_between(rng, 1.1, 60.0), _between(rng, 1e-4, 5.0)),
            ev.PrivateSelection(
                ev.PureDP(_between(rng, 1e-2, 2.0)), _between(rng, 1.01, 50.0), rng.choice(["geometric", "poisson"])
            ),
            ev.ZCDP(_between(rng, 1e-5, 5.0)),
            ev.Poisson(_between(rng, 1e-5, 0.9), ev.Laplace(_between(rng, 0.3, 20.0))),
            ev.WithReplacement(draws, draws + rng.randint(1, 100), ev.Gaussian(_between(rng, 0.8, 20.0))),
        ]
    )


def _selection(rng: random.Random, most: int) -> ev.Event:
    return _times(ev.Selection(_between(rng, 1e-2, 5.0), "exponential"), _count(rng, most))


def _rare(rng: random.Random) -> ev.Event:
    """Steps in which a row takes part at most once in a thousand."""
    sampled = ev.Poisson(_between(rng, 1e-6, 1e-3), ev.Gaussian(_between(rng, 0.4, 4.0)))
    return _times(sampled, _count(rng, 100))


def _objective(rng: random.Random) -> ev.Event:
    """Objective perturbation with a determinant from negligible to large, with and without a link."""
    directions = rng.choice([1, 1, 2, 5])
    log_det = rng.choice([0.0, _between(rng, 1e-6, 0.1), _between(rng, 0.05, 3.0)])
    deviation = rng.choice([0.0, _between(rng, 1e-4, 0.1)])
    link = rng.choice([0.0, 4 * math.expm1(log_det)]) if directions == 1 else 0.0
    one = ev.ObjectivePerturbation(_between(rng, 0.5, 100.0), log_det, directions, link, deviation)
    return _times(one, _count(rng, 10))


def _class(name: str, rng: random.Random, relation: str) -> ev.Event:
    match name:
        case "sampled and Gaussian":
            return ev.Compose([*(_sampled(rng) for _ in range(rng.choice([1, 1, 2]))), _gaussian(rng)])
        case "sampled, Gaussian and more":
            return ev.Compose([_sampled(rng), _gaussian(rng), rng.choice([_points(rng, relation, 4), _laplace(rng)])])
        case "sampled, repeated":
            rate, sigma = _between(rng, 3e-3, 0.8), _between(rng, 0.6, 6.0)
            return ev.Repeat(ev.Poisson(rate, ev.Gaussian(sigma)), rng.randint(2, 300))
        case "one sampled":
            one = _times(_sampled(rng, 1), 1)
            return one if rng.random() < 0.5 else ev.Compose([one, _points(rng, relation, 4)])
        case "sampled points":
            return ev.Compose([_sampled_points(rng), *([_gaussian(rng)] if rng.random() < 0.7 else [])])
        case "bounds":
            one = _one_sided(rng, relation)
            return rng.choice([one, ev.Compose([one, _gaussian(rng)]), ev.Compose([one, _points(rng, relation, 3)])])
        case "points and Gaussian":
            return ev.Compose([_points(rng, relation, 20), _gaussian(rng, 1000)])
        case "points":
            long = ev.Repeat(ev.PureDP(_between(rng, 1e-3, 0.5)), _count(rng, 10_000))
            return rng.choice(
                [long, _points(rng, relation, 40), ev.Compose([_points(rng, relation, 3), _points(rng, relation, 3)])]
            )
        case "Laplace":
            return ev.Compose([_laplace(rng, 20), *([_points(rng, relation, 4)] if rng.random() < 0.5 else [])])
        case "Laplace and Gaussian":
            return ev.Compose([_laplace(rng), _laplace(rng), _gaussian(rng)])
        case "selections":
            one = _selection(rng, 60)
            return one if rng.random() < 0.7 else ev.Compose([one, _selection(rng, 3)])
        case "rare":
            return _rare(rng) if rng.random() < 0.2 else ev.Compose([_rare(rng), _gaussian(rng)])
        case "objective":
            more = rng.choice([[], [_gaussian(rng)], [_points(rng, relation, 3)], [_laplace(rng, 3)]])
            return ev.Compose([_objective(rng), *more])
        case "Gaussians":
            return ev.Compose([_gaussian(rng, 10_000), ev.Gaussian(_between(rng, 0.3, 1e5))])
    raise ValueError(name)


CLASSES = {
    "sampled and Gaussian": 360,
    "sampled, Gaussian and more": 340,
    "sampled, repeated": 70,
    "one sampled": 350,
    "sampled points": 350,
    "bounds": 250,
    "points and Gaussian": 650,
    "points": 120,
    "Laplace": 80,
    "Laplace and Gaussian": 320,
    "Gaussians": 500,
}
"""Kinds of events and how many of each are in the table; `audit` draws others as well."""


def ball_of(event: ev.Event, adjacency: Adjacency, epsilon: float, effort: int = 8_000_000) -> Case:
    """The case of one event at one ε."""
    unit = Unit.of(adjacency)
    ball = delta_ball(event, unit.relation, epsilon, unit.rows_per_unit, effort=effort)
    return Case(event, adjacency, epsilon, _below(ball), _over(ball))


def _below(ball: arb) -> float:
    value = float(ball.lower())
    while value > 0 and not arb(value) < ball:
        value = math.nextafter(value, 0.0)
    return max(value, 0.0)


def _over(ball: arb) -> float:
    value = float(ball.upper())
    while not arb(value) > ball:
        value = math.nextafter(value, 2.0)
    return value


def draw(rng: random.Random, name: str, rows: int = 1) -> Case | None:
    """One case of a class, for units of so many rows, with ε in [1e-6, 100] and δ(ε) in [1e-31, 0.99].

    None if the draw has none such.
    """
    relation = rng.choice(["add-remove", "replace-one"])
    event = _class(name, rng, relation)
    log_delta, other, by_delta = rng.uniform(-69.0, -1.0), _between(rng, 1e-6, 100.0), rng.random() < 0.75
    try:
        epsilon = epsilon_near(laws.directions(event, relation, rows)[0], log_delta) if by_delta else other
        epsilon = float(f"{epsilon:.6g}")
        if not 1e-6 <= epsilon <= 100.0:
            return None
        case = ball_of(event, relation if rows == 1 else Unit(relation, rows), epsilon, effort=500_000)
    except (Unsupported, ArithmeticError, ValueError):
        return None
    return case if case.lower >= 1e-31 and case.upper <= 0.99 else None
