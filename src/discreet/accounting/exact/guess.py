"""About what ε of a run is where its losses have heavy tails.

Nothing here proves anything: it says where to look, as the saddle point does for light tails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.accounting.exact import gaussian
from discreet.accounting.exact.lattice import rough_law
from discreet.accounting.exact.pairs import DiscretePair, Pair, ProfilePair
from discreet.errors import NotCertifiable

__all__ = ["rough_epsilon"]

_NEAR = 8.0  # of ε: smaller losses add up as normal ones do
_GRID = np.geomspace(1e-9, 1.0, 400)


def rough_epsilon(parts: Sequence[tuple[Pair | ProfilePair, int]], delta: float) -> float:
    """About ε(δ), where one large loss has all of δ, or small losses add up to it as normal ones, whichever is more.

    Raises:
        NotCertifiable: the losses are not of that kind.
    """
    steps = sum(times for _, times in parts)
    log_tail = max(-745.0, math.log(delta) - math.log(steps) - 25.0)
    guess, bulk = 0.0, []
    for pair, times in parts:
        if isinstance(pair, ProfilePair | DiscretePair):
            raise NotCertifiable("atoms and bounds have no tails that could be guessed")
        grid = _GRID * max(pair.span(log_tail)[1], 1e-290)
        enough = np.flatnonzero(pair.profile(grid) <= delta / times)
        if len(enough) and enough[0] > 0:
            guess = max(guess, float(grid[enough[0]]))
        law = rough_law(pair, log_tail)
        bulk.append((np.abs(law.losses - pair.anchor), law.losses, law.probabilities, times))
    if not guess > 0:
        raise NotCertifiable("no single loss exceeds any ε with so small a δ")
    for _ in range(3):
        variance = 0.0
        for distance, losses, masses, times in bulk:
            near = distance < _NEAR * guess
            mean = float(losses[near] @ masses[near])
            variance += times * float((losses[near] - mean) ** 2 @ masses[near])
        guess = max(guess, gaussian.epsilon_bounds(delta, math.sqrt(variance)).upper if variance > 0 else 0.0)
    return guess
