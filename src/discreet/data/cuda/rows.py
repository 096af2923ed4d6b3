"""Rows in the memory of a GPU.

Claim: the dataset answers as the same rows in host memory do, bit by bit. Sums of whole rows with whole slopes
(`discreet.data.slope_sums.SlopeSum`), which are the steps of gradient descent, are computed where the rows are, by the
operations of the compiled loops; every other question is answered by a copy of the rows in host memory, made when it is
first asked. Each row's length is verified in integers once, in a copy of the rows that nobody else can write. Noise is
drawn and added by the vault, in the process that fits; what leaves the GPU before is not noised.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discreet.data.base import Block, Dataset, Integers
from discreet.data.cuda.slopes import CHUNK, LOSSES, caps_of, prepared, slope_sum
from discreet.data.memory import in_memory
from discreet.data.places import placed
from discreet.data.slope_sums import SlopeCaps, SlopeSum
from discreet.data.streamed import Streamed
from discreet.errors import InvalidInput
from discreet.rows import MOST_ROWS, RowSpec

__all__ = ["OnDevice", "Resident", "on_device", "resident", "streamed_on_device"]

T = TypeVar("T")
_ALIGNED = 16
"""Bytes that threads read at once: rows begin at multiples of it."""
_WIDEST = 1024
"""Columns of the rows that the kernel holds in registers; wider ones are summed by PyTorch."""
_WARPS, _ENTRIES, _PROGRAMS = 1, 32, 32
"""Warps of a program of the kernel, entries of a tile for each thread, programs to a processor: for speed alone."""


class Resident:
    """Rows on a device, prepared: what sums need, and nothing of where else the rows are.

    Args:
        rows: public facts about the rows.
        X: of ``rows.n_features`` columns, and more where rows are padded.
        y: targets, float64.
    """

    def __init__(self, rows: RowSpec, X: Tensor, y: Tensor) -> None:
        self.rows, self.X, self.y = rows, X, y
        self.scale, self.squared_length = prepared(X, rows)
        self._caps: tuple[Any, Tensor] | None = None

    def selected(self, indices: Tensor) -> Resident:
        """Some rows, copied."""
        taken = object.__new__(Resident)
        taken.rows, taken.X, taken.y = self.rows, self.X[indices], self.y[indices]
        taken.scale, taken.squared_length, taken._caps = self.scale[indices], self.squared_length[indices], None
        return taken

    def caps(self, caps: SlopeCaps) -> Tensor:
        """The largest slopes, remembered until others are asked for."""
        if self._caps is None or self._caps[0] != caps.key:
            self._caps = (caps.key, caps_of(caps, self.X, self.scale, self.squared_length))
        return self._caps[1]

    def sum(self, function: SlopeSum) -> Integers:
        """The sum of all rows."""
        theta, unit = function.parameter()
        given = (self.X, self.y, self.scale, self.caps(function.caps()))
        compiled = self.X.is_cuda and self.rows.n_features <= _WIDEST and _triton()
        summed = _compiled_sum if compiled else slope_sum
        return np.asarray(summed(self.rows, given, function.loss, theta, unit, function.steps).cpu().numpy())

    def host(self) -> Dataset:
        """A copy of the rows in host memory."""
        X = self.X[:, : self.rows.n_features].cpu().numpy()
        return in_memory(np.ascontiguousarray(X), self.y.cpu().numpy(), self.rows, owned=True)


@cache
def _triton() -> bool:
    try:
        import triton
    except ImportError:
        return False
    return hasattr(triton, "jit")


def _compiled_sum(
    rows: RowSpec,
    given: tuple[Tensor, Tensor, Tensor, Tensor],
    loss: Any,
    theta: NDArray[np.float64],
    unit: float,
    steps: float,
) -> Tensor:
    """`slope_sum` by one kernel."""
    from discreet.data.cuda.kernels import slope_sums

    X, y, scale, cap = given
    n, d, device = len(y), rows.n_features, X.device
    start = rows.constant * float(theta[d]) if len(theta) > d else 0.0
    sent = torch.tensor([start, unit, steps, loss.parameter, *theta[:d].tolist()], dtype=torch.float64)
    sent = sent.to(device, non_blocking=True)
    columns = max(16, 1 << (d - 1).bit_length())
    groups = max(1, min(32, _ENTRIES * 32 // columns))
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    programs = max(_PROGRAMS * processors, -(-n // (CHUNK // 2)))  # tiles are dealt evenly: none gets twice its share
    scores = torch.empty(n, dtype=torch.float64, device=device)
    sums = torch.zeros((programs, d + 1), dtype=torch.int64, device=device)
    magic = 1.5 * 2.0**23 if X.dtype == torch.float32 else 1.5 * 2.0**52
    with torch.cuda.device(device):
        slope_sums[(programs,)](
            X, y, scale, cap, sent, sent[4:], scores, sums, n, KIND=loss.kind, D=d, WIDTH=X.shape[1], COLUMNS=columns,
            MAGIC=magic, GROUPS=groups, ROWS=_WARPS, num_warps=_WARPS, enable_fp_fusion=False,
        )  # fmt: skip
    total = sums.sum(0)
    total[d] *= int(rows.constant)
    return total[: len(theta)]


class OnDevice:
    """Rows on a GPU, all of them or some: a `Dataset` whose gradient sums are computed there.

    Args:
        whole: all rows, on the device.
        host: gives the same rows in host memory, or in files.
        indices: which of them, rising; None for all.
    """

    sparse = False

    def __init__(self, whole: Resident, host: Callable[[], Dataset], indices: Integers | None = None) -> None:
        self.whole, self.rows, self.indices, self._host_of = whole, whole.rows, indices, host

    def __len__(self) -> int:
        return len(self.whole.y) if self.indices is None else len(self.indices)

    @cached_property
    def own(self) -> Resident:
        """The rows of this dataset, on the device."""
        if self.indices is None:
            return self.whole
        return self.whole.selected(torch.from_numpy(self.indices).to(self.whole.X.device))

    @cached_property
    def host(self) -> Dataset:
        """The rows of this dataset, in host memory."""
        whole = self._host_of()
        return whole if self.indices is None else whole.take(self.indices)

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block), exact in int64; of slopes on the device, of anything else in host memory."""
        if isinstance(function, SlopeSum) and type(function.loss) in LOSSES and self.rows.outputs == 1:
            return self.own.sum(function)
        return self.host.map_sum(function, shape)

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each block, in host memory."""
        return self.host.map_blocks(function)

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function``, added over fixed runs of rows in a fixed tree, in host memory."""
        return self.host.fold(function, add)

    def take(self, indices: Integers) -> Dataset:
        """The dataset of the given rows."""
        if (np.diff(indices) < 0).any():
            return placed(self, indices)
        return OnDevice(
            self.whole, lambda: self._host_whole, indices if self.indices is None else self.indices[indices]
        )

    @cached_property
    def _host_whole(self) -> Dataset:
        return self.host if self.indices is None else self._host_of()

    def gather(self, indices: Integers) -> Dataset:
        """Rows in host memory, given by their rising places."""
        return self.host.gather(indices)

    def held(self) -> Dataset | None:
        """All rows in host memory, where they fit."""
        return self.host.held()


def resident(pieces: Any, rows: RowSpec, n: int, device: Any, kind: torch.dtype) -> Resident:
    """Rows on a device, filled piece by piece.

    Args:
        pieces: (matrix, targets) of rows that follow each other, as tensors or arrays.
        rows: public facts about the rows.
        n: the number of rows.
        device: where to hold them.
        kind: float32 or float64.

    Raises:
        InvalidInput: there are more rows than integer sums can hold, or no such device.
    """
    if n > MOST_ROWS:
        raise InvalidInput(f"at most {MOST_ROWS} rows are held on a GPU; nothing was released.")
    entries = _ALIGNED // kind.itemsize
    width = -(-rows.n_features // entries) * entries
    try:
        X = torch.zeros((n, width), dtype=kind, device=device)
        y = torch.empty(n, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError) as problem:
        raise InvalidInput(f"the rows cannot be held on {device!r}: {type(problem).__name__}.") from None
    low = 0
    for matrix, targets in pieces:
        high = low + len(targets)
        X[low:high, : rows.n_features] = torch.as_tensor(matrix)
        y[low:high] = torch.as_tensor(targets)
        low = high
    return Resident(rows, X, y)


def on_device(X: Tensor, y: NDArray[np.float64], rows: RowSpec) -> OnDevice:
    """Hold the rows of a tensor on its device, in a copy that nobody else can write.

    Args:
        X: a matrix of numbers, on the device; float32 stays float32, other kinds become float64.
        y: one target a row, in host memory.
        rows: the public facts about the rows.

    Raises:
        InvalidInput: the shapes do not fit together, or the entries are not real numbers, one stored for each.
    """
    if X.layout != torch.strided:
        raise InvalidInput("tensors must be dense; give sparse rows as a matrix of scipy. Nothing was released.")
    if X.ndim != 2 or X.shape[1] != rows.n_features or len(X) != len(y) or X.is_complex():
        raise InvalidInput(
            f"X and y must have one row a person, and X {rows.n_features} columns of real numbers. Nothing was "
            "released."
        )
    kind = torch.float32 if X.dtype == torch.float32 else torch.float64
    held = resident([(X.detach(), np.asarray(y, np.float64))], rows, len(y), X.device, kind)
    return OnDevice(held, held.host)


def streamed_on_device(data: Streamed, device: Any) -> OnDevice:
    """Hold the rows of files on a device; every question that is not answered there goes to the files.

    Args:
        data: all rows, encoded as they are read.
        device: such as "cuda".

    Raises:
        InvalidInput: rows are held sparse, or the device has no room for them.
    """
    if data.sparse:
        raise InvalidInput(
            "this schema's rows have few entries and are held sparse; a GPU takes dense rows alone: leave out device. "
            "Nothing was released."
        )
    blocks = data.reader.each(lambda _, block: (block.X, block.y), range(*data.reader.part))  # type: ignore[union-attr]
    first = next(blocks)[1]
    kind = torch.float32 if first[0].dtype == np.float32 else torch.float64
    pieces = itertools.chain([first], (piece for _, piece in blocks))
    return OnDevice(resident(pieces, data.rows, len(data), device, kind), lambda: data)
