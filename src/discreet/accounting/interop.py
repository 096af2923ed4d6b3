"""Events of the ``dp_accounting`` library, read and written, so that any number here can be checked there.

Its ``noise_multiplier`` is, like ours, the noise scale over the bound C on one record, so trees translate leaf by leaf
whatever the relation. Two records are always 2C apart there, so that a `Gaussian` which knows better is charged more.
Its *accountants* differ: as of 0.4 the PLD accountant turns C into 2C under REPLACE_ONE, the RDP accountant does not,
and neither knows batches of fixed size under both relations. Ours always does.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from discreet import events
from discreet.accounting.reductions.equivalents import equivalent
from discreet.errors import InvalidInput
from discreet.events import Event

__all__ = ["from_dp_event", "to_dp_event"]


def _library() -> ModuleType:
    try:
        from dp_accounting import dp_event
    except ImportError as missing:
        raise InvalidInput(
            "translating events needs the dp_accounting library: pip install dp-accounting. Nothing was translated."
        ) from missing
    return dp_event


def to_dp_event(event: Event) -> Any:
    """Write an event as a ``dp_accounting.DpEvent``.

    An ε-DP guarantee becomes a randomised response over two buckets, which has the same privacy curve.

    Args:
        event: an event whose leaves have a counterpart there.

    Raises:
        InvalidInput: a leaf has no counterpart, or ``dp_accounting`` is not installed.

    Example:
        >>> to_dp_event(events.Repeat(events.Poisson(0.01, events.Gaussian(1.1)), 100))
        ... # doctest: +NORMALIZE_WHITESPACE
        SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.01,
            event=GaussianDpEvent(noise_multiplier=1.1)), count=100)
    """
    there = _library()
    match equivalent(event):
        case events.Gaussian(noise_multiplier):
            return there.GaussianDpEvent(noise_multiplier)
        case events.Laplace(noise_multiplier):
            return there.LaplaceDpEvent(noise_multiplier)
        case events.DiscreteLaplace(noise_multiplier, bound):
            return there.DiscreteLaplaceDpEvent(1 / (noise_multiplier * bound), bound)
        case events.RandomizedResponse(epsilon, categories):
            return there.RandomizedResponseDpEvent(categories / (math.expm1(epsilon) + categories), categories)
        case events.PureDP(epsilon):
            return there.RandomizedResponseDpEvent(2 / (math.expm1(epsilon) + 2), 2)
        case events.ZCDP(rho):
            return there.ZCDpEvent(rho)
        case events.NonPrivate():
            return there.NonPrivateDpEvent()
        case events.Compose(parts):
            return there.ComposedDpEvent([to_dp_event(part) for part in parts]) if parts else there.NoOpDpEvent()
        case events.Repeat(inner, times):
            return there.SelfComposedDpEvent(to_dp_event(inner), times)
        case events.Poisson(rate, inner):
            return there.PoissonSampledDpEvent(rate, to_dp_event(inner))
        case events.FixedSize(batch, n, inner):
            return there.SampledWithoutReplacementDpEvent(n, batch, to_dp_event(inner))
        case events.WithReplacement(batch, n, inner):
            return there.SampledWithReplacementDpEvent(n, batch, to_dp_event(inner))
        case events.PrivateSelection(inner, mean, distribution, eta):
            shape = math.inf if distribution == "poisson" else eta
            return there.RepeatAndSelectDpEvent(to_dp_event(inner), mean, shape)
    raise InvalidInput(f"dp_accounting has no event that says what {event!r} says.")


def from_dp_event(event: Any) -> Event:
    """Read a ``dp_accounting.DpEvent``.

    Raises:
        InvalidInput: the event has no counterpart here.

    Example:
        >>> from dp_accounting import dp_event
        >>> from_dp_event(dp_event.SelfComposedDpEvent(dp_event.LaplaceDpEvent(2.0), 3))
        Repeat(event=Laplace(noise_multiplier=2.0), times=3)
    """
    there = _library()
    match event:
        case there.GaussianDpEvent():
            return events.Gaussian(event.noise_multiplier) if event.noise_multiplier else events.NonPrivate()
        case there.LaplaceDpEvent():
            return events.Laplace(event.noise_multiplier) if event.noise_multiplier else events.NonPrivate()
        case there.DiscreteLaplaceDpEvent():
            bound = event.sensitivity
            return events.DiscreteLaplace(1 / (event.noise_parameter * bound), bound)
        case there.RandomizedResponseDpEvent():
            p, k = event.noise_parameter, event.num_buckets
            return events.RandomizedResponse(math.log1p(k * (1 - p) / p), k) if p > 0 else events.NonPrivate()
        case there.ZCDpEvent() if event.xi == 0:
            return events.ZCDP(event.rho)
        case there.NoOpDpEvent():
            return events.Compose(())
        case there.NonPrivateDpEvent():
            return events.NonPrivate()
        case there.ComposedDpEvent():
            return events.Compose(tuple(from_dp_event(part) for part in event.events))
        case there.SelfComposedDpEvent():
            return events.Repeat(from_dp_event(event.event), event.count)
        case there.PoissonSampledDpEvent():
            return events.Poisson(event.sampling_probability, from_dp_event(event.event))
        case there.SampledWithoutReplacementDpEvent():
            return events.FixedSize(event.sample_size, event.source_dataset_size, from_dp_event(event.event))
        case there.SampledWithReplacementDpEvent():
            return events.WithReplacement(event.sample_size, event.source_dataset_size, from_dp_event(event.event))
        case there.RepeatAndSelectDpEvent():
            inner = from_dp_event(event.event)
            if math.isinf(event.shape):
                return events.PrivateSelection(inner, event.mean, "poisson")
            if event.shape == 1:
                return events.PrivateSelection(inner, event.mean, "geometric")
            return events.PrivateSelection(inner, event.mean, "negative-binomial", event.shape)
    raise InvalidInput(f"no event here says what {event!r} says.")
