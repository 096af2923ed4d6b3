"""A progress line of a training: steps and the ε spent so far, never anything computed from rows."""

from __future__ import annotations

from typing import Any

from discreet.torch.plan import TrainingPlan

__all__ = ["ProgressLine"]

_UPDATES = 20


class ProgressLine:
    """Shows how many steps are done and what they cost; ε is accounted anew about twenty times in a training."""

    def __init__(self, plan: TrainingPlan, shown: bool) -> None:
        self._plan, self._shown = plan, shown
        self._bar: Any = None
        self._task: Any = None
        self._accounted = -1

    def show(self, steps: int, rounds: int) -> None:
        """Show that ``steps`` steps are done, in ``rounds`` rounds."""
        if not self._shown:
            return
        if self._bar is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns)
            self._bar.start()
            self._task = self._bar.add_task("", total=self._plan.steps)
        mark = rounds * _UPDATES // self._plan.rounds
        if mark != self._accounted:
            self._accounted = mark
            self._bar.update(self._task, description=self.words(rounds))
        self._bar.update(self._task, completed=steps)

    def words(self, rounds: int) -> str:
        """What was spent in ``rounds`` rounds, in words."""
        guarantee = self._plan.guarantee
        if not guarantee.private:
            return "no privacy"
        spent = min(self._plan.spent(rounds), guarantee.epsilon)
        return f"ε = {spent:.3f} of {guarantee.epsilon:g} at δ = {guarantee.delta:.2g}"

    def close(self) -> None:
        """Leave the line as it is."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
