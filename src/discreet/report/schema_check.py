"""What a check of a table against its schema found: noisy shares of cells that are not as declared."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from discreet.events import Event
from discreet.units import Unit

__all__ = ["SchemaCheck"]


@dataclass(frozen=True)
class SchemaCheck:
    """Shares of cells by column and by what is wrong with them, all with noise.

    Args:
        shares: for each column, the share of rows whose cell has each problem that a cell of this column can have.
        many: the share of rows with problems in more than ``most`` columns, whose cells count by less than 1 each.
        most: in how many columns a row's problems count in full.
        margin: a share is within ± margin of what was counted with probability 0.95.
        threshold: shares above it are beyond noise: without any problem none exceeds it with probability 0.95.
        rows: the number of rows, with noise where it is private.
        epsilon: what was charged.
        unit: whose privacy is protected.
        event: what was charged.
        protective: whether the noise came from the operating system, and not from a seed.
    """

    shares: dict[str, dict[str, float]]
    many: float
    most: int
    margin: float
    threshold: float
    rows: float
    epsilon: float
    unit: Unit
    event: Event
    protective: bool = True

    @property
    def private(self) -> bool:
        """Whether the rows are protected: ε is finite, and there was no seed."""
        return self.protective and math.isfinite(self.epsilon)

    @property
    def suspects(self) -> dict[str, dict[str, float]]:
        """The columns with shares beyond noise, and those shares: where data or schema deserve a look."""
        found = {
            name: {problem: share for problem, share in shares.items() if share > self.threshold}
            for name, shares in self.shares.items()
        }
        return {name: shares for name, shares in found.items() if shares}

    @property
    def privacy(self) -> str:
        """One line about what protects the rows."""
        if not math.isfinite(self.epsilon):
            return "no privacy (ε = ∞)"
        line = f"ε = {self.epsilon:.4g}, δ = 0 ({self.unit})"
        return line if self.protective else f"NOT PRIVATE: seeded noise; would be {line}"

    def to_dict(self) -> dict[str, Any]:
        """The check as plain values."""
        return {
            "private": self.private,
            "privacy": self.privacy,
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "rows": self.rows,
            "margin": self.margin,
            "threshold": self.threshold,
            "shares": self.shares,
            "suspects": self.suspects,
            "rows_with_many_problems": self.many,
            "most_cells": self.most,
            "event": self.event.to_dict(),
        }

    def to_json(self) -> str:
        """The check as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        lines = [
            f"{name}: " + ", ".join(f"{problem} {share:.1%}" for problem, share in shares.items())
            for name, shares in self.shares.items()
        ]
        return "\n".join([*lines, f"each ± {self.margin:.1%}; {self.privacy}"])
