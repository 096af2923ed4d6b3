"""A ledger with a history, hostile names and certificates, and a client of its pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from discreet.events import Gaussian, PureDP
from discreet.ledger import Ledger
from discreet.report.certificate import Certificate
from discreet.report.record import record_of
from discreet.serve import application
from discreet.units import Unit

TOKEN = "a token of at least sixteen characters"
HOSTILE = "<script>alert('x')</script>&\"\x1b[2J"


@dataclass
class Site:
    """A ledger, its folder of certificates, and a client."""

    place: Path
    folder: Path
    client: TestClient

    def ledger(self, dataset: str = "clinic") -> Ledger:
        return Ledger(self.place, dataset=dataset)


def certified(ledger: Ledger, file: Path, note: str) -> None:
    """Charge one release and write its certificate."""
    event = Gaussian(12.0)
    charge = ledger.charge(event, "replace-one", note=note, stated=(0.9, 1e-7))
    ledger.release(charge)
    record = record_of("LogisticRegression", ledger, [charge], protective=True, rows=12000)
    made = Certificate(0.9, 1e-7, Unit("replace-one"), event, "descent", {"steps": 100, "clip": 1.0}, record=record)
    file.write_text(made.to_json(), encoding="utf-8")


def populated(folder: Path) -> tuple[Path, Path]:
    """A ledger of two datasets, one with a part, and a folder with a certificate."""
    place, certificates = folder / "budget.db", folder / "certificates"
    certificates.mkdir()
    clinic = Ledger(place, epsilon=4.0, delta=1e-6, adjacency="replace-one", dataset="clinic")
    clinic.allocate("ann", epsilon=1.0, delta=5e-7)
    for week in range(6):
        clinic.charge(Gaussian(40.0), "replace-one", note=f"weekly model {week + 1}", stated=(0.3, 1e-7))
    Ledger(place, dataset="clinic", analyst="ann").charge(PureDP(0.25), "replace-one", note="ann's table")
    certified(clinic, certificates / "model.certificate.json", "yearly model")
    Ledger(place, epsilon=1.0, delta=1e-9, adjacency="add-remove", dataset="survey").freeze("under review")
    return place, certificates


def browse(place: Path, folder: Path | None, token: str = TOKEN) -> TestClient:
    pages = application(place, token=token, certificates=folder)
    return TestClient(pages, base_url="http://localhost:8642", follow_redirects=False, raise_server_exceptions=True)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    place, folder = populated(tmp_path)
    return Site(place, folder, browse(place, folder))
