"""The certificate: what was released, what it guarantees, and what it does not protect."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet import events
from discreet._version import __version__
from discreet.accounting.bounds import Bounds
from discreet.accounting.curve import Curve
from discreet.errors import InvalidInput
from discreet.floats import rounded_up
from discreet.report.figures import Figures
from discreet.report.risks import Risks
from discreet.text import read_json, shortened
from discreet.units import Unit

__all__ = ["FROM_THE_DATA", "PREPROCESSING", "Certificate", "unprotected_kind"]

FROM_THE_DATA = "taken from the data without protection"
"""Said of bounds in a certificate's list of what is not protected."""
PREPROCESSING = "preprocessing"
"""How an item begins that is about what a step before the model has learned."""


def unprotected_kind(items: Sequence[str]) -> str:
    """Which kind of declarations was taken from the data, in words; "" where none was."""
    taken = [item for item in items if item.endswith(FROM_THE_DATA)]
    steps = [item for item in taken if item.startswith(PREPROCESSING)]
    return f"{PREPROCESSING if steps else 'bounds'} {FROM_THE_DATA}" if taken else ""


@dataclass(frozen=True)
class Certificate:
    """A fitted model's privacy: (``epsilon``, ``delta``)-DP for ``unit``, certified from ``event``.

    The rows of a person are *enforced* where a vault knew whose each row is and bounded them, and *declared* where the
    user said how many they are at most.

    ``epsilon`` is the proved upper bound. ``protective`` is false when the noise came from a user's seed, which makes
    the run reproducible, or when bounds were taken from the data without protection, which ``unprotected`` then lists.
    Such a run is **not private**, whatever the other figures say. ``record`` says when and where it was released: the
    model and its target, the ledger with the charges that paid for it and the head of its book, what was asked of the
    rows with which clip, noise and grid, where every bound comes from, and the versions in use. ``figures`` are what
    follows from the event: they are written with the certificate, and computed again when it is read.
    """

    epsilon: float
    delta: float
    unit: Unit
    event: events.Event
    solver: str
    settings: dict[str, Any] = field(default_factory=dict)
    unprotected: tuple[str, ...] = ()
    protective: bool = True
    version: str = __version__
    record: dict[str, Any] = field(default_factory=dict, compare=False)
    signer: str = field(default="", compare=False)
    """The public key whose signature a certificate that was read from a file had; "" for none."""

    def __post_init__(self) -> None:
        for name, least, most in (("epsilon", 0.0, math.inf), ("delta", 0.0, 1.0)):
            value = getattr(self, name)
            number = _real(value)
            if not least <= number <= most:
                raise InvalidInput(
                    f"a certificate's {name} must be a number from {least:g} to {most:g}, got {shortened(value)}."
                )
            object.__setattr__(self, name, number)
        for name, kind in _FIELDS.items():
            if not isinstance(getattr(self, name), kind):
                raise InvalidInput(
                    f"a certificate's {name} must be of type {kind.__name__}, got {shortened(getattr(self, name))}."
                )
        if not all(isinstance(item, str) for item in self.unprotected):
            raise InvalidInput(f"what is unprotected is listed in words, got {shortened(self.unprotected)}.")

    @property
    def adjacency(self) -> str:
        """The neighbouring relation."""
        return self.unit.relation

    @property
    def private(self) -> bool:
        """Whether the release is private: ε is finite, no seed was used, and no bounds were taken from the data."""
        return self.protective and self.epsilon != float("inf")

    def recompute(self) -> Bounds:
        """Account the event again, from nothing but the certificate."""
        from discreet.accounting import epsilon

        return epsilon(self.event, self.delta, self.unit)

    def curve(self) -> Curve:
        """The whole privacy curve, δ(ε) and ε(δ), from nothing but the certificate."""
        from discreet.accounting import curve

        return curve(self.event, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain values."""
        return {
            "discreet": self.version,
            "private": self.private,
            "epsilon": self.epsilon if self.epsilon != float("inf") else "inf",
            "delta": self.delta,
            "adjacency": self.adjacency,
            "rows_per_unit": self.unit.rows_per_unit,
            "unit": "enforced" if self.unit.enforced else "declared",
            "protective_randomness": self.protective,
            "solver": self.solver,
            "settings": _written(self.settings),
            "unprotected": list(self.unprotected),
            "event": self.event.to_dict(),
            "record": _written(self.record),
        }

    def to_json(self) -> str:
        """The certificate as indented JSON, with the figures that follow from its event: curve, ρ, μ, mechanisms."""
        whole = self.to_dict() | {"figures": self.figures.to_dict()}
        return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)

    @cached_property
    def figures(self) -> Figures:
        """What follows from the event: ε at other δ's, ρ, μ, and every mechanism with its noise and sensitivity."""
        return Figures(self.event, self.unit, self.delta, void=not self.private)

    @cached_property
    def risks(self) -> Risks:
        """What the guarantee means for one person, as an attacker's best chances."""
        return Risks(self.event if self.private else events.NonPrivate(), self.unit)

    def to_html(self) -> str:
        """The certificate as one page: no scripts, nothing from elsewhere, to be read on a screen or printed."""
        from discreet.report.certificate_page import page

        return page(self)

    def to_registry(self) -> str:
        """The certificate as an entry (YAML) of the public registry of DP deployments."""
        from discreet.report.registry import registry_entry

        return registry_entry(self)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read back what `to_json` wrote.

        Raises:
            InvalidInput: it is not a certificate, or one that contradicts itself or its signature.
        """
        return cls.from_dict(read_json(text, "the certificate"))

    @classmethod
    def from_dict(cls, tree: Any) -> Certificate:
        """Read back what `to_dict` wrote; see `from_json`."""
        try:
            found = cls(
                epsilon=math.inf if tree["epsilon"] == "inf" else tree["epsilon"],
                delta=tree["delta"],
                unit=Unit(tree["adjacency"], tree["rows_per_unit"], _enforced(tree.get("unit", "declared"))),
                event=events.from_dict(tree["event"]),
                solver=tree["solver"],
                settings=_read(tree["settings"]),
                unprotected=_words(tree["unprotected"]),
                protective=tree["protective_randomness"],
                version=tree["discreet"],
                record=_read(tree.get("record", {})),
                signer=_signer(tree),
            )
            claimed = tree["private"]
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"not a certificate: {problem!r}.") from None
        if claimed is not found.private:
            raise InvalidInput(
                f"not a certificate: it says private = {shortened(claimed)}, and its figures say {found.private}."
            )
        return found

    def __str__(self) -> str:
        if self.epsilon == float("inf"):
            return "no privacy (ε = ∞)"
        believed = ", declared" if self.unit.rows_per_unit > 1 and not self.unit.enforced else ""
        line = f"ε = {rounded_up(self.epsilon)}, δ = {rounded_up(self.delta)} ({self.unit}{believed})"
        if self.protective:
            return line
        return f"NOT PRIVATE: {unprotected_kind(self.unprotected) or 'seeded noise'}; would be {line}"


_FIELDS: dict[str, type] = {
    "unit": Unit, "event": events.Event, "solver": str, "settings": dict, "unprotected": tuple, "protective": bool,
    "version": str, "record": dict, "signer": str,
}  # fmt: skip


def _real(value: Any) -> float:
    """A number as a float; NaN for everything else, and for integers beyond all floats."""
    try:
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        return float(value) if number else math.nan
    except (OverflowError, TypeError):
        return math.nan


def _signer(tree: Any) -> str:
    if tree.get("signature") is None:
        return ""
    from discreet.report.signature import signed_by

    return signed_by(tree) or ""


def _words(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise TypeError(f"a list is expected, got {shortened(value)}")
    return tuple(value)


def _enforced(word: Any) -> bool:
    if word not in ("enforced", "declared"):
        raise TypeError(f"a unit is enforced or declared, got {shortened(word)}")
    return bool(word == "enforced")


def _written(value: Any) -> Any:
    """JSON has no infinity: it is written as a word."""
    if isinstance(value, dict):
        return {key: _written(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_written(inner) for inner in value]
    return "inf" if isinstance(value, float) and value == float("inf") else value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _read(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_read(inner) for inner in value]
    return float("inf") if value == "inf" else value
