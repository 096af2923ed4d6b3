"""Adafactor for private gradients, as a `torch.optim.Optimizer`: second moments of matrices by rows and columns."""

from __future__ import annotations

import math
from typing import Any

import torch

from discreet.errors import InvalidInput
from discreet.torch.adam import PrivateOptimizer

__all__ = ["Adafactor"]

FORGETTING = 0.8
"""Running means keep 1 − t^−0.8 (Shazeer and Stern 2018, section 7.2)."""


class Adafactor(PrivateOptimizer):
    """Adafactor whose second moments are corrected for the privacy noise, as those of `Adam` are.

    A parameter of two or more axes is a matrix of its first axis by all others; of its second moment the means of rows
    and of columns are stored, n + m numbers in place of n·m (Shazeer and Stern 2018). Running means forget as
    1 − t^−0.8, directions are clipped to a root mean square of ``clip``, and without a given ``lr`` the step is
    min(0.01, 1/√t)·max(0.001, RMS(θ)). The variance of the noise, which the trainer says at every step, is taken out of
    the moments; they are at least one standard deviation of what noise alone would cause. Steps are those of
    `discreet.updates.Adafactor`.

    Args:
        params: parameters, as for every optimizer of torch.
        lr: step size; None for the relative steps above.
        clip: the largest root mean square of a direction.
        eps: added to squared gradients.
        weight_decay: decoupled decay, by lr·weight_decay·θ.

    Raises:
        InvalidInput: a value is out of range.
    """

    def __init__(
        self, params: Any, lr: float | None = None, clip: float = 1.0, eps: float = 1e-30, weight_decay: float = 0.0
    ) -> None:
        if not ((lr is None or 0 < lr < math.inf) and 0 < clip < math.inf and eps > 0 and weight_decay >= 0):
            raise InvalidInput(
                "Adafactor needs lr > 0 or None, clip > 0, eps > 0 and weight_decay ≥ 0, got "
                f"{lr!r}, {clip!r}, {eps!r}, {weight_decay!r}."
            )
        super().__init__(params, {"lr": lr, "clip": clip, "eps": eps, "weight_decay": weight_decay})

    def _move(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        matrix = gradient.reshape(len(gradient), -1) if gradient.dim() > 1 else gradient
        if not state:
            state["t"], state["noise"] = 0, 0.0
            state["rows"] = torch.zeros_like(matrix[:, 0] if matrix.dim() > 1 else matrix)
            state["columns"] = torch.zeros_like(matrix[0]) if matrix.dim() > 1 else None
        state["t"] += 1
        fresh = state["t"] ** -FORGETTING
        squares = matrix.square() + group["eps"]
        state["noise"] = (1 - fresh) * state["noise"] + fresh * self.noise_std**2
        state["rows"].mul_(1 - fresh).add_(squares.mean(1) if matrix.dim() > 1 else squares, alpha=fresh)
        if matrix.dim() > 1:
            state["columns"].mul_(1 - fresh).add_(squares.mean(0), alpha=fresh)
        direction = matrix / self._second_moment(state, group["eps"]).sqrt()
        direction = (direction / max(1.0, _rms(direction) / group["clip"])).reshape(parameter.shape)
        size = group["lr"]
        if size is None:
            size = min(1e-2, 1 / math.sqrt(state["t"])) * max(1e-3, _rms(parameter))
        if group["weight_decay"]:
            direction = direction + group["weight_decay"] * parameter
        parameter.add_(direction, alpha=-size)

    @staticmethod
    def _second_moment(state: dict[str, Any], eps: float) -> torch.Tensor:
        """The second moment of each entry without its noise, no less than one standard deviation of it (or eps)."""
        fresh = state["t"] ** -FORGETTING
        floor = max(eps, state["noise"] * math.sqrt(2 * fresh / (2 - fresh)))
        rows = (state["rows"] - state["noise"]).clamp(min=floor)
        if state["columns"] is None:
            return rows
        columns = (state["columns"] - state["noise"]).clamp(min=floor)
        return torch.outer(rows / rows.mean(), columns)


def _rms(values: torch.Tensor) -> float:
    return float(values.detach().square().mean().sqrt())
