"""Differentially private training of PyTorch models: exact sums, exact noise, one charge. Needs the extra ``torch``."""

from __future__ import annotations

from discreet.torch.adam import Adam
from discreet.torch.clipping import QuantileBound
from discreet.torch.engine import Clip, ExampleGradients, check_model, check_slots, fix
from discreet.torch.privatize import privatize
from discreet.torch.resuming import resume
from discreet.torch.rows import Batch
from discreet.torch.tabular import TorchClassifier, TorchRegressor
from discreet.torch.trainer import Trainer

__all__ = [
    "Adam",
    "Batch",
    "Clip",
    "ExampleGradients",
    "QuantileBound",
    "TorchClassifier",
    "TorchRegressor",
    "Trainer",
    "check_model",
    "check_slots",
    "fix",
    "privatize",
    "resume",
]
