"""What a ledger costs: latency of a charge, composition of long books, recovery after a crash.

    python bench/ledger.py                # both stores; writes bench/results/ledger.*
    python bench/ledger.py --quick        # fewer charges and shorter books; writes nothing

The PostgreSQL server is a fresh one in a temporary folder, with its defaults (commits are on disk). A charge is that
of a default logistic fit, which states its (ε, δ). Sixteen processes charge the same dataset at once; each charge waits
for the others. A long book is written line by line without the disk's syncs, then opened as any ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peers as shared

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from discreet.events import ObjectivePerturbation  # noqa: E402
from discreet.ledger import Ledger  # noqa: E402
from discreet.ledger.book import Book  # noqa: E402
from discreet.ledger.lines import as_text, next_line  # noqa: E402

FIT = ObjectivePerturbation(48.38676375877951, 0.02326524068456463, deviation=0.0006666666660000002)
STATED = (0.1999999999, 9.37499999e-08)
BUDGET = {"epsilon": 1e6, "delta": 1e-6, "adjacency": "replace-one"}


def charges(place: str, number: int) -> list[float]:
    """Milliseconds of each charge."""
    ledger = Ledger(place)
    found = []
    for _ in range(number):
        begun = time.perf_counter()
        ledger.charge(FIT, "replace-one", stated=STATED)
        found.append((time.perf_counter() - begun) * 1e3)
    return found


def in_processes(place: str, processes: int, number: int) -> tuple[list[float], float]:
    """Milliseconds of each charge of several processes, and charges a minute of all together."""
    begun = time.perf_counter()
    readers = []
    for _ in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            with os.fdopen(writing, "w") as out:
                json.dump(charges(place, number), out)
            os._exit(0)
        os.close(writing)
        readers.append(os.fdopen(reading))
    found = [value for reader in readers for value in json.load(reader)]
    for _ in range(processes):
        os.wait()
    return found, 60 * len(found) / (time.perf_counter() - begun)


def long_book(place: str, number: int) -> float:
    """Seconds from opening a book of ``number`` charges to the ε of all of them."""
    ledger = Ledger(place, **BUDGET)  # type: ignore[arg-type]
    facts = {"event": FIT.to_json(), "relation": "replace-one", "rows": 1, "note": "weekly", "stated": STATED}
    facts |= {"analyst": "", "protective": True}
    body = as_text(facts)
    with ledger._store.transaction(write=True) as lines:
        head, book = lines.head(), Book(ledger._accountant)
        book.follow(lines, place)
        for charge in range(1, number + 1):
            line = next_line(head, "2026-01-01", "default", "charge", body, charge)
            lines.append(line)
            book.take(line, place)
            head = line.head
            if charge % 512 == 0:
                line = next_line(head, "2026-01-01", "", "summary", as_text(book.to_dict()))
                lines.append(line)
                book.take(line, place)
                head = line.head
    begun = time.perf_counter()
    Ledger(place).spent()
    return time.perf_counter() - begun


def recovery(place: str) -> float:
    """Milliseconds to the first answer after a writer was killed inside its transaction."""
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        ledger = Ledger(place)
        with ledger._lines(write=True) as lines:
            for _ in range(200):
                ledger._write(lines, "freeze", {"note": "x" * 2000})
            os.write(tell, b"!")
            time.sleep(60)
        os._exit(1)
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    begun = time.perf_counter()
    assert Ledger(place).frozen is None
    return (time.perf_counter() - begun) * 1e3


def measure(name: str, place: Callable[[], str], quick: bool) -> dict[str, Any]:
    number, sizes = (40, [100, 1000]) if quick else (400, [1000, 10_000, 100_000])
    rows: dict[str, Any] = {"store": name}
    for processes in (1, 16):
        url = place()
        Ledger(url, **BUDGET).charge(FIT, "replace-one", stated=STATED)  # type: ignore[arg-type]
        found, rate = in_processes(url, processes, number if processes == 1 else max(number // 16, 4))
        rows[f"p50 ms, {processes}"] = statistics.median(found)
        rows[f"p95 ms, {processes}"] = sorted(found)[int(0.95 * len(found))]
        rows[f"charges a minute, {processes}"] = rate
    for size in sizes:
        rows[f"{size} entries, s"] = long_book(place(), size)
    url = place()
    Ledger(url, **BUDGET)  # type: ignore[arg-type]
    rows["recovery ms"] = recovery(url)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    from tests.ledger.conftest import Server

    folder = Path(tempfile.mkdtemp(prefix="discreet-ledger-", dir=ROOT.parent))
    files, databases = iter(range(1000)), iter(range(1000))
    binaries = Path(max(map(str, Path("/usr/lib/postgresql").glob("*/bin"))))
    server = Server(binaries, Path(tempfile.mkdtemp(prefix="discreet-pg-")))
    server.create()
    server.control("start")

    def database() -> str:
        import psycopg

        name = f"book{next(databases)}"
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return server.url(name)

    try:
        rows = [
            measure("SQLite", lambda: str(folder / f"{next(files)}.db"), quick),
            measure("PostgreSQL", database, quick),
        ]
    finally:
        server.control("stop")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(server.folder, ignore_errors=True)
    sqlite, postgres = rows
    largest = next(name for name in reversed(sqlite) if "entries" in name)
    targets = [
        ("p95 of a charge on SQLite, ms", sqlite["p95 ms, 1"], 50.0),
        ("p95 of a charge on PostgreSQL, ms", postgres["p95 ms, 1"], 20.0),
        (f"{largest} on SQLite", sqlite[largest], 1.0),
        (f"{largest} on PostgreSQL", postgres[largest], 1.0),
        ("minutes for 10 000 charges on SQLite", 10_000 / sqlite["charges a minute, 1"], 1.0),
    ]
    judged = shared.verdicts(targets)
    table = shared.markdown(
        ["", *(row["store"] for row in rows)],
        [[name, f"{sqlite[name]:.4g}", f"{postgres[name]:.4g}"] for name in list(sqlite)[1:]],
    )
    text = f"{table}\n\n{shared.verdict_table(judged)}"
    print(text)
    if not quick:
        shared.write("ledger", "What a ledger costs", text, {"rows": rows, "targets": judged})
    sys.exit(not quick and any(got > most for _, got, most in targets))


if __name__ == "__main__":
    main()
