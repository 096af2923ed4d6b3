"""What a mechanism promises: noise for integer sums, and the event that says what the noise protects."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.noise.bits import Bits
from discreet.queries.base import Norm, Query
from discreet.units import Unit

__all__ = ["Mechanism", "check_multiplier", "require_norm", "scale_in_steps"]


class Mechanism(Protocol):
    """Noise and its event, in one place. ``noise_multiplier`` 0 means no noise: the event is `NonPrivate`."""

    @property
    def noise_multiplier(self) -> float:
        """Noise scale over the bound on one row's contribution."""
        ...

    def event(self, query: Query, unit: Unit) -> Event:
        """What releasing ``query`` under this noise costs."""
        ...

    def perturb(self, integers: NDArray[np.int64], query: Query, bits: Bits) -> Any:
        """The noisy answer, from the exact sum in grid steps."""
        ...

    def noiseless(self, value: NDArray[Any]) -> Any:
        """The answer without noise, from the sum itself."""
        ...


def check_multiplier(noise_multiplier: float) -> None:
    """Refuse a noise multiplier that is not a finite number ≥ 0."""
    if not 0 <= noise_multiplier < math.inf:
        raise InvalidInput(f"noise_multiplier must be finite and non-negative, got {noise_multiplier!r}.")


def require_norm(query: Query, *norms: Norm) -> None:
    """Refuse a query whose bound is in a norm that the mechanism does not protect."""
    if query.norm not in norms:
        raise InvalidInput(
            f"{type(query).__name__} bounds rows in the {query.norm} norm; this mechanism protects {', '.join(norms)}."
        )


def scale_in_steps(noise_multiplier: float, query: Query) -> float:
    """Noise scale in grid steps, rounded up: never less noise than the event says."""
    return math.nextafter(noise_multiplier * query.bound, math.inf)
