"""The pages and the one form that changes something."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from discreet._version import __version__
from discreet.errors import DiscreetError, InvalidInput, LedgerUnavailable
from discreet.floats import as_number, rounded_up
from discreet.ledger.places import store_at
from discreet.serve.books import Books, UnknownDataset, picture
from discreet.serve.certificates import Folder, style_of
from discreet.serve.guard import POLICY, Guard, same_origin, same_token
from discreet.text import printable

__all__ = ["application"]

_PAGE = 50
_MOST_BYTES = 1 << 14
_FORM = "application/x-www-form-urlencoded"


def _harmless(value: Any) -> Any:
    """Text of others without control characters; escaping is the templates' own."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def application(
    place: str | Path, *, token: str = "", certificates: Path | None = None, names: tuple[str, ...] = ()
) -> Guard:
    """The web application of one ledger.

    Args:
        place: the ledger; see `Ledger`.
        token: whoever knows it may freeze and thaw; "" leaves the pages read-only.
        certificates: a folder of certificates, of which ``*.json`` directly inside are shown.
        names: host names besides the loopback's under which the pages are reached.

    Raises:
        InvalidInput: there is no such ledger or folder.
    """
    pages = _Pages(Books(place), token, Folder(certificates))
    pages.url = store_at(place).url
    if not pages.books.names():
        raise InvalidInput(f"{pages.url} has no dataset yet: set a budget with discreet ledger create.")
    routes = [
        Route("/", pages.overview),
        Route("/dataset", pages.dataset),
        Route("/what-if", pages.what_if),
        Route("/freeze", pages.freeze, methods=["POST"]),
        Route("/certificates/{name}", pages.certificate),
        Route("/style.css", pages.style),
    ]
    handlers: Any = {HTTPException: pages.refused, DiscreetError: pages.failed, Exception: pages.broken}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), names)


class _Pages:
    """One method a page. Starlette runs them in threads; the ledgers lock themselves."""

    url = ""

    def __init__(self, books: Books, token: str, folder: Folder) -> None:
        self.books, self.token, self.folder = books, token, folder
        self.templates = Environment(
            loader=PackageLoader("discreet.serve"), autoescape=True, undefined=StrictUndefined, finalize=_harmless,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self.templates.filters["up"] = rounded_up

    def _page(self, template: str, status: int = 200, **facts: Any) -> HTMLResponse:
        shared = {"place": self.url, "version": __version__, "changes": bool(self.token)}
        return HTMLResponse(self.templates.get_template(template).render(**shared, **facts), status)

    def overview(self, request: Request) -> Response:
        """Every budget as a bar, and the certificates."""
        found = [self.books.facts(name) for name in self.books.names()]
        return self._page("overview.html", datasets=found, certificates=self.folder.kept())

    def dataset(self, request: Request) -> Response:
        """One dataset: its budget, how it was spent, and its charges."""
        name = request.query_params.get("name", "")
        facts = self.books.facts(name)
        charges = self.books.charges(name)
        last = max(1, -(-len(charges) // _PAGE))
        page = min(last, _whole(request.query_params.get("page", "1"), 1, 10**9, "the page"))
        line = None if facts["bar"] is None else picture(self.books.course(name), facts["bar"].budget)
        return self._page(
            "dataset.html", **facts, page=page, last=last, total=len(charges), line=line,
            charges=charges[(page - 1) * _PAGE : page * _PAGE], files=self.folder.for_charges(self.books.place),
            asked={"analyst": "", "epsilon": "", "delta": "", "times": "1"},
            kind=lambda charge: type(charge.event).__name__,
        )  # fmt: skip

    def what_if(self, request: Request) -> Response:
        """Whether further fits would be admitted."""
        given = request.query_params
        name = given.get("dataset", "")
        asked = {key: given.get(key, "") for key in ("analyst", "epsilon", "delta", "times")}
        facts = self.books.facts(name)
        epsilon, delta = _number(asked["epsilon"], "ε"), _number(asked["delta"], "δ")
        times = _whole(asked["times"] or "1", 1, 10**9, "the number of fits")
        answers = self.books.what_if(name, asked["analyst"], epsilon, delta, times)
        limit = self.books.bar(name, asked["analyst"])
        return self._page("what_if.html", **facts, asked=asked, answers=answers, limit=limit)

    async def freeze(self, request: Request) -> Response:
        """Freeze or thaw a dataset, for whoever knows the token and comes from this page."""
        if not same_origin(request.headers, request.url.scheme):
            raise HTTPException(403, "The request comes from another site. Nothing was changed.")
        form = await _form(request)
        if not same_token(form.get("token", ""), self.token):
            raise HTTPException(403, "The token is not the right one. Nothing was changed.")
        name, action = form.get("dataset", ""), form.get("action", "")
        if action not in ("freeze", "thaw"):
            raise HTTPException(400, "Say freeze or thaw. Nothing was changed.")
        await run_in_threadpool(self._freeze, name, action, form.get("note", ""))
        return RedirectResponse(f"/dataset?{urlencode({'name': name})}", 303)

    def _freeze(self, name: str, action: str, note: str) -> None:
        ledger = self.books.ledger(name)
        if action == "freeze":
            ledger.freeze(note)
        else:
            ledger.thaw(note)

    def certificate(self, request: Request) -> Response:
        """One certificate's own page."""
        found = self.folder.certificate(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "There is no such certificate.")
        page = found.to_html()
        return HTMLResponse(page, headers={"content-security-policy": POLICY.format(style=style_of(page))})

    def style(self, request: Request) -> Response:
        """The style sheet of all pages but certificates."""
        return Response(self.templates.get_template("style.css").render(), media_type="text/css")

    def refused(self, request: Request, problem: Exception) -> Response:
        """A page that says why there is no answer."""
        assert isinstance(problem, HTTPException)
        words = {404: "There is no such page.", 405: "This page does not take such a request."}
        known = problem.detail if type(problem.detail) is str and problem.detail.endswith(".") else ""
        answer = self._page(
            "message.html", problem.status_code, words=known or words.get(problem.status_code, "It was refused.")
        )
        answer.headers.update(problem.headers or {})
        return answer

    def failed(self, request: Request, problem: Exception) -> Response:
        """A page for what the ledger or a certificate refuses."""
        status = 404 if isinstance(problem, UnknownDataset) else 503 if isinstance(problem, LedgerUnavailable) else 400
        return self._page("message.html", status, words=str(problem))

    def broken(self, request: Request, problem: Exception) -> Response:
        """A page for what nobody foresaw, without the words of the error."""
        return self._page("message.html", 500, words="The page cannot be shown.")


def _number(text: str, what: str) -> float:
    try:
        found = as_number(float(text)) if len(text) < 40 else None
    except ValueError:
        found = None
    if found is None:
        raise InvalidInput(f"{what} must be a number.")
    return found


def _whole(text: str, least: int, most: int, what: str) -> int:
    good = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not good or not least <= int(text) <= most:
        raise InvalidInput(f"{what} must be a whole number, {least} or more.")
    return int(text)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a short form, each once.

    Raises:
        HTTPException: it is not such a form.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
        raise HTTPException(415, "A form is expected. Nothing was changed.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, "The form is too long. Nothing was changed.")
    try:
        fields = parse_qs(bytes(body).decode("utf-8"), keep_blank_values=True, max_num_fields=16, errors="strict")
    except ValueError:
        raise HTTPException(400, "The form cannot be read. Nothing was changed.") from None
    if any(len(values) != 1 for values in fields.values()):
        raise HTTPException(400, "A field comes twice. Nothing was changed.")
    return {name: values[0] for name, values in fields.items()}
