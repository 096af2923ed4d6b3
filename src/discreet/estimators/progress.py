"""A progress bar that shows steps and ε, never anything computed from the rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from discreet.calibration import Guarantee
from discreet.vault import Progress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(guarantee: Guarantee, plan: str, *, shown: bool) -> Iterator[Progress | None]:
    """A callback for the vault: the plan in one line, then a bar while the block runs.

    The vault says how many releases it has charged; 0 where a filter, not a plan, says when to stop.
    """
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns) as bar:
        bar.console.print(f"plan: {plan}", highlight=False)
        label = f"ε = {guarantee.epsilon:g}" if guarantee.private else "no privacy"
        task = bar.add_task(label, total=None)
        yield lambda done, planned: bar.update(task, completed=done, total=planned or None)
