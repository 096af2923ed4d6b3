"""A linear model's effects in natural units: what each column adds to the prediction, value by value."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Effect", "ModelEffects", "Point"]


@dataclass(frozen=True)
class Point:
    """The effect at one value of a column.

    Args:
        label: the value in words: a level, a knot, an interval.
        effect: what the column adds there.
        x: the value as a number, for columns of numbers.
        error: its standard error, where the model has standard errors.
        usual: false for the level ``other`` of what is missing or unlisted, which may have hardly any rows.
    """

    label: str
    effect: float
    x: float | None = None
    error: float | None = None
    usual: bool = True


@dataclass(frozen=True)
class Effect:
    """What one column adds to the score of one output.

    Args:
        column: its name.
        kind: ``"curve"`` is straight between points, ``"steps"`` constant between, ``"levels"`` has no order, and
            ``"slope"`` is a straight line without bounds, given at 0 and 1.
        points: in order; the effects of the usual ones have mean 0, but for a slope's.
        slope: the effect of one unit more, where it is the same everywhere.
        log_scale: whether points are evenly spaced on a logarithmic scale.
    """

    column: str
    kind: Literal["curve", "steps", "levels", "slope"]
    points: tuple[Point, ...]
    slope: float | None = None
    log_scale: bool = False

    @property
    def span(self) -> float:
        """How much the column can change the score: the largest effect of a usual point less the smallest."""
        values = [point.effect for point in self.points if point.usual]
        return max(values) - min(values)


@dataclass(frozen=True)
class ModelEffects:
    """All effects of a model.

    The score of a row is the intercept plus the effect of each of its columns, where points of a curve are joined by
    straight lines.

    Args:
        model: the class of the model.
        target: the name of the column that it predicts, if it is known.
        scale: what a score is: ``"log-odds"``, ``"log of the expected count"``, ``"score"`` or ``"target"``.
        outputs: what each score is for: the class, or "" where there is only one.
        intercepts: the score of a row whose columns all have effect 0, for each output.
        effects: for each output, one for each column, the largest span first.
        privacy: one line about the model's guarantee.
    """

    model: str
    target: str | None
    scale: str
    outputs: tuple[str, ...]
    intercepts: tuple[float, ...]
    effects: tuple[tuple[Effect, ...], ...]
    privacy: str

    @property
    def title(self) -> str:
        """What is shown, in one line."""
        name = self.outputs[0] if len(self.outputs) == 1 and self.outputs[0] else self.target
        if self.scale == "target":
            return f"{self.model}: effects on {name or 'the target'}"
        return f"{self.model}: effects on the {self.scale}" + ("" if name is None else f" of {name}")

    @property
    def ratios(self) -> bool:
        """Whether e to the power of an effect is a ratio with a meaning: of odds, or of expected counts."""
        return self.scale.startswith("log")

    def to_dict(self) -> dict[str, Any]:
        """The effects as plain values."""
        return {
            "model": self.model,
            "target": self.target,
            "scale": self.scale,
            "privacy": self.privacy,
            "outputs": [
                {
                    "output": output,
                    "intercept": intercept,
                    "effects": {effect.column: _written(effect) for effect in effects},
                }
                for output, intercept, effects in zip(self.outputs, self.intercepts, self.effects, strict=True)
            ],
        }

    def to_json(self) -> str:
        """The effects as indented JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def to_html(self) -> str:
        """The effects as one page of HTML without scripts or files beside it."""
        from discreet.report.effects_page import page

        return page(self)

    def plot(self, path: Any = None, *, most: int = 24) -> Any:
        """A picture of the effects, one small panel a column.

        Args:
            path: where to write it; the ending picks the format (png, svg, pdf). None writes nothing.
            most: how many columns are drawn for each output, those of the largest span.

        Returns:
            The figure of matplotlib.

        Raises:
            InvalidInput: matplotlib is not installed, or does not write such a format.
        """
        from discreet.report.effects_picture import picture

        return picture(self, path, most)


def _written(effect: Effect) -> dict[str, Any]:
    points = [
        {"value": p.label if p.x is None else p.x, "effect": p.effect}
        | ({} if p.error is None or not math.isfinite(p.error) else {"standard_error": p.error})
        for p in effect.points
    ]
    return {"kind": effect.kind, "slope": effect.slope, "points": points}
