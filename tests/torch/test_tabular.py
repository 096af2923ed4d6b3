"""Networks for tables: declarations as everywhere, predictions from arrays, files, and the command line."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import discreet as dp
from discreet.accounting import epsilon
from discreet.cli import app
from discreet.errors import InvalidInput, PlanViolation
from discreet.estimators import PrivacyWarning
from discreet.noise import Bits
from discreet.torch.networks import SkipNetwork
from discreet.torch.privatizing import privatize

torch.set_num_threads(1)
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (800, 3))
LABELS = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")


def test_two_and_three_classes_and_numbers_are_learnt() -> None:
    two = dp.TorchClassifier(4.0, row_norm=2.0, classes=["no", "yes"], epochs=5).fit(X, LABELS)
    assert two.score(X, LABELS) > 0.9
    assert two.predict_proba(X).shape == (800, 2)
    assert two.privacy_.epsilon == 4.0
    assert two.privacy_.private
    assert two.privacy_.recompute().upper <= 4.0
    codes = np.digitize(X[:, 0], [-0.3, 0.3])
    three = dp.TorchClassifier(math.inf, row_norm=2.0, classes=[0, 1, 2], hidden=8).fit(X, codes)
    assert three.score(X, codes) > 0.85
    number = dp.TorchRegressor(8.0, row_norm=2.0, target_bounds=(-3, 5), epochs=5).fit(X, 1 + 2 * X[:, 0])
    assert number.score(X, 1 + 2 * X[:, 0]) > 0.7


def test_the_arrays_are_the_network() -> None:
    network = SkipNetwork(3, 5, 2, Bits.seeded(1))
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter)
    model = dp.TorchClassifier(row_norm=math.sqrt(3))
    model.coefs_, model.intercepts_ = network.arrays()
    from discreet.estimators.features import Features

    model._features = Features(math.sqrt(3), ())
    model.n_features_in_ = 3
    with torch.no_grad():
        wanted = network(torch.from_numpy(X * 2 / math.sqrt(3)).float()).numpy()
    np.testing.assert_allclose(model._scores(X), wanted, atol=1e-5)


def test_bounds_are_declared_and_never_taken_from_the_data() -> None:
    with pytest.raises(InvalidInput, match="row_norm"):
        dp.TorchClassifier(1.0, classes=["no", "yes"]).fit(X, LABELS)
    with pytest.raises(InvalidInput, match="target_bounds"):
        dp.TorchRegressor(1.0, row_norm=1.0).fit(X, X[:, 0])
    with pytest.warns(PrivacyWarning, match="classes were taken from y"):
        found = dp.TorchClassifier(1.0, row_norm=1.0, epochs=0.1, random_state=0).fit(X, LABELS)
    assert "the set of classes, taken from y" in found.privacy_.unprotected
    assert not found.privacy_.private


@pytest.mark.parametrize("declared", [{}, {"adjacency": "add-remove", "n_public": 800}])
def test_rows_of_a_person_without_ids_are_never_said_to_be_bounded(declared: dict[str, Any]) -> None:
    """Without ids noise is planned for the rows that were declared, and the certificate says so."""
    common = {"row_norm": 2.0, "classes": ["no", "yes"], "epochs": 0.2, **declared}
    one = dp.TorchClassifier(2.0, 1e-6, **common).fit(X, LABELS).privacy_
    three = dp.TorchClassifier(2.0, 1e-6, rows_per_unit=3, **common).fit(X, LABELS).privacy_
    assert (three.unit.rows_per_unit, three.unit.enforced) == (3, False)
    assert "3 rows a unit, declared" in str(three)
    assert three.recompute().upper <= 2.0 < epsilon(one.event, 1e-6, three.unit).lower


def test_a_training_that_bounds_no_persons_refuses_a_unit_that_says_so() -> None:
    model, ledger = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0)), dp.Ledger()
    data = torch.from_numpy(X).float(), torch.ones(800)
    with pytest.raises(PlanViolation, match="not bounded"):
        privatize(
            model, torch.optim.SGD(model.parameters(), 0.1), data, epsilon=1.0, epochs=1, expected_batch=400,
            adjacency=dp.Unit("replace-one", 3, enforced=True), ledger=ledger,
        )  # fmt: skip
    assert ledger.history() == ()


def test_rows_without_a_target_and_entries_that_are_no_numbers_change_nothing() -> None:
    """A row whose label is unknown contributes zero, so that the model does not depend on what else is in it."""
    rows, labels = X[:40].copy(), LABELS[:40].astype(object)
    settings = {"row_norm": 2.0, "classes": ["no", "yes"], "epochs": 0.5, "random_state": 4}
    labels[3] = "unheard of"
    first = dp.TorchClassifier(1.0, **settings).fit(rows, labels)
    rows[3] = [np.nan, 1e300, -np.inf]
    second = dp.TorchClassifier(1.0, **settings).fit(rows, labels)
    np.testing.assert_array_equal(first.coefs_[0], second.coefs_[0])
    assert np.isfinite(second.predict_proba(rows)).all()


def test_a_network_is_saved_and_read_back(tmp_path) -> None:
    model = dp.TorchClassifier(1.0, row_norm=2.0, classes=["no", "yes"], epochs=0.2, hidden=4).fit(X, LABELS)
    model.save(tmp_path / "m.npz")
    again = dp.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.privacy_ == model.privacy_
    number = dp.TorchRegressor(1.0, row_norm=2.0, target_bounds=(0, 1), epochs=0.2).fit(X, X[:, 0])
    number.save(tmp_path / "r.npz")
    np.testing.assert_array_equal(dp.load(tmp_path / "r.npz").predict(X), number.predict(X))
    facts = dict(np.load(tmp_path / "m.npz"))
    for part, wrong in (
        ("inner", facts["inner"][:, :2]),
        ("outer", facts["outer"][0]),
        ("offset", facts["offset"][:1]),
    ):
        np.savez(tmp_path / "bad.npz", **(facts | {part: wrong}))
        with pytest.raises(InvalidInput, match="do not fit together"):
            dp.load(tmp_path / "bad.npz")


def test_fit_and_predict_on_the_command_line(tmp_path) -> None:
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sick": LABELS})
    table.to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.yaml").write_text(
        "a: {numeric: [-1, 1]}\nb: {numeric: [-1, 1]}\nsick: {boolean: ['no', 'yes']}\n"
    )
    common = [str(tmp_path / "people.csv"), "--schema", str(tmp_path / "schema.yaml"), "--target", "sick", "-q"]
    given = ["--model", "mlp", "--epsilon", "8", "--param", "epochs=3", "-o", str(tmp_path / "m.npz")]
    run = CliRunner()
    result = run.invoke(app, ["fit", *common, *given], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    certificate = json.loads((tmp_path / "m.certificate.json").read_text())
    assert certificate["epsilon"] == 8.0
    assert certificate["solver"] == "torch"
    result = run.invoke(app, ["predict", str(tmp_path / "m.npz"), str(tmp_path / "people.csv")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = np.array(result.stdout.split()[1:])
    assert (found == LABELS).mean() > 0.85
    with pytest.raises(InvalidInput, match="takes no solver"):
        run.invoke(app, ["fit", *common, *given, "--solver", "descent", "--force"], catch_exceptions=False)


def test_a_step_that_learned_from_the_rows_is_seen() -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), dp.TorchClassifier(1.0, row_norm=2.0, classes=["no", "yes"], epochs=0.1))
    with pytest.warns(PrivacyWarning, match="NOT PRIVATE"):
        model.fit(X, LABELS)
    assert not model[-1].privacy_.private


def test_a_number_that_uses_a_thousandth_of_its_bounds_is_learnt() -> None:
    rng = np.random.default_rng(3)
    gain = np.where(rng.random(2000) < 0.5, rng.uniform(0, 300, 2000), rng.uniform(500, 1000, 2000))
    table = {"gain": gain, "other": rng.uniform(0, 1, 2000)}
    declared = dp.Schema({"gain": dp.Numeric(0, 10**6), "other": dp.Numeric(0, 1)})
    model = dp.TorchClassifier(math.inf, schema=declared, classes=[False, True], random_state=0).fit(table, gain > 400)
    assert model.score(table, gain > 400) > 0.95
    lengths = np.linalg.norm(model._features.encoder.transform(table).toarray(), axis=1)
    assert lengths.max() <= model._features.row_norm == 1.0
