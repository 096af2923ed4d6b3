"""A local web page of a ledger: budgets, releases, certificates and what would still fit. No rows are ever near it."""

from __future__ import annotations

from discreet.serve.app import application

__all__ = ["application"]
