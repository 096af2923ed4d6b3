"""Runs whose noise, batches or stopping depend on what was already answered: filters and odometers."""

from __future__ import annotations

from discreet.accounting.adaptive.filters import (
    ApproxFilter,
    GDPFilter,
    PrivacyFilter,
    PureFilter,
    RenyiFilter,
    ZCDPFilter,
)
from discreet.accounting.adaptive.odometer import RenyiOdometer

__all__ = [
    "ApproxFilter",
    "GDPFilter",
    "PrivacyFilter",
    "PureFilter",
    "RenyiFilter",
    "RenyiOdometer",
    "ZCDPFilter",
]
