"""Everything `discreet` raises on purpose.

DiscreetError
├── InvalidInput (also ValueError)       an argument or input that cannot be used; nothing was released
│   └── HypothesisViolated               a theorem's hypothesis does not hold for these parameters
├── BudgetExceeded                       the ledger refused a charge; nothing was released
├── LedgerUnavailable                    the ledger cannot be read or written; nothing was released
├── PlanViolation                        a solver asked for something its rehearsed plan had not charged
└── NotCertifiable                       the chosen accounting method cannot prove a bound for this event
"""

from __future__ import annotations

__all__ = [
    "BudgetExceeded",
    "DiscreetError",
    "HypothesisViolated",
    "InvalidInput",
    "LedgerUnavailable",
    "NotCertifiable",
    "PlanViolation",
]


class DiscreetError(Exception):
    """Base of all errors raised by discreet."""


class InvalidInput(DiscreetError, ValueError):
    """An argument cannot be used. Nothing was released or charged."""


class HypothesisViolated(InvalidInput):
    """A theorem was asked to speak outside its hypotheses."""


class BudgetExceeded(DiscreetError):
    """The ledger refused a charge. Nothing was released."""


class LedgerUnavailable(DiscreetError):
    """The ledger cannot be read or written: busy, read-only, damaged or of another format. Nothing was released."""


class PlanViolation(DiscreetError):
    """A solver deviated from the plan that had been charged. The offending release was not made."""


class NotCertifiable(DiscreetError):
    """The chosen accounting method cannot prove a bound for this event."""
