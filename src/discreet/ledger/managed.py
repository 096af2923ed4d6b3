"""What the owner of a budget does with it besides spending: give parts of it, and freeze it."""

from __future__ import annotations

from discreet.errors import InvalidInput
from discreet.ledger.base import Budget
from discreet.ledger.book import budget_to_dict
from discreet.ledger.lines import Kind
from discreet.ledger.reports import Reports
from discreet.text import checked_text

__all__ = ["Managed"]


class Managed(Reports):
    """Parts of a budget, and its freezing."""

    def allocate(self, analyst: str, *, epsilon: float, delta: float) -> None:
        """Give an analyst, or a project, a part of the budget; it is written once. The whole stays a limit as well.

        Raises:
            InvalidInput: the dataset has no budget, the part exceeds it, or was given before.
        """
        if not checked_text("analyst", analyst).strip():
            raise InvalidInput(f"analyst must be a name, got {analyst!r}.")
        with self._lines(write=True) as lines:
            facts = self._book.datasets.get(self.dataset)
            if facts is None or facts.budget is None:
                raise InvalidInput(f"dataset {self.dataset!r} has no budget of which a part could be given.")
            part = Budget.of(epsilon, delta, facts.budget.unit)
            if part is None or not facts.budget.has_part(part):
                raise InvalidInput(f"{part} is not a part of {facts.budget}.")
            if analyst in facts.parts:
                raise InvalidInput(f"{analyst!r} has a part of {self.dataset!r} already: {facts.parts[analyst]}.")
            self._write(lines, "allocation", {"name": analyst, "budget": budget_to_dict(part)})

    def allocations(self) -> dict[str, Budget]:
        """Who has which part of the budget."""
        with self._lines(write=False):
            facts = self._book.datasets.get(self.dataset)
            return {} if facts is None else dict(facts.parts)

    def freeze(self, note: str = "") -> None:
        """Refuse every further charge to this dataset and to what is derived from it, until `thaw`."""
        self._note("freeze", note)

    def thaw(self, note: str = "") -> None:
        """Allow charges again."""
        self._note("thaw", note)

    def _note(self, kind: Kind, note: str) -> None:
        note = checked_text("a note", str(note))
        with self._lines(write=True) as lines:
            if self.dataset not in self._book.datasets:
                raise InvalidInput(f"{self.url} has no dataset {self.dataset!r} yet.")
            self._write(lines, kind, {"note": note})

    @property
    def frozen(self) -> str | None:
        """The note with which this dataset, or one that it is derived from, was frozen; None when it is not."""
        with self._lines(write=False):
            notes = [self._book.datasets[name].frozen for name in self._book.lineage(self.dataset)]
        return next((note for note in notes if note is not None), None)
