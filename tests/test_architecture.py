"""The house rules of docs/architecture.md: rooms, sizes, imports, wording, and the walk of one fit."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import discreet
from discreet.recipes import RECIPES

SOURCE = Path(discreet.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
DEPENDENT = ("The same", "Of the", "Likewise", "As above", "Their ", "Its ", "Numbers in")
"""First words of a docstring that refers to another one, which an API page does not show beside it."""


@cache
def modules() -> dict[str, tuple[Path, ast.Module]]:
    """Every module of the library by its full name, with its file and syntax tree."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = (file, ast.parse(file.read_text(encoding="utf-8")))
    return found


# --- the page ---------------------------------------------------------------------------------------------------------


def rooms() -> set[str]:
    return {name.split(".")[1] for name in modules() if "." in name and not name.startswith("discreet._")}


def named(text: str) -> list[str]:
    """Names such as ``vault.Vault.run`` in backticks whose first part is a room, in the order of the text."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    found = [word.removeprefix("discreet.") for word in re.findall(r"`((?:discreet\.)?[a-z_]+(?:\.\w+)+)`", prose)]
    return [name for name in found if name.split(".")[0] in rooms() and not name.endswith((".py", ".md"))]


def resolved(name: str) -> Any:
    """What a name such as ``vault.Vault.run`` stands for: a module, or an attribute of the longest module in it."""
    parts = ["discreet", *name.split(".")]
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in modules():
            found: Any = importlib.import_module(".".join(parts[:end]))
            rest = parts[end:]
            break
    if not rest:  # a module; a function of the same name in the package comes first, as it does for users
        found = getattr(importlib.import_module(".".join(parts[:-1])), parts[-1], found)
    for part in rest:
        found = getattr(found, part)
    return found


def code(name: str) -> CodeType:
    """The code that runs when what is named is called; for a class, that which makes an instance."""
    found = resolved(name)
    if inspect.isclass(found):
        found = found.__post_init__ if hasattr(found, "__post_init__") else found.__init__
    unwrapped = inspect.unwrap(getattr(found, "__func__", found))
    assert isinstance(unwrapped.__code__, CodeType)
    return unwrapped.__code__


def walk() -> list[str]:
    return named(PAGE.split("## The walk of one fit")[1].split("\n## ")[0])


def test_everything_that_the_page_names_exists() -> None:
    assert len(named(PAGE)) > 50
    for name in named(PAGE):
        assert resolved(name) is not None


def test_the_page_has_every_room_with_one_line() -> None:
    tree = PAGE.split("src/discreet/\n")[1].split("```")[0]
    listed = [line.split()[0].rstrip("/").removesuffix(".py") for line in tree.splitlines() if line[2] != " "]
    assert len(listed) == len(set(listed))
    assert set(listed) == rooms()
    inner = {line.split()[0].rstrip("/") for line in tree.splitlines() if line[2] == " "}
    assert inner == {
        file.parent.name for room in ("queries", "solvers") for file in SOURCE.glob(f"{room}/*/__init__.py")
    }


FIT = """
import sys
from pathlib import Path
import numpy as np
import discreet as dp

rng = np.random.default_rng(0)
X, y = rng.normal(size=(400, 5)), rng.integers(0, 3, 400)
ledger = dp.Ledger(epsilon=20.0, delta=1e-3, adjacency="replace-one")
model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1, 2], alpha=0.01, ledger=ledger)
model.fit(X, y)  # what is imported on first use
root, calls = str(Path(dp.__file__).parent), {}

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root):
        calls.setdefault((code.co_filename[len(root) + 1:], code.co_firstlineno, code.co_qualname))

sys.setprofile(note)
model.fit(X, y)
sys.setprofile(None)
for file, line, name in calls:
    print(file, line, name.replace(" ", ""))
"""


@cache
def first_calls() -> list[tuple[str, int, str]]:
    """(file, line, name) of every function that the fit of the page calls, in the order of first calls."""
    result = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True)
    found = (line.split(" ") for line in result.stdout.splitlines())
    return [(file, int(line), name) for file, line, name in found]


def test_the_walk_lists_functions_in_the_order_of_their_first_calls() -> None:
    order = first_calls()
    places = []
    for name in walk():
        found = code(name)
        file = str(Path(found.co_filename).relative_to(SOURCE))
        places.append(order.index((file, found.co_firstlineno, found.co_qualname)))
    assert len(places) > 40
    assert places == sorted(places), [name for name, a, b in zip(walk()[1:], places, places[1:], strict=False) if b < a]


def test_the_walk_enters_rooms_in_the_order_of_a_fit_and_leaves_none_out() -> None:
    visited = list(dict.fromkeys(re.split(r"[/.]", file)[0] for file, _, _ in first_calls()))
    assert list(dict.fromkeys(name.split(".")[0] for name in walk())) == visited


# --- imports ----------------------------------------------------------------------------------------------------------


def imports(name: str) -> set[str]:
    """The modules of the library that a module imports, inside functions too, but not for type checkers alone."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            return
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules() else str(node.module))
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(modules()[name][1])
    return {other for other in found if other in modules() and other != name}


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """Modules that are left when those are taken away, again and again, whose imports are all gone."""
    left = dict(graph)
    while gone := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in gone}
    needed_by_some = set(left)
    while unused := needed_by_some - {other for name in needed_by_some for other in left[name]}:
        needed_by_some -= unused
    return sorted(needed_by_some)


def test_there_are_no_import_cycles() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    assert cycles({name: imports(name) for name in modules()}) == []


# --- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_fits_into_few_screens(name: str) -> None:
    file, _ = modules()[name]
    assert len(file.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_functions_of_solvers_recipes_and_planning_fit_on_one_screen() -> None:
    long = [
        f"{name}.{node.name}"
        for name, (_, tree) in modules().items()
        if name.startswith(("discreet.solvers", "discreet.recipes", "discreet.planning"))
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION  # type: ignore[operator]
    ]
    assert long == []


# --- choices ----------------------------------------------------------------------------------------------------------

NAMES_SOLVERS = {
    "discreet.planning.auto": "the rules",
    "discreet.recipes": "the registry",
    "discreet.recipes.boosted": "the solvers that may be boosted, an option of the user",
    "discreet.planning.options": "options of boosted that are options of another solver",
    "discreet.estimators.regressors": "Lasso asks whether the user named frank_wolfe, whose constant column it sets",
}
"""Modules whose code may contain the name of a solver as text, and why."""


def test_only_the_rules_of_auto_name_solvers() -> None:
    """Names in ``__all__`` choose nothing, nor do those in a solver's ``check``, which says what else to use."""
    for name, (_, tree) in modules().items():
        if name in NAMES_SOLVERS:
            continue
        harmless = set()
        for node in ast.walk(tree):
            exported = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
            refused = isinstance(node, ast.FunctionDef) and node.name == "check"
            if exported or refused:
                harmless.update(id(inner) for inner in ast.walk(node))
        named = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in RECIPES and id(node) not in harmless
        ]
        assert named == [], name


# --- words ------------------------------------------------------------------------------------------------------------


def test_the_first_line_of_every_docstring_stands_alone() -> None:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    dependent = [
        f"{name}.{getattr(node, 'name', '')}: {text.splitlines()[0]}"
        for name, (_, tree) in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and (text := ast.get_docstring(node)) and text.startswith(DEPENDENT)
    ]
    assert dependent == []


# --- names in the documentation ---------------------------------------------------------------------------------------

DOCUMENTS = sorted([*(SOURCE.parents[1] / "docs").rglob("*.md"), *SOURCE.parents[1].glob("*.md")])


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_modules_and_files_that_a_page_names_exist(document: Path) -> None:
    if document.name in ("CHANGELOG.md", "changelog.md"):  # the past has the names of its time
        return
    prose = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name in re.findall(r"`discreet\.([\w.]+)`", prose):
        assert resolved(name) is not None
    for name in re.findall(r"`((?:bench|docs|src|tests)/[\w./-]+\.\w+)`", prose):
        assert "NAME" in name or (SOURCE.parents[1] / name).exists(), name
