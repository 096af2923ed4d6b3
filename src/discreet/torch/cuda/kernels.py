"""The sampler of `discreet.torch.cuda.sampling` in Triton: two kernels, integers only, the same function bit for bit.

The first kernel computes `first_look` for all samples and lists those that it does not settle (about 0.7 %); the second
computes `second_look` for the list, and lists in turn what is left to the exact routine.
"""

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:
    from discreet.torch.cuda.without_triton import tl, triton

__all__ = ["CHUNK", "first_pass", "second_pass"]

LANES = tl.constexpr(128)
CHUNK = 1024
"""Samples of one program of the first kernel: 128 blocks of keystream of eight samples each."""


@triton.jit
def _turned(x, places: tl.constexpr):  # type: ignore[no-untyped-def]
    return (x << places) | (x >> (32 - places))


@triton.jit
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    a = a + b
    d = _turned(d ^ a, 16)
    c = c + d
    b = _turned(b ^ c, 12)
    a = a + b
    d = _turned(d ^ a, 8)
    c = c + d
    b = _turned(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _double_round(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf):  # type: ignore[no-untyped-def]
    x0, x4, x8, xc = _quarter(x0, x4, x8, xc)
    x1, x5, x9, xd = _quarter(x1, x5, x9, xd)
    x2, x6, xa, xe = _quarter(x2, x6, xa, xe)
    x3, x7, xb, xf = _quarter(x3, x7, xb, xf)
    x0, x5, xa, xf = _quarter(x0, x5, xa, xf)
    x1, x6, xb, xc = _quarter(x1, x6, xb, xc)
    x2, x7, x8, xd = _quarter(x2, x7, x8, xd)
    x3, x4, x9, xe = _quarter(x3, x4, x9, xe)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf


@triton.jit
def _key_word(key, place: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.load(key + place).to(tl.uint32, bitcast=True)


@triton.jit
def chacha20(key, counter, first, second, ROLLED: tl.constexpr):  # type: ignore[no-untyped-def]
    """Blocks of keystream as sixteen tensors, for int64 counters."""
    low = counter.to(tl.uint32)
    high = (counter >> 32).to(tl.uint32)
    z = low * 0
    c0 = z + 0x61707865
    c1 = z + 0x3320646E
    c2 = z + 0x79622D32
    c3 = z + 0x6B206574
    k0 = z + _key_word(key, 0)
    k1 = z + _key_word(key, 1)
    k2 = z + _key_word(key, 2)
    k3 = z + _key_word(key, 3)
    k4 = z + _key_word(key, 4)
    k5 = z + _key_word(key, 5)
    k6 = z + _key_word(key, 6)
    k7 = z + _key_word(key, 7)
    n0 = z + first
    n1 = z + second
    x0, x1, x2, x3, x4, x5, x6, x7 = c0, c1, c2, c3, k0, k1, k2, k3
    x8, x9, xa, xb, xc, xd, xe, xf = k4, k5, k6, k7, low, high, n0, n1
    if ROLLED:
        for _ in range(10):
            x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf = _double_round(
                x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf
            )
    else:
        for _ in tl.static_range(10):
            x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf = _double_round(
                x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf
            )
    return (
        x0 + c0, x1 + c1, x2 + c2, x3 + c3, x4 + k0, x5 + k1, x6 + k2, x7 + k3,
        x8 + k4, x9 + k5, xa + k6, xb + k7, xc + low, xd + high, xe + n0, xf + n1,
    )  # fmt: skip


@triton.jit
def _entry(first, packed):  # type: ignore[no-untyped-def]
    """The strip that a trial's first word chooses, what makes V certain there, and the first bits of V."""
    slot = (first >> 22).to(tl.int32)
    entry = tl.load(packed + slot)
    own = ((first >> 10) & 4095).to(tl.int64) < (entry & 0xFFFF)
    strip = tl.where(own, slot, ((entry >> 32) & 0xFFFF).to(tl.int32))
    certain = (tl.where(own, entry >> 16, entry >> 48) & 0xFFFF).to(tl.int32)
    return strip, certain, (first & 1023).to(tl.int32)


@triton.jit
def first_pass(key, packed, out, listed, number, room, count, multiplier, shift):  # type: ignore[no-untyped-def]
    """`first_look` of 1024 samples; samples that are not settled are listed with their words, while there is room."""
    program = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    z = chacha20(key, program * LANES + lane, 0, 0, False)
    half = tl.full([1], 1, tl.int64) << (shift - 1)
    unsettled = lane * 0
    many = lane * 0
    for k in tl.static_range(8):
        place = program * 1024 + k * 128 + lane
        strip, certain, v = _entry(z[2 * k], packed)
        at = (strip.to(tl.int64) << 31) | (z[2 * k + 1] & 0x7FFFFFFF).to(tl.int64)
        least = at * multiplier
        flip = -((z[2 * k + 1] >> 31).to(tl.int64))
        low = (half + (least ^ flip)) >> shift
        high = (half + ((least + (multiplier - 1)) ^ flip)) >> shift
        inside = place < count
        tl.store(out + place, low, mask=inside)
        unsure = (inside & ((v >= certain) | (low != high))).to(tl.int32)
        unsettled = unsettled | (unsure << k)
        many = many + unsure
    total = tl.sum(many, 0)
    if total > 0:
        start = tl.atomic_add(number, total, sem="relaxed")
        position = start + tl.cumsum(many, 0) - many
        for k in tl.static_range(8):
            unsure = (unsettled >> k) & 1
            mask = (unsure > 0) & (position < room)
            place = program * 1024 + k * 128 + lane
            tl.store(listed + 3 * position, place.to(tl.int32), mask=mask)
            tl.store(listed + 3 * position + 1, z[2 * k].to(tl.int32, bitcast=True), mask=mask)
            tl.store(listed + 3 * position + 2, z[2 * k + 1].to(tl.int32, bitcast=True), mask=mask)
            position = position + unsure


@triton.jit
def _pair(low, high):  # type: ignore[no-untyped-def]
    return (high.to(tl.uint64) << 32) | low.to(tl.uint64)


@triton.jit
def _kept(strip, x, heights, mask):  # type: ignore[no-untyped-def]
    """A_j·exp(−(2·j·X + X²)/2^15) in units of 2^−64."""
    double = (strip + strip).to(tl.uint64)
    square = tl.umulhi(x, x)
    low = double * x
    high = tl.umulhi(double, x)
    low = low + square
    high = high + (low < square).to(tl.uint64)
    y = (low >> 17) | (high << 47)
    one = y * 0 + (1 << 62)
    t = one
    for k in tl.static_range(12):
        t = one - (tl.umulhi(t, y) << 2) // (12 - k)
    height = tl.load(heights + strip, mask=mask, other=0).to(tl.uint64, bitcast=True)
    return tl.umulhi(height, t << 1) << 1


@triton.jit
def _tail_strip(word, tail, tail_first, tail_count, mask, STEPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first strip of the tail whose sum exceeds the word; ``tail_first + tail_count`` if there is none."""
    low = (word & 0).to(tl.int32)
    high = low + tail_count
    for _ in tl.static_range(STEPS):
        searching = low < high
        middle = (low + high) >> 1
        found = tl.load(tail + middle, mask=mask & searching, other=0).to(tl.uint64, bitcast=True)
        less = word < found
        high = tl.where(searching & less, middle, high)
        low = tl.where(searching & (less == 0), middle + 1, low)
    return tail_first + low


@triton.jit
def second_pass(  # type: ignore[no-untyped-def]
    key, packed, heights, tail, out, listed, number, room, left, left_number, left_room, multiplier, shift, slack,
    tail_first, tail_count, STEPS: tl.constexpr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    """`second_look` of the listed samples; places that stay open are listed in ``left``, while there is room."""
    total = tl.minimum(tl.load(number), room)
    half = tl.full([1], 1, tl.int64) << (shift - 1)
    for begin in range(tl.program_id(0) * BLOCK, total, PROGRAMS * BLOCK):
        entry = begin + tl.arange(0, BLOCK)
        waiting = entry < total
        place = tl.load(listed + 3 * entry, mask=waiting, other=0).to(tl.int64)
        first = tl.load(listed + 3 * entry + 1, mask=waiting, other=0).to(tl.uint32, bitcast=True)
        second = tl.load(listed + 3 * entry + 2, mask=waiting, other=0).to(tl.uint32, bitcast=True)
        trial = tl.zeros([1], tl.uint32)
        while tl.max(waiting.to(tl.int32), 0) > 0:
            z = chacha20(key, place, 1, trial, True)
            first = tl.where(trial > 0, z[0], first)
            second = tl.where(trial > 0, z[1], second)
            strip, certain, v = _entry(first, packed)  # noqa: RUF059
            in_tail = waiting & (strip == tail_first)
            found = _tail_strip(_pair(z[6], z[7]), tail, tail_first, tail_count, in_tail, STEPS)
            strip = tl.where(in_tail, found, strip)
            beyond = strip >= tail_first + tail_count
            strip = tl.where(beyond, 0, strip)
            more_v = _pair(z[2], z[3])
            more_x = _pair(z[4], z[5])
            x = (second & 0x7FFFFFFF).to(tl.uint64)
            wide_v = (v.to(tl.uint64) << 54) | (more_v >> 10)
            level = _kept(strip, (x << 33) | (more_x >> 31), heights, waiting)
            up = level + slack
            up = tl.where(up < level, level * 0 - 1, up)
            down = tl.where(level > slack, level - slack, level * 0)
            m = level * 0 + multiplier
            product = more_x * m
            carry = ((product + (m - 1)) < product).to(tl.int64)
            whole = (((strip.to(tl.uint64) << 31) | x) * m + tl.umulhi(more_x, m)).to(tl.int64, bitcast=True)
            flip = -((second >> 31).to(tl.int64))
            low = (half + (whole ^ flip)) >> shift
            high = (half + ((whole + carry) ^ flip)) >> shift
            kept = (wide_v < down) & (low == high) & (beyond == 0)
            rejected = (wide_v >= up) & (beyond == 0)
            done = waiting & kept
            tl.store(out + place, low, mask=done)
            open_ = waiting & (kept == 0) & (rejected == 0)
            if tl.max(open_.to(tl.int32), 0) > 0:
                position = tl.atomic_add(left_number + place * 0, 1, mask=open_, sem="relaxed")
                tl.store(left + position, place.to(tl.int32), mask=open_ & (position < left_room))
            waiting = waiting & (kept == 0) & rejected
            trial += 1
