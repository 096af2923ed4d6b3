"""What benchmark scripts share: environments for peers, the machine's description, results as files.

A script keeps its peers' code in functions of its own and calls them by
``in_environment(Environment(…), __file__, "function", …)``. Such a function imports its peer itself, takes and returns
what JSON can hold, and runs in a subprocess, in an environment that is created once: ``.venv-bench-NAME`` in the
repository's root.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
_CALL = "import sys; sys.path.insert(0, sys.argv[1]); import peers; peers.answer()"


@dataclass(frozen=True)
class Environment:
    """A virtual environment: ``name``, pinned ``requirements``, further ``indexes`` to look in."""

    name: str
    requirements: Sequence[str]
    indexes: Sequence[str] = ()

    @property
    def folder(self) -> Path:
        return ROOT / f".venv-bench-{self.name}"

    def python(self) -> Path:
        """Its interpreter; created and filled when it is missing or its requirements have changed."""
        python, stamp = self.folder / "bin" / "python", self.folder / "requirements.sha256"
        wanted = hashlib.sha256("\n".join([*self.requirements, *self.indexes]).encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"preparing {self.folder.name} …", file=sys.stderr, flush=True)
            venv.create(self.folder, with_pip=True, clear=True)
            where = [option for index in self.indexes for option in ("--extra-index-url", index)]
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--retries", "1", *where, *self.requirements], check=True
            )
            stamp.write_text(wanted)
        return python


def in_environment(environment: Environment, script: str, function: str, **arguments: Any) -> Any:
    """function(**arguments) of ``script``, run by the environment's interpreter."""
    request = json.dumps({"script": str(Path(script).resolve()), "function": function, "arguments": arguments})
    command = [str(environment.python()), "-c", _CALL, str(Path(__file__).parent)]
    done = subprocess.run(command, input=request, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{function} failed in {environment.folder.name}; its message is above.")
    return json.loads(done.stdout.splitlines()[-1])


def answer() -> None:
    """The subprocess's side: reads a request from standard input, prints the answer as its last line."""
    request = json.load(sys.stdin)
    spec = importlib.util.spec_from_file_location("bench_script", request["script"])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, request["function"])(**request["arguments"])))


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions of packages, of this interpreter."""
    return {package: metadata.version(package) for package in packages}


def machine() -> dict[str, Any]:
    """The machine, as far as the figures depend on it."""
    model, memory = platform.processor() or platform.machine(), 0
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load when finished": round(os.getloadavg()[0], 1),
        "memory in GB": round(memory / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; numbers align to the right."""
    body = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def verdicts(targets: Iterable[tuple[str, float, float]]) -> list[dict[str, Any]]:
    """Each (what, measured, at most) with whether it is met."""
    return [{"target": what, "at most": most, "measured": got, "met": got <= most} for what, got, most in targets]


def verdict_table(judged: Iterable[dict[str, Any]]) -> str:
    """The targets as a table."""
    rows = [[v["target"], float(v["at most"]), float(v["measured"]), "yes" if v["met"] else "NO"] for v in judged]
    return markdown(["target", "at most", "measured", "met"], rows)


def write(name: str, title: str, text: str, results: dict[str, Any]) -> None:
    """Print the text, and keep it with the machine's description in ``bench/results/name.{json,md}``."""
    RESULTS.mkdir(exist_ok=True)
    found = {"machine": machine(), **results}
    (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n")
    described = ", ".join(f"{key} {value}" for key, value in found["machine"].items())
    print(text)
    print(f"\n{described}")
    (RESULTS / f"{name}.md").write_text(f"# {title}\n\n{text}\n\nMachine: {described}.\n")
