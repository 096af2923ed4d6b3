"""Models read back from the files that `discreet.estimators.saving` writes.

A file may come from anybody. What it declares is bounded by its own length before it is read, models and parameters are
taken from a list, and what a *fit* needs (the guarantee, the ledger, the seed) is never taken from it: a loaded model
predicts, and a fit of it begins with the defaults of its class.
"""

from __future__ import annotations

import io
import math
import re
import struct
from dataclasses import fields
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from discreet.data.columns import Ignore, Person
from discreet.data.encoding import Encoder
from discreet.data.refined_encoder import RefinedEncoder
from discreet.data.schema import Schema
from discreet.errors import InvalidInput
from discreet.estimators import classifiers, regressors
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.features import Features
from discreet.estimators.inference import Released
from discreet.estimators.saving import FORMAT, MODELS, NETWORKS, PARAMETERS
from discreet.estimators.targets import Bounded
from discreet.refinement import Refinement
from discreet.report.certificate import Certificate
from discreet.text import read_bounded, read_json, shortened

__all__ = ["load"]

_KINDS: dict[str, type[PrivateLinearModel]] = {
    name: getattr(classifiers, name, None) or getattr(regressors, name) for name in MODELS
}
"""Every model that can be read, by its name."""
_OF_THE_FIT = ("epsilon", "delta", "adjacency", "rows_per_unit")
"""Written by earlier versions; they are in the certificate, and are not taken from here."""
_PARTS, _HIDDEN = ("coef", "intercept"), ("inner", "outer", "offset")
"""The arrays of a linear model, and those that a network has beside them."""
_MOST_BYTES = 1 << 30
_UNREADABLE = (BadZipFile, ValueError, LookupError, TypeError, EOFError, OverflowError, RuntimeError, struct.error)
"""What reading a broken archive may end in; NotImplementedError is a RuntimeError."""
_HEADER = re.compile(
    rb"\{'descr': '(<f8|>f8|<f4|\|u1)', 'fortran_order': (True|False), "
    rb"'shape': \((\d{0,10}(?:, \d{1,10})*),?\), \}\s*"
)


def load(path: str | Path) -> Any:
    """Read a model back, ready to predict.

    Raises:
        InvalidInput: the file is not a model written by `save`.
        OSError: there is no such file, or it cannot be read.
    """
    data = read_bounded(path, _MOST_BYTES)
    try:
        arrays = _arrays(data)
        facts = read_json(arrays["facts"].tobytes(), "the model's description")
        if _of_kind(facts, dict)["format"] != FORMAT:
            raise InvalidInput(f"it has format {shortened(facts['format'])}, and format {FORMAT} is read.")
        if facts["model"] in NETWORKS:
            return _network(facts, arrays)
        return _model(facts, arrays["coef"], arrays["intercept"])
    except _UNREADABLE as problem:
        why = f" ({problem})" if isinstance(problem, InvalidInput) else ""
        raise InvalidInput(f"{shortened(str(path))} is not a model saved by discreet{why}.") from None


def _model(facts: dict[str, Any], coef: NDArray[Any], intercept: NDArray[Any]) -> Any:
    """The model that the facts describe; whatever does not fit together is refused."""
    if facts["model"] not in _KINDS:
        raise InvalidInput(f"there is no model {shortened(facts['model'])}")
    kind = _KINDS[facts["model"]]
    if coef.ndim not in (1, 2) or coef.size == 0 or intercept.ndim > 1:
        raise InvalidInput("the shapes of coef and intercept are not those of a model")
    rows, columns = np.atleast_2d(coef).shape
    features = _features(facts, columns)
    row_norm = None if features.encoder else features.row_norm
    model = kind(**_parameters(kind, facts["parameters"]), schema=_schema(features), row_norm=row_norm)
    model._check_parameters()
    model._features = features
    model.n_features_in_ = columns
    if features.encoder is not None:
        model.feature_names_in_ = features.encoder.names_in
        model.n_features_in_ = len(model.feature_names_in_)
    elif features.names:
        model.feature_names_in_ = np.array(features.names, dtype=object)
    model.coef_, model.intercept_ = coef, intercept if intercept.ndim else float(intercept)
    _set_target(model, facts, rows)
    if intercept.size != rows:
        raise InvalidInput(f"coef and intercept are of {rows} and {intercept.size} outputs")
    model.privacy_ = Certificate.from_dict(facts["certificate"])
    if facts.get("released") is not None:
        model.released_ = Released.from_dict(facts["released"], model, features, columns)
        model.released_.estimate()  # which refuses what is not the answers of a fit
    return model


def _network(facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Any:
    """The network that the facts describe; whatever does not fit together is refused."""
    from discreet.torch import tabular

    if set(arrays) != {"facts", *_PARTS, *_HIDDEN}:
        raise InvalidInput("a network has a hidden layer")
    coef, intercept, inner, outer, offset = (arrays[name] for name in (*_PARTS, *_HIDDEN))
    if coef.ndim != 2 or coef.size == 0 or inner.ndim != 2 or outer.ndim != 2:
        raise InvalidInput("the shapes of a network's layers do not fit together")
    (outputs, columns), hidden = coef.shape, inner.shape[1]
    shapes = (intercept.shape, inner.shape, outer.shape, offset.shape)
    if shapes != ((outputs,), (columns, hidden), (hidden, outputs), (hidden,)):
        raise InvalidInput("the shapes of a network's layers do not fit together")
    features = _features(facts, columns)
    row_norm = None if features.encoder else features.row_norm
    model = getattr(tabular, facts["model"])(schema=_schema(features), row_norm=row_norm, hidden=hidden)
    model._features = features
    model.n_features_in_ = columns
    if features.encoder is not None:
        model.feature_names_in_ = features.encoder.names_in
        model.n_features_in_ = len(model.feature_names_in_)
    elif features.names:
        model.feature_names_in_ = np.array(features.names, dtype=object)
    model.coefs_, model.intercepts_ = [coef.T, inner, outer], [offset, intercept]
    _set_target(model, facts, outputs)
    model.privacy_ = Certificate.from_dict(facts["certificate"])
    return model


def _set_target(model: Any, facts: dict[str, Any], rows: int) -> None:
    """Set how a model's targets are coded; as many outputs as that has must be there."""
    outputs = 1
    if is_classifier(model):
        model.classes_ = _classes(facts["classes"])
        outputs = 1 if len(model.classes_) == 2 else len(model.classes_)
    else:
        low, high, shift, scale = (_real(v) for v in _of_kind(facts["target_coding"], list))
        model._coding = Bounded(low, high, shift, scale)
    if rows != outputs:
        raise InvalidInput(f"coef is of {rows} outputs, and there are {outputs}")


def _features(facts: dict[str, Any], columns: int) -> Features:
    row_norm, target = _real(facts["row_norm"]), facts["target"]
    if not row_norm > 0 or not (target is None or isinstance(target, str)):
        raise InvalidInput("the rows' length or the target's name is none")
    if facts["schema"] is None:
        names = tuple(_of_kind(name, str) for name in _of_kind(facts["names"], list))
        if len(names) not in (0, columns) or facts["n_features_in"] != columns:
            raise InvalidInput(f"there are {columns} coefficients for features of another number")
        return Features(row_norm, names)
    schema, encoding = Schema.from_dict(facts["schema"]), facts.get("encoding", "spline")
    sizes: dict[str, int] = {}
    for name, column in schema.items():  # one by one: a short declaration may stand for a thousand features
        if name != target and not isinstance(column, Ignore | Person) and sum(sizes.values()) <= columns:
            sizes[name] = Encoder(Schema({name: column}), encoding=encoding).n_features
    products = sum(sizes.get(left, 0) * sizes.get(right, 0) for left, right in schema.crosses)
    made, refined = sum(sizes.values()) + products, facts.get("refinement")
    if made > columns or (refined is None and made != columns):
        raise InvalidInput(f"there are {columns} coefficients for a schema of another number of features")
    encoder = Encoder(schema, target=target, encoding=encoding)
    if refined is not None:
        encoder = RefinedEncoder(encoder, Refinement.from_list(encoder.column_blocks, refined))
        if encoder.n_features != columns:
            raise InvalidInput(f"there are {columns} coefficients for {encoder.n_features} refined features")
    return Features(row_norm, encoder.feature_names_out, encoder)


def _schema(features: Features) -> Schema | None:
    return None if features.encoder is None else features.encoder.schema


def _parameters(kind: Any, given: Any) -> dict[str, Any]:
    known = {field.name for field in fields(kind)} & set(PARAMETERS)
    words = {"loss": _of_kind(given["loss"], str)} if isinstance(given, dict) and "loss" in given else {}
    given = {name: value for name, value in given.items() if name not in words} if words else given
    if strangers := sorted(set(_of_kind(given, dict)) - known - set(_OF_THE_FIT)):
        raise InvalidInput(f"{kind.__name__} takes no parameter {shortened(strangers[0])} from a file")
    return words | {name: _plain(value) for name, value in given.items() if name in known}


def _classes(given: Any) -> NDArray[Any]:
    labels = _of_kind(given, list)
    kinds = {type(label) for label in labels}
    if not kinds <= {str, int, float, bool} or not 2 <= len(labels) == len(set(labels)):
        raise InvalidInput("classes must be two or more labels, each once")
    if len(kinds) > 1:
        return np.fromiter(labels, dtype=object, count=len(labels))
    return np.asarray(labels)


def _of_kind(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise InvalidInput(f"a {kind.__name__} is expected, got {shortened(value)}")
    return value


def _real(value: Any) -> float:
    """A number; the infinities are written as words."""
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"a number is expected, got {shortened(value)}")
    return float(value)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int) else _real(value)


def _arrays(data: bytes) -> dict[str, NDArray[Any]]:
    """The members of an archive as `numpy.savez` writes it, none longer than the archive itself."""
    with ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        names = sorted(member.filename.removesuffix(".npy") for member in members)
        if names not in (sorted(["facts", *_PARTS]), sorted(["facts", *_PARTS, *_HIDDEN])):
            raise InvalidInput("it has other parts than a model")
        for member in members:
            if member.compress_type != ZIP_STORED or member.file_size > len(data):
                raise InvalidInput("its parts are compressed, or longer than the file")
        return {member.filename.removesuffix(".npy"): _array(archive.read(member)) for member in members}


def _array(data: bytes) -> NDArray[Any]:
    """An array of the npy format, version 1.0, of exactly as many bytes as its shape says."""
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise InvalidInput("a part is not an array of the npy format 1.0")
    (length,) = struct.unpack("<H", data[8:10])
    header = _HEADER.fullmatch(data[10 : 10 + length])
    if header is None:
        raise InvalidInput("a part is not an array of numbers")
    kind, columns_first, shape = np.dtype(header[1].decode()), header[2] == b"True", header[3].split(b", ")
    sizes = tuple(int(size) for size in shape if size)
    if math.prod(sizes) * kind.itemsize != len(data) - 10 - length:
        raise InvalidInput("an array is not as long as it says")
    values = np.frombuffer(data, kind, offset=10 + length).reshape(sizes, order="F" if columns_first else "C")
    return values.astype(np.uint8 if kind == np.uint8 else np.float64)
