"""The default network for tables, and its losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from discreet.noise.bits import Bits

__all__ = ["Losses", "SkipNetwork", "losses_for"]


class SkipNetwork(torch.nn.Module):  # type: ignore[misc]
    """z = A·x + B·tanh(W·x + c)/√H + b: one hidden layer beside a linear model, and at the start the zero function.

    W has entries of unit variance, drawn from ``bits``; nothing private depends on them.
    """

    def __init__(self, features: int, hidden: int, outputs: int, bits: Bits) -> None:
        super().__init__()
        self.direct = torch.nn.Linear(features, outputs)
        self.inner = torch.nn.Linear(features, hidden)
        self.outer = torch.nn.Linear(hidden, outputs, bias=False)
        words = bits.words(hidden * features).astype(np.float64) / 2.0**64
        uniform = (2 * words - 1) * math.sqrt(3.0)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.zero_()
            self.inner.weight.copy_(torch.from_numpy(uniform.reshape(hidden, features)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, one column an output."""
        scores: torch.Tensor = self.direct(x)
        if not self.inner.out_features:
            return scores
        hidden = torch.tanh(self.inner(x)) / math.sqrt(self.inner.out_features)
        return scores + self.outer(hidden)

    def arrays(self) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """([A, W, B/√H], [c, b]) as arrays with the inputs in rows."""
        scale = math.sqrt(max(1, self.inner.out_features))
        weights = [self.direct.weight, self.inner.weight, self.outer.weight / scale]
        offsets = [self.inner.bias, self.direct.bias]
        return [w.detach().double().T.numpy() for w in weights], [b.detach().double().numpy() for b in offsets]


Losses: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""From scores and coded targets to the losses of a batch."""


def losses_for(kind: str, outputs: int) -> tuple[Losses, float]:
    """Logistic, softmax or squared losses, and the largest curvature of one in its scores."""
    if kind == "number":
        return lambda scores, y: (scores.squeeze(1) - y).square() / 2, 1.0
    if outputs == 1:
        return lambda scores, y: functional.softplus(-y * scores.squeeze(1)), 0.25
    return lambda scores, y: functional.cross_entropy(scores, y.long(), reduction="none"), 0.5
