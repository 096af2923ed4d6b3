"""How wide certified intervals of ε are, and what they cost, where nothing but numerical composition is known.

    python bench/accounting_widths.py          # about a minute; writes bench/results/accounting_widths.md
    python bench/accounting_widths.py --print  # writes nothing
    python bench/accounting_widths.py --rare   # 200 random settings of rare participation; accounting_rare.md

CPU time of one thread, of one question about an event that has not been asked about before, in a process that has
compiled the code: the median of five such events, whose noise (or range of selections) differs by a relative 1e-9.
Allocations are asked about once. For rare participation it is the least of the five: other programs on the machine
slow a thread down by what they take of its caches, and never make it faster.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded

# ruff: noqa: E402
import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[1] / "src")]
import peers
from discreet import accounting
from discreet.events import Allocation, Event, FixedSize, Gaussian, Poisson, Repeat, Selection

BOTH = ("add-remove", "replace-one")


def rows() -> list[tuple[str, Event, float, str]]:
    """Name, event, δ and relation."""
    found: list[tuple[str, Event, float, str]] = []
    for sigma, batch, n, steps in [(1.0, 100, 10_000, 1000), (2.0, 256, 60_000, 2000), (4.0, 500, 5000, 300)]:
        event = Repeat(FixedSize(batch, n, Gaussian(sigma)), steps)
        found += [(f"{batch} of {n} rows, σ = {sigma:g}, {steps} steps", event, 1e-6, to) for to in BOTH]
    for sigma, rate, steps, delta in [
        (1.0, 1e-5, 1000, 1e-7),
        (1.0, 1e-5, 1000, 1e-9),
        (2.0, 1e-4, 10_000, 1e-9),
        (0.8, 5e-4, 1000, 1e-9),
        (0.5, 1e-5, 10_000, 1e-7),
    ]:
        event = Repeat(Poisson(rate, Gaussian(sigma)), steps)
        found += [(f"q = {rate:g}, σ = {sigma:g}, {steps} steps", event, delta, to) for to in BOTH]
    for eta, times in [(0.1, 100), (0.5, 10), (1.0, 30), (0.05, 1000)]:
        found.append((f"selections of range {eta:g}, {times} times", Repeat(Selection(eta), times), 1e-6, "add-remove"))
    for sigma, batches, epochs in [(1.0, 100, 1), (0.8, 100, 10), (0.6, 1000, 1)]:
        event = Repeat(Allocation(batches, Gaussian(sigma)), epochs)
        found += [(f"{batches} batches, σ = {sigma:g}, {epochs} epochs", event, 1e-6, to) for to in BOTH]
    return found


def nearby(event: Event, factor: float) -> Event:
    """The event with a noise or a range that is larger by a factor: nothing is remembered of it."""
    match event:
        case Repeat(inner, times):
            return Repeat(nearby(inner, factor), times)
        case FixedSize() | Poisson():
            return replace(event, event=nearby(event.event, factor))
        case Gaussian(noise):
            return Gaussian(noise * factor)
        case Selection(epsilon):
            return Selection(epsilon * factor)
    raise TypeError(event)


def measured(
    event: Event, delta: float, relation: str, of: Callable[[list[float]], float] = statistics.median
) -> tuple[accounting.Bounds, float]:
    """The interval, and seconds of CPU."""
    if isinstance(event, Repeat) and isinstance(event.event, Allocation):
        events = [event]
    else:
        events = [nearby(event, 1 + k * 1e-9) for k in range(6)]
        accounting.epsilon(events.pop(), delta, relation)  # type: ignore[arg-type]
    seconds, found = [], accounting.Bounds(0.0, 0.0)
    for one in reversed(events):
        begin = time.process_time()
        found = accounting.epsilon(one, delta, relation)  # type: ignore[arg-type]
        seconds.append(time.process_time() - begin)
    return found, of(seconds)


def rare(settings: int = 200) -> None:
    """How wide and how quick intervals are where a unit rarely takes part, in random settings."""
    generator = random.Random(21)
    table = []
    for _ in range(settings):
        rate, sigma = 10 ** generator.uniform(-9, math.log10(5e-4)), 0.4 * 25 ** generator.random()
        steps, delta = int(10 ** generator.uniform(0, 6)), 10 ** generator.uniform(-15, -6)
        relation = generator.choice(BOTH)
        found, seconds = measured(Repeat(Poisson(rate, Gaussian(sigma)), steps), delta, relation, min)
        width = (found.upper - found.lower) / found.upper if found.upper > 0 else 0.0
        table.append((width, 1000 * seconds, rate, sigma, steps, delta, relation))
    lines = []
    for name, few in [("all, q ≥ 1e-9", 0.0), ("q ≥ 1e-7", 1e-7), ("q ≥ 1e-5", 1e-5)]:
        widths, times = zip(*[row[:2] for row in table if row[2] >= few], strict=True)
        slow = sum(time > 20 for time in times)
        lines.append(
            [
                name,
                str(len(times)),
                f"{100 * max(widths):.2g} %",
                f"{statistics.median(times):.0f}",
                f"{max(times):.0f}",
                str(slow),
            ]
        )
    header = ["rates", "settings", "largest relative width", "median ms", "largest ms", "over 20 ms"]
    peers.write("accounting_rare", "Rare participation", peers.markdown(header, lines), {"rows": table})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write nothing")
    parser.add_argument("--rare", action="store_true", help="random settings of rare participation instead")
    arguments = parser.parse_args()
    only_print = arguments.print
    if arguments.rare:
        return rare()
    accounting.epsilon(Repeat(Allocation(8, Gaussian(1.0)), 2), 1e-6, "replace-one")  # compiles
    accounting.epsilon(Repeat(Allocation(8, Gaussian(1.0)), 2), 1e-6, "add-remove")
    table = []
    for name, event, delta, relation in rows():
        found, seconds = measured(event, delta, relation)
        width = (found.upper - found.lower) / found.upper
        interval = f"[{found.lower:.5g}, {found.upper:.5g}]"
        table.append([name, f"{delta:g}", relation, interval, f"{100 * width:.2g} %", f"{1000 * seconds:.0f}"])
        print(" | ".join(table[-1]), flush=True)
    if not only_print:
        header = ["event", "δ", "relation", "ε", "relative width", "ms"]
        peers.write(
            "accounting_widths", "Widths of certified intervals", peers.markdown(header, table), {"rows": table}
        )


if __name__ == "__main__":
    main()
