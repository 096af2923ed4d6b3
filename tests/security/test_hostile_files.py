"""Text and files from anybody: each ends in a value or in a declared error, within bounds of time and memory."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet import events
from discreet.errors import DiscreetError, InvalidInput

X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 50, axis=0)
Y = np.repeat([1, 0], 50)
DEEP = 100_000


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("models") / "model.npz"
    dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1]).fit(X, Y).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def with_schema(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("models") / "model.npz"
    schema = dp.Schema({"age": dp.Numeric(0, 1)})
    dp.LinearRegression(1.0, 1e-6, schema=schema, target_bounds=(0, 1)).fit({"age": X[:, 0]}, Y).save(path)
    return path.read_bytes()


def parts(model: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(model)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return made.getvalue()


def npy(array: Any) -> bytes:
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def facts_of(model: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(np.load(io.BytesIO(parts(model)["facts.npy"])).tobytes())
    return found


def changed(model: bytes, /, **facts: Any) -> bytes:
    text = json.dumps(facts_of(model) | facts)
    return archive(parts(model) | {"facts.npy": npy(np.frombuffer(text.encode(), dtype=np.uint8))})


def loaded(content: bytes, folder: Path) -> Any:
    (folder / "model.npz").write_bytes(content)
    return dp.load(folder / "model.npz")


def refused(content: bytes, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="not a model"):
        loaded(content, folder)


# --- models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["load", "quantile", "private_bounds", "MeanEstimator", "PrivateSearchCV", "__class__", "", None, 3, ["Lasso"]],
)
def test_only_models_of_the_list_are_made(saved: bytes, tmp_path: Path, name: Any) -> None:
    refused(changed(saved, model=name), tmp_path)


@pytest.mark.parametrize(
    "parameters",
    [
        {"ledger": "sqlite:///stolen.db"},
        {"random_state": 0},
        {"n_public": 5},
        {"solver": "descent"},
        {"solver_options": {}},
        {"schema": None},
        {"verbose": True},
        {"sparsity": 3},  # of another model
        {"fit_intercept": "yes"},
        {"fit_intercept": [1]},
        {"__class__": 1},
        [],
        None,
    ],
)
def test_only_parameters_of_the_list_are_set(saved: bytes, tmp_path: Path, parameters: Any) -> None:
    refused(changed(saved, parameters=parameters), tmp_path)


def test_a_fit_of_a_loaded_model_takes_no_guarantee_from_the_file(saved: bytes, tmp_path: Path) -> None:
    """Files of earlier versions name the guarantee of their fit; whoever fits again states it anew."""
    old = {"epsilon": 9000.0, "delta": 0.5, "adjacency": "add-remove", "rows_per_unit": 1, "fit_intercept": False}
    model = loaded(changed(saved, parameters=old), tmp_path)
    fresh = dp.LogisticRegression()
    for name in ("epsilon", "delta", "adjacency", "rows_per_unit", "ledger", "random_state", "n_public"):
        assert getattr(model, name) == getattr(fresh, name)
    assert model.fit_intercept is False
    assert model.privacy_.epsilon == pytest.approx(1.0)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(saved: bytes, tmp_path: Path) -> None:
    zeros = npy(np.zeros(2**23))  # 64 MB stand for more
    bomb = archive(parts(saved) | {"coef.npy": zeros}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2**20
    tracemalloc.start()
    try:
        refused(bomb, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(1000000, 1000000)", "(99,)", "(-1,)", "(2", "((2,),)"])
@pytest.mark.parametrize("kind", ["<f8", "|O", "<U9999999", "|V99999999"])
def test_an_array_is_as_long_as_it_says(saved: bytes, tmp_path: Path, shape: str, kind: str) -> None:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(32)
    refused(archive(parts(saved) | {"coef.npy": content}), tmp_path)


@pytest.mark.parametrize(
    "coef", [np.zeros(0), np.zeros((1, 3)), np.zeros((2, 2)), np.zeros((1, 1, 2)), np.zeros(()), np.zeros((1, 2), int)]
)
def test_coefficients_are_those_of_the_declared_features(saved: bytes, tmp_path: Path, coef: Any) -> None:
    refused(archive(parts(saved) | {"coef.npy": npy(coef)}), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"classes": None},
        {"classes": [0]},
        {"classes": [0, 0]},
        {"classes": [0, [1]]},
        {"classes": [0, 1, 2]},
        {"classes": "01"},
        {"row_norm": "nan"},
        {"row_norm": -1.0},
        {"row_norm": None},
        {"names": [1, 2]},
        {"names": ["a"]},
        {"names": "ab"},
        {"n_features_in": 3},
        {"schema": {}},
        {"schema": {"a": "ignore"}},
        {"schema": [[[]]]},
        {"target": 3},
        {"certificate": None},
        {"certificate": {}},
    ],
)
def test_facts_that_do_not_fit_together_are_refused(saved: bytes, tmp_path: Path, changes: dict[str, Any]) -> None:
    refused(changed(saved, **changes), tmp_path)


@pytest.mark.parametrize("coding", [None, [], [0, 1, 0], [0, 1, 0, "nan"], [0, 1, 0, True], "0101"])
def test_a_regressor_has_bounds_of_its_targets(with_schema: bytes, tmp_path: Path, coding: Any) -> None:
    refused(changed(with_schema, target_coding=coding), tmp_path)


def test_a_short_schema_that_stands_for_millions_of_features_is_refused_at_once(
    with_schema: bytes, tmp_path: Path
) -> None:
    many = {f"c{j}": {"numeric": [0, 1], "bins": 1024} for j in range(2000)}
    tracemalloc.start()
    try:
        refused(changed(with_schema, schema=many), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 2**25  # two million names would take more than 100 MB
    finally:
        tracemalloc.stop()


def test_members_of_other_names_numbers_and_kinds_are_refused(saved: bytes, tmp_path: Path) -> None:
    good = parts(saved)
    for members in (
        {**good, "extra.npy": b""},
        {**good, "../../outside.npy": b""},
        {name: content for name, content in good.items() if name != "coef.npy"},
        {**good, "facts.npy": npy(np.array([{"format": 1}], dtype=object))},
        {**good, "facts.npy": npy(np.frombuffer(b"\xff\xfe", dtype=np.uint8))},
        {**good, "facts.npy": npy(np.frombuffer(b"[" * DEEP, dtype=np.uint8))},
        {**good, "facts.npy": npy(np.frombuffer(b'{"a":' * DEEP, dtype=np.uint8))},
        {**good, "facts.npy": npy(np.frombuffer(b"[]", dtype=np.uint8))},
        {**good, "facts.npy": b"\x93NUMPY\x01\x00"},
        {**good, "intercept.npy": npy(np.zeros((2, 2)))},
    ):
        refused(archive(members), tmp_path)


@pytest.mark.parametrize("path", ["\0", "a\0.npz", "\ud800.npz", 3, None])
def test_paths_that_no_system_knows(saved: bytes, path: Any) -> None:
    with pytest.raises(InvalidInput, match="not a path"):
        dp.load(path)
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1]).fit(X, Y)
    with pytest.raises(InvalidInput, match="not a path"):
        model.save(path)


def test_a_model_of_a_user_s_own_class_is_not_saved_under_a_name_that_cannot_be_read(tmp_path: Path) -> None:
    class Mine(dp.LogisticRegression):  # type: ignore[misc, name-defined]
        pass

    with pytest.raises(InvalidInput, match="Mine cannot be saved"):
        Mine(1.0, 1e-6, row_norm=1.0, classes=[0, 1]).fit(X, Y).save(tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_model_with_any_bytes_changed_is_read_or_refused(saved: bytes, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(saved)
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    with suppress(DiscreetError):
        loaded(bytes(content[:cut]), tmp_path)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
    | st.sampled_from(["inf", "-inf", "nan", "Gaussian", "Repeat", "numeric", "replace-one"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["kind", "event", "events", "times", "epsilon", "numeric"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(tree=TREES, data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_model_with_any_fact_changed_is_read_or_refused(
    saved: bytes, tmp_path: Path, tree: Any, data: st.DataObject
) -> None:
    with suppress(DiscreetError):
        loaded(changed(saved, **{data.draw(st.sampled_from(sorted(facts_of(saved)))): tree}), tmp_path)


# --- events and certificates --------------------------------------------------------------------------------------


@given(
    tree=TREES, kind=st.sampled_from(sorted(events.Event._kinds)), field=st.sampled_from(["event", "epsilon", "times"])
)
@settings(max_examples=300, deadline=None)
def test_any_tree_is_an_event_or_is_refused(tree: Any, kind: str, field: str) -> None:
    for one in (tree, {"kind": kind, field: tree}, {"kind": tree}, {"kind": "Repeat", "event": tree, "times": 2}):
        with suppress(DiscreetError):
            events.from_json(json.dumps(one))


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        '{"kind": "Repeat", "times": 1, "event": ' * 5000 + "{}" + "}" * 5000,
        '{"kind": "PureDP", "epsilon": NaN}',
        '{"kind": "PureDP", "epsilon": ' + "9" * 5000 + "}",
        '{"kind": "PureDP", "epsilon": 1' + "0" * 400 + "}",
        '{"kind": "PureDP", "epsilon": 9, "epsilon": 1}',
        '{"kind": ["PureDP"]}',
        '{"kind": "Repeat", "event": {"kind": "PureDP", "epsilon": 1}, "times": 1e400}',
        '"' + "x" * (1 << 24) + '"',
        '"\\',
        "",
        "\0",
    ],
    ids=range(12),
)
def test_hostile_events(text: str) -> None:
    with pytest.raises(InvalidInput):
        events.from_json(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": 10**13},
        {"steps": 10**400},
        {"steps": 10**7, "participations": 10**7, "separation": 1, "coefficients": [1.0] * 100},
        {"coefficients": [1e200, 1e200]},
        {"coefficients": [10**400]},
        {"coefficients": ["a"]},
        {"coefficients": [[1.0], [1.0, 2.0]]},
        {"coefficients": []},
        {"coefficients": 5},
        {"coefficients": "12"},
    ],
)
def test_banded_matrices_are_of_bounded_size(changes: dict[str, Any]) -> None:
    tree = {"kind": "BandedMatrix", "noise_multiplier": 1.0, "coefficients": [1.0, 0.5], "steps": 10} | changes
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            events.from_json(json.dumps(tree))
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def certificate() -> dict[str, Any]:
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1]).fit(X, Y)
    found: dict[str, Any] = json.loads(model.privacy_.to_json())
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": float("nan")},
        {"epsilon": "nan"},
        {"epsilon": "0.1"},
        {"epsilon": -1},
        {"epsilon": True},
        {"epsilon": None},
        {"epsilon": 10**400},
        {"delta": 2},
        {"delta": "0"},
        {"delta": float("nan")},
        {"protective_randomness": "no"},
        {"protective_randomness": 1},
        {"protective_randomness": False},  # and private, as it says elsewhere
        {"private": "yes"},
        {"private": False},
        {"epsilon": "inf"},  # and private
        {"adjacency": "near"},
        {"rows_per_unit": "1"},
        {"unprotected": "rows"},
        {"unprotected": [1]},
        {"unprotected": {"a": 1}},
        {"settings": []},
        {"solver": 3},
        {"discreet": None},
        {"event": None},
        {"event": {"kind": "Gaussian"}},
    ],
)
def test_certificates_are_of_exact_types_and_agree_with_themselves(
    certificate: dict[str, Any], changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        dp.Certificate.from_json(json.dumps(certificate | changes))


@pytest.mark.parametrize("name", ["private", "epsilon", "protective_randomness", "unprotected", "event"])
def test_certificates_are_complete(certificate: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match="not a certificate"):
        dp.Certificate.from_json(json.dumps({key: value for key, value in certificate.items() if key != name}))


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"x"', "{" * DEEP, '{"a": {}, "a": {}}'])
def test_what_is_no_certificate(text: str) -> None:
    with pytest.raises(InvalidInput):
        dp.Certificate.from_json(text)


@pytest.mark.parametrize("changes", [{"protective": "no"}, {"epsilon": float("nan")}, {"unprotected": "rows"}])
def test_no_certificate_is_made_of_other_types(changes: dict[str, Any]) -> None:
    arguments = {"epsilon": 1.0, "delta": 0.0, "unit": dp.Unit("replace-one"), "event": events.PureDP(1.0)}
    with pytest.raises(InvalidInput):
        dp.Certificate(**{**arguments, "solver": "descent", **changes})


@given(tree=TREES, data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_certificate_with_anything_changed_is_read_or_refused(
    certificate: dict[str, Any], tree: Any, data: st.DataObject
) -> None:
    try:
        name = data.draw(st.sampled_from(sorted(certificate)))
        found = dp.Certificate.from_json(json.dumps(certificate | {name: tree}))
    except DiscreetError:
        return
    str(found)
    assert dp.Certificate.from_json(found.to_json()) == found


# --- schemas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * DEEP,
        "a: " + "{a: " * DEEP,
        "".join(f"{' ' * j}a:\n" for j in range(500)),
        "a: &a [x, x]\nb: &b [*a, *a]\nc: {categorical: *b}\n",
        "a: &a {numeric: [0, 1]}\nb: *a\n",
        "a: {numeric: [0, !!float x]}",
        "a: !!timestamp x",
        "a: !!set {x}",
        "a: {numeric: [0, 1" + "0" * 5000 + "]}",
        "a: {numeric: [0, 1" + "0" * 400 + "]}",
        "a: {numeric: [0, 1], bins: 1" + "0" * 400 + "}",
        "a: {categorical: [1" + "0" * 4200 + "]}",
        '"a\\0": boolean\n',
        '"\\ud800": boolean\n',
        '"\\UFFFFFFFF": boolean\n',
        'a: {categorical: ["\\ud800", b]}',
        'a: {categorical: ["\\0", b]}',
        "? [a, b]\n: boolean\n",
        "? {a: b}\n: boolean\n",
        "a: {? [x] : y}",
        "a: {1: 2, numeric: [0, 1]}",
        "a: boolean\n--- \nb: boolean\n",
        "%YAML 9" + "9" * 5000 + ".1\n---\na: boolean",
        "\0: boolean\n",
    ],
    ids=range(24),
)
def test_hostile_schemas(text: str) -> None:
    with pytest.raises(InvalidInput):
        dp.Schema.from_yaml(text)


@pytest.mark.parametrize("path", ["\0", "a\0.yaml", "\ud800.yaml"])
def test_schemas_at_paths_that_no_system_knows(path: str) -> None:
    for source in (path, Path(path)):
        with pytest.raises(InvalidInput, match="cannot read"):
            dp.Schema.from_yaml(source)


def test_a_schema_of_many_columns_and_categories_is_read_in_time_of_its_length() -> None:
    """Each against each other would be 10¹⁰ comparisons."""
    wide = dp.Schema.from_dict({f"c{j}": "boolean" for j in range(100_000)})
    assert len(wide) == 100_000
    assert len(dp.Categorical(range(100_000)).categories) == 100_000
    with pytest.raises(InvalidInput, match="'7' more than once"):
        dp.Categorical([*range(100_000), 7])


@given(text=st.text(st.characters(exclude_categories=[])) | st.text("ab:{}[]&*!?-|>'\"#%@, \n0\\", max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_schema_or_is_refused(text: str) -> None:
    for words in (text, f"a: {text}\n", f"{text}: boolean\n", f"a: {{categorical: [{text}]}}"):
        try:
            schema = dp.Schema.from_yaml(words)
        except DiscreetError:
            continue
        assert dp.Schema.from_yaml(schema.to_yaml()) == schema


@given(tree=TREES, name=st.text(st.characters(exclude_categories=[])))
@settings(max_examples=200, deadline=None)
def test_any_tree_is_a_schema_or_is_refused(tree: Any, name: str) -> None:
    for one in (tree, {name: tree}, {name: {"numeric": tree}}, {name: {"categorical": tree}}):
        try:
            schema = dp.Schema.from_dict(one)
        except DiscreetError:
            continue
        assert dp.Schema.from_yaml(schema.to_yaml()) == schema
