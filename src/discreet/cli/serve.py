"""``discreet serve``: a ledger in the browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from discreet.cli.common import console, ledger_at
from discreet.errors import InvalidInput

__all__ = ["register", "serve"]

_SHORTEST = 16


def serve(
    ledger: Annotated[str, typer.Argument(help="A file such as budget.db, or postgresql://user@host/database.")],
    certificates: Annotated[Path | None, typer.Option(help="A folder of certificates (*.json) to show.")] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; others than the loopback need --token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8642,
    token: Annotated[
        str | None,
        typer.Option(envvar="DISCREET_TOKEN", help="Who knows it may freeze and thaw; by default a new one."),
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name under which the page is reached; may be repeated.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="No token: nobody may change anything.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Address and new token as one line of JSON.")] = False,
) -> None:
    """Show budgets, releases and certificates on a local web page."""
    try:
        import uvicorn

        from discreet.serve import application
        from discreet.serve.guard import is_loopback
    except ModuleNotFoundError as problem:
        raise InvalidInput(f"the page needs {problem.name}: pip install 'discreet[serve]'.") from None
    if token is not None and (len(token) < _SHORTEST or not token.isascii() or read_only):
        raise InvalidInput(f"--token must have at least {_SHORTEST} characters of ASCII, and excludes --read-only.")
    if not is_loopback(host) and token is None and not read_only:
        raise InvalidInput(
            f"{host} can be reached from other machines: give --token or set DISCREET_TOKEN, or give --read-only."
        )
    if host in ("0.0.0.0", "::", "") and not name:
        raise InvalidInput(f"at {host or 'all addresses'}, say under which --name the page is reached.")
    from discreet.ledger.lines import random_name

    secret = "" if read_only else token or random_name()
    names = (*(name or ()), *(() if host in ("0.0.0.0", "::", "") else (host,)))
    pages = application(ledger_at(ledger), token=secret, certificates=certificates, names=names)
    shown = (name or [host])[0]
    address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
    made = secret if secret and token is None else None
    if as_json:
        print(json.dumps({"url": address, "token": made}), flush=True)
    else:
        console.print(address, soft_wrap=True)
        if made:
            console.print(f"token to freeze and thaw: {made}", soft_wrap=True)
    uvicorn.run(
        pages, host=host, port=port, log_level="warning", access_log=False, server_header=False, ws="none",
        proxy_headers=False,
    )  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)
