"""What every accountant must say about a case, if its bounds are true.

Let δ* be the reference's δ(ε), ``lower`` < δ* < ``upper``. Then δ-intervals must meet [lower, upper]; at δ = lower the
least ε exceeds the case's ε, so that no upper bound may be below it; at δ = upper it is at most ε, so that no lower
bound may be above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tests.accounting.reference.draw import Case
from tests.accounting.reference.laws import is_attained_only

from discreet.accounting import Bounds, curve
from discreet.errors import NotCertifiable
from discreet.units import Unit

__all__ = ["METHODS", "Tally", "check"]

METHODS = ("auto", "contour", "fourier", "renyi", "zcdp", "basic", "advanced")


@dataclass
class Tally:
    """Questions asked of each method, and how many it refused."""

    asked: dict[str, int]
    refused: dict[str, int]

    @classmethod
    def empty(cls) -> Tally:
        """Nothing asked yet."""
        return cls(dict.fromkeys(METHODS, 0), dict.fromkeys(METHODS, 0))


def check(case: Case, method: str, tally: Tally, *, also_lower: bool = True) -> Iterator[str]:
    """Every false claim of one method about one case, as text.

    Args:
        case: with its reference.
        method: of `discreet.accounting.curve`.
        tally: where questions and refusals are counted.
        also_lower: ask for the lower bound of ε too, which needs a search of its own.
    """
    known = curve(case.event, case.adjacency, method=method)  # type: ignore[arg-type]
    least = math.inf if is_attained_only(case.event, Unit.of(case.adjacency).relation) else case.upper
    questions = [("delta", case.epsilon), ("upper", case.lower)]
    if also_lower:
        questions += [("epsilon", case.lower), ("epsilon", case.upper)]
    for question, at in questions:
        tally.asked[method] += 1
        try:
            found = getattr(known, question)(at)
        except NotCertifiable:
            tally.refused[method] += 1
            continue
        except Exception as problem:
            yield f"{method}: {question}({at!r}) raises {type(problem).__name__}: {problem}"
            continue
        said = f"{method}: {question}({at!r}) = {found!r}"
        if question == "upper":
            if not found >= case.epsilon:
                yield f"{said} is below ε = {case.epsilon!r}"
            continue
        assert isinstance(found, Bounds)
        if not found.lower <= found.upper:
            yield f"{said} is inverted"
        if question == "delta":
            if not found.upper >= case.lower:
                yield f"{said} is below δ ≥ {case.lower!r}"
            if not found.lower <= least:
                yield f"{said} is above δ ≤ {case.upper!r}"
        elif at == case.lower and not found.upper >= case.epsilon:
            yield f"{said} is below ε = {case.epsilon!r}"
        elif at == case.upper and not math.isinf(least) and not found.lower <= case.epsilon:
            yield f"{said} is above ε = {case.epsilon!r}"
