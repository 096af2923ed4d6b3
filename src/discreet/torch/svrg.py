"""Variance-reduced training (SVRG): batches tell how gradients differ from those at an anchor of all rows.

Every ``period``-th step is a *full* one: all rows, at the weights of that moment, which become the anchor w̃. Its noisy
mean gradient G moves the model, and is kept. The steps between release, on a batch, the sum of the clipped
*differences* g_i(w) − g_i(w̃) of each example, and the model moves by their mean plus G (Johnson and Zhang 2013). Near
the anchor differences are short, at most smoothness·‖w − w̃‖, so that they can be clipped at a smaller bound and need
less noise.

**Claim.** A difference is one vector for each example: both gradients are taken slot by slot and subtracted before the
length is measured, by the same sums as for a parameter that is used twice (docs/maths/torch.md). So a row adds integers
of length at most B to a full step and to a step of differences, whatever its gradients are. Events: ``Gaussian(z₁)``
for a full step, the sampler's event of ``Gaussian(z₂)`` for one of differences; both are in the plan, in their order.

**Noise.** z₁/z₂ = (n/m)·√(C_d/(p·C)) for the bounds C of gradients and C_d of differences, batches of m of n rows, and
the period p. Of all pairs with the same 1/z₁² + (p − 1)·(m/n)²/z₂², the cost of a period in the limit of small
sampling rates, this one has the least noise in the weights after a period: (p·z₁·C/n)² + (p − 1)·(z₂·C_d/m)².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from discreet import events
from discreet.errors import InvalidInput
from discreet.noise.bits import Bits
from discreet.torch.rounds import ClippedGradientSum
from discreet.torch.rows import TorchRows
from discreet.units import Unit

__all__ = ["Anchor", "EveryRow", "FullGradientSum", "GradientDifferenceSum", "Svrg"]


@dataclass(frozen=True)
class Svrg:
    """Ask for variance-reduced steps: ``privatize(…, svrg=Svrg(period=20, clip=0.2))``.

    Args:
        period: p, steps from one full gradient to the next, 2 or more.
        clip: the ℓ2 bound on the difference of one example's gradients at the weights and at the anchor.

    Raises:
        InvalidInput: a value is out of range.
    """

    period: int
    clip: float

    def __post_init__(self) -> None:
        if isinstance(self.period, bool) or not isinstance(self.period, int) or self.period < 2:
            raise InvalidInput(f"the period of SVRG must be a whole number of 2 or more, got {self.period!r}.")
        if not (isinstance(self.clip, int | float) and 1e-12 <= self.clip <= 1e12):
            raise InvalidInput(f"the bound on differences must be between 1e-12 and 1e12, got {self.clip!r}.")

    def noise_ratio(self, clip: float, n: float, expected_batch: float) -> float:
        """z₁/z₂, the noise multiplier of full steps over that of differences.

        Example:
            >>> Svrg(period=25, clip=1.0).noise_ratio(1.0, 1000, 100)
            2.0
        """
        return n / expected_batch * math.sqrt(self.clip / (self.period * clip))


@dataclass(frozen=True)
class EveryRow:
    """One batch a round, of all rows."""

    @property
    def steps(self) -> int:
        """One."""
        return 1

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """The event itself: nobody is left out."""
        return inner

    def draw(self, rows: TorchRows, bits: Bits) -> Iterator[TorchRows]:
        """All rows."""
        yield rows

    def rate(self, n: float) -> float:
        """1."""
        return 1.0


@dataclass(eq=False)
class Anchor:
    """The weights of the last full step, and the mean gradient that it released; both are released values."""

    weights: list[torch.Tensor] = field(default_factory=list)
    gradient: list[torch.Tensor] = field(default_factory=list)

    def put(self, parameters: Sequence[torch.Tensor], means: Sequence[torch.Tensor]) -> None:
        """Anchor at these weights."""
        self.weights = [p.detach().clone() for p in parameters]
        self.gradient = [mean.clone() for mean in means]

    def added(self, means: list[torch.Tensor]) -> list[torch.Tensor]:
        """The mean differences plus the anchor's gradient; as they are where there is no anchor."""
        return (
            [mean + g.to(mean.device) for mean, g in zip(means, self.gradient, strict=True)] if self.gradient else means
        )


def _called(loss: Any) -> Callable[[], torch.Tensor]:
    if not callable(loss):
        raise InvalidInput(
            "SVRG computes losses at two sets of weights: give step(…) a function, such as "
            "trainer.step(lambda: loss_fn(model(batch.x), batch.y)). Nothing of this step was released."
        )
    return loss


@dataclass(eq=False)
class FullGradientSum(ClippedGradientSum):
    """Clipped gradients, of losses that are given as a function."""

    def integers(self, loss: Any, present: torch.Tensor) -> list[torch.Tensor]:
        """The sum over a physical batch."""
        losses = _called(loss)
        with self.engine.watch():
            found = losses()
        return super().integers(found, present)


@dataclass(eq=False)
class GradientDifferenceSum(ClippedGradientSum):
    """Clipped differences of the gradients at the model's weights and at an anchor; plain gradients without one."""

    anchor: Anchor = field(default_factory=Anchor)

    def integers(self, loss: Any, present: torch.Tensor) -> list[torch.Tensor]:
        """The sum over a physical batch."""
        found = self.engine.clipped_difference(_called(loss), self.anchor.weights, present, self.value)
        return list(found) if self.engine.exact else [t.double().round().to(torch.int64) for t in found]
