"""Adaptive clipping: the bound follows a quantile of the gradients' norms (Andrew et al. 2021).

Every step also releases, under the same draw of noise, how many gradients were not longer than the bound C. The bound
then moves by C ← C·exp(−η·(b − γ)), for the noisy share b of such gradients. The count is one more coordinate of the
clipped sum, so that it is charged inside the step's own event, and the sum's noise grows by a fraction of a percent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput

__all__ = ["QuantileBound"]


@dataclass(frozen=True)
class QuantileBound:
    """A clipping bound that follows a quantile of the norms of the per-example gradients.

    Args:
        start: the first bound.
        quantile: γ, the share of gradients that should not be clipped.
        learning_rate: η of the geometric update; 0.2 is the value of Andrew et al. (2021, section 3).

    Raises:
        InvalidInput: a value is out of range.

    Example:
        >>> rule = QuantileBound(start=1.0, quantile=0.5)
        >>> rule.next(1.0, 0.9) < 1.0 < rule.next(1.0, 0.1)
        True
    """

    start: float = 1.0
    quantile: float = 0.5
    learning_rate: float = 0.2

    def __post_init__(self) -> None:
        if not (0 < self.start < math.inf and 0 < self.quantile < 1 and 0 < self.learning_rate < math.inf):
            raise InvalidInput(f"a quantile bound needs start > 0, 0 < quantile < 1 and learning_rate > 0, got {self}.")

    def next(self, bound: float, share: float) -> float:
        """The bound after a step at which the noisy ``share`` of gradients was not longer than ``bound``."""
        share = min(max(share, 0.0), 1.0)
        moved = bound * math.exp(-self.learning_rate * (share - self.quantile))
        return min(max(moved, self.start * 1e-6), self.start * 1e6)

    @staticmethod
    def share_of_noise(noise_multiplier: float, expected_batch: float) -> float:
        """The share s of the squared bound for the count, such that its noise is expected_batch/20.

        A count whose rows contribute ±½ has noise z/(2√s) for the noise multiplier z; Andrew et al. take a twentieth of
        the batch, so s = (10·z/batch)², at most a half.
        """
        return min(0.5, max(1e-6, (10 * noise_multiplier / expected_batch) ** 2))
