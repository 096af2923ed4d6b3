"""What a ledger has read of its file, and the refusal of a file in which it is not found again."""

from __future__ import annotations

from typing import NamedTuple

from discreet.errors import LedgerUnavailable
from discreet.ledger.base import Budget, Past, Records

__all__ = ["Seen"]


class Seen(NamedTuple):
    """What a ledger found when it last read a dataset's records.

    Budgets never change and charges are never taken back. So records with another budget, or without a charge that was
    there, are not the dataset's records: what was spent is unknown, and nothing may be charged to them.
    """

    budget: Budget | None
    past: Past

    def require(self, records: Records, dataset: str, url: str) -> None:
        """Refuse records in which what was seen before is not found again.

        Raises:
            LedgerUnavailable: the records are other ones.
        """
        budget = records.budget(dataset)
        if dataset not in records.datasets():
            found = "the dataset is not there any more"
        elif budget != self.budget:
            words = ["no budget" if one is None else f"the budget {one}" for one in (budget, self.budget)]
            found = f"it has {words[0]}, and had {words[1]}"
        elif not self._continues(records.past(dataset, self.past.last)):
            found = "charges that were there, or uses of their promises, are not, or it is another file"
        else:
            return
        raise LedgerUnavailable(
            f"the records of dataset {dataset!r} in {url} are not those that this ledger has seen: {found}. What was "
            "spent is unknown. Nothing more was charged and nothing was released; restore the file, or open the ledger "
            "anew if it was exchanged on purpose."
        )

    def _continues(self, past: Past) -> bool:
        # a file from before files had names gets one when somebody writes to it
        known = self.past._replace(store=self.past.store or past.store, settled=past.settled)
        return past == known and past.settled >= self.past.settled
