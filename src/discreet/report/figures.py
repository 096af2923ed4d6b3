"""What follows from a certificate's event and unit alone: its privacy curve, ρ, μ, and every mechanism that it has.

Nothing here is stored in a certificate as a fact of its own: it is computed again whenever a certificate is written,
and `contradictions` compares what a file says with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from discreet import events
from discreet.accounting.curve import Curve
from discreet.errors import DiscreetError
from discreet.floats import as_number
from discreet.units import Unit

__all__ = ["DELTAS", "Figures", "contradictions"]

DELTAS = tuple(10.0**-k for k in range(2, 13))
"""Where the curve is tabulated, besides the certificate's own δ; at every third where each point takes a second."""

_SLACK = 1e-6
"""By how much of itself a figure of a file may be below the one that is computed again: rounding, not a claim."""


@dataclass(frozen=True)
class Figures:
    """The figures of ``event`` under ``unit``; all ε's are proved upper bounds.

    Of a run that is ``void``, by a seed or by bounds from the data, no ε, ρ or μ is stated: what was done is not what
    the event says.
    """

    event: events.Event
    unit: Unit
    delta: float = 0.0
    void: bool = False

    @cached_property
    def _curve(self) -> Curve:
        return Curve(self.event, self.unit)

    @cached_property
    def _quick(self) -> Curve:
        return self._curve.tabulated()

    @cached_property
    def curve(self) -> list[tuple[float, float]]:
        """(δ, ε) at `DELTAS` and at the certificate's own δ, from the largest δ to the smallest."""
        if self.void:
            return []
        places = sorted({*(DELTAS[1::3] if self._curve.is_slow else DELTAS), self.delta}, reverse=True)
        return [(delta, self.at(delta)) for delta in places]

    def at(self, delta: float, *, exactly: bool = False) -> float:
        """ε at a δ; infinite where none is proved. Where a value is dear a quick one may be 1e-5 of itself larger.

        Args:
            delta: in [0, 1]; the event's own is never answered quickly.
            exactly: as `discreet.accounting` answers, for decisions.
        """
        if self.void:
            return math.inf
        try:
            return (self._curve if exactly or delta == self.delta else self._quick).upper(delta)
        except DiscreetError:
            return math.inf

    @cached_property
    def rho(self) -> float | None:
        """ρ for which the event is ρ-zCDP; None where it has no such ρ, as sampled Gaussian noise."""
        from discreet.accounting.upper.zcdp import zcdp_rho

        if self.void:
            return None
        try:
            found = zcdp_rho(self.event, self.unit)
        except DiscreetError:
            return None
        return found if math.isfinite(found) else None

    @cached_property
    def mu(self) -> float | None:
        """μ for which the event is exactly μ-Gaussian DP; None for noise that is not Gaussian, or on random batches."""
        if self.void:
            return None
        try:
            return self._curve.mu
        except DiscreetError:
            return None

    @cached_property
    def mechanisms(self) -> list[dict[str, Any]]:
        """Every mechanism: how often, on which rows, with how much noise, and the sensitivity, both in bounds C.

        C is the bound on one row's contribution.
        """
        return [_described(leaf, times, where, self.unit) for leaf, times, where in _leaves(self.event, 1, ())]

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values."""
        return {
            "curve": [{"delta": delta, "epsilon": _word(epsilon)} for delta, epsilon in self.curve],
            "rho": self.rho,
            "mu": self.mu,
            "mechanisms": self.mechanisms,
        }


def _word(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def _leaves(
    event: events.Event, times: int, where: tuple[str, ...]
) -> Iterator[tuple[events.Event, int, tuple[str, ...]]]:
    """Each mechanism of an event, how often it is used, and on which rows."""
    match event:
        case events.Repeat(inner, count):
            yield from _leaves(inner, times * count, where)
        case events.Compose(parts):
            for part in parts:
                yield from _leaves(part, times, where)
        case events.Parallel(parts):
            for part in parts:
                yield from _leaves(part, times, (*where, "its own part of the rows"))
        case events.Poisson(rate, inner):
            yield from _leaves(inner, times, (*where, f"each row with probability {rate:.6g}, independently"))
        case events.FixedSize(batch, n, inner):
            yield from _leaves(inner, times, (*where, f"{batch} of {n} rows, without replacement"))
        case events.WithReplacement(batch, n, inner):
            yield from _leaves(inner, times, (*where, f"{batch} of {n} rows, with replacement"))
        case events.Allocation(batches, inner):
            words = f"each row in one of {batches} batches, drawn independently"
            yield from _leaves(inner, times * batches, (*where, words))
        case events.PrivateSelection(inner, mean):
            yield from _leaves(inner, times, (*where, f"the best of a random number of runs, {mean:g} on average"))
        case _:
            yield event, times, where


def _described(leaf: events.Event, times: int, where: tuple[str, ...], unit: Unit) -> dict[str, Any]:
    found: dict[str, Any] = {"mechanism": type(leaf).__name__, "steps": times, "sampling": "; ".join(where)}
    found["sampling"] = found["sampling"] or "all rows"
    if hasattr(leaf, "noise_multiplier"):
        found["sensitivity"] = unit.sensitivity(1.0, getattr(leaf, "replace_one_factor", 2.0))
    for field in fields(leaf):
        value = getattr(leaf, field.name)
        if value is not None:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def contradictions(said: Any, figures: Figures) -> list[str]:
    """Which figures of a file claim more privacy than its own event has; what is missing claims nothing.

    Args:
        said: the figures as a file has them.
        figures: those of its event and unit.
    """
    if not isinstance(said, dict):
        return ["figures"]
    found = [name for name in ("rho", "mu") if _claims(said.get(name), getattr(figures, name))]
    curve = said.get("curve", [])
    for point in curve if isinstance(curve, list) else [None]:
        delta = as_number(point.get("delta")) if isinstance(point, dict) else None
        epsilon = point.get("epsilon") if isinstance(point, dict) else None
        if delta is None or not 0 <= delta <= 1 or _claims_below_curve(epsilon, figures, delta):
            found.append(f"curve at delta = {delta}")
    if "mechanisms" in said and said["mechanisms"] != figures.mechanisms:
        found.append("mechanisms")
    return found


def _claims_below_curve(epsilon: Any, figures: Figures, delta: float) -> bool:
    return _claims(epsilon, figures.at(delta)) and _claims(epsilon, figures.at(delta, exactly=True))


def _claims(said: Any, truth: float | None) -> bool:
    """Whether a file's figure is below the truth, or no figure at all."""
    if said is None:
        return False
    number = math.inf if said == "inf" else as_number(said)
    return number is None or not number >= (math.inf if truth is None else truth) * (1 - _SLACK)
