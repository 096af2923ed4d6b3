"""Whether a certificate can be believed: its figures against its own event, and what it names against a ledger's book.

An unsigned certificate is text that anyone can write. What follows from its event is computed again here, and what its
book says of the charges is compared with it; that nothing else in it was changed, only a signature proves.
"""

from __future__ import annotations

import os
from typing import Any

from discreet.errors import InvalidInput
from discreet.events import Compose, Promise, compose
from discreet.ledger import Ledger
from discreet.ledger.base import Charge
from discreet.ledger.portable import verify_book
from discreet.report.certificate import Certificate
from discreet.report.figures import contradictions

__all__ = ["require_claims", "require_in_book"]


def require_claims(certificate: Certificate, tree: dict[str, Any], place: str) -> None:
    """Refuse a certificate that claims more privacy than its own event has.

    Args:
        certificate: as it was read.
        tree: the file it was read from, with the figures that it states.
        place: the file, for messages.

    Raises:
        InvalidInput: its event costs more than its ε at its δ, or one of its figures is below what is computed again.
    """
    costs = certificate.recompute().upper if certificate.private else 0.0
    if costs > certificate.epsilon * (1 + 1e-9):
        raise InvalidInput(
            f"the event of {place} costs ε = {costs:.6g}, more than it says ({certificate.epsilon:.6g})."
        )
    wrong = contradictions(tree["figures"], certificate.figures) if "figures" in tree else []
    if wrong:
        raise InvalidInput(f"{place} says what does not follow from its event: {', '.join(wrong)}.")


def require_in_book(certificate: Certificate, url: str | os.PathLike[str], place: str) -> None:
    """Refuse a certificate whose charges are not in the book, or paid for something else.

    Args:
        certificate: names a dataset, charges and a head.
        url: the ledger.
        place: the same for messages.

    Raises:
        InvalidInput: it names no book, a charge is missing, or is of another dataset, analyst, unit or event.
        LedgerUnavailable: the book does not contain the head, or a line of it is not as it was written.
    """
    named = certificate.record.get("ledger")
    if not isinstance(named, dict) or not named.get("head") or not isinstance(named.get("charges"), list):
        raise InvalidInput("this certificate names no book: it was issued without a durable ledger.")
    verify_book(url, str(named["head"]))
    ledger = Ledger(url, dataset=str(certificate.record.get("dataset")))
    there = {charge.id: charge for charge in ledger.history()}
    if missing := [str(number) for number in named["charges"] if number not in there]:
        raise InvalidInput(f"{place} has no charge {', '.join(missing)}, which the certificate names.")
    paid = [there[number] for number in named["charges"]]
    if wrong := _differences(certificate, named, ledger, paid):
        raise InvalidInput(f"the book {place} says otherwise than the certificate: {', '.join(wrong)}.")


def _differences(certificate: Certificate, named: dict[str, Any], ledger: Ledger, paid: list[Charge]) -> list[str]:
    """What the certificate says otherwise than the book."""
    sequence, _, _ = str(named["head"]).partition(":")
    says = {
        "the ledger's id": named.get("id", ledger.id) == ledger.id,
        "the sequence number": str(named.get("sequence", sequence)) == sequence,
        "the dataset": all(charge.dataset == ledger.dataset for charge in paid),
        "the analyst": all(named.get("analyst", charge.analyst) == charge.analyst for charge in paid),
        "that it is protective": not certificate.private or all(charge.protective for charge in paid),
        "the unit or the event": bool(paid) and (_paid_for(certificate, paid) or _promised(certificate, paid)),
    }
    return [name for name, same in says.items() if not same]


def _paid_for(certificate: Certificate, paid: list[Charge]) -> bool:
    """Whether the charges are for the certificate's event, one after another; of a promise, for what it was used."""
    used = [charge.event if charge.ran is None else charge.ran for charge in paid]
    parts = [part for event in used for part in (event.events if isinstance(event, Compose) else (event,))]
    return compose(parts) == certificate.event and all(charge.unit == certificate.unit for charge in paid)


def _promised(certificate: Certificate, paid: list[Charge]) -> bool:
    """Whether one charge promised at least what the certificate's event costs, for persons of as many rows or more."""
    promise, unit = paid[0].event, certificate.unit
    if len(paid) > 1 or not isinstance(promise, Promise) or paid[0].unit.relation != unit.relation:
        return False
    enough = paid[0].unit.rows_per_unit >= unit.rows_per_unit
    return enough and certificate.figures.at(promise.delta, exactly=True) <= promise.epsilon * (1 + 1e-9)
