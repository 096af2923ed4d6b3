"""What an update is: a rule that turns (θ, noisy gradient, state) into (θ, state)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Update"]

Array: TypeAlias = NDArray[np.float64]


class Update(ABC):
    """A rule that turns (θ, noisy gradient, state) into (θ, state), without changing its arguments."""

    @abstractmethod
    def init(self, d: int) -> Any:
        """The state before the first step in dimension ``d``."""

    @abstractmethod
    def __call__(self, theta: Array, gradient: Array, state: Any, *, noise_std: float = 0.0) -> tuple[Array, Any]:
        """θ after one step, and the new state.

        Args:
            theta: the current parameters.
            gradient: the released (noisy) gradient of the mean loss at ``theta``.
            state: what the last step (or `init`) returned.
            noise_std: the standard deviation of the noise in each coordinate of ``gradient``.
        """
