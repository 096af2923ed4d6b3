"""What the pages of a ledger show, what they refuse, and that they change nothing without a token."""

from __future__ import annotations

import os
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.serve.conftest import HOSTILE, TOKEN, Site, browse, certified
from typer.testing import CliRunner

from discreet.cli import app
from discreet.errors import InvalidInput
from discreet.events import PureDP
from discreet.floats import rounded_up
from discreet.ledger import Budget, Ledger
from discreet.ledger.course import Course, Point
from discreet.serve import application
from discreet.serve.books import picture
from discreet.serve.guard import host_of
from discreet.units import Unit

ORIGIN = {"origin": "http://localhost:8642"}


class Page(HTMLParser):
    """Elements of a page, with their attributes and the text outside of all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def seen(site: Site, path: str, status: int = 200) -> Page:
    answer = site.client.get(path)
    assert answer.status_code == status, answer.text
    return Page(answer.text)


def form(**changes: str) -> dict[str, str]:
    return {"dataset": "clinic", "action": "freeze", "note": "audit", "token": TOKEN} | changes


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_overview_has_every_budget_and_certificate(site: Site) -> None:
    page = seen(site, "/")
    spent = site.ledger().spent().upper
    assert f"ε = {rounded_up(spent)} spent of 4" in page.text
    assert float(rounded_up(spent)) >= spent
    assert "Part of ann" in page.text
    assert "Frozen. under review" in page.text
    links = [link["href"] for link in page.all("a")]
    assert {"/dataset?name=clinic", "/dataset?name=survey", "/certificates/model.certificate.json"} <= set(links)


def test_a_dataset_shows_its_charges_their_certificates_and_its_course(site: Site) -> None:
    page = seen(site, "/dataset?name=clinic")
    assert "8 charges" in page.text
    assert "weekly model 3" in page.text
    assert page.text.index("yearly model") < page.text.index("weekly model 1")
    assert "/certificates/model.certificate.json" in [link.get("href") for link in page.all("a")]
    (line,) = page.all("polyline")
    heights = [float(corner.split(",")[1]) for corner in (line["points"] or "").split()]
    assert heights[0] == 120
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == pytest.approx(120 * (1 - site.ledger().spent().upper / 4), abs=0.01)


def test_the_course_of_a_book_goes_on_and_ends_at_what_is_spent(site: Site) -> None:
    course = Course(site.place)
    assert course.read()["clinic"][-1].spent == site.ledger().spent().upper
    assert len(course.read()["clinic"]) == 9  # its opening and eight charges
    site.ledger().charge(PureDP(0.01), "replace-one")
    assert course.read()["clinic"][-1].spent == site.ledger().spent().upper
    assert course.read() == Course(site.place).read()
    assert Course(site.place, points=3).read()["clinic"][-1].spent == site.ledger().spent().upper


def test_a_certificate_of_another_book_is_not_linked_to_charges(site: Site, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "other.db", epsilon=3.0, delta=1e-6, adjacency="replace-one", dataset="clinic")
    certified(other, site.folder / "model.certificate.json", "elsewhere")
    links = [link.get("href") for link in seen(site, "/dataset?name=clinic").all("a")]
    assert not any("/certificates/" in str(link) for link in links)


def test_what_if_answers_as_a_charge_would_and_charges_nothing(site: Site) -> None:
    before = site.ledger().head
    yes = seen(site, "/what-if?dataset=clinic&epsilon=0.5&delta=1e-8&times=1")
    assert "Every fit: yes" in yes.text
    assert "Fits with Gaussian noise: yes" in yes.text
    no = seen(site, "/what-if?dataset=clinic&epsilon=3.5&delta=1e-8&times=1")
    assert "Every fit: no" in no.text
    assert "Nothing was charged" in no.text
    many = seen(site, "/what-if?dataset=clinic&epsilon=0.2&delta=1e-9&times=12")
    assert "Every fit: no" in many.text
    assert "Fits with Gaussian noise: yes" in many.text
    part = seen(site, "/what-if?dataset=clinic&epsilon=1&delta=1e-8&times=1&analyst=ann")
    assert "Every fit: no" in part.text  # a quarter of her 1.0 is spent
    assert "is frozen" in seen(site, "/what-if?dataset=survey&epsilon=0.1&delta=0&times=1").text
    assert site.ledger().head == before


@pytest.mark.parametrize(
    "words",
    [
        "epsilon=x&delta=1",
        "epsilon=-1&delta=0",
        "epsilon=1&delta=2",
        "epsilon=nan&delta=0",
        "epsilon=1&delta=0&times=1001",
        "epsilon=1&delta=0&times=0",
        "epsilon=1e999&delta=0",
        "epsilon=1&delta=0&times=1.5",
        "",
    ],
)
def test_what_if_says_what_is_no_question(site: Site, words: str) -> None:
    assert "must be" in seen(site, f"/what-if?dataset=clinic&{words}", 400).text


# --- security ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/dataset?name=clinic", "/none", "/certificates/model.certificate.json"])
def test_every_answer_has_the_headers_and_asks_for_no_script(site: Site, path: str) -> None:
    answer = site.client.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src ")
    assert "unsafe" not in policy
    assert "form-action 'self'; frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "<script" not in answer.text
    assert " style=" not in answer.text


def test_hostile_text_is_text(tmp_path: Path) -> None:
    place = tmp_path / "budget.db"
    ledger = Ledger(place, epsilon=3.0, delta=1e-6, adjacency="replace-one", dataset=HOSTILE)
    ledger.allocate(HOSTILE, epsilon=1.0, delta=1e-7)
    folder = tmp_path / "c"
    folder.mkdir()
    certified(ledger, folder / "<img src=x onerror=y>.json", HOSTILE)
    ledger.freeze(HOSTILE)
    client = browse(place, folder)
    for path in ("/", "/dataset", "/what-if?dataset="):
        more = {"name": HOSTILE} if path == "/dataset" else {}
        if path.startswith("/what-if"):
            more = {"dataset": HOSTILE, "analyst": HOSTILE, "epsilon": "0.1", "delta": "1e-9", "times": "1"}
            path = "/what-if"
        answer = client.get(path, params=more)
        assert answer.status_code == 200
        page = Page(answer.text)
        assert {"script", "img"}.isdisjoint(tag for tag, _ in page.elements)
        assert "\x1b" not in answer.text
        assert "<script>alert('x')</script>&\"\\x1b[2J" in page.text
    assert client.get("/dataset", params={"name": "<b>none</b>"}).text.count("<b>") == 0


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "evil.example@localhost",
        "",
        "local host",
        "127.0.0.1.evil.example",
        "localhost:x",
        "localhost/x",
        "0.0.0.0",
    ],
)
def test_other_host_names_are_refused(site: Site, host: str) -> None:
    for path in ("/", "/certificates/model.certificate.json"):
        assert site.client.get(path, headers={"host": host}).status_code == 421
    assert site.client.post("/freeze", data=form(), headers={"host": host}).status_code == 421
    assert site.ledger().frozen is None


def test_names_of_this_machine_are_served(site: Site) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8642", "[::1]:8642"):
        assert site.client.get("/", headers={"host": host}).status_code == 200
    assert host_of("[::1]:80") == "::1"


def test_freeze_and_thaw_with_the_token(site: Site) -> None:
    answer = site.client.post("/freeze", data=form(), headers=ORIGIN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dataset?name=clinic")
    assert site.ledger().frozen == "audit"
    assert "Frozen. audit" in seen(site, "/dataset?name=clinic").text
    assert site.client.post("/freeze", data=form(action="thaw"), headers=ORIGIN).status_code == 303
    assert site.ledger().frozen is None


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + " ", TOKEN.upper(), "é" * 20])
def test_a_wrong_token_changes_nothing(site: Site, token: str) -> None:
    before = site.ledger().head
    assert site.client.post("/freeze", data=form(token=token), headers=ORIGIN).status_code == 403
    fields = {name: value for name, value in form().items() if name != "token"}
    assert site.client.post("/freeze", data=fields, headers=ORIGIN).status_code == 403
    assert site.client.post(f"/freeze?token={TOKEN}", data=fields, headers=ORIGIN).status_code == 403
    assert site.ledger().head == before


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost"},
        {"origin": "https://localhost:8642"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        ORIGIN | {"sec-fetch-site": "cross-site"},
    ],
)
def test_a_request_of_another_site_changes_nothing_even_with_the_token(site: Site, headers: dict[str, str]) -> None:
    before = site.ledger().head
    assert site.client.post("/freeze", data=form(), headers=headers).status_code == 403
    assert site.ledger().head == before


def test_without_a_token_the_pages_are_read_only(site: Site) -> None:
    client = browse(site.place, None, token="")
    assert '<form method="post"' not in client.get("/dataset?name=clinic").text
    for token in ("", TOKEN):
        assert client.post("/freeze", data=form(token=token), headers=ORIGIN).status_code == 403
    assert site.ledger().frozen is None


def test_forms_are_bounded_and_plain(site: Site) -> None:
    kind = {"content-type": "application/x-www-form-urlencoded"} | ORIGIN
    for content, status in ((b"a" * 20_000, 413), (b"\xff", 400), (b"token=a&token=b", 400), (b"a=1&" * 40, 400)):
        assert site.client.post("/freeze", content=content, headers=kind).status_code == status
    assert site.client.post("/freeze", json=form(), headers=ORIGIN).status_code == 415
    assert site.client.post("/freeze", data=form(action="drop"), headers=ORIGIN).status_code == 400
    assert site.client.post("/freeze", data=form(dataset="none"), headers=ORIGIN).status_code == 404
    assert site.client.post("/freeze", data=form(note="\0"), headers=ORIGIN).status_code == 400
    assert site.ledger().frozen is None


def test_only_the_methods_of_a_page(site: Site) -> None:
    assert site.client.get(f"/freeze?dataset=clinic&action=freeze&token={TOKEN}").status_code == 405
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        for path in ("/", "/dataset?name=clinic", "/certificates/model.certificate.json"):
            assert site.client.request(method, path).status_code == 405
    assert site.client.head("/").status_code == 200
    assert site.ledger().frozen is None


def test_only_certificates_directly_in_the_folder(site: Site, tmp_path: Path) -> None:
    secret = (site.folder / "model.certificate.json").read_bytes()
    (tmp_path / "outside.json").write_bytes(secret)
    (site.folder / "inner").mkdir()
    (site.folder / "inner" / "deep.json").write_bytes(secret)
    (site.folder / "link.json").symlink_to(tmp_path / "outside.json")
    (site.folder / "notes.txt").write_bytes(secret)
    os.mkfifo(site.folder / "pipe.json")
    (site.folder / "broken.json").write_text('{"secret": "a cell"}')
    for name in (
        "../outside.json",
        "..%2foutside.json",
        "%2e%2e%2foutside.json",
        "inner/deep.json",
        "inner%2fdeep.json",
        "link.json",
        "notes.txt",
        "pipe.json",
        str(tmp_path / "outside.json"),
        "..%5coutside.json",
        "%00",
        "model.certificate.json%00",
        "../budget.db",
    ):
        assert site.client.get(f"/certificates/{name}").status_code == 404, name
    answer = site.client.get("/certificates/broken.json")
    assert answer.status_code == 400
    assert "a cell" not in answer.text
    assert "not a certificate" in seen(site, "/").text


def test_a_book_that_lost_lines_is_refused_without_details(site: Site) -> None:
    copy = site.place.read_bytes()
    site.ledger().charge(PureDP(0.1), "replace-one")
    assert "9 charges" in seen(site, "/dataset?name=clinic").text
    for file in site.place.parent.glob("budget.db*"):
        file.unlink()
    site.place.write_bytes(copy)
    page = seen(site, "/dataset?name=clinic", 503)
    assert "is not the one that was read before" in page.text
    assert "Traceback" not in page.text


def test_an_unforeseen_error_tells_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("a cell of a row")

    monkeypatch.setattr("discreet.serve.books.Books.names", broken)
    answer = site.client.get("/")
    assert answer.status_code == 500
    assert "The page cannot be shown." in answer.text
    assert "cell" not in answer.text
    assert "content-security-policy" in answer.headers


# --- what assistive technology reads ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/dataset?name=clinic", "/what-if?dataset=clinic&epsilon=1&delta=0&times=1"])
def test_headings_landmarks_and_labels(site: Site, path: str) -> None:
    page = seen(site, path)
    assert page.all("html") == [{"lang": "en"}]
    for once in ("main", "header", "footer", "h1", "title"):
        assert len(page.all(once)) == 1
    labelled = {label["for"] for label in page.all("label")}
    asked = [field for tag in ("input", "select") for field in page.all(tag) if field.get("type") != "hidden"]
    assert {field["id"] for field in asked} == labelled
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in page.all("svg"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_starts_a_server_with_what_was_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, object] = {}
    monkeypatch.setattr("uvicorn.run", lambda pages, **options: started.update(options, pages=pages))
    result = CliRunner().invoke(app, ["serve", str(site.place), "--certificates", str(site.folder)])
    assert result.exit_code == 0
    assert started["host"] == "127.0.0.1"
    assert "http://127.0.0.1:8642/" in result.output
    token = result.output.split("token to freeze and thaw: ")[1].strip()
    assert len(token) == 32
    shown = CliRunner().invoke(app, ["serve", str(site.place), "--read-only"]).output
    assert "token" not in shown


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--host", "0.0.0.0"], "give --token"),
        (["--host", "192.0.2.1"], "give --token"),
        (["--host", "0.0.0.0", "--token", TOKEN], "--name"),
        (["--token", "short"], "at least 16"),
        (["--token", TOKEN, "--read-only"], "excludes"),
        (["--certificates", "nowhere"], "not a folder"),
    ],
)
def test_the_command_refuses_what_is_not_safe(
    site: Site, monkeypatch: pytest.MonkeyPatch, words: list[str], reason: str
) -> None:
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: pytest.fail("it was started"))
    result = CliRunner().invoke(app, ["serve", str(site.place), *words])
    assert isinstance(result.exception, InvalidInput)
    assert reason in str(result.exception)


def test_a_place_without_a_ledger_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no dataset"):
        application(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_version_has_its_pages(tmp_path: Path, version: int) -> None:
    """Its datasets have no time, and their page was an error."""
    path = tmp_path / "old.db"
    shutil.copy(Path(__file__).parents[1] / "ledger" / "files" / f"format-{version}.db", path)
    client = browse(path, None)
    for name in Ledger.datasets(path):
        answer = client.get("/dataset", params={"name": name})
        assert answer.status_code == 200
        assert "Spent epsilon from 2026-11-16 to 2026-11-16" in answer.text


def test_a_course_without_any_time_has_no_picture() -> None:
    assert picture([Point("", 0.5), Point("soon", 0.6)], Budget(1.0, 0.0, Unit("replace-one")))["corners"] == ""
