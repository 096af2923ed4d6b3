"""Who calls a fit: scikit-learn's pipelines and searches, which tell their estimators nothing about themselves.

A pipeline that standardises columns by their own mean passes rows that depend on each other, and a search fits many
times. Both matter for privacy, and both are seen only in the calls that led to the fit. A worker of scikit-learn
(``n_jobs``), be it a thread or a process, does not show who called it, but that it is one: what a pipeline or another
estimator may have learned there is taken for learned, and folds whose maker is out of sight are taken to depend on
other rows. In a version of scikit-learn with other names every fit is charged as ever.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from discreet.errors import BudgetExceeded, InvalidInput
from discreet.estimators.targets import PrivacyWarning
from discreet.events import Event
from discreet.ledger import Ledger
from discreet.units import Unit

__all__ = ["Search", "learned_before", "require_all_fits", "search_of_this_fit", "warned_of_steps"]

_ANNOUNCED: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Searches under way, each with the refusal of all its fits, or "" where they are within the budget."""

_SHAPES_ONLY = {"PolynomialFeatures", "AdditiveChi2Sampler", "SkewedChi2Sampler", "PolynomialCountSketch"}
"""Steps of scikit-learn that must be fitted, and learn nothing but how many columns there are."""

_UNLESS = {"RBFSampler": ("gamma", "scale")}
_UNLESS |= dict.fromkeys(("GaussianRandomProjection", "SparseRandomProjection"), ("n_components", "auto"))
"""Such steps too, unless this parameter has this value: then it is taken from the rows or their number."""

_BY_PLACE = ("KFold", "RepeatedKFold", "ShuffleSplit", "LeaveOneOut", "LeavePOut")
"""Splitters that look at the number of rows alone."""

_ROWS_ONLY = ("sklearn.pipeline", "sklearn.model_selection", "sklearn.multiclass", "sklearn.multioutput")
"""Where scikit-learn passes rows on as they are, or some of them; pipelines are looked into."""


_AROUND = ("sklearn.utils", "sklearn.base")
"""What stands around every call of scikit-learn."""

_DISCARDED = "sklearn.model_selection"
"""Models that its workers fit are scored and thrown away, but for the last one, which is fitted outside of them."""


def _calls() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _worker() -> str:
    """The function of scikit-learn with which a worker began, whose caller is out of sight; "" outside of workers."""
    outermost: FrameType | None = None
    for frame in _calls():
        room = str(frame.f_globals.get("__name__", ""))
        if room.startswith("sklearn.") and not room.startswith(_AROUND):
            outermost = frame
    if outermost is None or "self" in outermost.f_locals or not outermost.f_code.co_name.startswith("_"):
        return ""
    return f"{outermost.f_globals['__name__']}.{outermost.f_code.co_name}"


def learned_before(model: Any) -> tuple[str, ...]:
    """What was fitted before ``model`` to the rows it is now fitted to, by name.

    That is: the steps of every pipeline that led here, whatever stands between it and the model; and estimators of
    scikit-learn around the model of which it is not known that they pass rows on as they are, such as stacking,
    bagging, calibration or a transformed target; and in a worker of scikit-learn whatever may have called it.
    """
    from sklearn.base import BaseEstimator
    from sklearn.pipeline import Pipeline

    found: dict[str, None] = {}
    for frame in _calls():
        room = str(frame.f_globals.get("__name__", ""))
        owner = frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
        if isinstance(owner, Pipeline):  # those of other libraries too, which resample rows, for example
            found |= dict.fromkeys(name for name, step in owner.steps[:-1] if _learns(step))
        elif isinstance(owner, BaseEstimator) and owner is not model and _may_change_rows(room):
            found[type(owner).__name__] = None
    if (worker := _worker()) and not worker.startswith(_DISCARDED):
        found[f"whoever called {worker} with n_jobs"] = None
    return tuple(found)


def _may_change_rows(room: str) -> bool:
    """Whether code of scikit-learn in this module may pass on other rows than it got; classes of others inherit it."""
    return room.startswith("sklearn.") and not room.startswith((*_ROWS_ONLY, *_AROUND))


def warned_of_steps(model: Any) -> tuple[str, ...]:
    """`learned_before`, with a warning where there are any."""
    steps = learned_before(model)
    if steps:
        warnings.warn(
            f"the pipeline's {', '.join(map(repr, steps))} learned from the same rows without protection: this fit is "
            "NOT PRIVATE, and is certified so. Scale by public bounds (a schema), or fit the step to public rows and "
            "wrap it in sklearn.frozen.FrozenEstimator. In workers (n_jobs) it is not seen who called: use n_jobs=1.",
            PrivacyWarning,
            6,
        )
    return steps


def _learns(step: Any) -> bool:
    """Whether fitting a step takes more from the rows than how many columns they have."""
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.utils import get_tags

    if step is None or isinstance(step, str | FrozenEstimator) or type(step).__name__ in _SHAPES_ONLY:
        return False
    if type(step).__name__ in _UNLESS:
        name, value = _UNLESS[type(step).__name__]
        given = getattr(step, name, value)
        return bool(isinstance(given, str) and given == value)
    if isinstance(step, Pipeline):
        return any(_learns(inner) for _, inner in step.steps)
    if isinstance(step, FeatureUnion):
        return any(_learns(inner) for _, inner in step.transformer_list)
    if isinstance(step, ColumnTransformer):
        return any(_learns(inner) for _, inner, _ in step.transformers)
    return bool(get_tags(step).requires_fit)


class Search(NamedTuple):
    """A search or cross-validation that is under way.

    Args:
        token: an object of this very call, which can be weakly referred to.
        name: what was called.
        fits: how many fits it makes in all.
        splitter: the name of what makes its folds; empty where all go by the places of rows alone.
    """

    token: Any
    name: str
    fits: int
    splitter: str = ""


def search_of_this_fit() -> Search | None:
    """The outermost search of scikit-learn that led to this fit in this process, with all fits of those inside it."""
    found: Search | None = None
    for frame in _calls():
        if not str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
            continue
        here = _search(frame.f_code.co_name, frame.f_locals)
        if here is not None:
            inner = Search(None, "", 1) if found is None else found
            found = Search(here.token, here.name, here.fits * inner.fits, here.splitter or inner.splitter)
    return found


def _search(function: str, names: Any) -> Search | None:
    """The search that a call of this function is, by its local names."""
    try:
        if function == "evaluate_candidates":
            owner = names["self"]
            fits = names["n_candidates"] * names["n_splits"] + bool(owner.refit)
            return Search(names["parallel"], type(owner).__name__, fits, _not_by_place(names["cv"]))
        if function == "cross_validate":
            fits = names["cv"].get_n_splits(names["X"], names["y"], names["groups"])
            return Search(names["parallel"], "cross-validation", fits, _not_by_place(names["cv"]))
        if function == "cross_val_predict":
            return Search(names["parallel"], "cross-validation", len(names["splits"]), _not_by_place(names["cv"]))
    except (KeyError, AttributeError, TypeError):
        return None
    return None


def _not_by_place(splitter: Any) -> str:
    """The name of a splitter whose folds depend on more than the number of rows and public draws; else empty."""
    name = type(splitter).__name__
    return "" if name in _BY_PLACE and type(splitter).__module__.startswith("sklearn.model_selection") else name


def require_all_fits(
    ledger: Ledger, event: Callable[[], Event], unit: Unit, stated: tuple[float, float] | None
) -> None:
    """In a search of scikit-learn, say at its first fit what all fits will cost; refuse all where that is too much.

    Fits are taken to be alike: their plans may differ in what depends on the number of rows. ``event`` is what this one
    will cost, asked for in a search alone.

    Each fit is charged for the rows that it gets, so that folds must go by place, under replace-one: a row that is
    exchanged is then one row of each fold's training rows. Stratified folds depend on all labels, and under add-remove
    one row more moves all that follow: one row would exchange others.

    Raises:
        InvalidInput: folds that do not go by place. Nothing was charged.
        BudgetExceeded: the budget does not cover all fits. Nothing was charged.
    """
    budget = ledger.budget
    search = None if budget is None else search_of_this_fit()
    if budget is not None and search is None and _worker().startswith(_DISCARDED):
        raise InvalidInput(
            "a search with n_jobs does not show its workers how folds are made, and folds that depend on other rows "
            "cost more than the ledger would be charged. Use n_jobs=1. Nothing was charged and nothing was released."
        )
    if budget is None or search is None:
        return
    if search.splitter or unit.relation != "replace-one":
        what = f"{search.splitter} makes folds that depend on other rows" if search.splitter else "under add-remove"
        raise InvalidInput(
            f"{search.name}: {what}, so that one row moves others between folds, and the ledger would be charged too "
            "little. Use adjacency='replace-one' and folds by place, such as KFold(5, shuffle=True, random_state=0), "
            "or PrivateSearchCV. Nothing was charged and nothing was released."
        )
    if search.token not in _ANNOUNCED:
        total = ledger.forecast(event(), unit, stated, search.fits)
        if total is None:  # another unit, which the ledger will refuse
            return
        what = (
            f"{search.name} makes {search.fits} fits, each of which is charged: together they bring the ledger to "
            f"about ε = {total:.4g}, where {budget} may be spent."
        )
        refused = not total <= budget.epsilon
        _ANNOUNCED[search.token] = f"{what} Nothing was charged and nothing was released." if refused else ""
        if not refused:
            warnings.warn(f"{what} Scores on private rows are not protected by this.", PrivacyWarning, 6)
    if _ANNOUNCED[search.token]:
        raise BudgetExceeded(_ANNOUNCED[search.token])
