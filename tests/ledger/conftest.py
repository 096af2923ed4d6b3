"""A real PostgreSQL server, one for each test process; every test gets a database of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest


@dataclass
class Server:
    """A server that listens on a socket in its own folder."""

    binaries: Path
    folder: Path

    def _run(self, *command: str) -> None:
        # PostgreSQL refuses to run as root
        prefix = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        subprocess.run([*prefix, *command], check=True, capture_output=True, cwd="/")

    def create(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        owner = "postgres" if os.geteuid() == 0 else getpass.getuser()
        data = str(self.folder / "data")
        self._run(str(self.binaries / "initdb"), "-D", data, "-U", owner, "-A", "trust", "--no-instructions")

    def control(self, action: str) -> None:
        socket = f"-k {self.folder} -c listen_addresses='' -c max_connections=60"
        log = str(self.folder / "log")
        command = [
            str(self.binaries / "pg_ctl"),
            "-D",
            str(self.folder / "data"),
            "-w",
            "-t",
            "300",
            "-l",
            log,
            "-m",
            "immediate",
        ]
        self._run(*command, "-o", socket, action)

    def url(self, database: str = "postgres") -> str:
        owner = "postgres" if os.geteuid() == 0 else getpass.getuser()
        return f"postgresql://{owner}@/{database}?host={self.folder}"


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A running PostgreSQL server, installed by ``make test`` where it is missing."""
    found = shutil.which("initdb") or next(
        iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))), None
    )
    assert found, "PostgreSQL is not installed: `make test` installs it, or apt-get install postgresql"
    folder = Path(tempfile.mkdtemp(prefix="discreet-pg-"))
    one = Server(Path(found).parent, folder)
    one.create()
    one.control("start")
    yield one
    one.control("stop")
    shutil.rmtree(folder, ignore_errors=True)


_numbers = count()


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """The address of an empty database."""
    import psycopg

    from discreet.ledger import postgres

    name = f"book_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    address = server.url(name)
    yield address
    postgres._pool(postgres.PostgresStore(address).address, os.getpid(), 60).dispose()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that outlives its process, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'budget.db'}"
    found: str = request.getfixturevalue("database")
    return found


@pytest.fixture
def in_children() -> Callable[[list[Callable[[], object]]], list[int]]:
    """Run each function in a forked process, all at once; their exit codes, negative for signals."""

    def run(functions: list[Callable[[], object]]) -> list[int]:
        children = []
        for function in functions:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    code = int(function() or 0)  # type: ignore[call-overload]
                finally:
                    os._exit(code)
            children.append(child)
        return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

    return run
