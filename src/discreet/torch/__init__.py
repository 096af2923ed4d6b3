"""Private training of PyTorch models: exact clipped sums, exact noise, one charge for the whole training."""

from __future__ import annotations

from discreet.torch.clipping import QuantileBound
from discreet.torch.engines import Clip
from discreet.torch.privatize import privatize
from discreet.torch.resuming import resume
from discreet.torch.rows import Batch
from discreet.torch.trainer import Trainer

__all__ = ["Batch", "Clip", "QuantileBound", "Trainer", "privatize", "resume"]
