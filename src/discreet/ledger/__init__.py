"""Durable budgets: every release is charged here, as an event, before anything is sampled."""

from __future__ import annotations

from discreet.ledger.adaptive import Accountant
from discreet.ledger.base import Budget, Charge, Stated, Status, Store
from discreet.ledger.ledger import Ledger

__all__ = ["Accountant", "Budget", "Charge", "Ledger", "Stated", "Status", "Store"]
