"""What is logged, by MLflow itself, to a store of files; `make mlflow` runs it in an environment of its own.

MLflow wants an older importlib_metadata than the versions that are otherwise tested together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.estimators.tracking import log_to_mlflow
from discreet.report.certificate import Certificate

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
X = np.random.default_rng(1).uniform(-0.5, 0.5, (200, 2))


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    module.set_tracking_uri((tmp_path / "runs").as_uri())
    module.set_experiment("clinic")
    return module


def test_a_run_holds_the_model_the_certificate_and_the_guarantee(mlflow: Any) -> None:
    model = dp.LinearRegression(1.0, 1e-6, row_norm=1.0, target_bounds=(-1, 1)).fit(X, np.clip(X[:, 0], -1, 1))
    with mlflow.start_run() as run:
        log_to_mlflow(model)
    kept = mlflow.get_run(run.info.run_id).data
    assert float(kept.params["discreet.epsilon"]) == model.privacy_.epsilon
    assert kept.params["discreet.model"] == "LinearRegression"
    assert kept.metrics == {"epsilon": model.privacy_.epsilon, "delta": 1e-6}
    assert kept.tags["discreet.private"] == "true"
    files = mlflow.artifacts.list_artifacts(run_id=run.info.run_id, artifact_path="discreet")
    names = {Path(one.path).name for one in files}
    assert names == {"model.npz", "model.certificate.json", "certificate.html", "card.md"}
    fetched = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="discreet"))
    certificate = Certificate.from_json((fetched / "model.certificate.json").read_text(encoding="utf-8"))
    assert certificate == model.privacy_
    np.testing.assert_array_equal(dp.load(fetched / "model.npz").coef_, model.coef_)


def test_without_an_open_run_one_is_made(mlflow: Any) -> None:
    model = dp.LinearRegression(float("inf"), row_norm=1.0, target_bounds=(-1, 1)).fit(X, np.clip(X[:, 0], -1, 1))
    log_to_mlflow(model, folder="models")
    mlflow.end_run()
    experiment = mlflow.get_experiment_by_name("clinic")
    (run,) = mlflow.MlflowClient().search_runs(experiment_ids=[experiment.experiment_id])
    assert run.data.params["discreet.epsilon"] == "inf"
    assert run.data.tags["discreet.private"] == "false"
    assert run.data.metrics == {}
