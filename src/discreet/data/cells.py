"""One cell as a number or as one of listed values: a pure function of that cell and of public constants.

A cell is read alike whatever holds it: 3, 3.0, ``"3"``, ``"3.0"`` and ``Decimal("3")`` are the same, whether their
column is one of integers, floats, text or Python objects. Other libraries infer a column's type from all its cells, so
one person's word among numbers turns the whole column into text; here it does not change how other rows are read.

No cell raises an error or a warning: not one whose methods raise, not `numpy.ma.masked`, not a date. What is neither
text nor a number is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import chain, repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.data.repeated import Repeated
from discreet.errors import InvalidInput

__all__ = ["column_cells", "read_codes", "read_floats", "spelling", "untyped"]

Array = npt.NDArray[Any]
_PLAIN = frozenset({str, int, float, bool, type(None)})
_NUMBERS = frozenset({int, float, bool, *(np.dtype(code).type for code in "?bBhHiIlLqQefd")})
_TRUTH = {"true": 1.0, "false": 0.0}
_MOST_BITS = 10_000
"""Python refuses to spell out whole numbers beyond some 14 000 bits; no category is that long."""


def column_cells(values: Any) -> Array:
    """The cells of an array, series or Arrow column: an array of its type, or of Python objects.

    What is masked or null is NaN or None, and dates are None: other libraries keep them as numbers or as objects
    depending on the other cells.
    """
    array = _as_array(values)
    return np.full(array.shape, None, dtype=object) if array.dtype.kind in "mM" else array


def _as_array(values: Any) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values)
    if hasattr(values, "detach") and hasattr(values, "cpu"):
        return _from_tensor(values)
    return np.asarray(values) if isinstance(values, np.ndarray) or not _is_column(values) else _converted(values)


def _from_tensor(values: Any) -> Array:
    """A tensor of PyTorch, wherever it is; kinds that numpy does not have, such as bfloat16, as doubles."""
    host = values.detach().cpu()
    if str(host.layout) != "torch.strided":
        raise InvalidInput("tensors must be dense; give sparse rows as a matrix of scipy. Nothing was released.")
    try:
        return np.asarray(host)
    except TypeError:
        return np.asarray(host.double())


def _is_column(values: Any) -> bool:
    """Whether ``values`` is a series or an Arrow column, rather than a table."""
    table = hasattr(values, "columns") or hasattr(values, "column_names")
    return not table and getattr(values, "ndim", 1) == 1 and hasattr(values, "__len__")


def _unmasked(values: Any) -> Array:
    hidden = np.ma.getmaskarray(values)
    kind = values.dtype.kind
    cells = np.array(values.data, dtype=values.dtype if kind == "f" else np.float64 if kind in "biu" else object)
    cells[hidden] = None if cells.dtype == object else np.nan
    return cells


def _converted(values: Any) -> Array:
    """A series as an array; where that fails, as it does for Arrow text that is not UTF-8, each cell by itself."""
    try:
        if type(values).__module__.split(".")[0] == "pyarrow":
            return _from_arrow(values)
        return np.asarray(values)
    except Exception:  # whatever it is, it may be about one cell
        return _objects([_cell_at(values, row) for row in range(len(values))])


def _from_arrow(values: Any) -> Array:
    # pyarrow's `to_numpy` reads a null of a dictionary column as the dictionary's last value, which is somebody else's
    if hasattr(values.type, "value_type") and hasattr(values.type, "index_type"):
        values = values.cast(values.type.value_type)
    return np.asarray(values.to_numpy() if hasattr(values, "chunks") else values.to_numpy(zero_copy_only=False))


def _cell_at(values: Any, row: int) -> Any:
    try:
        cell = values.iloc[row] if hasattr(values, "iloc") else values[row]
        return cell.as_py() if hasattr(cell, "as_py") else cell
    except Exception:
        return None


def _objects(cells: list[Any]) -> Array:
    return np.fromiter(cells, dtype=object, count=len(cells))  # np.array would unpack cells that are lists


def untyped(values: Any) -> Array:
    """``values`` as an array whose type no single cell decides for the others.

    Arrays and series declare a type, which is public. A list has none, and numpy would look for one among all cells:
    one text would turn every number into text. So what is not all numbers keeps its cells as they are.

    Example:
        >>> untyped([1, 0, "unknown"])
        array([1, 0, 'unknown'], dtype=object)
    """
    if hasattr(values, "dtype") or hasattr(values, "__array__"):
        return _as_array(values)
    cells = list(values)
    kinds = set(map(type, cells))
    if kinds <= _NUMBERS:
        return _objects(cells) if len(kinds) > 1 and not _exact_as_floats(cells) else np.asarray(cells)
    widths = set(map(_width, cells))
    if len(widths) != 1 or -1 in widths:
        return _objects(cells)
    shape = (len(cells), *widths)
    flat = list(chain.from_iterable(cells))
    if set(map(type, flat)) <= _NUMBERS:
        flat_array = np.asarray(flat, dtype=np.float64) if _exact_as_floats(flat) else _objects(flat)
        return flat_array.reshape(shape)
    return _objects(flat).reshape(shape)


def _exact_as_floats(cells: list[Any]) -> bool:
    """Whether no whole number is too long for a float: then every cell has the same value as by itself."""
    return all(isinstance(cell, float | np.floating) or -(2**53) <= cell <= 2**53 for cell in cells)


def _width(row: Any) -> int:
    """The number of cells of a row of a list; −1 for what is no row."""
    try:
        if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
            return len(row)
    except Exception:
        return -1
    return -1


def read_floats(values: Iterable[Any]) -> npt.NDArray[np.float64]:
    """Each cell as a float: numbers, the text of numbers, 1 and 0 for truth values; anything else as NaN.

    Whole numbers beyond the largest float are infinite, as their text is.

    Example:
        >>> read_floats([3, "3.0", True, "false", None, "three", 10**400])
        array([ 3.,  3.,  1.,  0., nan, nan, inf])
    """
    if isinstance(values, Repeated):
        return read_floats(values.cells)[values.which]
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return np.array(values, dtype=np.float64)
    cells = _plain_cells(values)
    if set(map(type, cells)) <= {float, int, str}:
        try:  # the same as below when no cell needs the care
            return np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        except (ValueError, ArithmeticError):
            pass
    return np.fromiter(map(_number, cells), dtype=np.float64, count=len(cells))


def read_codes(
    values: Iterable[Any], codes: Mapping[str, int], otherwise: int, *, fold: bool = False
) -> npt.NDArray[np.int32]:
    """The code of each cell: that of the same text, blanks around it aside, or else of an equal number.

    Numbers are equal if they are as float64. Codes whose texts are equal numbers, such as "1" and "01", are
    distinguished by their text alone.

    Args:
        values: cells of any type.
        codes: a code, 0 or more, for each text that is known.
        otherwise: the code of all other cells.
        fold: whether upper and lower case are the same; then ``codes`` has lower case.
    """
    if isinstance(values, Repeated):
        return read_codes(values.cells, codes, otherwise, fold=fold)[values.which]
    numbers = _by_number(codes)
    if (
        isinstance(values, np.ndarray)
        and values.dtype.kind in "biuf"
        and len(numbers) <= _FEW
        and not numbers.ambiguous
    ):
        return _compared(values, numbers, otherwise)
    cells = _plain_cells(values)
    known: dict[Any, int] = {**codes, **numbers}
    found = np.fromiter(map(known.get, cells, repeat(-1)), dtype=np.int32, count=len(cells))
    met: dict[str, int] = {}  # text is repeated in tables, and reading it as a number takes time
    for row in np.flatnonzero(found < 0):
        cell = cells[row]
        code = met.get(cell, -1) if isinstance(cell, str) else -1
        if code < 0:
            text = spelling(cell).lower() if fold else spelling(cell)
            code = codes[text] if text in codes else numbers.get(_number(cell), otherwise)
            if isinstance(cell, str):
                met[cell] = code
        found[row] = code
    return found


_FEW = 32  # up to here one comparison a number is faster than one look-up a row


class _Numbers(dict[float, int]):
    """Codes by number; ``ambiguous`` says that some were left out because their numbers are equal."""

    ambiguous = False


def _by_number(codes: Mapping[str, int]) -> _Numbers:
    numbers, left_out = _Numbers(), set()
    for text, code in codes.items():
        number = _number(text)
        if numbers.setdefault(number, code) != code or math.isnan(number):
            left_out.add(number)
            numbers.ambiguous |= not math.isnan(number)
    for number in left_out:
        numbers.pop(number, None)
    return numbers


def _compared(values: Array, numbers: Mapping[float, int], otherwise: int) -> npt.NDArray[np.int32]:
    given = read_floats(values)
    found = np.full(given.shape, otherwise, dtype=np.int32)
    for number, code in numbers.items():
        found[given == number] = code
    return found


def spelling(cell: Any) -> str:
    """The text by which a cell is compared; "" for what is missing or has none.

    Example:
        >>> [spelling(cell) for cell in (" a", 3, 3.0, 0.5, True, None, float("nan"))]
        ['a', '3', '3', '0.5', 'True', '', '']
    """
    cell = _plain(cell)
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, bool):
        return str(cell)
    if isinstance(cell, int):
        return str(cell) if cell.bit_length() < _MOST_BITS else ""
    if isinstance(cell, float):
        return "" if math.isnan(cell) else str(int(cell)) if cell.is_integer() else repr(cell)
    return ""


def _plain_cells(values: Iterable[Any]) -> list[Any]:
    """Cells of the types str, int, float, bool and None alone."""
    cells = column_cells(values).tolist() if isinstance(values, np.ndarray) else list(values)
    return cells if set(map(type, cells)) <= _PLAIN else list(map(_plain, cells))


def _plain(cell: Any) -> Any:
    """A cell as one of the plain types, by their own methods: a subclass may have overridden them, and may raise."""
    kind = type(cell)
    if kind in _PLAIN:
        return cell
    try:
        if issubclass(kind, str):
            return str.__str__(cell)
        if issubclass(kind, float):
            return float.__float__(cell)
        if issubclass(kind, int):
            return int.__index__(cell)
        if issubclass(kind, Decimal):
            return Decimal.__float__(cell)
        if issubclass(kind, np.bool_):
            return np.bool_.__bool__(cell)
        if issubclass(kind, np.integer):
            return int(cell)
        if issubclass(kind, np.floating):
            with np.errstate(all="ignore"):
                return float(cell)
    except Exception:  # a signalling NaN, or whatever a subclass does
        return None
    return None


def _number(cell: Any) -> float:
    """A plain cell as a float."""
    try:
        return math.nan if cell is None else float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf
    except ValueError:
        return _TRUTH.get(cell.strip().lower(), math.nan)
