"""Every item of a certificate, on JSON, page, card and registry entry, for certificates of several kinds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import discreet as dp
from discreet.data.unprotected import UnprotectedFloat
from discreet.events import Gaussian
from discreet.geometry import L1Ball
from discreet.report.card import model_card
from discreet.report.certificate import Certificate
from discreet.report.figures import DELTAS
from discreet.report.record import FROM_DATA, PRIVATE, PUBLIC
from discreet.units import Unit

RNG = np.random.default_rng(3)
TABLE = pd.DataFrame({"age": RNG.uniform(20, 80, 600), "dose": RNG.uniform(0, 4, 600)})
SICK = pd.Series(TABLE["age"] + 10 * TABLE["dose"] > 70, name="sick")
SCHEMA = dp.Schema({"age": dp.Numeric(0, 120), "dose": dp.Numeric(0, 10), "sick": dp.Boolean()})
GAUSSIAN = Gaussian(10.0)
BUDGET = {"epsilon": 5.0, "delta": 1e-4, "adjacency": "replace-one", "dataset": "clinic"}


def ledger(folder: Path) -> dp.Ledger:
    return dp.Ledger(folder / "budget.db", **BUDGET)


def logistic(folder: Path) -> Any:
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, solver="objective_perturbation", ledger=ledger(folder))
    return model.fit(TABLE, SICK)


def private_bounds(folder: Path) -> Any:
    book = ledger(folder)
    narrow = dp.private_bounds(TABLE, SCHEMA, epsilon=0.5, adjacency="replace-one", ledger=book, quantiles=(0.1, 0.9))
    return dp.LogisticRegression(1.0, 1e-6, schema=narrow, solver="descent", ledger=book).fit(TABLE, SICK)


def batches(folder: Path) -> Any:
    options = {"iterations": 5, "batch_size": 60}
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, solver="descent", solver_options=options)
    return model.set_params(ledger=ledger(folder)).fit(TABLE, SICK)


def frank_wolfe(folder: Path) -> Any:
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, solver="frank_wolfe", domain=L1Ball(2.0))
    return model.set_params(ledger=ledger(folder)).fit(TABLE, SICK)


def output_perturbation(folder: Path) -> Any:
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, solver="output_perturbation", ledger=ledger(folder))
    return model.fit(TABLE, SICK)


def mean(folder: Path) -> Any:
    return dp.MeanEstimator(1.0, 1e-6, row_norm=150.0, ledger=ledger(folder)).fit(TABLE.to_numpy())


def network(folder: Path) -> Any:
    torch = pytest.importorskip("discreet.torch")
    model = torch.TorchClassifier(1.0, 1e-6, schema=SCHEMA, hidden=2, epochs=2, ledger=ledger(folder))
    return model.fit(TABLE, SICK)


def search(folder: Path) -> Any:
    inner = dp.LogisticRegression(schema=SCHEMA, solver="descent", solver_options={"iterations": 3})
    return dp.PrivateSearchCV(inner, {"alpha": [0.0]}, epsilon=1.0, delta=1e-6, trials=1, ledger=ledger(folder)).fit(
        TABLE, SICK
    )


KINDS = [logistic, private_bounds, batches, frank_wolfe, output_perturbation, mean, network, search]
SUMS = [logistic, batches, output_perturbation, mean, network]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Certificate]:
    return {make.__name__: make(tmp_path_factory.mktemp(make.__name__)).privacy_ for make in KINDS}


def plain(page: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", page.split("<details>")[0]))


@pytest.mark.parametrize("make", KINDS)
def test_json_holds_every_item(make: Callable[[Path], Any], certificates: dict[str, Certificate]) -> None:
    certificate = certificates[make.__name__]
    tree = json.loads(certificate.to_json())
    record, figures = tree["record"], tree["figures"]
    assert record["dataset"] == "clinic"
    assert record["target"] == (None if make is mean else "sick")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*\+00:00", record["issued"])
    assert record["rows"] == 600
    assert (tree["unit"], tree["adjacency"], tree["rows_per_unit"]) == ("declared", "replace-one", 1)
    assert 0 < tree["epsilon"] <= 1
    assert tree["delta"] == 1e-6
    points = {point["delta"]: point["epsilon"] for point in figures["curve"]}
    assert set(points) >= {1e-3, 1e-6, 1e-9, 1e-12}
    assert set(points) <= {*DELTAS, tree["delta"]}
    assert list(points.values()) == sorted(points.values())
    assert points[1e-6] <= tree["epsilon"] * (1 + 1e-3)
    assert {"rho", "mu"} <= set(figures)
    for one in figures["mechanisms"]:
        assert one["steps"] >= 1
        assert one["sampling"]
    assert record["randomness"].startswith("AES")
    assert tree["unprotected"]
    book = record["ledger"]
    assert len(book["id"]) == 64
    assert book["head"] == f"{book['sequence']}:{book['head'].partition(':')[2]}"
    assert book["charges"]
    assert {"python", "numpy", "scipy"} <= set(record["versions"])
    assert {one["provenance"] for one in record["bounds"]} <= {PUBLIC, PRIVATE}
    assert {"number of rows", "rows of a person"} <= {one["of"] for one in record["bounds"]}
    assert Certificate.from_json(certificate.to_json()).to_json() == certificate.to_json()


@pytest.mark.parametrize("make", KINDS)
def test_page_card_and_registry_hold_every_item(
    make: Callable[[Path], Any], certificates: dict[str, Certificate]
) -> None:
    certificate = certificates[make.__name__]
    record = certificate.record
    entry = certificate.to_registry()
    parts = yaml.safe_load(entry)["deployment"]
    assert set(parts["implementation"]) == {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"}
    assert isinstance(parts["dp_variant"]["unprotected_quantities"], str)
    once = " ".join(yaml.safe_load(entry).__repr__().replace("\\n", " ").split())
    for text in (plain(certificate.to_html()), model_card(certificate).replace("\\", ""), once):
        for item in (
            "clinic", record["issued"][:10], "600", "declared", "ρ (zCDP)", "μ (Gaussian DP)", "ε at δ = 1e-09",
            "AES-256-CTR", record["ledger"]["id"], record["ledger"]["head"], "numpy", "Signature", "rows of a person",
            "number of rows", "known under replace-one", certificate.unprotected[-1],
        ):  # fmt: skip
            assert item in text, item
        if make is not mean:
            assert "sick" in text
        if make is not search:
            assert record["queries"][0]["query"] in text


@pytest.mark.parametrize("make", SUMS)
def test_clip_sensitivity_noise_and_grid_belong_together(
    make: Callable[[Path], Any], certificates: dict[str, Certificate]
) -> None:
    certificate = certificates[make.__name__]
    (asked,) = certificate.record["queries"]
    assert asked["sensitivity"] == pytest.approx(2 * asked["clip"])
    assert 0 < asked["grid"] < asked["noise"]
    multiplier = certificate.settings["noise_multiplier"]
    assert asked["noise"] == pytest.approx(multiplier * asked["clip"], rel=1e-6)


def test_steps_and_sampling_are_those_of_the_run(certificates: dict[str, Certificate]) -> None:
    certificate = certificates["batches"]
    (one,) = certificate.figures.mechanisms
    assert (one["mechanism"], one["steps"]) == ("Gaussian", 5)
    assert one["sampling"] == "60 of 600 rows, without replacement"
    assert one["noise_multiplier"] == certificate.settings["noise_multiplier"]
    assert one["sensitivity"] == 2.0
    assert certificate.record["queries"][0]["times"] == 5
    assert certificates["frank_wolfe"].figures.rho is not None
    assert certificates["output_perturbation"].figures.mu is not None


def test_private_bounds_say_what_they_cost(certificates: dict[str, Certificate]) -> None:
    found = {one["of"]: one for one in certificates["private_bounds"].record["bounds"]}
    for column in ("age", "dose"):
        assert found[f"column {column}"]["provenance"] == PRIVATE
        assert "ε = 0.25" in found[f"column {column}"]["how"]
    assert found["column sick"]["provenance"] == PUBLIC
    assert certificates["private_bounds"].record["ledger"]["charges"] == [3]


def test_the_cost_of_bounds_survives_the_schemas_file_and_adds_up() -> None:
    once = dp.private_bounds(TABLE, SCHEMA, epsilon=1.0, adjacency="replace-one", columns=["age"], quantiles=(0.1, 0.9))
    kept = dp.Schema.from_yaml(once.to_yaml())
    assert kept["age"].bounds_epsilon == 1.0
    assert kept["dose"].bounds_epsilon is None
    twice = dp.private_bounds(TABLE, kept, epsilon=0.5, adjacency="replace-one", columns=["age"], quantiles=(0.2, 0.8))
    assert twice["age"].bounds_epsilon == 1.5


def test_bounds_from_the_data_are_void_and_their_values_are_not_repeated() -> None:
    wild = dp.private_bounds(TABLE, SCHEMA, epsilon=float("inf"), adjacency="replace-one", quantiles=(0.1, 0.9))
    certificate = dp.LogisticRegression(1.0, 1e-6, schema=wild, solver="descent").fit(TABLE, SICK).privacy_
    found = {one["of"]: one for one in certificate.record["bounds"]}
    assert found["column age"] == {
        "of": "column age", "provenance": FROM_DATA, "how": "taken from the data without protection"
    }  # fmt: skip
    assert str(wild["age"].low) not in certificate.to_json()
    figures = json.loads(certificate.to_json())["figures"]
    assert (figures["curve"], figures["rho"], figures["mu"]) == ([], None, None)
    assert FROM_DATA in plain(certificate.to_html())


def test_a_private_number_of_rows_says_its_cost_and_not_the_rows() -> None:
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, adjacency="add-remove", solver="descent")
    certificate = model.set_params(solver_options={"iterations": 3}).fit(TABLE, SICK).privacy_
    found = {one["of"]: one for one in certificate.record["bounds"]}
    assert found["number of rows"]["provenance"] == PRIVATE
    assert "ε = 0.02" in found["number of rows"]["how"]
    assert certificate.record["rows"] is None
    assert "600" not in json.dumps(certificate.record["bounds"])


def test_persons_are_said_to_be_enforced() -> None:
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, rows_per_unit=2, solver="descent")
    model.set_params(solver_options={"iterations": 3}).fit(TABLE, SICK, groups=np.arange(600) // 2)
    found = {one["of"]: one for one in model.privacy_.record["bounds"]}
    assert found["rows of a person"] == {"of": "rows of a person", "provenance": PUBLIC, "how": "enforced", "value": 2}


def test_compositions_that_take_a_second_a_point_are_known_beforehand() -> None:
    from discreet.events import Compose, Gaussian, Laplace, ObjectivePerturbation, Repeat

    minimum = ObjectivePerturbation(8.0, 0.1, 1, 0.3, 0.001)
    assert dp.accounting.curve(Compose([Laplace(50.0), minimum]), "add-remove").is_slow
    assert not dp.accounting.curve(minimum, "add-remove").is_slow
    assert not dp.accounting.curve(Repeat(Gaussian(8.0), 9), "add-remove").is_slow


@pytest.mark.parametrize(
    "void", [{"solver_options": {"clip": UnprotectedFloat(0.7)}}, {"row_norm": UnprotectedFloat(1.0)}]
)
def test_no_bound_that_follows_from_the_data_is_called_public(void: dict[str, Any]) -> None:
    settings = {"row_norm": 1.0, "classes": [False, True], "solver": "descent"} | void
    found = dp.LogisticRegression(1.0, 1e-6, **settings).fit(TABLE.to_numpy(), SICK.to_numpy()).privacy_
    length = next(line for line in found.record["bounds"] if line["of"] == "length of a row's gradient")
    assert not found.private
    assert length["provenance"] == FROM_DATA
    assert "value" not in length


def test_a_declared_clip_is_said_to_be_declared() -> None:
    settings = {"row_norm": 1.0, "classes": [False, True], "solver": "descent", "solver_options": {"clip": 0.7}}
    found = dp.LogisticRegression(1.0, 1e-6, **settings).fit(TABLE.to_numpy(), SICK.to_numpy()).privacy_
    length = next(line for line in found.record["bounds"] if line["of"] == "length of a row's gradient")
    assert (length["provenance"], length["how"], length["value"]) == (PUBLIC, "declared", 0.7)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_persons_with_one_row_that_takes_part_are_protected_as_persons(relation: Any) -> None:
    """One row less of a person with several exchanges what takes part: under add-remove that is no neighbour."""
    enforced, declared = (Certificate(1.0, 1e-6, Unit(relation, 1, known), GAUSSIAN, "x") for known in (True, False))
    assert "all rows of one person" in enforced.to_html()
    assert "one row, " not in enforced.to_html()
    assert "one row, " in declared.to_html()
