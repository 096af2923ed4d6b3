"""Draws many new events and asks every accountant about them; prints the seed, and each false claim.

Most are of the classes whose reference costs little. By default the seed is the day's date, so that every day asks
something new; an older day is asked again by its seed. The i-th event has a generator of its own, made from the seed
and i, so that neither the number of processes nor the events before it change what is asked.

Run: python -m tests.accounting.reference.audit [--events 100000] [--seed 20260101] [--jobs 2] [--only selections rare]
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # before numpy is loaded: short products gain nothing from a second thread

# ruff: noqa: E402
import argparse
import datetime
import multiprocessing
import random
from collections.abc import Iterator
from functools import partial

from tests.accounting.reference.check import METHODS, Tally, check
from tests.accounting.reference.draw import Case, draw

__all__ = ["audit", "one"]

_OFTEN = {
    "Gaussians": 30,
    "points and Gaussian": 30,
    "Laplace and Gaussian": 12,
    "sampled points": 12,
    "bounds": 10,
    "one sampled": 8,
    "sampled and Gaussian": 4,
    "points": 2,
    "sampled, Gaussian and more": 1,
    "sampled, repeated": 0.5,
    "Laplace": 0.5,
    "selections": 8,
    "rare": 3,
    "objective": 8,
}
_METHODS = {"contour": 8, "auto": 8, "renyi": 2, "zcdp": 2, "basic": 1, "advanced": 1, "fourier": 0.5}
# Without a part that decays fast the contour may take seconds.
_WITHOUT_CONTOUR = {**_METHODS, "contour": 0, "renyi": 3}
_METHODS_OF = {
    "one sampled": {**_METHODS, "contour": 1},
    "selections": _WITHOUT_CONTOUR,
    "objective": _WITHOUT_CONTOUR,
    "rare": {**_METHODS, "fourier": 6},
}


def _asked(rng: random.Random, only: tuple[str, ...] = ()) -> tuple[Case, str]:
    """A case, of some class or of one of ``only``, and the accountant to ask."""
    names = only or tuple(_OFTEN)
    while True:
        (name,) = rng.choices(names, [_OFTEN[name] for name in names])
        methods = _METHODS_OF.get(name, _METHODS)
        (method,) = rng.choices(list(methods), list(methods.values()))
        case = draw(rng, name, rng.choice([1, 1, 1, 1, 2, 3]))
        if case is not None:
            return case, method


def one(number: int, seed: int, only: tuple[str, ...] = ()) -> tuple[list[str], Tally]:
    """The false claims about the event of one number, as text, and what was asked."""
    rng, tally = random.Random(f"{seed}/{number}"), Tally.empty()
    case, method = _asked(rng, only)
    claims = list(check(case, method, tally, also_lower=rng.random() < 0.2))
    if claims:
        asked = f"{case.event!r}, {case.adjacency}, ε = {case.epsilon!r}: δ in [{case.lower!r}, {case.upper!r}]"
        claims = [f"event {number}: {asked}", *(f"    {claim}" for claim in claims)]
    return claims, tally


def _all(events: int, seed: int, jobs: int, only: tuple[str, ...]) -> Iterator[tuple[list[str], Tally]]:
    """The answers in the order of the numbers, by one process or several."""
    if jobs == 1:
        yield from (one(number, seed, only) for number in range(events))
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(partial(one, seed=seed, only=only), range(events), chunksize=20)


def audit(events: int, seed: int, jobs: int = 1, only: tuple[str, ...] = ()) -> int:
    """How many of so many events were answered falsely by the accountant that was asked about them."""
    tally, false = Tally.empty(), 0
    for done, (claims, found) in enumerate(_all(events, seed, jobs, only), start=1):
        for method in METHODS:
            tally.asked[method] += found.asked[method]
            tally.refused[method] += found.refused[method]
        false += bool(claims)
        print("".join(f"{line}\n" for line in claims), end="", flush=bool(claims))
        if done % (500 if only else 5000) == 0:
            print(f"{done} events, {false} answered falsely", flush=True)
    print(f"seed {seed}: {events} events, {false} answered falsely; asked {tally.asked}, refused {tally.refused}")
    return false


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=int(datetime.date.today().strftime("%Y%m%d")))
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes; the answers are the same")
    options.add_argument("--only", nargs="*", default=[], choices=list(_OFTEN), help="classes to draw from; all")
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    raise SystemExit(1 if audit(chosen.events, chosen.seed, chosen.jobs, tuple(chosen.only)) else 0)
