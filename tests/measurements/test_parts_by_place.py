"""Rows are split in parts without looking at them: the claim on which parallel composition rests."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from discreet.data.base import Dataset
from discreet.data.memory import in_memory
from discreet.events import Compose, Event, Parallel, PureDP
from discreet.measurements import SampleSplitting
from discreet.noise import Bits
from discreet.rows import RowSpec
from discreet.units import Unit

ROWS, N, PARTS = RowSpec(1, 1.0), 12, 3


def table(first: float, rows: int = N) -> Dataset:
    """Rows told apart by their targets; the first has another content."""
    x = np.linspace(-1.0, 1.0, N)[:rows]
    x[0] = first
    return in_memory(x[:, None], np.arange(rows, dtype=float), ROWS)


@dataclass
class Recorder:
    """A measurement that keeps which rows it was given."""

    seen: list[list[float]] = field(default_factory=list)

    def event(self, unit: Unit) -> Event:
        return PureDP(0.1)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> float:
        self.seen.append(sorted(float(y) for y in data.y))  # type: ignore[attr-defined]
        return 0.0

    def blank(self) -> float:
        return 0.0


def parts_of(data: Dataset, unit: Unit, seed: int) -> list[list[float]]:
    recorder = Recorder()

    def program() -> Generator[Any, Any, Any]:
        for _ in range(PARTS):
            yield recorder
        return np.zeros(1)

    SampleSplitting(program, PARTS).sample(data, unit, Bits.seeded(seed))
    return recorder.seen


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("seed", range(5))
def test_a_row_s_content_does_not_decide_its_part_nor_any_other_s(relation: Any, seed: int) -> None:
    one, other = (parts_of(table(first), Unit(relation), seed) for first in (-1.0, 1.0))
    assert one == other
    assert sorted(y for part in one for y in part) == list(range(N))


@pytest.mark.parametrize("seed", range(5))
def test_a_row_less_moves_no_other_under_add_remove(seed: int) -> None:
    """Each row has its own coin: without the last row the others lie where they lay, under the same coins."""
    whole, less = (parts_of(table(0.5, rows), Unit("add-remove"), seed) for rows in (N, N - 1))
    assert [[y for y in part if y != N - 1] for part in whole] == less


def test_a_unit_with_several_rows_is_charged_for_every_part() -> None:
    def program() -> Generator[Any, Any, Any]:
        for _ in range(PARTS):
            yield Recorder()
        return np.zeros(1)

    split = SampleSplitting(program, PARTS)
    assert isinstance(split.event(Unit("replace-one")), Parallel)
    assert isinstance(split.event(Unit("replace-one", 2)), Compose)
