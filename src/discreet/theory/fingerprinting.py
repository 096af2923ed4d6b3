"""Lower bounds for sparse rows under (ε, δ)-DP that grow with the sparsity: fingerprinting in diagonal blocks.

K blocks of s coordinates each hold m rows with entries ±L/√s, drawn around secret means p_j, uniform on [−1, 1]; all
other rows are 0. After Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024 (blocks) and Dwork, Smith, Steinke, Ullman and
Vadhan 2015 (fingerprinting); every constant is explicit, the proof is in ``docs/maths/theory.md``.
"""

from __future__ import annotations

import math

from discreet.theory.bound import require
from discreet.units import Adjacency, Unit

__all__ = ["fingerprinted", "spaced"]


def fingerprinted(
    *, n: int, d: int, s: int, bound: float, epsilon: float, delta: float, adjacency: Adjacency
) -> tuple[float, float]:
    """The largest mean squared error of a mean, and the largest excess risk at radius 1, that the construction proves.

    Example:
        >>> args = dict(n=10**8, d=10**14, bound=1.0, epsilon=1.0, delta=1e-8, adjacency="replace-one")
        >>> low, high = fingerprinted(s=2**10, **args)[0], fingerprinted(s=2**18, **args)[0]
        >>> round(math.log2(high / low) / 8, 1)  # the squared error grows like √s, the error like s^¼
        0.5
    """
    unit = Unit.of(adjacency)
    require(unit.rows_per_unit == 1, "one row a unit")
    if unit.relation == "add-remove":  # exchanging a row removes one and adds another
        epsilon, delta = 2 * epsilon, (1 + math.exp(min(epsilon, 700.0))) * delta
    spread = math.sinh(min(epsilon, 350.0))
    squares = excess = 0.0
    for block in {min(2**j, s, d) for j in range(s.bit_length() + 1)}:
        for rows in spaced(n):
            blocks = min(n // rows, d // block)
            if (rows / 2 + 1) * spread > math.sqrt(block):  # nothing is left, and more rows leave no more
                break
            share, variance = rows * bound / n, 1 / 3 + 2 / (3 * rows)
            leak = (rows / 2 + 1) * spread
            left = block * variance - leak**2 - 4 * delta * block * (rows + 2)
            squares = max(squares, blocks * share**2 / block * left)
            norm = math.sqrt(variance / (1 + 1 / (blocks * block * variance)))
            caught = leak / math.sqrt(block) + 4 * delta * (rows / 2 + 1)
            excess = max(excess, share * math.sqrt(blocks) * (norm - caught))
    return squares, excess


def spaced(largest: int) -> list[int]:
    """1, 2, 3, … spaced by a quarter of an octave up to ``largest``."""
    if largest < 1:
        return []
    return sorted({min(largest, round(2 ** (i / 4))) for i in range(4 * largest.bit_length() + 1)})
