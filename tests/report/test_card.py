"""The model card, what is logged to MLflow, and exit codes of the command line."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app, main
from discreet.errors import InvalidInput
from discreet.estimators.tracking import log_to_mlflow
from discreet.events import NonPrivate, PureDP
from discreet.report.card import model_card
from discreet.report.certificate import Certificate
from discreet.units import Unit

HOSTILE = "<script>x</script> | [a](javascript:b) `c` \x1b[2J"


def made(**changes: object) -> Certificate:
    facts = {"epsilon": 1.0, "delta": 0.0, "unit": Unit("replace-one"), "event": PureDP(1.0), "solver": "descent"}
    return Certificate(**(facts | changes))  # type: ignore[arg-type]


def test_a_card_states_the_guarantee_and_what_is_left_to_say() -> None:
    card = model_card(made(unprotected=("the number of rows",), record={"model": "Lasso", "dataset": "clinic"}))
    assert card.startswith("# Model card: Lasso\n")
    assert "**Differentially private:** ε = 1" in card
    assert "- the number of rows" in card
    assert "| Dataset | clinic |" in card
    assert card.count("*to be filled in*") == 3


def test_a_card_of_what_is_not_private_says_so() -> None:
    card = model_card(made(epsilon=float("inf"), event=NonPrivate()))
    assert "**Not private:**" in card
    assert "Differentially private" not in card


def test_text_of_others_is_no_markup() -> None:
    card = model_card(made(solver=HOSTILE, unprotected=(HOSTILE,), record={"dataset": HOSTILE, "ledger": HOSTILE}))
    assert "<script" not in card
    assert "\x1b" not in card
    assert "]" not in card.replace("\\]", "")
    assert all(line.replace("\\|", "").count("|") == 3 for line in card.splitlines() if line.startswith("| "))


def test_the_command_writes_a_card(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(made().to_json(), encoding="utf-8")
    result = CliRunner().invoke(app, ["report", str(tmp_path / "c.json"), "--card", str(tmp_path / "card.md")])
    assert result.exit_code == 0
    assert (tmp_path / "card.md").read_text(encoding="utf-8") == model_card(made())


class Tracker(types.ModuleType):
    """What is used of MLflow, with its names and arguments."""

    def __init__(self) -> None:
        super().__init__("mlflow")
        self.files: dict[str, bytes] = {}
        self.said: dict[str, object] = {}

    def log_artifacts(self, local_dir: str, artifact_path: str | None = None) -> None:
        self.files |= {f"{artifact_path}/{file.name}": file.read_bytes() for file in Path(local_dir).iterdir()}

    def log_params(self, params: dict[str, object]) -> None:
        self.said |= params

    def log_metrics(self, metrics: dict[str, float]) -> None:
        assert all(np.isfinite(value) for value in metrics.values())
        self.said |= metrics

    def set_tags(self, tags: dict[str, object]) -> None:
        self.said |= tags


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
def test_a_model_and_its_certificate_are_logged(
    epsilon: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tracker = Tracker()
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.5, 0.5, (200, 2))
    model = dp.LinearRegression(epsilon, 1e-6, row_norm=1.0, target_bounds=(-1, 1), random_state=0)
    model.fit(X, np.clip(X[:, 0], -1, 1))
    log_to_mlflow(model)
    names = {"model.npz", "model.certificate.json", "certificate.html", "card.md"}
    assert set(tracker.files) == {f"discreet/{name}" for name in names}
    (tmp_path / "model.npz").write_bytes(tracker.files["discreet/model.npz"])
    np.testing.assert_array_equal(dp.load(tmp_path / "model.npz").coef_, model.coef_)
    kept = Certificate.from_json(tracker.files["discreet/model.certificate.json"].decode())
    assert kept == model.privacy_
    assert tracker.said["discreet.private"] == "false"  # a seed protects nobody
    assert ("epsilon" in tracker.said) == np.isfinite(epsilon)


def test_what_has_no_certificate_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", Tracker())
    with pytest.raises(InvalidInput, match="fit it first"):
        log_to_mlflow(dp.LinearRegression(1.0))


def test_mlflow_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    model = types.SimpleNamespace(privacy_=made())
    with pytest.raises(InvalidInput, match="MLflow is not installed"):
        log_to_mlflow(model)


# --- exit codes -------------------------------------------------------------------------------------------------------


def code_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["discreet", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_documented_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = str(tmp_path / "budget.db")
    budget = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "replace-one"]
    assert code_of(monkeypatch, "ledger", "create", place, *budget) == 0
    assert code_of(monkeypatch, "ledger", "create", place) == 2
    assert code_of(monkeypatch, "ledger", "show", str(tmp_path / "none.db")) == 2
    assert code_of(monkeypatch, "no such command") == 2

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.cli.ledger._ledgers", interrupted)
    assert code_of(monkeypatch, "ledger", "show", place) == 130
    from discreet.errors import BudgetExceeded

    def refused(*_: object) -> None:
        raise BudgetExceeded("no")

    monkeypatch.setattr("discreet.cli.ledger._ledgers", refused)
    assert code_of(monkeypatch, "ledger", "show", place) == 3
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8")
    assert all(f"| {code} | " in page for code in (0, 1, 2, 3, 130))


def test_commands_that_change_a_ledger_answer_as_json(tmp_path: Path) -> None:
    place, run = str(tmp_path / "budget.db"), CliRunner()
    budget = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "replace-one"]
    steps = (["create", *budget], ["allocate", "ann", "--epsilon", "0.5", "--delta", "1e-7"], ["freeze"], ["thaw"])
    for name, *words in steps:
        result = run.invoke(app, ["ledger", name, place, *words, "--json"])
        facts = json.loads(result.output)["default"]
        assert facts["budget"]["epsilon"] == 1
        assert (facts["frozen"] is not None) == (name == "freeze")
    exported = run.invoke(app, ["ledger", "export", place]).output
    (tmp_path / "book").write_text(exported, encoding="utf-8")
    answer = run.invoke(app, ["ledger", "import", str(tmp_path / "copy.db"), str(tmp_path / "book"), "--json"]).output
    assert json.loads(answer)["head"] == dp.Ledger(place).head.__str__()


def test_completion_is_offered() -> None:
    assert "--install-completion" in CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
