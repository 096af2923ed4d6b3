"""Everything `discreet` raises on purpose.

DiscreetError
├── InvalidInput (also ValueError)       an argument or input that cannot be used; nothing was released
│   └── HypothesisViolated               a theorem's hypothesis does not hold for these parameters
├── BudgetExceeded                       the ledger refused a charge; nothing was released
├── LedgerUnavailable                    the ledger cannot be read or written; nothing was released
├── NotEstimable                         a fitted model has no intervals: they were not asked for, or noise hides them
├── PlanViolation                        a solver asked for something its rehearsed plan had not charged
├── RankLost                             another process of a training is gone; the step under way was not released
└── NotCertifiable                       the chosen accounting method cannot prove a bound for this event
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "BudgetExceeded",
    "DiscreetError",
    "HypothesisViolated",
    "InvalidInput",
    "LedgerUnavailable",
    "NotCertifiable",
    "NotEstimable",
    "PlanViolation",
    "RankLost",
    "did_you_mean",
]


class DiscreetError(Exception):
    """Base of all errors raised by discreet."""


class InvalidInput(DiscreetError, ValueError):
    """An argument cannot be used. Nothing was released or charged."""


class HypothesisViolated(InvalidInput):
    """The hypotheses of a theorem do not hold for the arguments."""


class BudgetExceeded(DiscreetError):
    """The ledger refused a charge. Nothing was released."""


class LedgerUnavailable(DiscreetError):
    """The ledger cannot be read or written: busy, read-only, damaged or of another format. Nothing was released."""


class NotEstimable(DiscreetError):
    """A fitted model has no intervals: they were not asked for, or its noise is too large for them."""


class PlanViolation(DiscreetError):
    """A solver deviated from the plan that had been charged. The offending release was not made."""


class RankLost(DiscreetError):
    """Another process of a training in several is gone, or refused. The step under way was not released."""


class NotCertifiable(DiscreetError):
    """The chosen accounting method cannot prove a bound for this event."""


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """A question to end a refusal with, where a known name is spelled much like the unknown one.

    Example:
        >>> did_you_mean("frank_wolf", ["descent", "frank_wolfe"]), did_you_mean("magic", ["descent"])
        (" Did you mean 'frank_wolfe'?", '')
    """
    from difflib import get_close_matches

    close = get_close_matches(str(name), list(known), n=1, cutoff=0.7)
    return f" Did you mean {close[0]!r}?" if close else ""
