"""No tuned number is undocumented: the page of all numbers is made from the code, and compared with it."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli import app
from discreet.cli.numbers import numbers_as_markdown, tuned_kinds
from discreet.data.encoding import DEFAULT_BINS
from discreet.tuned import Tuned

PAGE = Path(__file__).parents[2] / "docs" / "tuned-numbers.md"
BENCHMARKS = PAGE.with_name("benchmarks.md")
SOURCE = Path(discreet.__file__).parent


def test_the_page_has_the_numbers_of_the_code() -> None:
    assert CliRunner().invoke(app, ["solvers", "--numbers"]).output.strip() == numbers_as_markdown()
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{numbers_as_markdown()}\n")


def test_no_dataclass_of_numbers_is_left_out() -> None:
    written = {
        (".".join(file.relative_to(SOURCE.parent).with_suffix("").parts), node.name)
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Tuned" for base in node.bases)
    }
    assert {(kind.__module__, kind.__name__) for kind in tuned_kinds()} == written


@pytest.mark.parametrize("kind", tuned_kinds(), ids=lambda kind: kind.__name__)
def test_every_number_has_a_meaning_and_a_source(kind: type[Tuned]) -> None:
    assert fields(kind)
    for field in fields(kind):
        assert len(field.metadata["meaning"]) >= 10, field.name
        assert field.metadata["source"].startswith(("theorem: ", "sweep: ", "judgement: ")), field.name
        assert not field.metadata["meaning"].lower().startswith(("the same", "of the", "likewise")), field.name


def test_the_table_of_sets_that_had_been_looked_at_has_numbers_of_the_code() -> None:
    section = BENCHMARKS.read_text(encoding="utf-8").split("### Which numbers")[1].split("\n### ")[0]
    listed = re.findall(r"^\| `([\w.]+)\.(\w+)` \| ([^|]+) \|", section, flags=re.MULTILINE)
    assert len(listed) > 20
    defaults = {
        (kind.__module__.removeprefix("discreet."), field.name): field.default
        for kind in tuned_kinds()
        for field in fields(kind)
    }
    defaults["data.encoding", "DEFAULT_BINS"] = DEFAULT_BINS
    for module, name, value in listed:
        assert float(value) == defaults[module, name], name
