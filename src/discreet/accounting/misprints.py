"""Printed formulas that ask for no noise, each beside the one that follows from its own premises."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput

__all__ = ["Misprint", "check_target", "misprints", "rank_factor_misprint", "sampled_composition_misprint"]


@dataclass(frozen=True)
class Misprint:
    """A printed formula that asks for no noise, beside the one that follows from its own premises.

    Both are upper bounds: a printed value below the right one claims what is not proved; one above it is loose.
    """

    name: str
    printed_formula: str
    right_formula: str
    printed: float
    right: float

    @property
    def ratio(self) -> float:
        """Printed over right value: below 1 the printed bound is false."""
        return self.printed / self.right

    @property
    def holds(self) -> bool:
        """Whether the printed bound is at least the right one."""
        return self.printed >= self.right


def check_target(epsilon: float, delta: float, steps: int = 1) -> None:
    """Refuse a target that is none.

    Raises:
        InvalidInput: ε is not positive and finite, δ not in (0, 1), or there are no steps.
    """
    if not (0 < epsilon < math.inf and 0 < delta < 1 and steps >= 1):
        raise InvalidInput(
            "a textbook formula needs ε > 0, δ in (0, 1) and steps ≥ 1, "
            f"got ε={epsilon!r}, δ={delta!r}, steps={steps!r}."
        )


def rank_factor_misprint(delta: float, rank: int) -> Misprint:
    """The excess risk of noisy descent on a generalised linear model is L‖θ*‖·(factor)/(nε): 2·rank is printed.

    The average of T steps of the best size has D·√(L² + rank·σ²)/√T, and with the printed σ = 2L√(T ln(1/δ))/(nε) at
    T = n²ε² the root is L√(1 + 4·rank·ln(1/δ)). The printed factor is below it, so false, until the rank reaches about
    ln(1/δ), and far above it afterwards, where the true dependence is on the root of the rank.

    Example:
        >>> rank_factor_misprint(1e-6, 3).holds, rank_factor_misprint(1e-6, 300).holds
        (False, True)
    """
    check_target(1.0, delta, rank)
    right = math.sqrt(1 + 4 * rank * math.log(1 / delta))
    return Misprint("noisy gradient descent, factor of the rank", "2·rank", "√(1 + 4·rank·ln(1/δ))", 2.0 * rank, right)


def sampled_composition_misprint(step_epsilon: float, steps: int, n: int) -> Misprint:
    """T steps of ε each on one random row of n: ε√(T/n) is printed for ε√T/n, larger by √n.

    Sampling one row of n divides a small ε by n, and T steps multiply it by √T, both up to constants and logarithms.

    Example:
        >>> round(sampled_composition_misprint(1.0, 100, 10_000).ratio, 6)
        100.0
    """
    check_target(step_epsilon, 0.5, steps)
    check_target(step_epsilon, 0.5, n)
    printed, right = step_epsilon * math.sqrt(steps / n), step_epsilon * math.sqrt(steps) / n
    return Misprint("composition of sampled steps", "ε√(T/n)", "ε√T/n", printed, right)


def misprints(delta: float, steps: int, n: int, rank: int) -> list[Misprint]:
    """Every misprinted formula that asks for no noise.

    Example:
        >>> [m.holds for m in misprints(1e-6, 100, 1000, rank=5)]
        [False, True]
    """
    return [rank_factor_misprint(delta, rank), sampled_composition_misprint(1.0, steps, n)]
