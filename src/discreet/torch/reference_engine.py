"""Clipped sums of per-example gradients by one backward pass an example: slow, short, and exact after the gradients.

The reference that faster engines are compared with. An example's gradient is what autograd computes for its own entry
of the loss; all that follows is exact or rounded towards zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch

from discreet.errors import InvalidInput

__all__ = ["Clip", "ReferenceGradients"]


@dataclass(frozen=True)
class Clip:
    """How an example's gradient is bounded: to ℓ2 norm ``bound``, all layers together, or bound/√layers each.

    ``automatic`` scales every gradient to the bound (Bu et al. 2023), so that the bound is no longer a setting of its
    own beside the learning rate.
    """

    bound: float = 1.0
    style: Literal["flat", "per-layer", "automatic"] = "flat"


class ReferenceGradients:
    """Clipped sums of the gradients of single examples, in whole steps of bound/grid.

    Claim: the integers that one present slot contributes have ℓ2 norm at most ``integer_bound`` = grid. The weight w
    with w·‖g‖ ≤ grid is computed in float64 and reduced by (d + 16)·2⁻⁵², more than all rounding of ‖g‖, w and w·g;
    entries are then rounded towards zero. A gradient that is not finite contributes zero. Autograd multiplies what the
    other slots computed by 0, so that activations which are not finite reach other slots: a reference for finite ones.
    """

    def __init__(self, model: torch.nn.Module, clip: Clip, *, slots: int, grid: float, exact: bool = True) -> None:
        self.clip, self.slots, self.grid = clip, slots, grid
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.integer_bound = grid
        self.report: dict[str, Any] = {"engine": "reference"}
        self.norms = torch.zeros(slots, dtype=torch.float64)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Nothing needs to be recorded."""
        yield

    def clipped_sum(self, loss: torch.Tensor, present: torch.Tensor, bound: float | None = None) -> list[torch.Tensor]:
        """Σ trunc(w_i·g_i) over the present slots, one int64 tensor a parameter."""
        if loss.shape != (self.slots,):
            raise InvalidInput(f"the loss must have one entry a slot ({self.slots}), got shape {tuple(loss.shape)}.")
        total = [torch.zeros(p.shape, dtype=torch.int64, device=p.device) for p in self.parameters]
        self.norms = torch.zeros(self.slots, dtype=torch.float64)
        for slot in range(self.slots):
            if not present[slot]:
                continue
            found = torch.autograd.grad(loss[slot], self.parameters, retain_graph=True, allow_unused=True)
            gradients = [
                torch.zeros(p.shape, dtype=torch.float64) if g is None else g.detach().double()
                for g, p in zip(found, self.parameters, strict=True)
            ]
            for one, weighted in zip(total, self._weighted(gradients, slot, bound or self.clip.bound), strict=True):
                one += weighted
        return total

    def _weighted(self, gradients: list[torch.Tensor], slot: int, bound: float) -> list[torch.Tensor]:
        squares = torch.stack([g.square().sum() for g in gradients])
        norm = float(squares.sum().sqrt())
        if not 1e-100 < norm < float("inf"):  # squares of shorter gradients are lost in the range of doubles
            return [torch.zeros(g.shape, dtype=torch.int64) for g in gradients]
        self.norms[slot] = norm
        safe = 1 - (sum(g.numel() for g in gradients) + 16) * 2.0**-52
        if self.clip.style == "per-layer":
            lengths, part = squares.sqrt().tolist(), bound / len(gradients) ** 0.5
        else:
            lengths, part = [norm] * len(gradients), bound
        floor = 0.0 if self.clip.style == "automatic" else part
        weights = [part / max(length, floor, 1e-100) * (self.grid / bound) * safe for length in lengths]
        return [(g * w).trunc().to(torch.int64) for g, w in zip(gradients, weights, strict=True)]
