"""The choice of several candidates has the law that its event is about, and no better one."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.special import logsumexp

from discreet import events
from discreet.accounting import delta
from discreet.errors import InvalidInput
from discreet.mechanisms import TopChoices
from discreet.noise.bits import Bits
from discreet.queries.base import Norm
from discreet.units import Unit


@dataclass(frozen=True)
class Scores:
    """A query of so many scores, each moved by a row by at most 10 steps."""

    count: int
    norm: ClassVar[Norm] = "linf"
    bound: ClassVar[int] = 10
    grid: ClassVar[float] = 0.1

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count,)


def law(scores: Any, s: int, scale: float) -> dict[tuple[int, ...], float]:
    """The probability of every sequence, by its definition."""
    found = {}
    for order in itertools.permutations(range(len(scores)), s):
        left, log_probability = np.array(scores, float) / scale, 0.0
        for place in order:
            log_probability += left[place] - logsumexp(left)
            left[place] = -np.inf
        found[order] = math.exp(log_probability)
    return found


def test_sequences_are_drawn_by_their_law() -> None:
    # 6 sequences, 6000 draws: χ² with 5 degrees of freedom exceeds 25.7 with probability 1e-4
    scores, s, query = np.array([12, 0, 25]), 2, Scores(3)
    mechanism, bits = TopChoices(s, 1.5), Bits.seeded(3)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(6000):
        drawn = tuple(mechanism.perturb(scores, query, bits).tolist())
        counts[drawn] = counts.get(drawn, 0) + 1
    expected = {order: 6000 * chance for order, chance in law(scores, s, 15.0).items()}
    assert sum((counts.get(order, 0) - e) ** 2 / e for order, e in expected.items()) < 25.7


@pytest.mark.parametrize("unit", [Unit("add-remove"), Unit("replace-one")])
def test_the_event_covers_the_worst_neighbours_and_half_the_noise_does_not(unit: Unit) -> None:
    moved = 10 if unit.relation == "add-remove" else 20
    one = np.array([0, 0, 0, 0])
    other = one + moved * np.array([1, 1, -1, -1])
    query, mechanism = Scores(4), TopChoices(2, 4.0)
    event = mechanism.event(query, unit)
    assert event == events.Repeat(events.Selection(2 * moved / 40), 2)

    def excess(scale: float, epsilon: float) -> float:
        p, q = law(one, 2, scale), law(other, 2, scale)
        return max(sum(max(0.0, a[o] - math.exp(epsilon) * b[o]) for o in a) for a, b in ((p, q), (q, p)))

    for epsilon in (0.1, 0.3, 0.6):
        claimed = delta(event, epsilon, unit).upper
        assert excess(40.0, epsilon) <= claimed
    assert any(excess(20.0, e) > delta(event, e, unit).upper for e in (0.1, 0.3, 0.6))


def test_the_number_of_choices_does_not_depend_on_scores() -> None:
    assert len(TopChoices(5, 1.0).perturb(np.array([3, 1]), Scores(2), Bits.seeded(0))) == 2
    assert TopChoices(5, 1.0).event(Scores(2), Unit("add-remove")) == events.Repeat(events.Selection(2.0), 2)
    assert TopChoices(2, 0.0).noiseless(np.array([0.5, 3.0, 1.0])).tolist() == [1, 2]


@pytest.mark.parametrize("s", [0, -1, 2.0, True])
def test_nonsense_is_refused(s: Any) -> None:
    with pytest.raises(InvalidInput, match="whole number"):
        TopChoices(s, 1.0)
