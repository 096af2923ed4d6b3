"""The certificate as a page, a registry entry and a signed document; and the risks that it states."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import norm
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app
from discreet.events import Gaussian, NonPrivate, PureDP
from discreet.report.certificate import Certificate
from discreet.report.risks import Risks
from discreet.units import Unit

UNIT = Unit("add-remove")
RUN = CliRunner()


def made(**changes: object) -> Certificate:
    facts = {"epsilon": 1.0, "delta": 1e-6, "unit": UNIT, "event": Gaussian(6.0), "solver": "descent"} | changes
    return Certificate(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("mu", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1])
def test_hits_of_a_gaussian_release_are_those_of_the_best_test(mu: float, rate: float) -> None:
    exact = norm.cdf(norm.ppf(rate) + mu)
    found = Risks(Gaussian(1 / mu), UNIT).hits(rate)
    assert exact * (1 - 1e-12) <= found <= exact * 1.02 + 1e-4


def test_advantage_and_reconstruction_are_bounds() -> None:
    risks = Risks(PureDP(1.0), UNIT)
    assert risks.advantage == pytest.approx((math.e - 1) / (math.e + 1))
    assert 0.1 * math.e * (1 - 1e-9) <= risks.reconstruction(0.1) <= 0.1 * math.e * 1.05
    assert Risks(NonPrivate(), UNIT).hits(0.001) == 1.0
    assert "protects nobody" in Risks(NonPrivate(), UNIT).in_words


class Checked(HTMLParser):
    """Collects tags and what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "onclick", "action")]


def test_the_page_has_no_scripts_no_links_and_no_markup_of_others() -> None:
    hostile = "<script>alert(1)</script>"
    record = {"model": hostile, "dataset": hostile, "ledger": {"url": hostile}}
    page = made(record=record, unprotected=(hostile,)).to_html()
    checked = Checked(page)
    assert "script" not in checked.tags
    assert checked.links == []
    assert "http" not in page
    assert hostile not in page
    for words in ("Differentially private", "ε at δ = 1e-06", "added or removed", "What is not protected"):
        assert words in page


@pytest.mark.parametrize("wrong", [3, "x", [1], {"a": {}}, None, True])
def test_a_record_that_others_wrote_is_shown_or_left_out(wrong: object) -> None:
    names = ("issued", "model", "dataset", "rows", "ledger", "randomness", "noise", "versions")
    for record in (dict.fromkeys(names, wrong), {"ledger": {"charges": wrong, "url": wrong, "head": wrong}}):
        found = Certificate.from_json(json.dumps(made().to_dict() | {"record": record}))
        assert "Differentially private" in found.to_html()
        assert yaml.safe_load(found.to_registry())["status"] == "Draft"


def test_a_page_of_a_run_that_protects_nobody_says_so_first() -> None:
    page = made(protective=False).to_html()
    assert page.index("Not private.") < page.index("The guarantee")
    assert "protects nobody" in page


REGISTRY = {
    "basic": {"name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description",
              "publication_date", "data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "deployment_model": {"model_name", "model_name_details", "actors", "release_type", "release_type_details",
                         "data_source_type", "data_source_type_details", "access_type", "access_type_details"},
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "registry_authors"},
}  # fmt: skip
"""The fields of an entry, as the registry's own entries of September 2026 have them."""
OPTIONAL = {"data_product_sector", "model_name_details", "actors", "release_type_details", "data_source_type_details",
            "access_type_details"}  # fmt: skip


def test_the_registry_entry_is_yaml_with_the_registrys_fields() -> None:
    entry = yaml.safe_load(made(record={"model": "LogisticRegression", "issued": "2026-11-16T10:00:00"}).to_registry())
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    parts = entry["deployment"]
    assert list(parts) == list(REGISTRY)
    for name, fields in REGISTRY.items():
        assert fields - OPTIONAL <= set(parts[name]) <= fields
    (curator,) = parts["basic"]["data_curators"]
    assert set(curator) == {"data_curator_name", "data_curator_type"}
    parameters = parts["privacy_loss"]["privacy_parameters"]
    assert {"epsilon": 1.0, "delta": 1e-6}.items() <= parameters.items()
    assert set(parameters) <= {"epsilon", "delta", "rho"}
    assert parts["dp_variant"]["variant_name"] == "Approximate DP"
    assert parts["basic"]["publication_date"] == "2026-11-16"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(*words: str) -> str:
    result = RUN.invoke(app, list(words))
    assert result.exit_code != 0
    return str(result.exception)


def test_a_fit_is_signed_found_in_its_ledger_and_a_change_is_noticed(folder: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(500, 2))
    ledger = dp.Ledger("budget.db", epsilon=2.0, delta=1e-5, adjacency="replace-one")
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[False, True], ledger=ledger)
    model.fit(rows, rows[:, 0] > 0)
    Path("c.json").write_text(model.privacy_.to_json())
    record = json.loads(Path("c.json").read_text())["record"]
    assert record["ledger"]["charges"] == [1]
    assert record["ledger"]["head"] == str(ledger.head)
    key = RUN.invoke(app, ["report", "--new-key", "key.pem"]).output.split()[-1]
    assert Path("key.pem").stat().st_mode & 0o077 == 0
    wrote = RUN.invoke(app, ["report", "c.json", "--sign", "key.pem", "--signed", "s.json", "--html", "c.html"])
    assert wrote.exit_code == 0, wrote.exception
    checked = RUN.invoke(app, ["verify", "s.json", "--key", key, "--ledger", "budget.db"])
    assert checked.exit_code == 0, checked.exception
    assert key in checked.output.replace("\n", "")
    assert "not signed" in refused("verify", "c.json", "--key", key)
    Path("t.json").write_text(Path("s.json").read_text().replace('"delta": 1e-06', '"delta": 1e-05'))
    assert "changed" in refused("verify", "t.json")
    said = json.loads(Path("c.json").read_text())
    Path("u.json").write_text(json.dumps(said | {"epsilon": 0.5}))
    assert "costs" in refused("verify", "u.json")
    Path("budget.db").unlink()
    assert "no book" in refused("verify", "s.json", "--ledger", "budget.db")
    assert Certificate.from_json(Path("s.json").read_text()) == model.privacy_
    assert "never written over" in refused("report", "--new-key", "key.pem")
