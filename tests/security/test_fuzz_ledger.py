"""Malformed files, paths, options, requests and forms: no traceback, no write elsewhere, no change without a token.

``FUZZ=3000`` runs so many cases of each kind, at random, instead of the few that are the same in every run.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serve.conftest import TOKEN, browse, populated
from typer.main import get_command

from discreet.cli import app, main
from discreet.ledger import Ledger
from discreet.ledger.lines import START, Head, Line, next_line
from discreet.ledger.portable import export_book

CASES = int(os.environ.get("FUZZ", "20"))
FUZZ = settings(
    max_examples=CASES, deadline=None, derandomize="FUZZ" not in os.environ,
    suppress_health_check=list(HealthCheck), print_blob=False,
)  # fmt: skip
FEWER = settings(FUZZ, max_examples=max(2, CASES // 50))  # where each case is a process of its own
COMMAND = get_command(app)  # built once: a process builds it once, too
SECRET = "87.654321"  # a value of a row
COMPANIONS = ("", "-journal", "-wal", "-shm")  # of SQLite

odd = st.sampled_from([None, True, -1, 0, 1.5, "", "x", "inf", [], {}, [[]], 1e308, "\ud800", "<b>", 10**400])
words = st.one_of(
    st.text(max_size=12), st.sampled_from(["-", "--", "..", "/", "\0", "a" * 300, "é", "1", "1e-6", "nan", "-1", "inf"])
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger, a certificate and an exported book."""
    folder = tmp_path_factory.mktemp("fuzz")
    place, certificates = populated(folder)
    (folder / "book.jsonl").write_text("\n".join(export_book(place)) + "\n", encoding="utf-8")
    (certificates / "model.certificate.json").rename(folder / "model.json")
    certificates.rmdir()
    rows = "".join(f"{20 + k % 60},{SECRET if k == 7 else k % 9},{'yes' if k % 3 else 'no'}\n" for k in range(40))
    (folder / "people.csv").write_text(f"age,dose,sick\n{rows}")
    (folder / "schema.yaml").write_text(
        "age: {numeric: [0, 120]}\ndose: {numeric: [0, 100]}\nsick: {boolean: [no, yes]}\n"
    )
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


@contextlib.contextmanager
def workplace(original: Path) -> Iterator[Path]:
    """A fresh copy of the files, in a folder beside which there is something that nobody may touch."""
    with tempfile.TemporaryDirectory() as name:
        inside = Path(name) / "inside"
        inside.mkdir()
        (Path(name) / "outside.json").write_text("{}")
        for file in original.iterdir():
            if file.is_file():
                (inside / file.name).write_bytes(file.read_bytes())
        before = Path.cwd()
        os.chdir(inside)
        try:
            yield inside
        finally:
            os.chdir(before)


def run(*command: str) -> tuple[int, str]:
    """The exit code and everything that the command line said; any exception but SystemExit is an error."""
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(out),
        mock.patch.object(sys, "argv", ["discreet", *command]), mock.patch.object(sys, "stdin", io.StringIO("")),
        mock.patch("discreet.cli.app", COMMAND),
    ):  # fmt: skip
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), out.getvalue()
    raise AssertionError("main ends by sys.exit")


def require_clean(folder: Path, before: dict[str, str], command: list[str], places: set[str]) -> None:
    """The command ends with a known code, shows no traceback, and writes nothing but to ``places``."""
    code, said = run(*command)
    assert code in (0, 1, 2, 3)
    assert "Traceback" not in said
    assert "\x1b" not in said
    after = contents(folder.parent)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    allowed = {f"inside/{place}{more}" for place in places for more in COMPANIONS}
    assert changed <= allowed, (command, changed)


LEDGERS = st.one_of(
    st.just("budget.db"), st.sampled_from(["new.db", "model.json", "book.jsonl", "inner/new.db", "."]), words
)
OPTIONS = ["--dataset", "--epsilon", "--delta", "--adjacency", "--note", "--derived-from"]
READING = st.sampled_from(["show", "history", "verify", "export", "charges"])


def safe(word: str) -> bool:
    """Whether a word of the fuzzer names nothing outside of the folder, so that a write there would be our fault."""
    return not word.startswith(("/", "postgres")) and ".." not in word


@given(READING, LEDGERS.filter(safe), st.lists(st.tuples(st.sampled_from(["--dataset", "--head"]), words), max_size=2))
@FUZZ
def test_commands_that_read_a_ledger_write_nothing(
    original: Path, name: str, place: str, options: list[tuple[str, str]]
) -> None:
    with workplace(original) as folder:
        command = ["ledger", name, place, *(word for option in options for word in option)]
        require_clean(folder, contents(folder.parent), command, set())


@given(
    st.sampled_from(["create", "allocate", "freeze", "thaw", "import"]), LEDGERS.filter(safe), words,
    st.lists(st.tuples(st.sampled_from(OPTIONS), words | st.just("replace-one")), max_size=4),
)  # fmt: skip
@FUZZ
def test_commands_that_change_a_ledger_write_there_alone(
    original: Path, name: str, place: str, word: str, options: list[tuple[str, str]]
) -> None:
    with workplace(original) as folder:
        extra = [word] if name in ("allocate", "import") else []
        command = ["ledger", name, place, *extra, *(one for option in options for one in option)]
        places = {place, place.removeprefix("sqlite:///")}
        require_clean(folder, contents(folder.parent), command, places)


BASES = [
    ("fit", "people.csv", "--schema", "schema.yaml", "--target", "sick", "--epsilon", "1", "--delta", "1e-6"),
    ("fit", "people.csv", "--schema", "schema.yaml", "--target", "dose", "--epsilon", "1", "--delta", "1e-6", "--json"),
    ("check", "people.csv", "--schema", "schema.yaml", "--epsilon", "1"),
    ("quantile", "people.csv", "--schema", "schema.yaml", "--column", "dose", "--epsilon", "1"),
    ("bounds", "people.csv", "--schema", "schema.yaml", "--epsilon", "1"),
    ("evaluate", "model.json", "people.csv", "--epsilon", "1"),
    ("predict", "model.json", "people.csv"),
    ("show", "model.json"),
    ("schema", "people.csv"),
    ("plan", "--n", "1000", "--d", "5", "--epsilon", "1"),
    ("account", "--noise-multiplier", "2", "--adjacency", "replace-one", "--delta", "1e-6"),
    ("calibrate", "--epsilon", "1", "--delta", "1e-6", "--adjacency", "replace-one"),
]  # fmt: skip
ELSEWHERE = ("--dask", "--device", "--seed", "--force", "--memory", "--cache")  # other machines, and written over
VALUES = words.filter(safe) | st.sampled_from(
    ["people.csv", "schema.yaml", "model.json", "budget.db", "clinic", "ann", "dose", "sick", "0.5", "2", "add-remove"]
)


@given(st.sampled_from(BASES), st.data())
@FUZZ
def test_commands_that_read_rows_say_none(original: Path, base: tuple[str, ...], data: st.DataObject) -> None:
    """Whatever is asked, no file that was there is changed but the ledger, and no value of a row is said."""
    known = [word for param in COMMAND.commands[base[0]].params for word in param.opts if word.startswith("--")]
    options = data.draw(st.lists(st.tuples(st.sampled_from(sorted(set(known) - set(ELSEWHERE))), VALUES), max_size=3))
    changed = list(base)
    if data.draw(st.booleans()):
        changed[data.draw(st.integers(1, len(base) - 1))] = data.draw(VALUES)
    with workplace(original) as folder:
        before = contents(folder.parent)
        code, said = run(*changed, *(word for option in options for word in option))
        assert code in (0, 1, 2, 3)
        assert "Traceback" not in said
        assert "\x1b" not in said
        assert SECRET not in said
        after = contents(folder.parent)
        kept = {name for name in before if name != "inside/budget.db"}
        assert {name for name in kept if before[name] != after.get(name)} == set()
        assert {name for name in after.keys() - before.keys() if not name.startswith("inside/")} == set()


@given(
    st.sampled_from(["show", "verify", "create", "import", "freeze"]), LEDGERS.filter(safe), st.lists(words, max_size=3)
)
@FEWER
def test_processes_of_their_own_end_as_well(original: Path, name: str, place: str, more: list[str]) -> None:
    command = ["ledger", name, place, *more]
    if any("\0" in word or "\ud800" <= word < "\ue000" for word in "".join(command)):
        return  # no process can be given such words
    with workplace(original) as folder:
        before = contents(folder.parent)
        ended = subprocess.run(
            [sys.executable, "-c", "from discreet.cli import main; main()", *command], capture_output=True, check=False
        )
        assert ended.returncode in (0, 2)
        assert b"Traceback" not in ended.stderr + ended.stdout
        after = contents(folder.parent)
        kept = {one for one in before if one not in ("inside/budget.db", f"inside/{place}")}
        assert {one for one in kept if before[one] != after.get(one)} == set()


def mutated(draw: st.DrawFn, tree: Any) -> Any:
    """A JSON value in which one place is something else, or missing."""
    if isinstance(tree, dict) and tree and draw(st.integers(0, 5)):
        key = draw(st.sampled_from(sorted(tree)))
        if not draw(st.integers(0, 5)):
            return {name: value for name, value in tree.items() if name != key}
        return tree | {key: mutated(draw, tree[key])}
    if isinstance(tree, list) and tree and draw(st.integers(0, 3)):
        place = draw(st.integers(0, len(tree) - 1))
        return [mutated(draw, value) if index == place else value for index, value in enumerate(tree)]
    return draw(odd)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """A JSON text with a wrong value, cut off, or with wrong bytes."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.binary(max_size=60))
    if kind == 1:
        return text.encode()[: draw(st.integers(0, len(text)))]
    if kind == 2:
        data = bytearray(text.encode())
        for _ in range(draw(st.integers(1, 3))):
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        return bytes(data)
    return json.dumps(mutated(draw, json.loads(text))).encode()


@given(st.data())
@FUZZ
def test_damaged_certificates(original: Path, data: st.DataObject) -> None:
    with workplace(original) as folder:
        (folder / "model.json").write_bytes(data.draw(damaged((original / "model.json").read_text(encoding="utf-8"))))
        before = contents(folder.parent)
        require_clean(folder, before, ["verify", "model.json", "--ledger", "budget.db"], set())
        outputs = ["--html", "page.html", "--registry", "entry.yaml"]
        require_clean(folder, before, ["report", "model.json", *outputs], {"page.html", "entry.yaml"})


@given(st.data())
@FUZZ
def test_damaged_books(original: Path, data: st.DataObject) -> None:
    lines = (original / "book.jsonl").read_text(encoding="utf-8").splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    with workplace(original) as folder:
        whole = [line.encode() for line in lines]
        whole[place] = data.draw(damaged(lines[place]))
        (folder / "book.jsonl").write_bytes(b"\n".join(whole))
        require_clean(folder, contents(folder.parent), ["ledger", "import", "new.db", "book.jsonl"], {"new.db"})
        book = bytearray((folder / "budget.db").read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            book[data.draw(st.integers(0, len(book) - 1))] = data.draw(st.integers(0, 255))
        (folder / "budget.db").write_bytes(bytes(book[: data.draw(st.integers(0, len(book)))]) or b"x")
        for command in ("show", "verify", "export"):
            require_clean(folder, contents(folder.parent), ["ledger", command, "budget.db"], {"budget.db"})


def bound_again(lines: list[Line]) -> list[str]:
    """The lines with the digests that a writer of such lines would have made."""
    found, head = [], START
    for line in lines:
        made = next_line(head, *line[1:4], line.body, line.charge, line.key)  # type: ignore[arg-type]
        made = made._replace(number=line.number)
        found.append(json.dumps(made))
        head = Head(head.number + 1, made.digest)
    return found


@given(st.data())
@FUZZ
def test_forged_books(original: Path, data: st.DataObject) -> None:
    """Whoever can write the file can make digests that fit; what is read then is still no traceback."""
    first, *rows = (original / "book.jsonl").read_text(encoding="utf-8").splitlines()
    lines = [Line(*json.loads(row)) for row in rows]
    place = data.draw(st.integers(0, len(lines) - 1))
    field = data.draw(st.sampled_from([*Line._fields[:-1], "body", "body", "body"]))
    if field == "body":
        value = json.dumps(mutated(data.draw, json.loads(lines[place].body)))
    else:
        value = data.draw(odd | st.sampled_from(["freeze", "thaw", "end", "use", "summary", "dataset", "survey", 1, 2]))
    lines[place] = lines[place]._replace(**{field: value})
    if data.draw(st.booleans()):
        lines.insert(place, lines[data.draw(st.integers(0, len(lines) - 1))])
        lines = [line._replace(number=number) for number, line in enumerate(lines, start=1)]
    with workplace(original) as folder:
        (folder / "book.jsonl").write_text("\n".join([first, *bound_again(lines)]), encoding="utf-8")
        require_clean(folder, contents(folder.parent), ["ledger", "import", "new.db", "book.jsonl"], {"new.db"})
        for command in ("show", "history", "verify"):
            require_clean(folder, contents(folder.parent), ["ledger", command, "new.db"], set())
        if Path("new.db").exists():
            client = browse(Path("new.db"), None)
            for name in Ledger.datasets("new.db"):
                assert client.get("/dataset", params={"name": name}).status_code in (200, 503)


PATHS = st.one_of(
    st.sampled_from(["/", "/dataset", "/what-if", "/freeze", "/certificates/", "/certificates/model.json"]),
    st.lists(st.sampled_from(["..", "%2e%2e", "%2f", "certificates", "model.json", "budget.db", "%00", "\\", "é", "~"]),
             max_size=6).map(lambda parts: "/" + "/".join(parts)),
)  # fmt: skip
FIELDS = st.dictionaries(
    st.sampled_from(["name", "dataset", "analyst", "epsilon", "delta", "times", "page", "action", "note", "token"]),
    words.filter(lambda word: word.isprintable()) | st.sampled_from(["clinic", "survey", "ann", "freeze", "0.5"]),
    max_size=6,
)
ORIGINS = st.sampled_from([{}, {"origin": "http://evil.example"}, {"origin": "null"}, {"host": "evil.example"},
                           {"origin": "http://localhost:8642"}, {"sec-fetch-site": "cross-site"}])  # fmt: skip


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("site")
    place, certificates = populated(folder)
    (certificates / "model.certificate.json").rename(certificates / "model.json")
    (folder / "model.json").write_text('{"outside": true}')
    one = browse(place, certificates)
    one.folder = folder
    return one


@given(st.sampled_from(["GET", "POST", "HEAD", "PUT", "DELETE"]), PATHS, FIELDS, FIELDS, ORIGINS, st.booleans())
@FUZZ
def test_requests_change_nothing(
    client: Any,
    method: str,
    path: str,
    query: dict[str, str],
    body: dict[str, str],
    headers: dict[str, str],
    knows: bool,
) -> None:
    foreign = headers and headers.get("origin") != "http://localhost:8642"
    if knows and foreign:  # even with the token, a request of another site changes nothing
        body = {"dataset": "clinic", "action": "freeze"} | body | {"token": TOKEN}
    before = contents(client.folder)
    answer = client.request(method, path, params=query, data=body if method == "POST" else None, headers=headers)
    assert answer.status_code in (200, 303, 307, 400, 403, 404, 405, 413, 415, 421)
    assert "Traceback" not in answer.text
    assert "outside" not in answer.text
    assert "SQLite format" not in answer.text
    assert contents(client.folder) == before


@given(st.data())
@FUZZ
def test_damaged_certificates_in_the_folder(client: Any, data: st.DataObject) -> None:
    good = client.folder / "certificates" / "model.json"
    bad = client.folder / "certificates" / "damaged.json"
    bad.write_bytes(data.draw(damaged(good.read_text(encoding="utf-8"))))
    try:
        assert client.get("/").status_code == 200
        assert client.get("/dataset?name=clinic").status_code == 200
        answer = client.get("/certificates/damaged.json")
        assert answer.status_code in (200, 400)
        assert "<b>" not in answer.text
    finally:
        bad.unlink()
