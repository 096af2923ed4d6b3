"""When, where and with what a certificate was issued."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from discreet.ledger import Ledger

__all__ = ["record_of"]


def record_of(
    model: str, ledger: Ledger, charges: Sequence[int], *, protective: bool, rows: float | None
) -> dict[str, Any]:
    """The facts of a certificate that are about its making, not about the guarantee.

    Args:
        model: what was fitted.
        ledger: was charged.
        charges: their ids.
        protective: whether the randomness was private.
        rows: their number, where it is public.
    """
    return {
        "issued": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": model,
        "dataset": ledger.dataset,
        "rows": rows,
        "ledger": {
            "url": ledger.url,
            "analyst": ledger.analyst,
            "charges": list(charges),
            "head": str(ledger.head) if ledger.durable else "",
        },
        "randomness": "AES-256-CTR, keyed by the operating system" if protective else "a seed of the user: not private",
        "noise": "exact samples on a grid of integers",
        "versions": {"python": platform.python_version(), "numpy": metadata.version("numpy")},
    }
