"""What a fit may be expected to reach at several ε, from a simulation on synthetic rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

__all__ = ["CLOSE", "Sweep"]

CLOSE = 0.01
"""What is meant by close to no privacy: one point of accuracy, or 0.01 of R²."""


@dataclass(frozen=True)
class Sweep:
    """Mean scores of private fits to synthetic rows of a declared shape.

    Args:
        metric: ``"accuracy"`` or ``"R²"``.
        n: the number of rows that was asked about.
        d: the number of features.
        simulated: how many rows were simulated; where they are fewer than n, ε is larger by the same factor, as the
            noise of a fit relative to its signal depends on their product.
        repeats: how many synthetic tables were drawn.
        epsilons: in increasing order.
        scores: one for each ε.
        baseline: the score without privacy.
        guess: the score of a guess without features.
    """

    metric: str
    n: int
    d: int
    simulated: int
    repeats: int
    epsilons: tuple[float, ...]
    scores: tuple[float, ...]
    baseline: float
    guess: float

    @property
    def enough(self) -> float | None:
        """The least ε from which scores are within `CLOSE` of no privacy; None where none of the sweep is.

        Between two ε of the sweep the loss is taken to be straight in log ε.
        """
        losses = [self.baseline - score for score in self.scores]
        if losses[-1] > CLOSE:
            return None
        place = len(losses) - 1
        while place and losses[place - 1] <= CLOSE:
            place -= 1
        if not place:
            return self.epsilons[0]
        share = (losses[place - 1] - CLOSE) / (losses[place - 1] - losses[place])
        low, high = math.log(self.epsilons[place - 1]), math.log(self.epsilons[place])
        return math.exp(low + share * (high - low))

    def rows_for(self, epsilon: float) -> int | None:
        """About so many rows would come within `CLOSE` of no privacy at ``epsilon``, as noise depends on ε times rows.

        Two digits are given, rounded up; n itself where it is enough, and None where no ε of the sweep comes so close.
        """
        enough = self.enough
        if enough is None or enough <= epsilon:
            return None if enough is None else self.n
        rows = self.n * enough / epsilon
        unit = 10 ** max(0, math.floor(math.log10(rows)) - 1)
        return math.ceil(rows / unit) * unit

    @property
    def verdict(self) -> str:
        """In one line, from which ε privacy costs next to nothing."""
        what = "1 point of accuracy" if self.metric == "accuracy" else "0.01 of R²"
        enough = self.enough
        if enough is None:
            last = f"{self.epsilons[-1]:g}"
            return f"not within {what} of no privacy at ε = {last}: more rows, or fewer features, are needed"
        least = " or less" if enough <= self.epsilons[0] else ""
        return f"within {what} of no privacy from ε ≈ {enough:.2g}{least}"

    def to_dict(self) -> dict[str, Any]:
        """The sweep as plain values."""
        return {
            "synthetic": True,
            "metric": self.metric,
            "simulated_rows": self.simulated,
            "repeats": self.repeats,
            "without_privacy": self.baseline,
            "guess": self.guess,
            "enough_epsilon": self.enough,
            "sweep": [
                {"epsilon": epsilon, "score": score, "rows_for_close": self.rows_for(epsilon)}
                for epsilon, score in zip(self.epsilons, self.scores, strict=True)
            ],
        }

    def plot(self, path: Any) -> Any:
        """Draw the scores over ε into a file, whose ending picks the format (png, svg, pdf).

        Raises:
            InvalidInput: matplotlib is not installed, or does not write such a format.
        """
        from discreet.accounting.plots import figure_of, saved

        figure = figure_of(6.4, 4.2)
        axis = figure.subplots()
        axis.axhline(self.baseline, color="0.4", linestyle="--", label="without privacy")
        axis.axhline(self.guess, color="0.7", linestyle=":", label="guess")
        axis.semilogx(self.epsilons, self.scores, marker="o", color="C0", label="private")
        axis.set_xticks(list(self.epsilons), [f"{epsilon:g}" for epsilon in self.epsilons])
        axis.minorticks_off()
        axis.set(xlabel="ε", ylabel=f"{self.metric}, synthetic rows", title=f"n = {self.n}, d = {self.d}")
        axis.legend()
        axis.grid(alpha=0.3)
        saved(figure, path)
        return figure
