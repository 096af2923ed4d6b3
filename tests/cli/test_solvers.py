"""The rules of "auto" are one table: in the terminal, as JSON, and in the documentation."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from discreet.cli import app
from discreet.cli.solvers import rules_as_markdown
from discreet.planning.auto import RULES
from discreet.recipes import RECIPES

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "solvers.md"


def test_the_table_shows_every_rule() -> None:
    result = CliRunner().invoke(app, ["solvers"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert all(rule.label in result.output for rule in RULES)


def test_json_has_all_rules_in_order() -> None:
    found = json.loads(CliRunner().invoke(app, ["solvers", "--json"]).output)
    assert [(rule["solver"], rule["scales"]) for rule in found] == [(rule.solver, rule.scales) for rule in RULES]


def test_the_documentation_shows_the_same_table() -> None:
    assert CliRunner().invoke(app, ["solvers", "--markdown"]).output.strip() == rules_as_markdown()
    assert rules_as_markdown() in DOCS.read_text(encoding="utf-8")


def test_every_rule_names_a_solver_and_says_why() -> None:
    for rule in RULES:
        assert rule.solver in RECIPES
        assert rule.condition
        assert rule.why
        assert rule.evidence
