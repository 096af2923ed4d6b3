"""The inner loops of gradient sums, written as vector operations.

Left to itself the compiler guards such loops against overlapping arrays and ends each row with a scalar remainder,
which costs as much as the work. Here the width is explicit (`LANES` columns at a time, whatever the machine's own),
there is no remainder, and the compiler only chooses instructions.

Rows are laid out in `padded(d)` columns. The last `LANES` of them hold the *last* `LANES` columns of the row, so they
may repeat columns of the vector before; `layout` says which column each place stands for, -1 for a repetition, which is
given weight 0 and dropped from sums.

With several classes the lanes are classes: a row's stored entry meets all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

LANES = 8
QUAD = 4  # classes go by fours: fewer lanes stand empty
TILE = 16  # rows worked on together: as float32 they take a quarter of the first-level cache at 100 columns

_FLOAT64 = ir.DoubleType()
_VECTOR = ir.VectorType(_FLOAT64, LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)


@njit(cache=True)
def padded(d):  # type: ignore[no-untyped-def]
    """Places for d columns: a multiple of `LANES`."""
    return LANES * ((d + LANES - 1) // LANES)


@njit(cache=True)
def layout(d):  # type: ignore[no-untyped-def]
    """The column that each place holds; -1 where a place repeats a column or pads a row narrower than `LANES`."""
    width = padded(d)
    columns = np.full(width, -1)
    last = width - LANES
    for place in range(width):
        column = place if place < last or d < LANES else d - width + place
        if column < d and (place < last or column >= last):
            columns[place] = column
    return columns


class _Emitter:
    """Shorthand for emitting vector code."""

    def __init__(self, context: Any, builder: Any, lanes: int = LANES) -> None:
        self.context, self.builder, self.lanes = context, builder, lanes
        self.vector = ir.VectorType(_FLOAT64, lanes)

    def array(self, kind: Any, value: Any) -> Any:
        return make_array(kind)(self.context, self.builder, value)

    def call(self, name: str, result: Any, *arguments: Any, **options: Any) -> Any:
        signature = ir.FunctionType(result, [a.type for a in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, signature, name)
        return self.builder.call(function, arguments, **options)

    def index(self, value: int) -> Any:
        return self.context.get_constant(types.intp, value)

    def load(self, pointer: Any, index: Any) -> Any:
        vector = ir.VectorType(pointer.type.pointee, self.lanes).as_pointer()
        return self.builder.load(self.builder.bitcast(self.builder.gep(pointer, [index]), vector), align=4)

    def store(self, value: Any, pointer: Any, index: Any) -> None:
        place = self.builder.bitcast(self.builder.gep(pointer, [index]), value.type.as_pointer())
        self.builder.store(value, place, align=4)

    def splat(self, scalar: Any) -> Any:
        vector = ir.VectorType(scalar.type, self.lanes)
        first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, first, everywhere)

    def widened(self, vector: Any) -> Any:
        return vector if vector.type == self.vector else self.builder.fpext(vector, self.vector)

    def columns(self, kind: Any, value: Any) -> Any:
        return self.builder.extract_value(self.array(kind, value).shape, 1)

    def entry(self, values: Any, v: Any, indices: Any, i: Any, e: Any, width: Any) -> tuple[Any, Any]:
        """A stored entry on all lanes, and where its column's row begins in an array ``width`` wide."""
        value = self.builder.load(self.builder.gep(self.array(values, v).data, [e]))
        value = value if value.type == _FLOAT64 else self.builder.fpext(value, _FLOAT64)
        column = self.builder.zext(self.builder.load(self.builder.gep(self.array(indices, i).data, [e])), width.type)
        return self.splat(value), self.builder.mul(column, width)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.call(f"llvm.fma.v{self.lanes}f64", self.vector, a, b, c)


def _row_score(*, rounded: bool) -> Callable[..., Any]:
    @intrinsic
    def row_score(typing: Any, X: Any, i: Any, factor: Any, rows: Any, b: Any, theta: Any) -> Any:
        """rows[b] = X[i]·factor, rounded to whole numbers; returns ⟨rows[b], θ⟩. Needs at least `LANES` columns."""
        signature = types.float64(X, types.intp, X.dtype, rows, types.intp, theta)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emit = _Emitter(context, builder)
            source, target = emit.array(X, arguments[0]), emit.array(rows, arguments[3])
            weights = emit.array(theta, arguments[5]).data
            d, width = (builder.extract_value(a.shape, 1) for a in (source, target))
            source_row = builder.gep(source.data, [builder.mul(arguments[1], d)])
            target_row = builder.gep(target.data, [builder.mul(arguments[4], width)])
            factors = emit.splat(arguments[2])
            score = cgutils.alloca_once_value(builder, _ZERO)

            def chunk(column: Any, place: Any) -> None:
                steps = builder.fmul(emit.load(source_row, column), factors)
                if rounded:
                    steps = emit.call(f"llvm.rint.v{LANES}f{X.dtype.bitwidth}", steps.type, steps)
                emit.store(steps, target_row, place)
                steps = emit.widened(steps)
                builder.store(emit.multiply_add(steps, emit.load(weights, place), builder.load(score)), score)

            last, two = builder.sub(width, emit.index(LANES)), emit.index(2 * LANES)
            pairs = builder.mul(builder.sdiv(last, two), two)
            with cgutils.for_range_slice(builder, emit.index(0), pairs, two, last.type) as (j, _):
                chunk(j, j)
                following = builder.add(j, emit.index(LANES))
                chunk(following, following)
            with builder.if_then(builder.icmp_signed("<", pairs, last)):
                chunk(pairs, pairs)
            chunk(builder.sub(d, emit.index(LANES)), last)
            # whole numbers below 2^53 add up exactly in any order
            start = ir.Constant(_FLOAT64, -0.0)
            name = f"llvm.vector.reduce.fadd.v{LANES}f64"
            return emit.call(name, _FLOAT64, start, builder.load(score), fastmath=("reassoc",))

        return signature, generate

    return row_score


whole_row_score = _row_score(rounded=True)
float_row_score = _row_score(rounded=False)


@intrinsic
def add_rows(typing: Any, rows: Any, slopes: Any, total: Any) -> Any:
    """total += Σ_b slopes[b]·rows[b] over the `TILE` rows, each place of the total read and written once."""
    signature = types.void(rows, slopes, total)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = _Emitter(context, builder)
        source, target = emit.array(rows, arguments[0]), emit.array(total, arguments[2]).data
        weights = emit.array(slopes, arguments[1]).data
        width = builder.extract_value(source.shape, 1)
        factors = [emit.splat(builder.load(builder.gep(weights, [emit.index(b)]))) for b in range(TILE)]
        with cgutils.for_range_slice(builder, emit.index(0), width, emit.index(LANES), width.type) as (j, _):
            even, odd, place = emit.load(target, j), _ZERO, j
            for b in range(0, TILE, 2):
                even = emit.multiply_add(emit.widened(emit.load(source.data, place)), factors[b], even)
                place = builder.add(place, width)
                odd = emit.multiply_add(emit.widened(emit.load(source.data, place)), factors[b + 1], odd)
                place = builder.add(place, width)
            emit.store(builder.fadd(even, odd), target, j)
        return context.get_dummy_value()

    return signature, generate


def _by_groups(emit: _Emitter, width: Any, body: Callable[[Any, int], None]) -> None:
    """body(first lane, number of quads) for groups of four quads, then for the one to three that remain."""
    builder, group = emit.builder, emit.index(4 * QUAD)
    whole = builder.mul(builder.sdiv(width, group), group)
    with cgutils.for_range_slice(builder, emit.index(0), whole, group, width.type) as (lane, _):
        body(lane, 4)
    for quads in (1, 2, 3):
        with builder.if_then(builder.icmp_signed("==", builder.sub(width, whole), emit.index(quads * QUAD))):
            body(whole, quads)


@intrinsic
def class_scores(typing: Any, values: Any, indices: Any, first: Any, last: Any, theta: Any, z: Any) -> Any:
    """z = Σ_e values[e]·theta[indices[e]] over the entries of one row, all classes at once."""
    signature = types.void(values, indices, types.intp, types.intp, theta, z)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = _Emitter(context, builder, QUAD)
        first, last, width = arguments[2], arguments[3], emit.columns(theta, arguments[4])
        weights, target = emit.array(theta, arguments[4]).data, emit.array(z, arguments[5]).data
        zero = ir.Constant(emit.vector, [0.0] * QUAD)
        # two chains of additions for each quad: one would wait for itself
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(4)] for _ in range(2)]

        def take(entry: Any, chain: list[Any], lane: Any, quads: int) -> None:
            step, row = emit.entry(values, arguments[0], indices, arguments[1], entry, width)
            place = builder.add(row, lane)
            for quad in range(quads):
                part = emit.load(weights, builder.add(place, emit.index(quad * QUAD)))
                builder.store(emit.multiply_add(step, part, builder.load(chain[quad])), chain[quad])

        def group(lane: Any, quads: int) -> None:
            for chain in sums:
                for quad in range(quads):
                    builder.store(zero, chain[quad])
            pairs = builder.sub(last, builder.and_(builder.sub(last, first), emit.index(1)))
            with cgutils.for_range_slice(builder, first, pairs, emit.index(2), width.type) as (entry, _):
                take(entry, sums[0], lane, quads)
                take(builder.add(entry, emit.index(1)), sums[1], lane, quads)
            with builder.if_then(builder.icmp_signed("<", pairs, last)):
                take(pairs, sums[0], lane, quads)
            for quad in range(quads):
                total = builder.fadd(builder.load(sums[0][quad]), builder.load(sums[1][quad]))
                emit.store(total, target, builder.add(lane, emit.index(quad * QUAD)))

        _by_groups(emit, width, group)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_classes(typing: Any, values: Any, indices: Any, first: Any, last: Any, slopes: Any, total: Any) -> Any:
    """total[indices[e]] += values[e]·slopes over the entries of one row, all classes at once."""
    signature = types.void(values, indices, types.intp, types.intp, slopes, total)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit = _Emitter(context, builder, QUAD)
        width, target = emit.columns(total, arguments[5]), emit.array(total, arguments[5]).data
        weights = emit.array(slopes, arguments[4]).data

        def group(lane: Any, quads: int) -> None:
            parts = [emit.load(weights, builder.add(lane, emit.index(quad * QUAD))) for quad in range(quads)]
            with cgutils.for_range(builder, arguments[3], start=arguments[2], intp=width.type) as loop:
                step, row = emit.entry(values, arguments[0], indices, arguments[1], loop.index, width)
                for quad, part in enumerate(parts):
                    place = builder.add(builder.add(row, lane), emit.index(quad * QUAD))
                    emit.store(emit.multiply_add(step, part, emit.load(target, place)), target, place)

        _by_groups(emit, width, group)
        return context.get_dummy_value()

    return signature, generate
