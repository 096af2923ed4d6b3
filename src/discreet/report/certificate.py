"""The certificate: what was released, what it guarantees, and what it does not protect."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from discreet import events
from discreet._version import __version__
from discreet.accounting.bounds import Bounds
from discreet.errors import InvalidInput
from discreet.units import Unit

__all__ = ["FROM_THE_DATA", "Certificate"]

FROM_THE_DATA = "taken from the data without protection"
"""Said of bounds in a certificate's list of what is not protected."""


@dataclass(frozen=True)
class Certificate:
    """A fitted model's privacy: (``epsilon``, ``delta``)-DP for ``unit``, certified from ``event``.

    ``epsilon`` is the proved upper bound. ``protective`` is false when the noise came from a user's seed, which makes
    the run reproducible, or when bounds were taken from the data without protection, which ``unprotected`` then lists.
    Such a run is **not private**, whatever the other figures say.
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

    @property
    def adjacency(self) -> str:
        """The neighbouring relation."""
        return self.unit.relation

    @property
    def private(self) -> bool:
        """Whether the release protects anybody."""
        return self.protective and self.epsilon != float("inf")

    def recompute(self) -> Bounds:
        """Account the event again, from nothing but the certificate."""
        from discreet.accounting import epsilon

        return epsilon(self.event, self.delta, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """The certificate as plain values."""
        return {
            "discreet": self.version,
            "private": self.private,
            "epsilon": self.epsilon if self.epsilon != float("inf") else "inf",
            "delta": self.delta,
            "adjacency": self.adjacency,
            "rows_per_unit": self.unit.rows_per_unit,
            "protective_randomness": self.protective,
            "solver": self.solver,
            "settings": _written(self.settings),
            "unprotected": list(self.unprotected),
            "event": self.event.to_dict(),
        }

    def to_json(self) -> str:
        """The certificate as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read back what `to_json` wrote."""
        tree = json.loads(text)
        try:
            return cls(
                epsilon=float(tree["epsilon"]),
                delta=float(tree["delta"]),
                unit=Unit(tree["adjacency"], tree["rows_per_unit"]),
                event=events.from_dict(tree["event"]),
                solver=tree["solver"],
                settings=_read(tree["settings"]),
                unprotected=tuple(tree["unprotected"]),
                protective=tree["protective_randomness"],
                version=tree["discreet"],
            )
        except (KeyError, TypeError) as problem:
            raise InvalidInput(f"not a certificate: {problem!r}.") from None

    def __str__(self) -> str:
        if self.epsilon == float("inf"):
            return "no privacy (ε = ∞)"
        line = f"ε = {self.epsilon:.4g}, δ = {self.delta:.3g} ({self.unit})"
        if self.protective:
            return line
        bounds = any(item.endswith(FROM_THE_DATA) for item in self.unprotected)
        return f"NOT PRIVATE: {f'bounds {FROM_THE_DATA}' if bounds else 'seeded noise'}; would be {line}"


def _written(value: Any) -> Any:
    """JSON has no infinity: it is written as a word."""
    if isinstance(value, dict):
        return {key: _written(inner) for key, inner in value.items()}
    return "inf" if value == float("inf") else value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _read(inner) for key, inner in value.items()}
    return float("inf") if value == "inf" else value
