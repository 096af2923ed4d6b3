"""Adam for private gradients, as a `torch.optim.Optimizer`: second moments are corrected for the privacy noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch

from discreet.errors import InvalidInput

__all__ = ["Adam", "PrivateOptimizer"]


class PrivateOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """An optimizer that knows how much noise is in the gradients that it gets."""

    noise_std: float = 0.0
    """Standard deviation of the noise in the next mean gradient; a trainer sets it."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Move every parameter that has a gradient."""
        if closure is not None:
            raise InvalidInput("private gradients are released once a step: no closure is called.")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, group)

    @abstractmethod
    def _move(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        """Move one parameter by its ``.grad``."""


class Adam(PrivateOptimizer):
    """Adam whose second moment is corrected for the privacy noise (Tang, Shpilevskiy and Lécuyer 2024).

    The square of a noisy gradient has mean g² + s², for noise of standard deviation s in the mean gradient, so that
    Adam divides by √(g² + s²) ≈ s and is nearly gradient descent. Here the average of s² is subtracted:

        θ ← θ − lr·(m̂ / (√max(v̂ − ŝ², floor) + eps) + weight_decay·θ),

    with the floor at one standard deviation of v̂ that noise alone would cause, as in `discreet.updates.Adam`, whose
    steps these are. The trainer says at every step what s is (``noise_std``); without noise this is AdamW.

    Args:
        params: parameters, as for every optimizer of torch.
        lr: step size.
        betas: decays of the first and second moment.
        eps: added to the square root.
        weight_decay: decoupled decay (Loshchilov and Hutter 2019).

    Raises:
        InvalidInput: a value is out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not (0 < lr < math.inf and all(0 <= b < 1 for b in betas) and eps > 0 and weight_decay >= 0):
            raise InvalidInput(
                "Adam needs lr > 0, betas in [0, 1), eps > 0 and weight_decay ≥ 0, got "
                f"{lr!r}, {betas!r}, {eps!r}, {weight_decay!r}."
            )
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _move(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state, (a, b), gradient = self.state[parameter], group["betas"], parameter.grad
        assert gradient is not None
        if not state:
            state["t"] = 0
            state["first"], state["second"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            state["noise"] = 0.0
        state["t"] += 1
        state["first"].mul_(a).add_(gradient, alpha=1 - a)
        state["second"].mul_(b).addcmul_(gradient, gradient, value=1 - b)
        state["noise"] = b * state["noise"] + (1 - b) * self.noise_std**2
        t = state["t"]
        start = 1 - b**t  # undoes the zero start of both running means
        noise = state["noise"] / start
        floor = noise * math.sqrt(2 * (1 - b) * (1 + b**t) / ((1 + b) * start))
        second = (state["second"] / start - noise).clamp_(min=floor)
        direction = (state["first"] / (1 - a**t)) / (second.sqrt_() + group["eps"])
        if group["weight_decay"]:
            direction.add_(parameter, alpha=group["weight_decay"])
        parameter.add_(direction, alpha=-group["lr"])
