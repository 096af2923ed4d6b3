"""``discreet report`` and ``discreet verify``: a certificate for readers, and whether it can be believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.common import console, ledger_at, require_absent, require_place, shown_place
from discreet.errors import InvalidInput
from discreet.text import read_bounded, read_json

__all__ = ["register", "report", "verify"]

_MOST_BYTES = 1 << 24
File = Annotated[Path, typer.Argument(help="A certificate, as fit writes it (JSON).")]


def _read(path: Path) -> dict[str, Any]:
    tree = read_json(read_bounded(path, _MOST_BYTES), "the certificate")
    if not isinstance(tree, dict):
        raise InvalidInput(f"{path} is not a certificate.")
    return tree


def report(
    certificate: Annotated[Path | None, typer.Argument(help="A certificate, as fit writes it (JSON).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page for readers and printers.")] = None,
    registry: Annotated[Path | None, typer.Option(help="Write an entry of the registry of DP deployments.")] = None,
    card: Annotated[Path | None, typer.Option(help="Write a model card in Markdown.")] = None,
    sign: Annotated[Path | None, typer.Option(help="Sign with this private key; writes --signed.")] = None,
    signed: Annotated[Path | None, typer.Option(help="Where the signed certificate goes.")] = None,
    new_key: Annotated[Path | None, typer.Option(help="Make a private key here, and print its public key.")] = None,
    force: Annotated[bool, typer.Option(help="Write over files that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the risks as JSON.")] = False,
) -> None:
    """Show what a certificate means for one person; write it as a page, a registry entry, a model card, or signed."""
    from discreet.report.card import model_card
    from discreet.report.certificate import Certificate
    from discreet.report.signature import new_key as make_key
    from discreet.report.signature import sign as with_signature

    public = None if new_key is None else {"public_key": make_key(new_key)}
    if public is not None and (not as_json or certificate is None):
        print(json.dumps(public)) if as_json else console.print(f"public key {public['public_key']}", soft_wrap=True)
    if public is not None and certificate is None:
        return
    if certificate is None:
        raise InvalidInput("say which certificate: discreet report model.certificate.json")
    if (sign is None) != (signed is None):
        raise InvalidInput("--sign KEY and --signed FILE go together.")
    tree = _read(certificate)
    found = Certificate.from_dict(tree)
    places = [place for place in (html, registry, card, signed) if place is not None]
    for place in places:
        require_place(place, [certificate, sign])
    require_absent(places, force=force)
    if html is not None:
        html.write_text(found.to_html(), encoding="utf-8")
    if registry is not None:
        registry.write_text(found.to_registry(), encoding="utf-8")
    if card is not None:
        card.write_text(model_card(found), encoding="utf-8")
    if sign is not None and signed is not None:
        signed.write_text(json.dumps(with_signature(tree, sign), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(found.risks.to_dict() | (public or {})))
        return
    console.print(f"{found}\n{found.risks.in_words}")


def verify(
    certificate: File,
    key: Annotated[str | None, typer.Option(help="The public key that must have signed it.")] = None,
    ledger: Annotated[str | None, typer.Option(help="A ledger that must contain its charges and head.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable.")] = False,
) -> None:
    """Account a certificate's event again, check its signature, and find it in a ledger."""
    from discreet.report.certificate import Certificate
    from discreet.report.verification import require_claims, require_in_book

    tree = _read(certificate)
    found = Certificate.from_dict(tree)
    signer = found.signer or None
    if key is not None and signer != key.lower():
        raise InvalidInput(
            f"{certificate} is {'not signed' if signer is None else f'signed by {signer}'}, not by {key}."
        )
    require_claims(found, tree, str(certificate))
    if ledger is not None:
        require_in_book(found, ledger_at(ledger), shown_place(ledger))
    facts = {"private": found.private, "epsilon": found.epsilon, "delta": found.delta, "signed_by": signer}
    if as_json:
        print(json.dumps(facts | {"epsilon": "inf" if found.epsilon == float("inf") else found.epsilon}))
        return
    console.print(
        f"{found}\nsigned by {signer or 'nobody'}" + ("" if ledger is None else f"\nfound in {shown_place(ledger)}")
    )


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(report)
    app.command()(verify)
