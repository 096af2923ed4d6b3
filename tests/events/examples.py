"""One event of every type of `discreet.events`, in which no field has its default where it has one."""

from __future__ import annotations

from collections.abc import Iterator

from discreet.events import (
    ZCDP,
    Allocation,
    ApproxDP,
    BandedMatrix,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    LastIterate,
    NonPrivate,
    ObjectivePerturbation,
    Parallel,
    Poisson,
    PrivateSelection,
    Promise,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Repeat,
    Selection,
    WithReplacement,
)

__all__ = ["EXAMPLES", "concrete_types"]

EXAMPLES: tuple[Event, ...] = (
    NonPrivate(),
    Gaussian(2.0, 1.5),
    Laplace(3.0),
    DiscreteGaussian(2.5, 4),
    DiscreteLaplace(1.5, 3),
    ObjectivePerturbation(6.0, 0.25, 2, 0.5, 0.125),
    RandomizedResponse(0.5, 3),
    Selection(0.25, "permute-and-flip"),
    PureDP(0.125),
    ApproxDP(0.5, 1e-7),
    Promise(0.5, 1e-6, 2),
    ZCDP(0.0625),
    RenyiDP(8.0, 0.25, 2),
    Poisson(0.125, Gaussian(1.0)),
    FixedSize(5, 50, Gaussian(2.0)),
    WithReplacement(5, 50, Gaussian(2.0)),
    Allocation(5, Gaussian(2.0)),
    Repeat(Gaussian(4.0), 3),
    Compose((Gaussian(4.0), PureDP(0.5))),
    Parallel((Laplace(4.0), PureDP(0.5))),
    PrivateSelection(Gaussian(4.0), 3.0, "negative-binomial", 0.5),
    LastIterate(8.0, 100, 0.75, 2.0, 0.125, 5),
    BandedMatrix(4.0, (1.0, 0.5), 20, 2, 10),
)


def concrete_types(base: type[Event] = Event) -> Iterator[type[Event]]:
    """Every subclass of `Event` that the package defines."""
    for kind in base.__subclasses__():
        if kind.__module__.startswith("discreet."):
            yield kind
        yield from concrete_types(kind)
