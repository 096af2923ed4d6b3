"""What stands before every page: the host's name, the headers of every answer, and errors that tell nothing."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse

__all__ = ["POLICY", "Guard", "is_loopback", "same_origin", "same_token"]

POLICY = "default-src 'none'; style-src {style}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
_HEADERS = {
    b"content-security-policy": POLICY.format(style="'self'").encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",  # with no-referrer, browsers would send "Origin: null" with our own forms
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_log = logging.getLogger("discreet.serve")


def is_loopback(host: str) -> bool:
    """Whether a server at this address can be reached from this machine alone.

    Example:
        >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "10.0.0.7", "example.org")]
        [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def host_of(header: str) -> str | None:
    """The name in a Host header without its port; None where it is none."""
    try:
        parts = urlsplit(f"//{header}")
        _ = parts.port  # raises where it is no number
    except ValueError:
        return None
    whole = parts.netloc == header and not (parts.path or parts.query or parts.fragment or "@" in header)
    return parts.hostname if whole else None


def same_origin(headers: Any, scheme: str) -> bool:
    """Whether a request that changes something comes from a page of this server, or from no page at all."""
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"{scheme}://{headers.get('host', '')}".lower():
        return False
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def same_token(given: str, token: str) -> bool:
    """Whether the token is the right one, in a time that does not tell how much of it is."""
    return bool(token) and hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8"))


class Guard:
    """An ASGI application around another one.

    A page of another site can make a browser ask for its own name at this machine's address (DNS rebinding), and could
    then read the answers; requests for names other than ``names`` are refused.

    Args:
        inner: the application.
        names: under which the server is reached, besides those of the loopback.
    """

    def __init__(self, inner: Any, names: Iterable[str] = ()) -> None:
        self.inner = inner
        self.names = {*_LOOPBACK, *(name.lower().strip("[]") for name in names)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.inner(scope, receive, send)
            return  # no web sockets
        begun = False

        async def guarded(message: Any) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                there = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in _HEADERS.items() if name not in there]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or host_of(hosts[0]) not in self.names:
            refusal = PlainTextResponse("This name is not served here. Use --name to serve another.\n", 421)
            await refusal(scope, receive, guarded)
            return
        try:
            await self.inner(scope, receive, guarded)
        except Exception as problem:
            _log.error("%s", type(problem).__name__)  # its words may be about a file's content
            if not begun:
                await PlainTextResponse("The page cannot be shown.\n", 500)(scope, receive, guarded)
