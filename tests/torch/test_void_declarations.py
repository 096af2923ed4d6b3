"""A training whose declarations were taken from the data is certified as not private, also after it is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import discreet as dp
from discreet.data.unprotected import UnprotectedFloat
from discreet.report.record import FROM_DATA

X, Y = torch.ones(100, 3), torch.ones(100)


def trained(**settings: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    plan = {"epsilon": 1.0, "epochs": 1, "expected_batch": 50} | settings
    return dp.torch.privatize(model, torch.optim.SGD(model.parameters(), 0.1), (X, Y), **plan)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clip", UnprotectedFloat(0.7)),
        ("clip", dp.torch.Clip(UnprotectedFloat(0.7))),
        ("clip", dp.torch.QuantileBound(UnprotectedFloat(0.7))),
        ("svrg", dp.torch.Svrg(2, UnprotectedFloat(0.7))),
        ("expected_batch", UnprotectedFloat(50.0)),
        ("delta", UnprotectedFloat(1e-6)),
    ],
)
def test_declarations_from_the_data_make_a_training_void(name: str, value: Any) -> None:
    ledger = dp.Ledger()
    found = trained(**{name: value}, ledger=ledger).privacy_
    assert not found.private
    assert f"{name}, taken from the data without protection" in found.unprotected
    of = "length of an example's gradient" if name == "clip" else name
    assert {"of": of, "provenance": FROM_DATA, "how": "taken from the data without protection"} in found.record[
        "bounds"
    ]
    assert "NOT PRIVATE" in ledger.history()[-1].note


def test_it_stays_void_when_it_is_resumed(tmp_path: Path) -> None:
    trainer = trained(clip=UnprotectedFloat(0.7))
    trainer.save(tmp_path / "checkpoint")
    trainer.journal.close()
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    again = dp.torch.resume(tmp_path / "checkpoint", model, torch.optim.SGD(model.parameters(), 0.1), (X, Y))
    assert not again.privacy_.private


def test_declarations_of_ones_own_are_private() -> None:
    assert trained(clip=0.7).privacy_.private
