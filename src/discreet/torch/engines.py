"""Which engine computes clipped sums, and the check that a slot's integers depend on that slot alone."""

from __future__ import annotations

from typing import Any

import torch

from discreet.torch.reference_engine import Clip, ReferenceGradients
from discreet.torch.rows import TorchRows

__all__ = ["Clip", "make_engine"]


def make_engine(model: torch.nn.Module, clip: Clip, slots: int, grid: float, exact: bool, rows: TorchRows) -> Any:
    """The engine for a model."""
    return ReferenceGradients(model, clip, slots=slots, grid=grid, exact=exact)
