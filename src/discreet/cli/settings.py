"""From words on a command line to settings: ``name=value`` pairs, and sets such as ``l1:3``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InvalidInput, did_you_mean
from discreet.geometry import Box, GroupInfL1Ball, GroupL1Ball, L1Ball, L2Ball, Polytope, Simplex, SparseSet
from discreet.geometry.base import Geometry
from discreet.text import read_json, read_number

__all__ = ["SETS", "model_parameters", "read_set", "solver_options"]

SETS = (
    "l1:RADIUS, l2:RADIUS, simplex:RADIUS, box:LOW:HIGH, sparse:S, sparse:S:RADIUS, group:RADIUS:0,0,1, "
    "group-inf:RADIUS:0,0,1 (a group's number for each coefficient) or polytope:FILE.csv"
)

_GROUPED: dict[str, Callable[[list[int], float], Geometry]] = {"group": GroupL1Ball, "group-inf": GroupInfL1Ball}


def solver_options(solver: str, words: Sequence[str]) -> dict[str, Any] | None:
    """Options of a named solver.

    Example:
        >>> solver_options("descent", ["iterations=50", "iterate=last", "update=adam:0.1"])
        {'iterations': 50, 'iterate': 'last', 'update': 'adam:0.1'}
    """
    if not words:
        return None
    if solver == "auto":
        raise InvalidInput("--option needs --solver NAME; with auto all options are chosen for you.")
    from discreet.planning.options import checked_options

    return checked_options(solver, _pairs(words, "--option"))


def model_parameters(kind: Any, words: Sequence[str], taken: Sequence[str]) -> dict[str, Any]:
    """Parameters of an estimator that have no option of their own."""
    free = sorted(set(kind._get_param_names()) - set(taken))
    parameters = _pairs(words, "--param")
    for name in parameters:
        if name not in free:
            guess = did_you_mean(name, free)
            raise InvalidInput(f"{kind.__name__} has no --param {name!r}; it has {', '.join(free)}.{guess}")
    return parameters


def read_set(words: str) -> Geometry:
    """The set that the coefficients are kept in.

    Example:
        >>> read_set("box:-1:2.5")
        Box(low=array(-1.), high=array(2.5))
        >>> read_set("group:3:0,0,1")
        GroupL1Ball(groups=array([0, 0, 1]), radius=3.0)
    """
    kind, *rest = words.split(":")
    if kind == "polytope" and rest:
        return Polytope(_vertices(Path(":".join(rest))))
    if kind in _GROUPED and len(rest) == 2:
        return _GROUPED[kind]([_group(word, words) for word in rest[1].split(",")], read_number(rest[0], words))
    numbers = [read_number(word, words) for word in rest]
    match kind, numbers:
        case "l1", [radius]:
            return L1Ball(radius)
        case "l2", [radius]:
            return L2Ball(radius)
        case "simplex", [radius]:
            return Simplex(radius)
        case "box", [low, high]:
            return Box(low, high)
        case "sparse", [s, *radius] if s.is_integer() and len(radius) <= 1:
            return SparseSet(int(s), *radius)
    raise InvalidInput(f"a set is {SETS}, got {words!r}.")


def _pairs(words: Sequence[str], option: str) -> dict[str, Any]:
    """Names with values: JSON where it is JSON, else the word itself."""
    pairs: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not (name and equals):
            raise InvalidInput(f"{option} takes NAME=VALUE, got {word!r}.")
        if name in pairs:
            raise InvalidInput(f"{option} {name} was given twice.")
        try:
            pairs[name] = read_json(text, name)
        except InvalidInput:
            pairs[name] = text
    return pairs


def _group(word: str, whole: str) -> int:
    if not word.strip().isdecimal():
        raise InvalidInput(f"{word!r} in {whole!r} is not the number of a group: 0, 1, 2, …, one for each coefficient.")
    return int(word)


def _vertices(path: Path) -> np.ndarray[Any, Any]:
    """One vertex a line, numbers separated by commas."""
    try:
        return np.loadtxt(path, delimiter=",", ndmin=2, encoding="utf-8")
    except ValueError as problem:
        raise InvalidInput(f"{path} must have one vertex a line, numbers separated by commas: {problem}.") from None
