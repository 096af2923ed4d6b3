"""Ledgers and certificates of every event type are read by a process that has imported nothing else, and for ever."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.events.examples import EXAMPLES, concrete_types

import discreet
from discreet import accounting, events
from discreet.errors import DiscreetError, InvalidInput
from discreet.events import Event, Gaussian, PureDP, compose, from_json
from discreet.ledger import Ledger
from discreet.ledger.sqlite import require_readable
from discreet.report.certificate import Certificate
from discreet.units import Unit

# What the first release wrote: the stored form of every type. A change of this table breaks stored ledgers.
STORED = {
    "NonPrivate": '{"kind": "NonPrivate"}',
    "Gaussian": '{"apart": 1.5, "kind": "Gaussian", "noise_multiplier": 2.0}',
    "Laplace": '{"kind": "Laplace", "noise_multiplier": 3.0}',
    "DiscreteGaussian": '{"bound": 4, "kind": "DiscreteGaussian", "noise_multiplier": 2.5}',
    "DiscreteLaplace": '{"bound": 3, "kind": "DiscreteLaplace", "noise_multiplier": 1.5}',
    "ObjectivePerturbation": '{"deviation": 0.125, "directions": 2, "kind": "ObjectivePerturbation", "link": 0.5, '
    '"log_det": 0.25, "noise_multiplier": 6.0}',
    "RandomizedResponse": '{"categories": 3, "epsilon": 0.5, "kind": "RandomizedResponse"}',
    "Selection": '{"epsilon": 0.25, "kind": "Selection", "mechanism": "permute-and-flip"}',
    "PureDP": '{"epsilon": 0.125, "kind": "PureDP"}',
    "ApproxDP": '{"delta": 1e-07, "epsilon": 0.5, "kind": "ApproxDP"}',
    "Promise": '{"delta": 1e-06, "epsilon": 0.5, "kind": "Promise", "rows_per_unit": 2}',
    "ZCDP": '{"kind": "ZCDP", "rho": 0.0625}',
    "RenyiDP": '{"divergence": 0.25, "kind": "RenyiDP", "order": 8.0, "rows_per_unit": 2}',
    "Poisson": '{"event": {"apart": 2.0, "kind": "Gaussian", "noise_multiplier": 1.0}, "kind": "Poisson", '
    '"rate": 0.125}',
    "FixedSize": '{"batch": 5, "event": {"apart": 2.0, "kind": "Gaussian", "noise_multiplier": 2.0}, '
    '"kind": "FixedSize", "n": 50}',
    "WithReplacement": '{"batch": 5, "event": {"apart": 2.0, "kind": "Gaussian", "noise_multiplier": 2.0}, '
    '"kind": "WithReplacement", "n": 50}',
    "Allocation": '{"batches": 5, "event": {"apart": 2.0, "kind": "Gaussian", "noise_multiplier": 2.0}, '
    '"kind": "Allocation"}',
    "Repeat": '{"event": {"apart": 2.0, "kind": "Gaussian", "noise_multiplier": 4.0}, "kind": "Repeat", "times": 3}',
    "Compose": '{"events": [{"apart": 2.0, "kind": "Gaussian", "noise_multiplier": 4.0}, '
    '{"epsilon": 0.5, "kind": "PureDP"}], "kind": "Compose"}',
    "Parallel": '{"events": [{"kind": "Laplace", "noise_multiplier": 4.0}, {"epsilon": 0.5, "kind": "PureDP"}], '
    '"kind": "Parallel"}',
    "PrivateSelection": '{"distribution": "negative-binomial", "eta": 0.5, "event": {"apart": 2.0, "kind": "Gaussian", '
    '"noise_multiplier": 4.0}, "kind": "PrivateSelection", "mean": 3.0}',
    "LastIterate": '{"batches": 5, "contraction": 0.75, "diameter": 2.0, "kind": "LastIterate", '
    '"noise_multiplier": 8.0, "rounding": 0.125, "steps": 100}',
    "BandedMatrix": '{"coefficients": [1.0, 0.5], "kind": "BandedMatrix", "noise_multiplier": 4.0, '
    '"participations": 2, "separation": 10, "steps": 20}',
}


def run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_event_type_of_the_library_is_in_the_package_and_has_an_example() -> None:
    for module in pkgutil.walk_packages(discreet.__path__, "discreet."):
        if "kernels" not in module.name:  # compiled loops, which define no class
            importlib.import_module(module.name)
    kinds = set(concrete_types())
    assert {kind.__module__.rpartition(".")[0] for kind in kinds} == {"discreet.events"}
    assert {type(event) for event in EXAMPLES} == kinds
    assert {kind.__name__ for kind in kinds} == set(events.__all__) - {"Event", "compose", "from_dict", "from_json"}


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_examples_leave_no_field_at_its_default(event: Event) -> None:
    for field in dataclasses.fields(event):
        assert getattr(event, field.name) != field.default, field.name


def test_a_fresh_process_reads_a_ledger_of_every_event_type(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = Ledger(path)
    for event in EXAMPLES:
        ledger.charge(event, "replace-one")
    program = (
        "import sys; from pathlib import Path; from discreet.ledger import Ledger\n"
        "for charge in Ledger(Path(sys.argv[1])).history(): print(charge.event.to_json())"
    )
    assert run(program, str(path)).splitlines() == [event.to_json() for event in EXAMPLES]


def test_a_fresh_process_reads_certificates_of_every_event_type(tmp_path: Path) -> None:
    paths = []
    for i, event in enumerate((*EXAMPLES, compose(EXAMPLES))):
        paths.append(tmp_path / f"{i}.json")
        paths[-1].write_text(Certificate(1.0, 1e-6, Unit("replace-one"), event, "descent").to_json(), encoding="utf-8")
    program = (
        "import sys; from pathlib import Path; from discreet.report.certificate import Certificate\n"
        "for name in sys.argv[1:]: print(Certificate.from_json(Path(name).read_text(encoding='utf-8')).event.to_json())"
    )
    found = run(program, *map(str, paths)).splitlines()
    assert found == [event.to_json() for event in (*EXAMPLES, compose(EXAMPLES))]


def test_a_fresh_process_that_imports_events_alone_reads_them_all() -> None:
    texts = json.dumps([event.to_json() for event in EXAMPLES])
    program = (
        "import sys, json; from discreet.events import from_json\n"
        "print([from_json(text) for text in json.loads(sys.argv[1])])"
    )
    assert run(program, texts) == f"{list(EXAMPLES)}\n"


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_the_stored_form_of_released_types_does_not_change(event: Event) -> None:
    text = STORED[type(event).__name__]
    assert from_json(text) == event
    assert event.to_json() == text


def test_the_replace_one_factor_is_read_under_its_first_name_and_under_its_own() -> None:
    old = '{"apart": 1.4142135623730951, "kind": "Gaussian", "noise_multiplier": 4.0}'
    event = from_json(old)
    assert event == Gaussian(4.0, replace_one_factor=2**0.5)
    assert event.to_json() == old
    assert from_json(old.replace("apart", "replace_one_factor")) == event
    assert from_json('{"kind": "Gaussian", "noise_multiplier": 4.0}') == Gaussian(4.0, 2.0)  # before there was a factor
    exact = accounting.epsilon(Gaussian(4.0 / 2**0.5 * 2), 1e-6, "replace-one").upper
    assert accounting.epsilon(event, 1e-6, "replace-one").upper == pytest.approx(exact, rel=1e-12)
    with pytest.raises(InvalidInput, match="given twice"):
        from_json('{"apart": 1.0, "kind": "Gaussian", "noise_multiplier": 4.0, "replace_one_factor": 2.0}')


def test_a_certificate_written_with_the_first_name_states_the_same_privacy() -> None:
    now = Certificate(1.0, 1e-6, Unit("replace-one"), Gaussian(6.0, 1.0), "descent")
    assert '"apart": 1.0' in now.to_json()
    assert Certificate.from_json(now.to_json()).recompute() == now.recompute()


def test_a_class_from_elsewhere_can_be_accounted_but_not_stored(tmp_path: Path) -> None:
    @dataclasses.dataclass(frozen=True)
    class Foreign(Event):
        epsilon: float = 1.0

    accounting.rule.register(Foreign)(lambda event, unit: accounting.Mu(0.5))
    assert accounting.epsilon(Foreign(), 1e-6, "add-remove").upper > 0
    with pytest.raises(InvalidInput, match="not an event"):
        from_json(Foreign().to_json())
    with pytest.raises(DiscreetError):
        require_readable(Foreign())
    ledger = Ledger(tmp_path / "budget.db")
    ledger.charge(Gaussian(4.0), "add-remove")
    with pytest.raises(DiscreetError):
        ledger.charge(Foreign(), "add-remove")
    assert [charge.event for charge in ledger.history()] == [Gaussian(4.0)]


@pytest.mark.parametrize("bad", [True, np.True_, "1", b"1", None, 1j, [1.0]])
def test_fields_of_events_are_numbers(bad: object) -> None:
    with pytest.raises(InvalidInput, match="must be a number"):
        PureDP(bad)  # type: ignore[arg-type]
    assert PureDP(np.float32(0.5)).epsilon == 0.5
