"""All randomness that protects data comes from `discreet.noise`: no other generator is used on the way.

The source is read, not run. Every file of the package is searched for other generators; those in `ALLOWED` may use
one, each for the reason given, and then nothing that protects data may import them.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import discreet

PACKAGE = Path(discreet.__file__).parent

#: Files that may use an ordinary generator, and why that touches no protected value.
ALLOWED: dict[str, str] = {
    "estimators/simulation.py": "synthetic rows of a declared shape, by a public seed; no private row is there",
    "torch/slots.py": "the seed of dropout on made-up examples, the same in repeated runs; no private row is there",
    "estimators/public_metrics.py": "quantiles of laws, for intervals; nothing is drawn",
}

#: Rooms and modules through which protected values pass.
PROTECTING = ("noise", "mechanisms", "measurements", "queries", "data", "vault")

_MODULES = {"random", "numpy.random", "secrets", "uuid", "torch.random", "torch.distributions", "scipy.stats"}
_NUMPY = {"np", "numpy"}
_TORCH_DRAWS = {
    "bernoulli", "multinomial", "normal", "poisson", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "manual_seed", "Generator",
}  # fmt: skip
_METHODS = {
    "rvs",
    "default_rng",
    "RandomState",
    "check_random_state",
    "normal_",
    "uniform_",
    "bernoulli_",
    "exponential_",
}


def other_generators(source: str) -> list[str]:
    """Uses of any generator other than discreet's own, as "line: what"."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [f"{node.lineno}: import {a.name}" for a in node.names if a.name in _MODULES]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = {f"{node.module}.{a.name}" for a in node.names}
            if node.module in _MODULES or names & _MODULES:
                found.append(f"{node.lineno}: from {node.module} import …")
            if node.module == "torch" and {a.name for a in node.names} & _TORCH_DRAWS:
                found.append(f"{node.lineno}: from torch import …")
            found += [f"{node.lineno}: import {a.name}" for a in node.names if a.name in _METHODS]
        elif isinstance(node, ast.Attribute):
            base = node.value.id if isinstance(node.value, ast.Name) else None
            if (
                (base in _NUMPY and node.attr == "random")
                or (base == "torch" and node.attr in _TORCH_DRAWS)
                or node.attr in _METHODS
                or (base == "os" and node.attr in {"urandom", "getrandom"})
            ):
                found.append(f"{node.lineno}: {base or '…'}.{node.attr}")
        elif isinstance(node, ast.Name) and node.id in _METHODS:
            found.append(f"{node.lineno}: {node.id}")
    return found


def imports(source: str) -> set[str]:
    """The modules of this package that a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
    return {name for name in found if name.split(".")[0] == "discreet"}


def _files() -> dict[str, str]:
    return {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def _path_of(module: str) -> tuple[str, str]:
    stem = "/".join(module.split(".")[1:])
    return f"{stem}.py", f"{stem}/__init__.py"


def test_no_file_uses_another_generator() -> None:
    offenders = {
        name: uses
        for name, source in _files().items()
        if name not in ALLOWED and name != "noise/bits.py" and (uses := other_generators(source))
    }
    assert offenders == {}


def test_only_the_source_of_bits_asks_the_operating_system() -> None:
    uses = other_generators(_files()["noise/bits.py"])
    assert [use.split(": ")[1] for use in uses] == ["os.urandom"]


def test_exceptions_exist_and_are_needed() -> None:
    files = _files()
    assert [name for name in ALLOWED if name not in files or not other_generators(files[name])] == []


def test_nothing_that_protects_imports_an_exception() -> None:
    files = _files()
    reached = {name for name in files if name.split("/")[0].removesuffix(".py") in PROTECTING}
    assert "noise/gaussian.py" in reached
    frontier = list(reached)
    while frontier:
        for module in imports(files[frontier.pop()]):
            for path in _path_of(module):
                if path in files and path not in reached:
                    reached.add(path)
                    frontier.append(path)
    assert reached & set(ALLOWED) == set()


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import numpy as np\nnp.random.normal()",
        "from numpy.random import default_rng",
        "from numpy import random",
        "import numpy.random as r",
        "import torch\ntorch.randn(3)",
        "from torch import randn",
        "x.normal_()",
        "from scipy import stats",
        "from scipy.stats import norm",
        "def f():\n    from random import gauss",
        "from sklearn.utils import check_random_state",
        "import os\nos.urandom(3)",
        "import secrets",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert other_generators(source)


@pytest.mark.parametrize(
    "source", ["from discreet.noise import Bits", "import numpy as np\nnp.sort([1])", "x.random_state = 3"]
)
def test_the_search_finds_nothing_else(source: str) -> None:
    assert not other_generators(source)
