"""Tuned numbers and their evidence: each has a source, and what a sweep decides is in the sweep's stored table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import Field, fields
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import discreet
from discreet.planning.auto import RULES
from discreet.tuned import Tuned

BENCH = Path(__file__).parents[2] / "bench"
STORED = json.loads((BENCH / "results" / "defaults.json").read_text())["sweeps"]

MOST = 82
"""As many tuned numbers as there are: a new one must replace another, and one that is removed lowers it."""


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Any:
    """The module ``bench/defaults.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        yield import_module("defaults")
    for name in ("defaults", "peers", "synthetic"):
        sys.modules.pop(name, None)


def tuned_fields() -> dict[str, Field[Any]]:
    """All fields of all tuned numbers in the library, by ``module.field`` as a sweep names them."""
    for module in walk_packages(discreet.__path__, "discreet."):
        import_module(module.name)
    kinds = [kind for kind in Tuned.kinds if kind.__module__.startswith("discreet.")]
    return {f"{kind.__module__.removeprefix('discreet.')}.{f.name}": f for kind in kinds for f in fields(kind)}


FIELDS = tuned_fields()


def test_there_are_no_more_tuned_numbers_than_before() -> None:
    assert len(FIELDS) == MOST


@pytest.mark.parametrize("where", FIELDS)
def test_every_number_has_a_meaning_and_a_source(where: str) -> None:
    facts = FIELDS[where].metadata
    kind, _, reason = facts["source"].partition(": ")
    assert kind in ("theorem", "sweep", "judgement")
    assert reason
    assert facts["meaning"]


@pytest.mark.parametrize("where", [w for w, f in FIELDS.items() if f.metadata["source"].startswith("sweep: ")])
def test_the_sweep_that_a_number_names_varies_that_number(bench: Any, where: str) -> None:
    named = FIELDS[where].metadata["source"].removeprefix("sweep: ")
    assert [sweep.where for sweep in bench.SWEEPS if sweep.key == named] == [where]


def test_the_sweeps_that_rules_name_exist(bench: Any) -> None:
    named = [word for rule in RULES if rule.evidence.startswith("sweep") for word in rule.evidence.split()[1:]]
    assert named
    assert {key.strip(",;") for key in named} - {sweep.key for sweep in bench.SWEEPS} == set()


def test_no_two_sweeps_share_a_key(bench: Any) -> None:
    assert [key for key, count in Counter(sweep.key for sweep in bench.SWEEPS).items() if count > 1] == []


def test_every_sweep_has_a_stored_table(bench: Any) -> None:
    assert [sweep.key for sweep in bench.SWEEPS if sweep.key not in STORED] == []


def test_every_stored_table_is_that_of_a_sweep(bench: Any) -> None:
    assert set(STORED) - {sweep.key for sweep in bench.SWEEPS} == set()


def test_every_stored_table_has_the_value_in_use(bench: Any) -> None:
    stored = [sweep for sweep in bench.SWEEPS if sweep.key in STORED]
    lacking = {s.key: s.present for s in stored if bench._named(s.present) not in STORED[s.key]["values"]}
    assert lacking == {}


def test_stored_tables_have_a_loss_for_each_value_in_each_cell() -> None:
    for key, found in STORED.items():
        assert found["cells"], key
        assert {len(losses) for losses in found["cells"].values()} == {len(found["values"])}, key
