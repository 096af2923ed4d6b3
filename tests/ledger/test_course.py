"""How the spent ε grew, and the pages of a ledger, on a server as in a file."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from discreet.events import Promise, PureDP
from discreet.ledger import Ledger
from discreet.ledger.course import Course
from discreet.serve import application

TOKEN = "a token of at least sixteen characters"


def test_the_course_and_the_pages_on_both_stores(place: str) -> None:
    ledger = Ledger(place, epsilon=2.0, delta=1e-6, adjacency="replace-one", dataset="clinic")
    course = Course(place)
    assert [point.spent for point in course.read()["clinic"]] == [0.0]
    ledger.charge(PureDP(0.25), "replace-one", note="first")
    charge = ledger.charge(Promise(0.5, 1e-8), "replace-one", note="second")
    before = course.read()["clinic"]
    assert [point.spent for point in before] == [0.0, pytest.approx(0.25, abs=1e-4), ledger.spent().upper]
    ledger.fulfil(charge, PureDP(0.5))
    derived = Ledger(place, dataset="part", derived_from="clinic")
    derived.charge(PureDP(0.125), "replace-one")
    found = course.read()
    assert list(found) == ["clinic"]  # the part has no budget of its own
    assert found["clinic"][-1].spent == ledger.spent().upper
    assert found == Course(place).read()

    client = TestClient(application(place, token=TOKEN), base_url="http://localhost", follow_redirects=False)
    page = client.get("/dataset?name=clinic").text
    assert "3 charges" in page
    assert "(part)" in page
    assert client.get("/dataset?name=part").status_code == 200
    fields = {"dataset": "part", "action": "freeze", "note": "audit", "token": TOKEN}
    assert client.post("/freeze", data=fields, headers={"origin": "http://localhost"}).status_code == 303
    assert derived.frozen == "audit"
