"""Sums over time of products of matrices, example by example, in Triton: their squared lengths, and exact integer sums.

For slot i let P_i = Σ_t l_t r_tᵀ, [p, d], as tensor cores add it up in float32 from numbers in half precision. The
accumulator is emptied after each slot, so P_i is computed from that slot's numbers alone. One program makes it, whether
squared lengths or integers are wanted: a flag that is read while it runs decides what happens to an accumulator, and
nothing else that the program is compiled for differs, so that both answers are about the same floats. Integers are
added as integers, and the order has no effect.

`kept_squares` and `kept_sums` answer the same questions about gradients that are kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    from discreet.torch.cuda.without_triton import tl, triton

__all__ = [
    "ALIGNED", "MARGIN", "Window", "kept_parts", "kept_squares", "kept_sums", "row_sums", "segment_parts",
    "segment_squares", "segment_sums", "whole_sum",
]  # fmt: skip

MARGIN = 1 - 2.0**-15
"""Outweighs the roundings of float32 here: 2^−17 of a length (256 squares are added at a time), 2^−23 of a product."""
ALIGNED = 16
"""Rows and columns of products are padded to a multiple of this, so that 16 bytes are read at a time."""
PROGRAMS = 792
"""Programs that keep the 132 processors of an H200 busy: three at a time on each, twice."""
CHUNK = 16384
"""Entries whose squares one program adds."""
BLOCK, TOGETHER = 512, 16
"""Entries of a gradient that one program sums over slots, and slots of which it does so at a time."""
FEW, MANY = 64, 128
"""Entries of a small gradient that one program sums over slots, and slots of which it does so at a time."""


@triton.jit(do_not_specialize=["weights", "total", "squares", "measure"])  # one program for both answers
def _segments(  # type: ignore[no-untyped-def]
    left, right, weights, total, squares, measure, slots, times, rows, columns,
    height, width, out_width, stride_y, stride_x, before_y, before_x, apart_y, apart_x,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TIMES: tl.constexpr, SOLE: tl.constexpr, EVEN: tl.constexpr,
    STAGES: tl.constexpr, GROUP: tl.constexpr, CHANNELS: tl.constexpr, KERNEL: tl.constexpr, ACROSS: tl.constexpr,
    LAST: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    """Squared lengths or integer sums of left_iᵀ right_i; with CHANNELS > 0 rows of right_i are patches of an image."""
    program, part = tl.program_id(0), tl.program_id(1)
    down, across = tl.cdiv(rows, ROWS), tl.cdiv(columns, COLUMNS)
    whole_group = GROUP * across
    first = program // whole_group * GROUP
    in_group = tl.minimum(down - first, GROUP)
    row = (first + program % whole_group % in_group) * ROWS + tl.arange(0, ROWS)
    column = program % whole_group // in_group * COLUMNS + tl.arange(0, COLUMNS)
    moment = tl.arange(0, TIMES)
    begin, end = part * slots // tl.num_programs(1), (part + 1) * slots // tl.num_programs(1)
    steps = tl.cdiv(times, TIMES)
    rest = times - (steps - 1) * TIMES
    left_at = left + (begin * times + moment)[:, None].to(tl.int64) * rows + row[None, :]
    right_at = right + (begin * times + moment)[:, None].to(tl.int64) * columns + column[None, :]
    if CHANNELS > 0:
        channel, place_in_kernel = column % CHANNELS, column // CHANNELS
        shift_y = place_in_kernel // ACROSS * apart_y - before_y
        shift_x = place_in_kernel % ACROSS * apart_x - before_x
    target = column
    if CHANNELS > 0 and not LAST:
        target = channel * KERNEL + place_in_kernel
    whole = tl.zeros((ROWS, COLUMNS), tl.int32)
    product = tl.zeros((ROWS, COLUMNS), tl.float32)
    step = 0
    slot = begin
    for _ in tl.range(0, (end - begin) * steps, num_stages=STAGES):
        time = step * TIMES + moment
        if EVEN:
            low = tl.load(left_at, mask=(row < rows)[None, :], other=0.0)
        else:
            low = tl.load(left_at, mask=(time < times)[:, None] & (row < rows)[None, :], other=0.0)
        if CHANNELS > 0:
            y = (time // out_width * stride_y)[:, None] + shift_y[None, :]
            x = (time % out_width * stride_x)[:, None] + shift_x[None, :]
            seen = (time < times)[:, None] & (column < columns)[None, :]
            seen = seen & (y >= 0) & (y < height) & (x >= 0) & (x < width)
            image = right + slot.to(tl.int64) * (height * width * CHANNELS)
            high = tl.load(image + (y * width + x) * CHANNELS + channel[None, :], mask=seen, other=0.0)
        elif EVEN:
            high = tl.load(right_at, mask=(column < columns)[None, :], other=0.0)
        else:
            high = tl.load(right_at, mask=(time < times)[:, None] & (column < columns)[None, :], other=0.0)
        product = tl.dot(tl.trans(low), high, product)
        last = step == steps - 1
        move = tl.where(last, rest, TIMES)
        left_at += move * rows
        right_at += move * columns
        if last:
            if measure != 0:
                square = tl.sum(tl.sum(product * product, 1).to(tl.float64), 0)
                tl.store(squares + program.to(tl.int64) * slots + slot, square)
            else:
                weight = tl.load(weights + slot)
                if not BRANCH:
                    whole += tl.where(weight != 0.0, product * weight, 0.0).to(tl.int32)
                elif weight != 0.0:
                    whole += (product * weight).to(tl.int32)
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
        step = tl.where(last, 0, step + 1)
        slot += last.to(tl.int32)
    if measure == 0:
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        place = total + row[:, None].to(tl.int64) * columns + target[None, :]
        if SOLE:
            tl.store(place, whole, mask=inside)
        else:
            tl.atomic_add(place, whole, mask=inside, sem="relaxed")


@triton.jit
def _squares_of_kept(values, squares, size, CHUNK: tl.constexpr, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    chunk, slot = tl.program_id(0), tl.program_id(1)
    place = chunk * CHUNK + tl.arange(0, CHUNK // WIDTH)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    entry = tl.load(values + slot.to(tl.int64) * size + place, mask=place < size, other=0.0).to(tl.float32)
    square = tl.sum(tl.sum(entry * entry, 1).to(tl.float64), 0)
    tl.store(squares + chunk.to(tl.int64) * tl.num_programs(1) + slot, square)


@triton.jit
def _sums_of_kept(values, weights, total, slots, size, BLOCK: tl.constexpr, TOGETHER: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (place < size)[None, :]
    whole = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, slots, TOGETHER):
        slot = first + tl.arange(0, TOGETHER)
        weight = tl.load(weights + slot, mask=slot < slots, other=0.0)[:, None]
        here = inside & (weight != 0.0)
        entry = tl.load(values + slot[:, None].to(tl.int64) * size + place[None, :], mask=here, other=0.0)
        whole += tl.sum((entry.to(tl.float32) * weight).to(tl.int32), 0)
    tl.store(total + place, whole, mask=place < size)


@triton.jit
def _rows_of_kept(values, codes, weights, total, times, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    weight = tl.load(weights + row // times)
    if weight != 0.0:
        place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        entry = tl.load(values + row.to(tl.int64) * size + place, mask=place < size, other=0.0).to(tl.float32)
        whole = (entry * weight).to(tl.int32)
        into = total + tl.load(codes + row) * size + place
        tl.atomic_add(into, whole, mask=(place < size) & (whole != 0), sem="relaxed")


# --- what they compute ------------------------------------------------------------------------------------------------


def _tiles(times: int, rows: int) -> tuple[int, int, int, int, int, bool]:
    """Rows, columns and times of a tile, warps, stages of the pipeline, and whether weights of zero are a branch."""
    step = 64 if times % 64 == 0 or times > 256 else 32 if times > 16 else 16
    if times <= 64:
        return (128 if rows > 64 else 64), 64, step, 4, 4, False
    return (128, 128, step, 8, 3, False) if rows > 64 else (64, 128, step, 4, 3, True)


def segment_parts(times: int, rows: int, columns: int) -> int:
    """Number of parts, one a tile, in which `segment_squares` gives a squared length."""
    tile_rows, tile_columns = _tiles(times, rows)[:2]
    return -(-rows // tile_rows) * -(-columns // tile_columns)


def kept_parts(size: int) -> int:
    """Number of parts in which `kept_squares` gives a squared length."""
    return -(-size // CHUNK)


@dataclass(frozen=True)
class Window:
    """Which patches of images [slots, height, width, channels] take the place of the rows of a matrix.

    Row t of slot i is the patch at output position t, [kernel height · kernel width · channels].
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    out_width: int


@cache
def _unused(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Tensors of the types of weights, sums and squares, for arguments that are not looked at."""
    kinds = torch.float32, torch.int32, torch.float64
    single, whole, double = (torch.zeros(16, dtype=kind, device=device) for kind in kinds)
    return single, whole, double


def _launched(
    left: Tensor,
    right: Tensor,
    window: Window | None,
    *,
    weights: Tensor | None = None,
    total: Tensor | None = None,
    squares: Tensor | None = None,
    last: bool = True,
) -> None:
    """Run the kernel: for squares if they are given, else for sums. All else is the same for both."""
    slots, times, rows = left.shape
    single, whole, double = _unused(left.device)
    columns = right.shape[-1] * (1 if window is None else window.kernel[0] * window.kernel[1])
    tile_rows, tile_columns, step, warps, stages, branch = _tiles(times, rows)
    tiles = segment_parts(times, rows, columns)
    parts = max(1, min(slots, -(-PROGRAMS // tiles)))
    image, channels, kernel, across = (0,) * 9, 0, 1, 1
    if window is not None:
        image = (*right.shape[1:3], window.out_width, *window.stride, *window.padding, *window.dilation)
        channels, kernel, across = right.shape[-1], window.kernel[0] * window.kernel[1], window.kernel[1]
    with torch.cuda.device(left.device):
        _segments[(tiles, parts)](
            left, right, single if weights is None else weights, whole if total is None else total,
            double if squares is None else squares, int(squares is not None), slots, times, rows, columns, *image,
            ROWS=tile_rows, COLUMNS=tile_columns, TIMES=step, SOLE=parts == 1, EVEN=times % step == 0, STAGES=stages,
            GROUP=8, CHANNELS=channels, KERNEL=kernel, ACROSS=across, LAST=last,
            BRANCH=branch, num_warps=warps,
        )  # fmt: skip


def segment_squares(
    left: Tensor, right: Tensor, squares: Tensor, window: Window | None = None, *, last: bool = True
) -> None:
    """Write ‖P_i‖² in parts that are to be added: ``squares`` [`segment_parts`, slots], doubles.

    Their sum has a relative error of at most 2^−16 but for entries below 2^−60, which may count as zeros.

    Args:
        left: [slots, T, p] in half precision, contiguous; p a multiple of `ALIGNED`.
        right: [slots, T, d] of the same kind, or images if there is a window, on a GPU.
        squares: where the result is written. In host memory P_i is a product of float32 matrices, and the first part
            is the whole.
        window: patches that take the place of the rows of ``right``.
        last: whether sums will be written with channels last; the program is the one that writes them.
    """
    if left.is_cuda:
        _launched(left, right, window, squares=squares, last=last)
    else:
        squares.zero_()
        squares[0] = _products(left, right).double().square().sum((1, 2))


def segment_sums(
    left: Tensor,
    right: Tensor,
    weights: Tensor,
    total: Tensor,
    window: Window | None = None,
    *,
    last: bool = True,
) -> None:
    """Add Σ_i trunc(w_i·P_i) to ``total``, int32 zeros [p, d], for weights in float32; a weight of zero adds nothing.

    With a window and ``last`` the matrix is written as it is; otherwise its columns are written channel by channel.

    Products are rounded to float32 before they are truncated towards zero. Exact, and hence the same in any order, as
    long as the absolute values of an entry's terms sum to less than 2^31.
    """
    if left.is_cuda:
        _launched(left, right, window, weights=weights, total=total, last=last)
    else:
        total.copy_(whole_sum(_products(left, right), weights))


def kept_squares(values: Tensor, squares: Tensor) -> None:
    """Write squared lengths of gradients [slots, size] in parts: ``squares`` [`kept_parts`, slots]; as above."""
    slots, size = values.shape
    if not values.is_cuda:
        squares.zero_()
        squares[0] = values.double().square().sum(1)
        return
    with torch.cuda.device(values.device):
        _squares_of_kept[(kept_parts(size), slots)](values, squares, size, CHUNK=CHUNK, WIDTH=256, num_warps=8)


def kept_sums(values: Tensor, weights: Tensor, total: Tensor) -> None:
    """Write Σ_i trunc(w_i·g_i) to ``total``, flat and int32, for gradients [slots, size]; as `segment_sums`."""
    slots, size = values.shape
    if not values.is_cuda:
        total.copy_(whole_sum(values.float(), weights))
        return
    with torch.cuda.device(values.device):
        block, together = (BLOCK, TOGETHER) if size > PROGRAMS * BLOCK else (FEW, MANY)
        _sums_of_kept[(-(-size // block),)](values, weights, total, slots, size, BLOCK=block, TOGETHER=together)


def row_sums(values: Tensor, codes: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add trunc(w_i·r) of each row r of slot i to the row of ``total`` [rows, size] that its code names.

    Args:
        values: [slots, T, size].
        codes: [slots, T], int64.
        weights: [slots], float32.
        total: int32.
    """
    slots, times, size = values.shape
    if not values.is_cuda:
        scaled = torch.where(weights[:, None, None] != 0, values.float() * weights[:, None, None], 0.0)
        total.index_add_(0, codes.reshape(-1), scaled.to(torch.int32).reshape(-1, size))
        return
    with torch.cuda.device(values.device):
        _rows_of_kept[(slots * times, -(-size // 1024))](values, codes, weights, total, times, size, BLOCK=1024)


def _products(left: Tensor, right: Tensor) -> Tensor:
    return left.float().transpose(1, 2) @ right.float()


def whole_sum(values: Tensor, weights: Tensor) -> Tensor:
    """Σ_i trunc(w_i·v_i), int32, in PyTorch; a weight of zero adds nothing."""
    weights = weights.view(-1, *[1] * (values.dim() - 1))
    return torch.where(weights != 0, values * weights, 0.0).to(torch.int32).sum(0, dtype=torch.int32)
