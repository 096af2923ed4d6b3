"""Draws many new events and asks every accountant about them; prints the seed, and each false claim.

Most are of the classes whose reference costs little. By default the seed is the day's date, so that every day asks
something new; an older day is asked again by its seed.

Run: python -m tests.accounting.reference.audit [--events 100000] [--seed 20260101]
"""

from __future__ import annotations

import argparse
import datetime
import random

from tests.accounting.reference.check import Tally, check
from tests.accounting.reference.draw import draw

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
}
_METHODS = {"contour": 8, "auto": 8, "renyi": 2, "zcdp": 2, "basic": 1, "advanced": 1, "fourier": 0.5}


def audit(events: int, seed: int) -> int:
    """How many of so many events were answered falsely by the accountant that was asked about them."""
    rng, tally, false, done = random.Random(seed), Tally.empty(), 0, 0
    while done < events:
        (name,) = rng.choices(list(_OFTEN), list(_OFTEN.values()))
        (method,) = rng.choices(list(_METHODS), list(_METHODS.values()))
        case = draw(rng, name)
        if case is None:
            continue
        done += 1
        claims = list(check(case, method, tally, also_lower=rng.random() < 0.2))
        false += bool(claims)
        if claims:
            print(f"{case.event!r}, {case.adjacency}, ε = {case.epsilon!r}: δ in [{case.lower!r}, {case.upper!r}]")
            print("".join(f"    {claim}\n" for claim in claims), end="", flush=True)
        if done % 5000 == 0:
            print(f"{done} events, {false} answered falsely", flush=True)
    print(f"seed {seed}: {events} events, {false} answered falsely; asked {tally.asked}, refused {tally.refused}")
    return false


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=int(datetime.date.today().strftime("%Y%m%d")))
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    raise SystemExit(1 if audit(chosen.events, chosen.seed) else 0)
