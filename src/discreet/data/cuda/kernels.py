"""`discreet.data.cuda.slopes.slope_sum` in Triton: one kernel that reads each row once, the same integers bit by bit.

It must be launched with ``enable_fp_fusion=False``: a slope is then computed by the operations of
`discreet.losses._kernels`, one after another, each correctly rounded. Scores, and sums over at most 2^18 rows, are sums
of whole numbers below 2^53 and exact in any order. Rows are rounded to whole numbers by adding and subtracting
1.5·2^23 (float32) or 1.5·2^52 (float64), which rounds to the nearest, ties to even, as rint does for entries below
2^22; larger ones count as 0, like those that are not finite.

A tile has ROWS × GROUPS rows, GROUPS of which each thread adds by itself. Scores go through memory, so that a slope is
computed by few threads and not by all that share its row.
"""

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:  # kernels can then be read, and are never launched
    from types import SimpleNamespace

    triton = SimpleNamespace(jit=lambda function: function)
    tl = SimpleNamespace(constexpr=lambda value: value)

__all__ = ["slope_sums"]

LARGEST_STEP = tl.constexpr(2.0**18)
LOGISTIC, SQUARED, HUBER = tl.constexpr(1), tl.constexpr(0), tl.constexpr(2)


@triton.jit
def _whole(x):  # type: ignore[no-untyped-def]
    return (x + 6755399441055744.0) - 6755399441055744.0


@triton.jit
def _exp(x):  # type: ignore[no-untyped-def]
    x = tl.where(x < -708.0, -708.0, x)
    x = tl.where(x > 708.0, 708.0, x)
    k = _whole(x * 1.4426950408889634)
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    p0 = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
    p4 = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    p8 = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    p12 = 1 / 479001600 + r * (1 / 6227020800)
    k = tl.where(k == k, k, 0.0)  # the result is NaN all the same
    power = ((k.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)
    return (p0 + r4 * (p4 + r4 * (p8 + r4 * p12))) * power


@triton.jit
def _slope(KIND: tl.constexpr, z, y, parameter):  # type: ignore[no-untyped-def]
    if KIND == LOGISTIC:
        slope = -y / (1.0 + _exp(y * z))
    elif KIND == SQUARED:
        slope = z - y
    elif KIND == HUBER:
        slope = z - y
        slope = tl.where(slope < -parameter, -parameter, slope)
        slope = tl.where(slope > parameter, parameter, slope)
    else:
        slope = (1.0 - y * z) / parameter
        slope = tl.where(slope < 0.0, 0.0, slope)
        slope = -y * tl.where(slope > 1.0, 1.0, slope)
    return slope


@triton.jit
def slope_sums(  # type: ignore[no-untyped-def]
    X, y, scale, cap, facts, theta, scores, sums, n, KIND: tl.constexpr, D: tl.constexpr, WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr, MAGIC: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """sums[program] = Σ a·x over the program's tiles, and Σ a after the D columns.

    ``facts``: what is added to a score, its unit, a slope of 1 in steps, the loss's parameter. X has D columns that
    matter, and rows begin WIDTH entries apart. ``scores`` is work space of one number a row. There are enough programs
    for none to have more than 2^18 rows.
    """
    start = tl.load(facts)
    unit = tl.load(facts + 1)
    steps = tl.load(facts + 2)
    parameter = tl.load(facts + 3)
    group = tl.arange(0, GROUPS)
    within = tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = column < D
    weights = tl.load(theta + column, mask=inside, other=0.0)[None, None, :]
    place = (within[:, None] * GROUPS + group[None, :]).to(tl.int64)
    line = tl.arange(0, GROUPS * ROWS).to(tl.int64)
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    slope_total = tl.zeros([GROUPS * ROWS], tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(n, GROUPS * ROWS), tl.num_programs(0)):
        first = tile * (GROUPS * ROWS)
        row = first + place
        there = row < n
        factor = tl.load(scale + row, mask=there, other=0.0)
        entries = X + row[:, :, None] * WIDTH + column[None, None, :]
        x = tl.load(entries, mask=there[:, :, None] & inside[None, None, :], other=0.0)
        x = (x * factor[:, :, None] + MAGIC) - MAGIC
        x = tl.where(tl.abs(x) <= LARGEST_STEP, x, 0.0).to(tl.float64)
        z = tl.sum(x * weights, axis=2)
        tl.store(scores + row, z, mask=there)
        tl.debug_barrier()
        own = first + line
        known = own < n
        z = (tl.load(scores + own, mask=known, other=0.0) + start) * unit
        largest = tl.load(cap + own, mask=known, other=0.0)
        a = _slope(KIND, z, tl.load(y + own, mask=known, other=0.0), parameter) * steps
        a = tl.where(a > largest, largest, a)
        a = _whole(tl.where(a < -largest, -largest, a))
        a = tl.where(a == a, a, 0.0)
        slope_total += a
        tl.debug_barrier()
        tl.store(scores + own, a, mask=known)
        tl.debug_barrier()
        a = tl.load(scores + row, mask=there, other=0.0)
        total += tl.sum(a[:, :, None] * x, axis=1)
    place = sums + tl.program_id(0).to(tl.int64) * (D + 1)
    tl.store(place + column, tl.sum(total, axis=0).to(tl.int64), mask=inside)
    tl.store(place + D, tl.sum(slope_total, axis=0).to(tl.int64))
