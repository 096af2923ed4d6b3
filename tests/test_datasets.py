"""The bundled data is what PROVENANCE.md says it is, and something can be learned from it."""

from __future__ import annotations

from collections import Counter
from importlib import resources

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from discreet import datasets
from discreet.data.columns import Ignore, Numeric, Person
from discreet.data.encoding import Encoder
from discreet.errors import InvalidInput


def test_the_table_is_whole_and_small() -> None:
    table = datasets.load_randhie()
    assert table.shape == (20_190, 17)
    assert list(datasets.randhie_schema()) == list(table.columns)
    assert datasets.randhie_path().stat().st_size <= 500_000
    people, rows = np.unique(table["person"].astype(int), return_counts=True)
    assert (len(people), rows.max()) == (5912, 5)


def test_provenance_ships_with_the_data() -> None:
    text = (resources.files(datasets) / "PROVENANCE.md").read_text(encoding="utf-8")
    assert "public domain" in text
    for name in datasets.randhie_schema():
        assert name in text


def test_nobody_is_in_both_parts() -> None:
    train, test = datasets.load_randhie("train"), datasets.load_randhie("test")
    assert train.shape[0] + test.shape[0] == 20_190
    assert not set(train["person"]) & set(test["person"])
    with pytest.raises(InvalidInput, match="part must be"):
        datasets.load_randhie("validation")  # type: ignore[arg-type]


def test_the_schema_covers_the_table() -> None:
    table, schema = datasets.load_randhie(), datasets.randhie_schema()
    for name, column in schema.items():
        if isinstance(column, Ignore):
            continue
        if isinstance(column, Person):
            assert max(Counter(table[name]).values()) == column.most_rows
            continue
        if isinstance(column, Numeric):
            cells = table[name][~np.isnan(table[name])]
            assert column.low <= cells.min() <= cells.max() <= column.high, name
            assert len(table[name]) - len(cells) == (4 if name == "education" else 0)
        elif column.kind == "categorical":
            assert set(table[name]) == set(map(str, column.categories)), name
        else:
            assert set(table[name]) == {"0", "1"}, name


def test_learning_is_visible() -> None:
    schema, train, test = datasets.randhie_schema(), datasets.load_randhie("train"), datasets.load_randhie("test")
    encoder = Encoder(schema, target="drugs")
    target = schema["drugs"]
    assert not isinstance(target, Ignore | Numeric | Person)
    model = LogisticRegression(C=100, max_iter=300).fit(encoder.transform(train), target.labels(train["drugs"]))
    truth = target.labels(test["drugs"])
    accuracy = float(np.mean(model.predict(encoder.transform(test)) == truth))
    assert max(truth.mean(), 1 - truth.mean()) < 0.54
    assert accuracy > 0.76
