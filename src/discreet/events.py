"""Frozen facts about a release: what was done, never what was seen.

An event says which noise was used relative to ``C``, the bound on *one row's* contribution
(``noise_multiplier = noise scale / C``). The neighbouring relation is not part of an event: it turns C into a
sensitivity (C under add-remove, 2C under replace-one) when the event is accounted; a `Gaussian` may know that two rows'
contributions are never 2C apart, and says so (``apart``). Leaves that state a guarantee
directly (`PureDP`, `ApproxDP`, `ZCDP`, `Selection`, …) state it for one row under the relation in which they are
accounted, for datasets (or batches) of every size.

Events are values: equal when equal, hashable, and written to and read from plain JSON (`to_json`, `from_json`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

from discreet.errors import InvalidInput
from discreet.text import read_json, shortened
from discreet.units import Unit

__all__ = [
    "ZCDP",
    "ApproxDP",
    "Compose",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "FixedSize",
    "Gaussian",
    "Laplace",
    "NonPrivate",
    "ObjectivePerturbation",
    "Parallel",
    "Poisson",
    "PrivateSelection",
    "Promise",
    "PureDP",
    "RandomizedResponse",
    "RenyiDP",
    "Repeat",
    "Selection",
    "WithReplacement",
    "compose",
    "from_dict",
    "from_json",
]


@dataclass(frozen=True)
class Event:
    """Base of all events."""

    _kinds: ClassVar[dict[str, type[Event]]] = {}

    def __init_subclass__(cls) -> None:
        Event._kinds[cls.__name__] = cls

    def equivalent(self) -> Event:
        """An event in simpler terms with the same guarantee under every relation; most events are their own."""
        return self

    def restated(self, ratio: float) -> Event:
        """The event in terms of neighbours that are ``ratio`` times closer than those in whose terms it is written.

        Most events are written in terms of one row, and are their own; an event that measures public lengths by how far
        neighbours are apart changes with that distance, and so does whatever contains it.
        """
        changes: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Event):
                changes[field.name] = value.restated(ratio)
            elif isinstance(value, tuple) and any(isinstance(item, Event) for item in value):
                changes[field.name] = tuple(item.restated(ratio) for item in value)
        return replace(self, **changes) if changes else self

    def to_dict(self) -> dict[str, Any]:
        """The event as plain lists, strings and numbers."""
        return {"kind": type(self).__name__} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def to_json(self) -> str:
        """The event as one line of JSON with sorted keys."""
        return json.dumps(self.to_dict(), sort_keys=True)


def from_dict(tree: dict[str, Any]) -> Event:
    """Read back what `Event.to_dict` wrote."""
    if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str) or tree["kind"] not in Event._kinds:
        raise InvalidInput(f"not an event: {shortened(tree)}. Known kinds: {', '.join(sorted(Event._kinds))}.")
    arguments = {name: _event_like(value) for name, value in tree.items() if name != "kind"}
    try:
        return Event._kinds[tree["kind"]](**arguments)
    except InvalidInput:
        raise
    except (TypeError, ValueError, ArithmeticError) as problem:
        raise InvalidInput(f"not a {tree['kind']} event: {problem}") from None


def from_json(text: str) -> Event:
    """Read back what `Event.to_json` wrote.

    Example:
        >>> from_json(Repeat(Gaussian(2.0), 10).to_json())
        Repeat(event=Gaussian(noise_multiplier=2.0), times=10)
    """
    return from_dict(read_json(text, "the event"))


def _plain(value: Any) -> Any:
    if isinstance(value, Event):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _event_like(value: Any) -> Any:
    if isinstance(value, dict):
        return from_dict(value)
    if isinstance(value, list):
        return tuple(_event_like(item) for item in value)
    return value


def _number(event: Event, name: str, ok: Callable[[float], bool], requirement: str) -> None:
    value: Any = getattr(event, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        try:
            value = float(getattr(value, "item")())  # noqa: B009 - numpy scalars are welcome, stored as plain floats
        except (AttributeError, TypeError, ValueError):
            raise InvalidInput(f"{type(event).__name__}.{name} must be a number, got {value!r}.") from None
    value = float(value)
    if math.isnan(value) or not ok(value):
        raise InvalidInput(f"{type(event).__name__}.{name} must be {requirement}, got {value!r}.")
    object.__setattr__(event, name, value)


def _count(event: Event, name: str, least: int) -> None:
    value = getattr(event, name)
    whole = not isinstance(value, bool) and hasattr(value, "__index__")
    if not whole and isinstance(value, float) and value.is_integer():
        value, whole = int(value), True
    if not whole or int(value) < least:
        raise InvalidInput(f"{type(event).__name__}.{name} must be an integer of at least {least}, got {value!r}.")
    object.__setattr__(event, name, int(value))


def _inner(event: Event, name: str = "event") -> None:
    if not isinstance(getattr(event, name), Event):
        raise InvalidInput(f"{type(event).__name__}.{name} must be an event, got {getattr(event, name)!r}.")


def _positive(value: float) -> bool:
    return 0 < value < math.inf


def _fraction(value: float) -> bool:
    return 0 <= value <= 1


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without protection: ε = ∞. The event of every non-private baseline."""


@dataclass(frozen=True)
class Gaussian(Event):
    """A sum of rows of ℓ2 norm ≤ C released with Gaussian noise of standard deviation ``noise_multiplier``·C.

    Args:
        noise_multiplier: noise over C.
        apart: the contributions of any two rows are at most ``apart``·C from each other: 2, or less where more is known
            of them than their length. Never below 1: a row may contribute nothing, as one missing from a batch does.

    Example:
        >>> Gaussian(4.0).mu(Unit("replace-one")), Gaussian(4.0, apart=1.0).mu(Unit("replace-one"))
        (0.5, 0.25)
    """

    noise_multiplier: float
    apart: float = 2.0

    def __post_init__(self) -> None:
        _number(self, "noise_multiplier", _positive, "positive and finite")
        _number(self, "apart", lambda a: 1 <= a <= 2, "between 1 and 2")

    def __repr__(self) -> str:
        apart = "" if self.apart == 2 else f", apart={self.apart!r}"
        return f"Gaussian(noise_multiplier={self.noise_multiplier!r}{apart})"

    def mu(self, unit: Unit) -> float:
        """How far the sums of neighbours are from each other, in standard deviations of the noise."""
        return unit.sensitivity(1.0, self.apart) / self.noise_multiplier


@dataclass(frozen=True)
class Laplace(Event):
    """A scalar sum of rows in [−C, C] released with Laplace noise of scale ``noise_multiplier``·C."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        _number(self, "noise_multiplier", _positive, "positive and finite")


@dataclass(frozen=True)
class DiscreteGaussian(Event):
    """A scalar sum of integer rows in [−bound, bound] plus discrete Gaussian noise, P(k) ∝ exp(−k²/2σ²).

    σ = ``noise_multiplier``·``bound`` in grid steps (Canonne–Kamath–Steinke 2020).
    """

    noise_multiplier: float
    bound: int = 1

    def __post_init__(self) -> None:
        _number(self, "noise_multiplier", _positive, "positive and finite")
        _count(self, "bound", 1)


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """A scalar sum of integer rows in [−bound, bound] plus discrete Laplace noise, P(k) ∝ exp(−|k|/b).

    b = ``noise_multiplier``·``bound`` in grid steps.
    """

    noise_multiplier: float
    bound: int = 1

    def __post_init__(self) -> None:
        _number(self, "noise_multiplier", _positive, "positive and finite")
        _count(self, "bound", 1)


@dataclass(frozen=True)
class ObjectivePerturbation(Event):
    """The minimiser of Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩, with b Gaussian of standard deviation ``noise_multiplier``·C.

    C bounds one row's gradient. Its accounting is in `discreet.accounting.perturbation`.

    Args:
        noise_multiplier: standard deviation of b over C.
        log_det: c, the most by which one more row raises log det ∇²J: log(1 + β/λ) for curvature·‖x‖² ≤ β.
        directions: a row's gradient lies in the hull of 0 and this many vectors, fixed by the row, of norm ≤ C: 1 when
            the label fixes the slope's sign, 2 for slopes of any sign (a vector and its negative), K − 1 for a softmax
            over K classes (whose vectors are (e_j − e_y)⊗x).
        link: R²/λ where the curvature vanishes at the hull's vertices: for the logistic loss, |slope|(1 − |slope|), and
            with ``directions`` above 1 for a softmax, diag(p) − ppᵀ; 0 where no such relation is known.
        deviation: the released point is N(θ̃, s²I) with ‖θ̃ − θ‖ ≤ s·deviation/2 for the exact minimiser θ.
    """

    noise_multiplier: float
    log_det: float
    directions: int = 1
    link: float = 0.0
    deviation: float = 0.0

    def __post_init__(self) -> None:
        _number(self, "noise_multiplier", _positive, "positive and finite")
        _number(self, "log_det", lambda c: 0 <= c < math.inf, "non-negative and finite")
        _count(self, "directions", 1)
        _number(self, "link", lambda u: 0 <= u < math.inf, "non-negative and finite")
        _number(self, "deviation", lambda e: 0 <= e < math.inf, "non-negative and finite")


@dataclass(frozen=True)
class RandomizedResponse(Event):
    """One row's category, told truthfully with probability e^ε/(e^ε + k − 1), else another uniformly at random.

    A guarantee under replace-one only. An absent row sends no answer, so that under add-remove its absence is seen:
    there the event is refused. Where absent rows answer at random, state the release as ``PureDP(epsilon)``.
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        _number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        _count(self, "categories", 2)


@dataclass(frozen=True)
class Selection(Event):
    """A private choice among candidates.

    ``exponential``: the exponential mechanism / Gumbel noisy max, ε-bounded-range (Dong–Durfee–Rogers 2020), so
    ε-DP and ε²/8-zCDP. ``permute-and-flip``: ε-DP, dominated by the Laplace mechanism at ε (McKenna–Sheldon 2020).
    ``noisy-max``: the largest score plus Laplace noise of scale 2Δ/ε, dominated by the Laplace mechanism at ε as well
    (``docs/maths/sparse_regression.md``).
    """

    epsilon: float
    mechanism: Literal["exponential", "permute-and-flip", "noisy-max"] = "exponential"

    def __post_init__(self) -> None:
        _number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        if self.mechanism not in ("exponential", "permute-and-flip", "noisy-max"):
            raise InvalidInput(
                f"Selection.mechanism must be 'exponential', 'permute-and-flip' or 'noisy-max', got {self.mechanism!r}."
            )


@dataclass(frozen=True)
class PureDP(Event):
    """Any ε-DP release."""

    epsilon: float

    def __post_init__(self) -> None:
        _number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")


@dataclass(frozen=True)
class ApproxDP(Event):
    """Any (ε, δ)-DP release."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        _number(self, "delta", _fraction, "in [0, 1]")


@dataclass(frozen=True)
class Promise(Event):
    """Whatever is released next: (ε, δ)-DP as a whole, however it was chosen. Charged before it is known.

    Stated for units of up to ``rows_per_unit`` rows under the relation in which it is accounted; nothing is claimed for
    larger ones. Under add-remove it says what such a unit costs when it comes or goes; an exchange of rows is two such
    steps, however many rows the promise is made for.
    """

    epsilon: float
    delta: float
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        _number(self, "epsilon", lambda e: 0 <= e < math.inf, "non-negative and finite")
        _number(self, "delta", _fraction, "in [0, 1]")
        _count(self, "rows_per_unit", 1)


@dataclass(frozen=True)
class ZCDP(Event):
    """Any ρ-zCDP release (Bun–Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        _number(self, "rho", lambda r: 0 <= r < math.inf, "non-negative and finite")


@dataclass(frozen=True)
class RenyiDP(Event):
    """Any (α, τ)-RDP release: D_α ≤ ``divergence`` at the one ``order`` α, and so at every lower one (Mironov 2017).

    Stated for units of up to ``rows_per_unit`` rows under the relation in which it is accounted; nothing is claimed for
    larger ones.
    """

    order: float
    divergence: float
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        _number(self, "order", lambda a: 1 < a < math.inf, "greater than 1 and finite")
        _number(self, "divergence", lambda t: 0 <= t < math.inf, "non-negative and finite")
        _count(self, "rows_per_unit", 1)


@dataclass(frozen=True)
class Poisson(Event):
    """``event`` on a batch that takes each row independently with probability ``rate``.

    The batch has a random number of rows: an ``event`` that draws from a stated number of rows is refused.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        _number(self, "rate", _fraction, "in [0, 1]")
        _inner(self)


@dataclass(frozen=True)
class FixedSize(Event):
    """``event`` on ``batch`` of ``n`` rows drawn uniformly without replacement.

    Under add-remove ``n`` is the number of rows of the larger dataset; one that has fewer than ``batch`` rows takes all
    of them. A batch of fixed size gains a row only in another's place, so that inside it rows are exchanged.
    """

    batch: int
    n: int
    event: Event

    def __post_init__(self) -> None:
        _count(self, "batch", 1)
        _count(self, "n", 1)
        _inner(self)
        if self.batch > self.n:
            raise InvalidInput(f"FixedSize.batch must not exceed n, got batch={self.batch}, n={self.n}.")


@dataclass(frozen=True)
class WithReplacement(Event):
    """``event`` on ``batch`` draws from ``n`` rows, uniformly with replacement."""

    batch: int
    n: int
    event: Event

    def __post_init__(self) -> None:
        _count(self, "batch", 1)
        _count(self, "n", 1)
        _inner(self)


@dataclass(frozen=True)
class Repeat(Event):
    """``event`` done ``times`` times, each possibly chosen after seeing the earlier answers."""

    event: Event
    times: int

    def __post_init__(self) -> None:
        _inner(self)
        _count(self, "times", 0)


def _events(owner: Event, events: Iterable[Event]) -> None:
    events = tuple(events)
    for event in events:
        if not isinstance(event, Event):
            raise InvalidInput(f"{type(owner).__name__} takes events, got {event!r}.")
    object.__setattr__(owner, "events", events)


@dataclass(frozen=True)
class Compose(Event):
    """All of ``events`` on the same rows. The empty composition releases nothing."""

    events: Sequence[Event] = ()

    def __post_init__(self) -> None:
        _events(self, self.events)


@dataclass(frozen=True)
class Parallel(Event):
    """Each of ``events`` on its own part of the rows.

    A row's part is fixed without looking at any row: under replace-one by its *place* in the dataset, which whoever
    replaces the row keeps; under add-remove by the row's own coin, so that a row more or less moves no other. A part
    that depended on a row's content would lose a row and another part gain one when the row is replaced: that is a
    composition (`Compose`), not a parallel one. The k rows of one unit may lie in any parts, and the guarantee is the
    worst over all ways to place them: one row meets one part, two rows one part twice or two parts once each.
    """

    events: Sequence[Event] = ()

    def __post_init__(self) -> None:
        _events(self, self.events)


@dataclass(frozen=True)
class PrivateSelection(Event):
    """The best of K private runs of ``event``, K drawn from ``distribution`` (Papernot–Steinke 2022; Liu–Talwar 2019).

    ``geometric`` and ``negative-binomial`` (shape η = ``eta``, truncated at K ≥ 1) and ``poisson``; ``mean`` is E[K].
    Geometric is the negative binomial with η = 1; η = 0 is the logarithmic distribution.
    """

    event: Event
    mean: float
    distribution: Literal["geometric", "poisson", "negative-binomial"] = "geometric"
    eta: float = 1.0

    def __post_init__(self) -> None:
        _inner(self)
        if self.distribution not in ("geometric", "poisson", "negative-binomial"):
            raise InvalidInput(
                "PrivateSelection.distribution must be 'geometric', 'poisson' or 'negative-binomial', "
                f"got {self.distribution!r}."
            )
        least = 0.0 if self.distribution == "poisson" else 1.0
        _number(self, "mean", lambda m: _positive(m) and m >= least, f"finite, at least {least:g} and positive")
        _number(self, "eta", lambda e: -1 < e < math.inf, "greater than −1 and finite")
        if self.distribution == "geometric" and self.eta != 1.0:
            raise InvalidInput("PrivateSelection: a geometric K has eta=1; use 'negative-binomial' for another eta.")


def compose(events: Iterable[Event]) -> Event:
    """The composition of a run of events, equal neighbours counted once with their number.

    Example:
        >>> compose([Gaussian(1.0), Gaussian(1.0), PureDP(0.5)])
        Compose(events=(Repeat(event=Gaussian(noise_multiplier=1.0), times=2), PureDP(epsilon=0.5)))
    """
    runs: list[tuple[Event, int]] = []
    for event in events:
        inner, times = (event.event, event.times) if isinstance(event, Repeat) else (event, 1)
        if runs and runs[-1][0] == inner:
            runs[-1] = (inner, runs[-1][1] + times)
        else:
            runs.append((inner, times))
    folded = tuple(inner if times == 1 else Repeat(inner, times) for inner, times in runs)
    return folded[0] if len(folded) == 1 else Compose(folded)
