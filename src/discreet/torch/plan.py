"""From what a user declares to the plan of a training: steps, sampler, places and the least noise. Uses no row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, get_args

from discreet.calibration import Guarantee
from discreet.calibration.guarantee import PURE_REFUSED
from discreet.errors import InvalidInput, did_you_mean
from discreet.events import ApproxDP, Event, Gaussian, NonPrivate, compose
from discreet.measurements import Noisy
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling
from discreet.mechanisms import Laplace
from discreet.queries.sums.count import RowCount
from discreet.torch.banded import Cyclic
from discreet.torch.batches import MOST_ROWS_FACTOR, Allocated, Batches, EachDrawn, Places, places_for
from discreet.torch.svrg import Svrg
from discreet.units import Unit

__all__ = ["OVERFLOW_SHARE", "Count", "Sampling", "TrainingPlan", "plan_training"]

Sampling = Literal["poisson", "fixed-size", "allocation"]

OVERFLOW_SHARE: Final = 1e-4
"""The share of δ for batches with more rows than places, under add-remove: it costs less than a ten-thousandth of ε."""

SHUFFLING_REFUSED = (
    "sampling='shuffle' is refused: batches cut from shuffled rows are not Poisson batches, and no event is proved to "
    "cover them at the same ε. Use 'poisson', or 'allocation' for epochs in which each row is in one batch. Nothing "
    "was released."
)


@dataclass(frozen=True)
class Count:
    """What a private number of rows says beside that number (`discreet.torch.counting`).

    Args:
        most: the number of rows, but with probability ``tail`` at most this.
        tail: β.
        epsilon: ε₁, what the count has cost.
        noise_multiplier: the scale of the Laplace noise on it.
    """

    most: int
    tail: float
    epsilon: float
    noise_multiplier: float

    @property
    def measurement(self) -> Noisy:
        """The count itself."""
        return Noisy(RowCount(), Laplace(self.noise_multiplier))


@dataclass(frozen=True)
class TrainingPlan:
    """Everything public about a training: what will be released, and how.

    Args:
        guarantee: what it keeps.
        n: the number of rows, public or declared.
        batches: the sampler of a round.
        rounds: number of rounds.
        places: where rows are computed in a physical batch.
        noise_multiplier: standard deviation of the noise over the bound on one row's integers; 0 for ε = ∞.
        expected_batch: what a sum is divided by: never the size of the batch drawn.
        period: with SVRG, every so many rounds one is of all rows; 0 otherwise.
        full_noise_ratio: the noise multiplier of such rounds over that of the others.
        count: where n is a released number.
    """

    guarantee: Guarantee
    n: int
    batches: Batches
    rounds: int
    places: Places
    noise_multiplier: float
    expected_batch: float
    period: int = 0
    full_noise_ratio: float = 1.0
    count: Count | None = None

    @property
    def most_rows(self) -> int:
        """An upper bound on the number of rows, under which the guarantee holds."""
        return math.ceil(MOST_ROWS_FACTOR * self.n) if self.count is None else self.count.most

    def is_full(self, number: int) -> bool:
        """Whether the round of this number, counted from 0, is one of all rows."""
        return bool(self.period) and number % self.period == 0

    @property
    def steps(self) -> int:
        """Number of releases, each of which moves the model once."""
        return self.rounds * self.batches.steps

    @cached_property
    def events(self) -> list[Event]:
        """What is charged, in order: the overflow of places, if there is any, and every round."""
        return self.events_of(self.noise_multiplier)

    def events_of(self, noise_multiplier: float) -> list[Event]:
        """The events of this plan with another noise."""
        leaf: Event = Gaussian(noise_multiplier) if noise_multiplier else NonPrivate()
        full: Event = Gaussian(self.full_noise_ratio * noise_multiplier) if noise_multiplier else NonPrivate()
        usual = self.batches.event(leaf, self.guarantee.unit)
        rounds = [full if self.is_full(number) else usual for number in range(self.rounds)]
        return [ApproxDP(0.0, self.overflow), *rounds] if self.overflow else rounds

    @property
    def overflow(self) -> float:
        """The probability that any batch of the training has more rows than places, rounded up."""
        tail = 0.0 if self.count is None else self.count.tail
        if not self.guarantee.private or not self.places.overflow + tail:
            return 0.0
        return math.nextafter(self.places.overflow * self.steps + tail, 1.0)

    def spent(self, rounds: int) -> float:
        """The certified ε, at the guarantee's δ, of the first ``rounds`` rounds."""
        if not self.guarantee.private:
            return math.inf
        if rounds == 0:
            return 0.0
        from discreet.accounting import epsilon

        first = self.events[: rounds + (1 if self.overflow else 0)]
        return float(epsilon(compose(first), self.guarantee.delta, self.guarantee.unit).upper)


def plan_training(
    guarantee: Guarantee,
    n: int,
    *,
    epochs: float,
    expected_batch: float,
    sampling: str,
    slots: int | None,
    bands: int = 1,
    svrg: Svrg | None = None,
    clip: float = 1.0,
    count: Count | None = None,
    least_noise_for: Guarantee | None = None,
) -> TrainingPlan:
    """The plan with the least noise that keeps a guarantee.

    Args:
        guarantee: (ε, δ) for a unit.
        n: the number of rows, public or declared.
        epochs: passes over the data: epochs·n/expected_batch steps, rounded up; whole for allocation.
        expected_batch: the expected number of rows of a batch; the exact one for fixed size. Below 1, a share of n.
        sampling: ``"poisson"``, ``"fixed-size"`` or ``"allocation"``.
        slots: the size of a physical batch; None for one that a batch seldom exceeds.
        bands: over how many steps noise is correlated (`discreet.torch.banded`); 1 for independent noise.
        svrg: variance-reduced steps (`discreet.torch.svrg`), if they are asked for.
        clip: the bound on gradients, to which that on their differences is compared.
        count: where n is a released number.
        least_noise_for: what noise is calibrated to, where a ledger keeps a part of δ; by default the guarantee.

    Raises:
        InvalidInput: the declarations contradict each other. Nothing was released.
    """
    if isinstance(epochs, bool) or not (isinstance(epochs, int | float) and 0 < epochs < math.inf):
        raise InvalidInput(f"epochs must be a positive number, got {epochs!r}.")
    if isinstance(expected_batch, float) and 0 < expected_batch < 1:
        expected_batch = max(1.0, expected_batch * n)
    if not (isinstance(expected_batch, int | float) and 1 <= expected_batch <= n):
        raise InvalidInput(f"expected_batch must be between 1 and the number of rows {n}, got {expected_batch!r}.")
    if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int) or slots < 1):
        raise InvalidInput(f"slots must be a positive whole number, got {slots!r}.")
    batches, rounds = _sampler(sampling, n, float(epochs), float(expected_batch), guarantee.unit)
    if svrg is not None and (sampling == "allocation" or bands != 1):
        raise InvalidInput("SVRG needs batches that are drawn one by one, with independent noise.")
    if bands != 1:
        batches, rounds = _cyclic(bands, sampling, n, float(expected_batch), rounds)
    rate = batches.rate(n)
    allowed = OVERFLOW_SHARE * guarantee.delta if guarantee.private and guarantee.delta else OVERFLOW_SHARE
    spread, steps = 0.0 if sampling == "fixed-size" else 3.0, rounds * batches.steps
    most = None if count is None else count.most
    places = places_for(guarantee.unit, n, rate, slots, steps, allowed, spread, most)
    plan = TrainingPlan(guarantee, n, batches, rounds, places, 0.0, rate * n, count=count)
    if svrg is not None:
        ratio = svrg.noise_ratio(clip, n, plan.expected_batch)
        plan = replace(plan, period=svrg.period, full_noise_ratio=ratio)
    if not guarantee.private:
        return plan
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    return replace(plan, noise_multiplier=_least_noise(plan, least_noise_for or guarantee))


def _least_noise(plan: TrainingPlan, aim: Guarantee) -> float:
    from discreet.accounting import calibrate

    aim = aim.tightened()
    return calibrate(lambda noise: compose(plan.events_of(noise)), aim.epsilon, aim.delta, aim.unit)


def _cyclic(bands: int, sampling: str, n: int, expected_batch: float, steps: int) -> tuple[Batches, int]:
    """Rows in as many groups as there are bands, and cycles that have at least ``steps`` steps."""
    if isinstance(bands, bool) or not isinstance(bands, int) or bands < 1:
        raise InvalidInput(f"bands must be a positive whole number, got {bands!r}.")
    if sampling != "poisson":
        raise InvalidInput(f"bands={bands} draws batches from groups by coins, so that sampling={sampling!r} is not.")
    if bands * expected_batch > n:
        raise InvalidInput(
            f"bands={bands} needs as many groups of rows, each at least as large as a batch: at most "
            f"{int(n / expected_batch)} of them for {expected_batch:g} of {n} rows. Nothing was released."
        )
    return Cyclic(bands, bands * expected_batch / n), -(-steps // bands)


def _sampler(sampling: str, n: int, epochs: float, expected_batch: float, unit: Unit) -> tuple[Batches, int]:
    if sampling in ("shuffle", "shuffled", "shuffling"):
        raise InvalidInput(SHUFFLING_REFUSED)
    known: Sequence[Any] = get_args(Sampling)
    if sampling not in known:
        raise InvalidInput(
            f"sampling must be one of {', '.join(known)}, got {sampling!r}.{did_you_mean(sampling, known)}"
        )
    if sampling == "allocation":
        if epochs != int(epochs):
            raise InvalidInput(f"allocation runs whole epochs, got epochs={epochs:g}.")
        return Allocated(max(1, round(n / expected_batch))), int(epochs)
    rounds = math.ceil(epochs * n / expected_batch)
    if sampling == "fixed-size":
        if expected_batch != int(expected_batch):
            raise InvalidInput(f"batches of a fixed size have a whole number of rows, got {expected_batch!r}.")
        if unit.relation != "replace-one":
            raise InvalidInput("batches of a fixed size reveal n; under add-remove use Poisson sampling.")
        return EachDrawn(FixedSizeSampling(int(expected_batch), n)), rounds
    return EachDrawn(PoissonSampling(expected_batch / n)), rounds
