"""Charges that are killed, in a process of their own: to fork a small process takes far less time than a large one."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

from discreet.accounting.bounds import Bounds
from discreet.events import Event, PureDP
from discreet.ledger import Accountant, Ledger
from discreet.units import Unit

UNIT = Unit("replace-one")


def pure(event: Event, delta: float, unit: Unit) -> Bounds:
    return Bounds(event.epsilon, event.epsilon)  # type: ignore[attr-defined]


def no_order(event: Event, order: float, unit: Unit) -> float:
    return float("inf")


PURE = Accountant(pure, no_order)


def opened(place: str, epsilon: float = 1.0, **more: Any) -> Ledger:
    return Ledger(place, epsilon=epsilon, delta=1e-6, adjacency="replace-one", **({"accountant": PURE} | more))


def kill_charges(place: str, kills: int) -> tuple[int, int]:
    """(acknowledged, killed): each charge is killed (−9) after a random time that is about as long as a charge."""
    opened(place, epsilon=1e6)
    random.seed(20261116)
    begun = time.perf_counter()
    for _ in range(5):
        opened(place, epsilon=1e6).charge(PureDP(1.0), UNIT)
    longest = 1.2 * (time.perf_counter() - begun) / 5
    acknowledged, killed, runs = 5, 0, 0
    while killed < kills:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                Ledger(place, accountant=PURE).charge(PureDP(1.0), UNIT)
                os.write(writing, b"!")
            finally:
                os._exit(0)
        os.close(writing)
        time.sleep(random.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        ended = os.read(reading, 1) == b"!"
        longest *= 0.8 if ended else 1.02  # so that about one in twelve ends, however slow the machine is
        acknowledged += ended
        killed += os.WIFSIGNALED(status)
        os.close(reading)
        runs += 1
        assert runs < 8 * kills, "charges end before they can be killed"
    return acknowledged, killed
