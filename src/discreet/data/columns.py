"""The kinds of column a schema declares, and how each reads a value.

Reading is a *pure function of one cell and public constants*: it looks at no other row, and no cell makes it raise.
What is missing, out of range, misspelt or of the wrong type becomes a constant that was public before the data was
seen. So one person's row can neither stop a run nor change how another row is read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from discreet.data.cells import read_codes, read_floats, spelling
from discreet.data.unprotected import is_unprotected
from discreet.errors import InvalidInput
from discreet.text import checked_text, shortened

__all__ = ["Boolean", "Categorical", "Column", "Encoding", "Ignore", "Numeric", "Person", "Scale", "Weights"]

Scale: TypeAlias = Literal["linear", "log"]
Encoding: TypeAlias = Literal["bins", "linear", "spline", "both"]
Weights: TypeAlias = Literal["persons", "rows"]
Floats: TypeAlias = npt.NDArray[np.float64]
Codes: TypeAlias = npt.NDArray[np.int32]

_HEAVY_TAIL = 1000.0
_MOST_BINS = 1024
_MOST_ROWS_OF_A_PERSON = 1024
_TRUE = ("true", "1", "yes", "y", "t")
_FALSE = ("false", "0", "no", "n", "f")


@dataclass(frozen=True)
class Numeric:
    """A number in the public interval [``low``, ``high``]; values outside are moved to the nearest end.

    Args:
        low: lower bound; smaller values count as this one.
        high: upper bound; larger values count as this one.
        fill: stands for missing values and for what is not a number; by default the middle of the scale.
        bins: how many bins (or spline knots) the interval is cut into; by default the encoder's number.
        scale: ``"linear"``, or ``"log"`` for quantities whose *ratios* matter (money, counts), which needs low ≥ 0.
            By default ``"log"`` when 0 ≤ low and high ≥ 1000·max(low, 1), else ``"linear"``.
        encoding: how models see it (see `Encoder`); by default the encoder's way.
        integer: the values are whole numbers; where there are no more of them than bins, each has its own bin.
        bounds_private: false where low or high were taken from the data without protection (a seeded or ε = ∞
            `quantile` or `private_bounds`): a fit with them is certified as not private. Found by itself where the
            numbers are marked. It does not change how a value is read, so columns are compared without it.
        bounds_epsilon: the ε that was charged for low and high where they are private quantiles, for certificates;
            `private_bounds` sets it. None where they are public knowledge. It does not change how a value is read.

    Raises:
        InvalidInput: the declaration contradicts itself.

    Example:
        >>> Numeric(17, 90).read([25, "40", None, "old", 1000])
        array([25. , 40. , 53.5, 53.5, 90. ])
    """

    low: float
    high: float
    fill: float | None = None
    bins: int | None = None
    scale: Scale | None = None
    encoding: Encoding | None = None
    integer: bool = False
    bounds_private: bool = field(default=True, compare=False)
    bounds_epsilon: float | None = field(default=None, compare=False)

    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        if not isinstance(self.bounds_private, bool):
            raise InvalidInput(f"bounds_private must be true or false, got {self.bounds_private!r}.")
        if is_unprotected((self.low, self.high, self.fill)):
            object.__setattr__(self, "bounds_private", False)
        if self.bounds_epsilon is not None and not _finite("bounds_epsilon", self.bounds_epsilon) > 0:
            raise InvalidInput(f"bounds_epsilon must be positive, got {self.bounds_epsilon!r}.")
        for name in ("low", "high", "fill"):
            value = getattr(self, name)
            if name != "fill" or value is not None:
                object.__setattr__(self, name, _finite(name, value))
        if not self.low < self.high:
            raise InvalidInput(f"low must be less than high, got low={self.low:g}, high={self.high:g}.")
        if not math.isfinite(self.high - self.low):
            raise InvalidInput(
                f"the interval from {self.low:g} to {self.high:g} is too wide for its width to be finite."
            )
        if self.fill is not None and not self.low <= self.fill <= self.high:
            raise InvalidInput(f"fill={self.fill:g} is outside [{self.low:g}, {self.high:g}].")
        if self.bins is not None and (
            isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 2 <= self.bins <= _MOST_BINS
        ):
            raise InvalidInput(f"bins must be an integer from 2 to {_MOST_BINS}, got {self.bins!r}.")
        if self.scale not in (None, *get_args(Scale)):
            raise InvalidInput(f"scale must be 'linear' or 'log', got {self.scale!r}.")
        if self.scale == "log" and self.low < 0:
            raise InvalidInput(f"scale='log' needs low ≥ 0, got low={self.low:g}.")
        if self.scale == "log" and not self._finite_ratio:
            raise InvalidInput(f"high/low must be finite on a logarithmic scale, got {self.high:g}/{self.low:g}.")
        if self.encoding not in (None, *get_args(Encoding)):
            raise InvalidInput(f"encoding must be one of {', '.join(get_args(Encoding))}, got {self.encoding!r}.")
        if not isinstance(self.integer, bool):
            raise InvalidInput(f"integer must be true or false, got {self.integer!r}.")

    @property
    def logarithmic(self) -> bool:
        """Whether distances are measured on the logarithmic scale."""
        if self.scale is None:
            return self.low >= 0 and self.high >= _HEAVY_TAIL * max(self.low, 1.0) and self._finite_ratio
        return self.scale == "log"

    @property
    def constant(self) -> float:
        """What stands for a missing value."""
        return float(self.unscale(np.array([0.5]))[0]) if self.fill is None else self.fill

    def read(self, values: Iterable[Any]) -> Floats:
        """Each value as a float in [low, high]."""
        numbers = read_floats(values)
        return np.clip(np.where(np.isnan(numbers), self.constant, numbers), self.low, self.high)

    def rescale(self, numbers: Floats) -> Floats:
        """[low, high] → [0, 1], increasing: (x − low)/(high − low), or its logarithmic counterpart.

        The latter is ln(x/low)/ln(high/low) for low > 0, and ln(1 + x/r)/ln(1 + high/r) for low = 0, where r, the size
        from which ratios matter, is 1 for integers and high/1000 else.
        """
        if not self.logarithmic:
            scaled = (numbers - self.low) / (self.high - self.low)
        elif self.low > 0:
            scaled = np.log(numbers / self.low) / math.log(self.high / self.low)
        else:
            scaled = np.log1p(numbers / self._resolution) / math.log1p(self.high / self._resolution)
        return np.clip(scaled, 0.0, 1.0)

    def unscale(self, scaled: Floats) -> Floats:
        """The inverse of `rescale`."""
        if not self.logarithmic:
            numbers = self.low + scaled * (self.high - self.low)
        elif self.low > 0:
            numbers = self.low * np.exp(scaled * math.log(self.high / self.low))
        else:
            numbers = self._resolution * np.expm1(scaled * math.log1p(self.high / self._resolution))
        return np.clip(numbers, self.low, self.high)

    def linear_scale(self, name: str) -> tuple[float, float, str]:
        """(low, high) on the scale on which `rescale` is linear, and what is measured on it."""
        if not self.logarithmic:
            return self.low, self.high, name
        if self.low > 0:
            return math.log(self.low), math.log(self.high), f"log({name})"
        shown = name if self._resolution == 1 else f"{name}/{self._resolution:g}"
        return 0.0, math.log1p(self.high / self._resolution), f"log(1 + {shown})"

    @property
    def _finite_ratio(self) -> bool:
        return self.low == 0 or math.isfinite(self.high / self.low)

    @property
    def _resolution(self) -> float:
        return min(1.0, self.high / 2) if self.integer else self.high / _HEAVY_TAIL


@dataclass(frozen=True)
class Categorical:
    """One of a public list of categories.

    Blanks around text do not count, and numbers are compared as numbers: 1, 1.0, ``"1"`` and ``"01"`` are the same
    category. Where two categories are equal as numbers, such as ``"1"`` and ``"01"``, both are compared as text.

    Args:
        categories: the categories, text or numbers.
        fill: the category that stands for missing and unlisted values. By default these form a further category,
            ``other``, with an indicator of its own.

    Raises:
        InvalidInput: no categories, the same one twice, or a fill that is not one of them.

    Example:
        >>> Categorical(["clerk", "nurse"]).read(["nurse", " clerk", None, "pilot"])
        array([1, 0, 2, 2], dtype=int32)
    """

    categories: Sequence[str | int | float]
    fill: str | int | float | None = None

    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        if isinstance(self.categories, str) or not isinstance(self.categories, Iterable):
            raise InvalidInput(f"categories must be a list, got {self.categories!r}.")
        object.__setattr__(self, "categories", tuple(_category(value) for value in self.categories))
        if not self.categories:
            raise InvalidInput("categories must not be empty.")
        spelled = [spelling(value) for value in self.categories]
        twice = sorted(text for text, times in Counter(spelled).items() if times > 1)
        if twice:
            raise InvalidInput(f"categories must differ, got {', '.join(map(repr, twice))} more than once.")
        if self.fill is not None and spelling(_category(self.fill)) not in spelled:
            raise InvalidInput(f"fill={self.fill!r} is not one of the categories {', '.join(map(repr, spelled))}.")

    @property
    def levels(self) -> tuple[str, ...]:
        """The text of every category that `read` distinguishes, ``other`` included where there is one."""
        return tuple(map(spelling, self.categories)) + (() if self.fill is not None else ("other",))

    @property
    def constant(self) -> int:
        """The code that stands for a missing or unlisted value."""
        return len(self.categories) if self.fill is None else self._codes[spelling(self.fill)]

    @property
    def _codes(self) -> dict[str, int]:
        return {spelling(value): code for code, value in enumerate(self.categories)}

    def read(self, values: Iterable[Any]) -> Codes:
        """Each value's position in `levels`."""
        return read_codes(values, self._codes, self.constant)

    def unlisted(self, values: Iterable[Any]) -> npt.NDArray[np.bool_]:
        """Whether each value is none of the categories."""
        return np.asarray(read_codes(values, self._codes, len(self.categories)) == len(self.categories))

    def labels(self, values: Iterable[Any]) -> Codes:
        """Each value's position in `categories`, for a target: without a fill, −1 for what is missing or unlisted."""
        return read_codes(values, self._codes, -1 if self.fill is None else self.constant)


@dataclass(frozen=True)
class Boolean:
    """Yes or no.

    Args:
        false: the value that means no; by default any of false, 0, no, n, f in any case.
        true: the value that means yes; by default any of true, 1, yes, y, t in any case.
        fill: stands for everything else; by default a value half-way between no and yes.

    Example:
        >>> Boolean("female", "male").read(["male", "female", None])
        array([ 1., -1.,  0.])
    """

    false: str | int | float | None = None
    true: str | int | float | None = None
    fill: bool | None = None

    kind: ClassVar[str] = "boolean"

    def __post_init__(self) -> None:
        if (self.false is None) != (self.true is None):
            raise InvalidInput(f"name both values or neither, got false={self.false!r}, true={self.true!r}.")
        if self.false is not None and spelling(_category(self.false)) == spelling(_category(self.true)):
            raise InvalidInput(f"the two values must differ, got {self.false!r} for both.")
        if not (self.fill is None or isinstance(self.fill, bool)):
            raise InvalidInput(f"fill must be true, false or absent, got {self.fill!r}.")

    @property
    def categories(self) -> tuple[str | int | float | bool, ...]:
        """The two values, no before yes."""
        return (False, True) if self.false is None or self.true is None else (self.false, self.true)

    @property
    def constant(self) -> float:
        """What stands for a missing value, between −1 and 1."""
        return 0.0 if self.fill is None else 1.0 if self.fill else -1.0

    def read(self, values: Iterable[Any]) -> Floats:
        """−1 for no, 1 for yes."""
        return np.array([-1.0, 1.0, self.constant])[self._read(values, otherwise=2)]

    def unlisted(self, values: Iterable[Any]) -> npt.NDArray[np.bool_]:
        """Whether each value is neither of the two."""
        return np.asarray(self._read(values, otherwise=2) == 2)

    def labels(self, values: Iterable[Any]) -> Codes:
        """0 for no, 1 for yes, for a target: without a fill, −1 for what is neither."""
        return self._read(values, otherwise=-1 if self.fill is None else int(self.fill))

    def _read(self, values: Iterable[Any], otherwise: int) -> Codes:
        if self.false is None:
            codes = dict.fromkeys(_FALSE, 0) | dict.fromkeys(_TRUE, 1)
            return read_codes(values, codes, otherwise, fold=True)
        return read_codes(values, {spelling(self.false): 0, spelling(self.true): 1}, otherwise)


@dataclass(frozen=True)
class Ignore:
    """A column that is there and not used, such as an identifier."""

    kind: ClassVar[str] = "ignore"


@dataclass(frozen=True)
class Person:
    """The column that says whose a row is, such as a patient's number; it is never a feature.

    Every fit then protects persons, not rows: `discreet.data.persons` says what is protected and how.

    Args:
        most_rows: how many rows a person has in a fit. Of a person with more, that many are chosen at random.
        weights: ``"persons"`` counts every person once: the rows of a person with fewer are repeated. ``"rows"`` counts
            every row that is kept once, which under the same guarantee takes more noise.

    Raises:
        InvalidInput: a number below 1, or weights of another name.

    Example:
        >>> Person(5)
        Person(most_rows=5, weights='persons')
    """

    most_rows: int
    weights: Weights = "persons"

    kind: ClassVar[str] = "unit"

    def __post_init__(self) -> None:
        if isinstance(self.most_rows, bool) or not isinstance(self.most_rows, int | np.integer):
            raise InvalidInput(f"the most rows of a person must be an integer, got {shortened(self.most_rows)}.")
        if not 1 <= self.most_rows <= _MOST_ROWS_OF_A_PERSON:
            raise InvalidInput(
                f"the most rows of a person must be from 1 to {_MOST_ROWS_OF_A_PERSON}, got {self.most_rows}."
            )
        object.__setattr__(self, "most_rows", int(self.most_rows))
        if self.weights not in get_args(Weights):
            raise InvalidInput(f"weights must be 'persons' or 'rows', got {shortened(self.weights)}.")


Column: TypeAlias = Numeric | Categorical | Boolean | Ignore | Person


def _finite(name: str, value: Any) -> float:
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{name} must be a finite number, got {value!r}.")
    return number


def _category(value: Any) -> str | int | float:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidInput(
            f"a category is text or a number, got {shortened(value)}; for true and false declare Boolean()."
        )
    if isinstance(value, str):
        checked_text("a category", value)
    if spelling(value) == "":
        raise InvalidInput(f"a category must not be blank or undefined, got {shortened(value)}.")
    return value
